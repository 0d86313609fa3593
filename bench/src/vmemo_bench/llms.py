"""The language models of a run: opened from their names, and recorded or replayed with a cassette."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Protocol, runtime_checkable

from vmemo.errors import InvalidInput
from vmemo.ports import LLM
from vmemo.providers import resolve_llm
from vmemo.settings import Settings
from vmemo_bench.cassette import SUFFIXES, Cassette, RecordedAnswer, RecordingLLM, ReplayLLM
from vmemo_bench.checkpoint import Checkpoint
from vmemo_bench.environment import make_folder
from vmemo_bench.options import BenchOptions


@runtime_checkable
class _Closeable(Protocol):
    async def close(self) -> None: ...


@asynccontextmanager
async def open_llms(options: BenchOptions) -> AsyncGenerator[BenchOptions]:
    """Yield the options with models in place of their names: of the engine, and in QA mode of answerer and judge.

    With a cassette, the work folder is temporary: answers of earlier runs in it would not be recorded.
    """
    _check(options)
    given = options.llm
    async with AsyncExitStack() as stack:
        if not options.has_cassette:
            yield _with_models(options, stack, lambda model: model)
            return
        folder = tempfile.TemporaryDirectory(dir=make_folder(options.work_folder))
        work = Path(stack.enter_context(folder))
        if given.replay is not None:
            player = ReplayLLM(Cassette(given.replay))
            yield replace(_with_players(options, player), work=work)
        elif given.record is not None:
            wrap = stack.enter_context(_recording(given.record))
            yield replace(_with_models(options, stack, wrap), work=work)


def _check(options: BenchOptions) -> None:
    given = options.llm
    if given.record is not None and given.replay is not None:
        raise InvalidInput("A run is recorded or replayed: pass --record or --replay, not both.")
    if given.record is not None and not given.record.name.endswith(SUFFIXES):
        raise InvalidInput(f"The name of a cassette ends in .jsonl or .jsonl.xz, unlike {given.record.name!r}.")
    if given.replay is not None and not given.replay.exists():
        raise InvalidInput(f"No such cassette: {given.replay}")
    if options.keep_banks is not None and options.engine == "llm" and options.has_cassette:
        raise InvalidInput(
            "A cassette already makes filling a bank cheap: omit --keep-banks with --record and --replay."
        )


def _with_players(options: BenchOptions, player: LLM) -> BenchOptions:
    llm = replace(options.llm, model=player)
    return replace(options, llm=llm, qa=replace(options.qa, answerer=player, judge=player))


def _with_models(options: BenchOptions, stack: AsyncExitStack, wrap: Callable[[LLM], LLM]) -> BenchOptions:
    settings = options.settings or Settings.from_environment()
    if options.llm.timeout is not None:
        settings = settings.model_copy(update={"llm_timeout": options.llm.timeout})
    opened: dict[str | int, LLM] = {}

    def open_llm(model: str | LLM | None) -> LLM | None:
        """Return the model of a name, one for all who share it; models given by name are closed on exit."""
        if model is None:
            return None
        key = model if isinstance(model, str) else id(model)
        if key not in opened:
            llm = resolve_llm(model, settings)
            if isinstance(model, str) and isinstance(llm, _Closeable):
                stack.push_async_callback(llm.close)
            opened[key] = wrap(llm)
        return opened[key]

    default = options.llm.model or settings.llm
    engine = open_llm(default) if options.needs_engine_llm else None
    qa = options.qa
    if options.mode == "qa" or options.answer_tokens:
        # Imported answers may have all verdicts already: only a judge that the options name is opened for them.
        answering = qa.answerer or (options.llm.model if qa.answers is not None else default)
        answerer = None if qa.answers is not None else open_llm(answering)
        qa = replace(qa, answerer=answerer, judge=open_llm(qa.judge or answering))
    return replace(options, llm=replace(options.llm, model=engine), qa=qa)


@contextmanager
def _recording(path: Path) -> Generator[Callable[[LLM], LLM]]:
    """Yield a function that records a model; the answers are written to the cassette on exit, also after a failure."""
    cassette = Cassette(path)
    journal = Checkpoint(path.with_name(f"{path.name}.part"), RecordedAnswer, lambda answer: answer.key)
    try:
        yield lambda llm: RecordingLLM(llm, cassette, journal)
    finally:
        if journal.records:
            cassette.write(journal.records)
            journal.clear()
