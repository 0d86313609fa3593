"""The models of a QA run: the answerer and the judge."""

from __future__ import annotations

from dataclasses import dataclass

from vmemo.errors import InvalidInput
from vmemo.ports import LLM
from vmemo_bench.options import BenchOptions


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
