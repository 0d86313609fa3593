"""Ablation: scores of recall and retain with one component disabled at a time.

Variants that change recall only share one bank. Each retain step that is disabled needs its own bank.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from vmemo.models import Channel, Message
from vmemo.models.changes import ExtractionResult, FactDraft
from vmemo.ports import Embedder, TextKind
from vmemo.providers import LocalExtractor
from vmemo.settings import Settings
from vmemo_bench.bench_store import BenchStore, open_store
from vmemo_bench.case_run import CaseResult, RunSetup, ask_questions, fill_bank
from vmemo_bench.checkpoint import Checkpoint
from vmemo_bench.datasets import Case, Dataset, RankedUnit, load
from vmemo_bench.embedders import WrappedEmbedder
from vmemo_bench.options import BenchOptions
from vmemo_bench.progress import ProgressSink, StepCounter
from vmemo_bench.recordings import BenchEngine
from vmemo_bench.report import Report, Setting, Table
from vmemo_bench.retrieval import case_checkpoint, config_of, setup_of, summarise

CHANNELS: tuple[Channel, ...] = ("semantic", "keyword", "graph", "temporal", "verbatim")
_TOKEN_METRICS = ("evidence@500", "evidence@1000", "evidence@2000")
COMPARED_METRICS: Mapping[RankedUnit, tuple[str, ...]] = {
    "turn": ("recall@10", "ndcg@10", *_TOKEN_METRICS),
    "session": ("recall_any@5", "recall_all@10", "ndcg@10", *_TOKEN_METRICS),
}
_DAY = re.compile(r"\d{1,2} [A-Z][a-z]+ \d{4}\. ")
"""The day that retain puts before an embedded text."""
_INSERTED_DATE = re.compile(r" \(= [^()]*\)")
"""An absolute date that the local engine inserts after a relative one."""


@dataclass(frozen=True)
class ChangedExtractor:
    """The local engine with a change to each draft, which gets the content of its message as well."""

    change: Callable[[FactDraft, str], FactDraft]
    name = LocalExtractor.name
    keeps_words = LocalExtractor.keeps_words

    async def read(self, messages: Sequence[Message], before: Message | None) -> ExtractionResult:
        result = await LocalExtractor().read(messages, before)
        contents = {message.id: message.content for message in messages}
        return replace(result, drafts=tuple(self.change(each, contents[each.messages[0]]) for each in result.drafts))


def without_dates(draft: FactDraft, content: str) -> FactDraft:
    """Remove the absolute dates after relative ones ("yesterday") that the message itself does not contain."""

    def original(match: re.Match[str]) -> str:
        return match[0] if match[0] in content else ""

    return replace(draft, text=_INSERTED_DATE.sub(original, draft.text))


def without_context(draft: FactDraft, _: str) -> FactDraft:
    return replace(draft, context="", context_from=None)


def without_entities(draft: FactDraft, _: str) -> FactDraft:
    # Without its source, the draft is not read for names.
    return replace(draft, entities=(), source=None)


class DaylessEmbedder(WrappedEmbedder):
    """Embeds documents without the day that retain puts before them."""

    def prepare(self, texts: Sequence[str], kind: TextKind) -> Sequence[str]:
        if kind == "query":
            return texts
        return [text[match.end() :] if (match := _DAY.match(text)) else text for text in texts]


VariantGroup = Mapping[str, RunSetup]
"""Variants that share one bank, which is filled with the setup of the first."""


def _steps(group: VariantGroup, case: Case) -> int:
    """Return the number of steps to fill the bank of a case and to ask every variant."""
    return len(case.sessions) + len(case.questions) * len(group)


def variant_groups(full: RunSetup, dataset: Dataset) -> list[VariantGroup]:
    """Return one group for all variants of recall, and one for each disabled step of retain.

    Steps of retain belong to the local engine: a recording contains neither inserted dates nor context.
    """
    retain = _retain_variants(full, dataset) if full.engine.name == "local" else {}
    return [_recall_variants(full), *({name: setup} for name, setup in retain.items())]


def _recall_variants(full: RunSetup) -> dict[str, RunSetup]:
    settings = full.settings
    changed = {
        **{f"without {channel}": {"channels": settings.channels - {channel}} for channel in CHANNELS},
        "without analysis": {"analysis": False},
        "ranks instead of sums": {"fusion": "rank"},
    }
    return {
        "full": full,
        **{name: replace(full, settings=settings.model_copy(update=each)) for name, each in changed.items()},
        "without reranking": replace(full, reranker="none"),
    }


def retain_settings(settings: Settings) -> dict[str, Settings]:
    """Return settings that each disable one step of retain."""
    changes = {
        "without links": {"links_per_fact": 0},
        "without resolution": {"resolution_weights": dict.fromkeys(settings.resolution_weights, 0.0)},
        "without segmentation": {"episode_messages": 1},
        "without revision": {"revision": False},
    }
    return {name: settings.model_copy(update=change) for name, change in changes.items()}


def _retain_variants(full: RunSetup, dataset: Dataset) -> dict[str, RunSetup]:
    def changed(change: Callable[[FactDraft, str], FactDraft]) -> RunSetup:
        extractor = ChangedExtractor(change)
        return replace(full, engine=BenchEngine(extractors={case.id: extractor for case in dataset.cases}))

    return {
        "without dates": changed(without_dates),
        "without day": replace(full, embedder=DaylessEmbedder(full.embedder)),
        "without context": changed(without_context),
        "without entities": changed(without_entities),
        **{name: replace(full, settings=each) for name, each in retain_settings(full.settings).items()},
    }


async def measure_ablation(options: BenchOptions, embedder: Embedder, settings: Settings, sink: ProgressSink) -> Report:
    """Run the variants that are not finished yet, and report on all of them."""
    dataset = load(options)
    full = setup_of(options, dataset, embedder, settings)
    groups = variant_groups(full, dataset)
    async with open_store(options, embedder, settings) as store:
        checkpoints = {
            name: case_checkpoint(
                options.work_folder,
                f"ablation-{dataset.name}",
                {**config_of(dataset, setup), **store.config, "variant": name},
            )
            for group in groups
            for name, setup in group.items()
        }
        total = sum(_steps(group, case) for case in dataset.cases for group in groups)
        steps = StepCounter(sink, f"ablation of {dataset.name}", total)
        for case in dataset.cases:
            for group in groups:
                await _run_group(case, group, checkpoints, store, steps)
    config = {**config_of(dataset, full), **store.config, "ablation_of": dataset.name, **full.engine.counts}
    report = _report(options, dataset, checkpoints, config)
    for checkpoint in checkpoints.values():
        checkpoint.clear()
    return report


async def _run_group(
    case: Case,
    group: VariantGroup,
    checkpoints: Mapping[str, Checkpoint[CaseResult]],
    store: BenchStore,
    steps: StepCounter,
) -> None:
    """Fill the bank once and ask every variant that is not finished."""
    missing = {name: setup for name, setup in group.items() if case.id not in checkpoints[name]}
    if not missing:
        steps.advance(_steps(group, case))
        return
    steps.advance(len(case.questions) * (len(group) - len(missing)))
    async with store.bank(case.id) as location:
        async with next(iter(group.values())).memory(case, location) as memory:
            filled = await fill_bank(memory, case, steps.advance)
        for name, setup in missing.items():
            async with setup.memory(case, location) as memory:
                checkpoints[name].append(await ask_questions(memory, case, filled, setup, steps.advance))


def _report(
    options: BenchOptions,
    dataset: Dataset,
    checkpoints: Mapping[str, Checkpoint[CaseResult]],
    config: Mapping[str, Setting],
) -> Report:
    """Return the report of the full variant, with tables of the scores of every variant and of the differences."""
    reports = {
        name: summarise(options, dataset, [each for case in dataset.cases if (each := checkpoint.get(case.id))], config)
        for name, checkpoint in checkpoints.items()
    }
    full = reports["full"]
    compared = [metric for metric in COMPARED_METRICS[dataset.unit] if metric in full.metrics]
    scores = {name: {metric: report.metrics[metric] for metric in compared} for name, report in reports.items()}
    by_category: dict[str, Table] = {
        f"{metric} by category": {
            name: {category: own[metric] for category, own in report.categories.items() if metric in own}
            for name, report in reports.items()
        }
        for metric in compared
    }
    differences = {
        name: {metric: value - scores["full"][metric] for metric, value in own.items()} for name, own in scores.items()
    }
    return replace(full, tables={"variants": scores, "difference to full": differences, **by_category})
