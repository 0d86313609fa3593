"""The models and the journal of a QA run: every finished step is written at once, so that none is paid for twice."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from vmemo.errors import InvalidInput
from vmemo.ports import LLM
from vmemo_bench.bench_store import BankFolder, kept_banks
from vmemo_bench.checkpoint import Checkpoint
from vmemo_bench.datasets import Dataset
from vmemo_bench.environment import code_digest, fingerprint
from vmemo_bench.options import BenchOptions
from vmemo_bench.qa import judging
from vmemo_bench.qa.records import BankSize, GivenAnswer, JudgeVerdict, RecalledContext
from vmemo_bench.report import Setting


@dataclass(frozen=True, kw_only=True)
class QaModels:
    """Answerer and judge; None if not needed."""

    answerer: LLM | None = None
    judge: LLM | None = None


def models_of(options: BenchOptions, *, judged: bool = False) -> QaModels:
    """Return the opened models of the options; no judge if every answer is `judged`."""
    answerer, judge = options.qa.answerer, options.qa.judge
    if isinstance(answerer, str) or isinstance(judge, str):
        raise TypeError("models are opened by open_llms")
    if answerer is None and options.qa.answers is None:
        raise InvalidInput("QA mode needs a model that answers: pass --answerer MODEL, or set VMEMO_LLM.")
    return QaModels(answerer=answerer, judge=None if judged else judge)


@dataclass(frozen=True, kw_only=True)
class QaJournal:
    """Finished steps of a dataset's questions; `banks` is the folder of cases with unanswered questions."""

    banks: BankFolder
    sizes: Checkpoint[BankSize]
    recalled: Checkpoint[RecalledContext]
    answers: Checkpoint[GivenAnswer]
    verdicts: Checkpoint[JudgeVerdict]


def open_journal(
    options: BenchOptions, dataset: Dataset, *, config: Mapping[str, Setting], models: QaModels
) -> QaJournal:
    """Open the files of a journal, each named after everything that its records depend on.

    Recalled contexts do not depend on models, and a verdict depends only on question, answer and judge. Another
    answerer reuses the contexts, and another judge reuses the answers.
    """
    work, name = options.work_folder, f"{dataset.name}-qa"
    recalled = f"{name}-{fingerprint(config)}"
    answers = f"{name}-{fingerprint({**config, 'answerer': _name(models.answerer)})}"
    judged_by: dict[str, Setting] = {
        "dataset": dataset.digest,
        "code": code_digest(),
        "judge": _name(models.judge),
        "prompts": judging.digest(),
    }
    verdicts = f"{name}-{fingerprint(judged_by)}"
    return QaJournal(
        banks=kept_banks(options, dataset) or BankFolder(work / recalled),
        sizes=Checkpoint(work / f"{recalled}.banks.jsonl", BankSize, lambda size: size.case),
        recalled=Checkpoint(work / f"{recalled}.recalled.jsonl", RecalledContext, lambda context: context.id),
        answers=Checkpoint(work / f"{answers}.answers.jsonl", GivenAnswer, lambda answer: answer.id),
        verdicts=Checkpoint(work / f"{verdicts}.verdicts.jsonl", JudgeVerdict, lambda verdict: verdict.key),
    )


def _name(llm: LLM | None) -> str | None:
    return None if llm is None else llm.name
