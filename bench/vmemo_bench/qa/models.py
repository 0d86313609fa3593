"""The models of a QA run: the answerer and the judge."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from vmemo.errors import InvalidInput
from vmemo.ports import LLM
from vmemo.providers import resolve_llm
from vmemo.settings import Settings
from vmemo_bench.options import BenchOptions


@dataclass(frozen=True, kw_only=True)
class QaModels:
    """Answerer and judge; None if not needed."""

    answerer: LLM | None = None
    judge: LLM | None = None


@runtime_checkable
class _Closeable(Protocol):
    async def close(self) -> None: ...


@asynccontextmanager
async def open_models(options: BenchOptions, *, judged: bool = False) -> AsyncGenerator[QaModels]:
    """Yield the models of the options; no judge if every answer is `judged`.

    Models given by name are closed on exit; objects belong to the caller.
    """
    settings = options.settings or Settings.from_environment()
    answering = options.qa.answerer or settings.llm
    judging = None if judged else options.qa.judge or answering
    if answering is None and options.qa.answers is None:
        raise InvalidInput("QA mode needs a model that answers: pass --answerer MODEL, or set VMEMO_LLM.")
    answerer = None if options.qa.answers or answering is None else resolve_llm(answering, settings)
    shared = answerer is not None and judging is answering
    judge = answerer if shared else None if judging is None else resolve_llm(judging, settings)
    try:
        yield QaModels(answerer=answerer, judge=judge)
    finally:
        for given, llm in ((answering, answerer), (judging, None if shared else judge)):
            if isinstance(given, str) and isinstance(llm, _Closeable):
                await llm.close()
