"""E3: what each channel, the analysis, the reranker and each step of retain is worth: a run with each left out.

What changes recall alone is asked of the same banks; only a step of retain needs banks of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from vmemo.ports import Embedder
from vmemo.settings import Settings
from vmemo_bench.ablation.variants import Bank, Variant, banks
from vmemo_bench.datasets import Case, Dataset, Unit, load
from vmemo_bench.environment import fingerprint
from vmemo_bench.ledger import Finished, Ledger
from vmemo_bench.options import BenchOptions, ProgressSink
from vmemo_bench.report import Outcome, Report, Setting
from vmemo_bench.retrieval import config_of, setup_of, summarise
from vmemo_bench.runner import ask, keep
from vmemo_bench.steps import Steps
from vmemo_bench.stores import Ground, ground

__all__ = ["measure_ablation"]

_TOKENS = ("evidence@500", "evidence@1000", "evidence@2000")
MAIN: Mapping[Unit, tuple[str, ...]] = {
    "turn": ("recall@10", "ndcg@10", *_TOKENS),
    "session": ("recall_any@5", "recall_all@10", "ndcg@10", *_TOKENS),
}
"""The metrics by which variants are compared."""


async def measure_ablation(options: BenchOptions, embedder: Embedder, settings: Settings, sink: ProgressSink) -> Report:
    """Run what is left of every variant and report on all of them."""
    dataset = load(options)
    full = setup_of(options, dataset, embedder, settings)
    async with ground(options, settings) as land:
        run = _Run(dataset, banks(full, dataset), options.work_folder, land.config, sink)
        for case in dataset.cases:
            for bank in run.banks:
                await run.bank(case, bank, land)
    config = {**config_of(dataset, full), **land.config, "ablation_of": dataset.name, **full.engine.counts}
    report = _report(options, dataset, run.finished, config)
    run.clear()
    return report


class _Run:
    """The ledgers of all variants, and how far they are."""

    def __init__(
        self, dataset: Dataset, banks: tuple[Bank, ...], work: Path, store: Mapping[str, Setting], sink: ProgressSink
    ) -> None:
        self.banks = banks
        self._ledgers = {v.name: _ledger(dataset, v, work, store) for bank in banks for v in bank.variants}
        self._known = {name: ledger.load() for name, ledger in self._ledgers.items()}
        total = sum(_length(case, bank) for case in dataset.cases for bank in banks)
        self._steps = Steps(sink, f"ablation of {dataset.name}", total)

    @property
    def finished(self) -> Mapping[str, Mapping[str, Finished]]:
        """Cases by variant."""
        return self._known

    async def bank(self, case: Case, bank: Bank, land: Ground) -> None:
        """Fill the bank once and ask every variant that is not noted yet."""
        missing = [variant for variant in bank.variants if case.id not in self._known[variant.name]]
        if not missing:
            self._steps.advance(_length(case, bank))
            return
        self._steps.advance(len(case.questions) * (len(bank.variants) - len(missing)))
        async with land.bank(case.id) as spot:
            async with bank.variants[0].setup.memory(case, spot) as memory:
                kept = await keep(memory, case, self._steps.advance)
            for variant in missing:
                async with variant.setup.memory(case, spot) as memory:
                    done = await ask(memory, case, kept, variant.setup, self._steps.advance)
                self._ledgers[variant.name].note(done)
                self._known[variant.name][case.id] = done

    def clear(self) -> None:
        """Forget the run."""
        for ledger in self._ledgers.values():
            ledger.clear()


def _length(case: Case, bank: Bank) -> int:
    return len(case.sessions) + len(case.questions) * len(bank.variants)


def _ledger(dataset: Dataset, variant: Variant, work: Path, store: Mapping[str, Setting]) -> Ledger:
    config = {**config_of(dataset, variant.setup), **store, "variant": variant.name}
    return Ledger(work, f"ablation-{dataset.name}-{fingerprint(config)}")


def _report(
    options: BenchOptions,
    dataset: Dataset,
    finished: Mapping[str, Mapping[str, Finished]],
    config: dict[str, Setting],
) -> Report:
    """The whole's report with every variant's outcome."""
    reports = {
        name: summarise(options, dataset, [cases[case.id] for case in dataset.cases], config)
        for name, cases in finished.items()
    }
    wanted = MAIN[dataset.unit]
    variants = {name: _outcome(report, wanted) for name, report in reports.items()}
    return replace(next(iter(reports.values())), variants=variants)


def _outcome(report: Report, wanted: tuple[str, ...]) -> Outcome:
    def main(metrics: Mapping[str, float]) -> dict[str, float]:
        return {name: metrics[name] for name in wanted if name in metrics}

    return Outcome(
        metrics=main(report.metrics), categories={name: main(found) for name, found in report.categories.items()}
    )
