"""Ablation: scores of recall and retain with one component disabled at a time.

Variants that change recall only share one bank. Each retain step that is disabled needs its own bank.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from vmemo.models import Channel, Message
from vmemo.models.changes import ExtractionResult, FactDraft
from vmemo.ports import Embedder, Extractor, TextKind
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
from vmemo_bench.report import Report, Setting, VariantScores
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


class UndatedExtractor:
    """The local engine without absolute dates after relative ones ("yesterday")."""

    name = LocalExtractor.name
    keeps_words = LocalExtractor.keeps_words

    async def read(self, messages: Sequence[Message], before: Message | None) -> ExtractionResult:
        """Return the local engine's drafts in the words of the turns."""
        result = await LocalExtractor().read(messages, before)
        contents = {message.id: message.content for message in messages}
        return _with_drafts(result, lambda draft: _undated(draft, contents[draft.messages[0]]))


def _undated(draft: FactDraft, content: str) -> FactDraft:
    """Remove the dates that the message itself does not contain."""

    def original(match: re.Match[str]) -> str:
        return match[0] if match[0] in content else ""

    return replace(draft, text=_INSERTED_DATE.sub(original, draft.text))


class ContextFreeExtractor:
    """The local engine without the turn before as context."""

    name = LocalExtractor.name
    keeps_words = LocalExtractor.keeps_words

    async def read(self, messages: Sequence[Message], before: Message | None) -> ExtractionResult:
        """Return the local engine's drafts without context."""
        result = await LocalExtractor().read(messages, before)
        return _with_drafts(result, lambda draft: replace(draft, context="", context_from=None))


class NamelessExtractor:
    """The local engine without entities."""

    name = LocalExtractor.name
    keeps_words = LocalExtractor.keeps_words

    async def read(self, messages: Sequence[Message], before: Message | None) -> ExtractionResult:
        """Return the local engine's drafts without entities."""
        result = await LocalExtractor().read(messages, before)
        return _with_drafts(result, lambda draft: replace(draft, entities=()))


def _with_drafts(result: ExtractionResult, change: Callable[[FactDraft], FactDraft]) -> ExtractionResult:
    return replace(result, drafts=tuple(map(change, result.drafts)))


class DaylessEmbedder(WrappedEmbedder):
    """Embeds documents without the day that retain puts before them."""

    def prepare(self, texts: Sequence[str], kind: TextKind) -> Sequence[str]:
        """Remove the day from documents."""
        if kind == "query":
            return texts
        return [text[match.end() :] if (match := _DAY.match(text)) else text for text in texts]


@dataclass(frozen=True, kw_only=True)
class AblationVariant:
    """A name, and the setup of its recalls."""

    name: str
    setup: RunSetup


@dataclass(frozen=True, kw_only=True)
class VariantGroup:
    """Variants that share one bank, which is filled with the setup of the first."""

    variants: tuple[AblationVariant, ...]

    def steps(self, case: Case) -> int:
        """Return the number of steps to fill the bank of a case and to ask every variant."""
        return len(case.sessions) + len(case.questions) * len(self.variants)


def variant_groups(full: RunSetup, dataset: Dataset) -> tuple[VariantGroup, ...]:
    """Return one group for all variants of recall, and one for each disabled step of retain.

    Steps of retain belong to the local engine: a recording contains neither inserted dates nor context.
    """
    recall = VariantGroup(variants=(AblationVariant(name="full", setup=full), *_recall_variants(full)))
    return (recall, *(_retain_variants(full, dataset) if full.engine.name == "local" else ()))


def _recall_variants(full: RunSetup) -> list[AblationVariant]:
    settings = full.settings
    changed = {
        **{f"without {channel}": {"channels": settings.channels - {channel}} for channel in CHANNELS},
        "without analysis": {"analysis": False},
        "ranks instead of sums": {"fusion": "rank"},
    }
    return [
        *(
            AblationVariant(name=name, setup=replace(full, settings=settings.model_copy(update=each)))
            for name, each in changed.items()
        ),
        AblationVariant(name="without reranking", setup=replace(full, reranker="none")),
    ]


def retain_settings(settings: Settings) -> dict[str, Settings]:
    """Return settings that each disable one step of retain."""
    changes = {
        "without links": {"links_per_fact": 0},
        "without resolution": {"resolution_weights": dict.fromkeys(settings.resolution_weights, 0.0)},
        "without segmentation": {"episode_messages": 1},
        "without revision": {"revision": False},
    }
    return {name: settings.model_copy(update=change) for name, change in changes.items()}


def _retain_variants(full: RunSetup, dataset: Dataset) -> list[VariantGroup]:
    def extracted_by(extractor: Extractor) -> RunSetup:
        return replace(full, engine=BenchEngine(extractors={case.id: extractor for case in dataset.cases}))

    setups = {
        "without dates": extracted_by(UndatedExtractor()),
        "without day": replace(full, embedder=DaylessEmbedder(full.embedder)),
        "without context": extracted_by(ContextFreeExtractor()),
        "without entities": extracted_by(NamelessExtractor()),
        **{name: replace(full, settings=each) for name, each in retain_settings(full.settings).items()},
    }
    return [VariantGroup(variants=(AblationVariant(name=name, setup=setup),)) for name, setup in setups.items()]


async def measure_ablation(options: BenchOptions, embedder: Embedder, settings: Settings, sink: ProgressSink) -> Report:
    """Run the variants that are not finished yet, and report on all of them."""
    dataset = load(options)
    full = setup_of(options, dataset, embedder, settings)
    groups = variant_groups(full, dataset)
    async with open_store(options, embedder, settings) as store:
        checkpoints = {
            variant.name: _checkpoint(options, dataset, variant, store.config)
            for group in groups
            for variant in group.variants
        }
        total = sum(group.steps(case) for case in dataset.cases for group in groups)
        steps = StepCounter(sink, f"ablation of {dataset.name}", total)
        for case in dataset.cases:
            for group in groups:
                await _run_group(case, group, checkpoints, store, steps)
    config = {**config_of(dataset, full), **store.config, "ablation_of": dataset.name, **full.engine.counts}
    report = _report(options, dataset, checkpoints, config)
    for checkpoint in checkpoints.values():
        checkpoint.clear()
    return report


def _checkpoint(
    options: BenchOptions, dataset: Dataset, variant: AblationVariant, store: Mapping[str, Setting]
) -> Checkpoint[CaseResult]:
    config = {**config_of(dataset, variant.setup), **store, "variant": variant.name}
    return case_checkpoint(options.work_folder, f"ablation-{dataset.name}", config)


async def _run_group(
    case: Case,
    group: VariantGroup,
    checkpoints: Mapping[str, Checkpoint[CaseResult]],
    store: BenchStore,
    steps: StepCounter,
) -> None:
    """Fill the bank once and ask every variant that is not finished."""
    missing = [variant for variant in group.variants if case.id not in checkpoints[variant.name]]
    if not missing:
        steps.advance(group.steps(case))
        return
    steps.advance(len(case.questions) * (len(group.variants) - len(missing)))
    async with store.bank(case.id) as location:
        async with group.variants[0].setup.memory(case, location) as memory:
            filled = await fill_bank(memory, case, steps.advance)
        for variant in missing:
            async with variant.setup.memory(case, location) as memory:
                result = await ask_questions(memory, case, filled, variant.setup, steps.advance)
            checkpoints[variant.name].append(result)


def _report(
    options: BenchOptions,
    dataset: Dataset,
    checkpoints: Mapping[str, Checkpoint[CaseResult]],
    config: Mapping[str, Setting],
) -> Report:
    """Return the report of the full variant, with the scores of every variant."""
    reports = {
        name: summarise(options, dataset, [each for case in dataset.cases if (each := checkpoint.get(case.id))], config)
        for name, checkpoint in checkpoints.items()
    }
    compared = COMPARED_METRICS[dataset.unit]
    variants = {name: _scores(report, compared) for name, report in reports.items()}
    return replace(reports["full"], variants=variants)


def _scores(report: Report, compared: tuple[str, ...]) -> VariantScores:
    def select(metrics: Mapping[str, float]) -> dict[str, float]:
        return {name: metrics[name] for name in compared if name in metrics}

    categories = {name: select(metrics) for name, metrics in report.categories.items()}
    return VariantScores(metrics=select(report.metrics), categories=categories)
