"""The models of a run: who answers and who judges."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Protocol, runtime_checkable

from vmemo.errors import InvalidInput
from vmemo.ports import LLM
from vmemo.settings import Settings, build
from vmemo_bench.options import BenchOptions


@dataclass(frozen=True, kw_only=True)
class Models:
    """Who answers, and who judges; None where nobody is needed."""

    answerer: LLM | None = None
    judge: LLM | None = None


@runtime_checkable
class _Closing(Protocol):
    async def close(self) -> None: ...


@asynccontextmanager
async def models(options: BenchOptions, *, judged: bool = False) -> AsyncGenerator[Models]:
    """The models that were asked for; none to judge where all is `judged`.

    Those given as objects are their owner's to close; named ones are closed here.
    """
    settings = options.settings or Settings.from_environment()
    answering = options.qa.answerer or settings.llm
    judging = None if judged else options.qa.judge or answering
    answerer = None if options.qa.answers else _resolved(answering, settings)
    judge = answerer if judging is answering and answerer else _resolved(judging, settings)
    if answerer is None and options.qa.answers is None:
        raise InvalidInput("QA mode needs a model that answers: pass --answerer MODEL, or set VMEMO_LLM")
    try:
        yield Models(answerer=answerer, judge=judge)
    finally:
        for given, llm in {id(llm): (given, llm) for given, llm in ((answering, answerer), (judging, judge))}.values():
            if isinstance(given, str) and isinstance(llm, _Closing):
                await llm.close()


def _resolved(given: object, settings: Settings) -> LLM | None:
    """A model by its name, or the object itself."""
    if given is None:
        return None
    # A memory resolves names in one place; this one is never opened.
    llm = build("sqlite:///:memory:", llm=given, embedder=None, reranker=None, settings=replace(settings, llm=None)).llm
    if llm is None:
        raise InvalidInput(f"{given!r:.60} reads messages, and can neither answer nor judge: pass a language model")
    return llm
