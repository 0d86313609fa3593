"""What the doctor looks at. A check never raises for what it finds: it says so."""

from __future__ import annotations

import platform
import sqlite3
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable

from vmemo.cli.output import many, moment
from vmemo.cli.tables import size
from vmemo.cli.target import Place
from vmemo.errors import ScrubDelayed, VmemoError
from vmemo.models import Bank, BankId
from vmemo.models.results import Backlog, Status
from vmemo.ports import LLM, Ask, Context, Embedder, Store, TokenCounter

State = Literal["ok", "warn", "fail"]
_OLDEST_PYTHON = (3, 11)
_ASK = Ask(
    step="check",
    system="You are being tested. Answer with JSON and nothing else.",
    user='Answer {"ready": true}',
    schema={"type": "object", "properties": {"ready": {"type": "boolean"}}, "required": ["ready"]},
    max_tokens=1024,
)
_SENTENCE, _SENTENCE_TOKENS = "Memory holds what was said.", 6


@dataclass(frozen=True)
class Check:
    """One line of the report."""

    name: str
    state: State
    detail: str


@runtime_checkable
class Checkable(Protocol):
    """A store whose file can be examined and rewritten."""

    async def schema_version(self) -> str: ...
    async def damage(self) -> list[str]: ...
    async def scrub(self) -> None: ...


@runtime_checkable
class Closable(Protocol):
    """A model that holds connections."""

    async def close(self) -> None: ...


async def installation(context: Context) -> list[Check]:
    """Python, SQLite, the packaged model and the token counter."""
    return [_python(), _sqlite(), await _model(context.embedder), _tokens(context.counter)]


def _python() -> Check:
    recent = sys.version_info >= _OLDEST_PYTHON
    return Check("python", "ok" if recent else "fail", f"{platform.python_version()} at {sys.executable}")


def _sqlite() -> Check:
    connection = sqlite3.connect(":memory:")
    try:
        connection.execute("CREATE VIRTUAL TABLE words USING fts5(text)")
    except sqlite3.OperationalError as error:
        return Check("sqlite", "fail", f"{sqlite3.sqlite_version} without FTS5: {error}")
    finally:
        connection.close()
    return Check("sqlite", "ok", f"{sqlite3.sqlite_version} with FTS5")


async def _model(embedder: Embedder) -> Check:
    """Loading the model checks the hash of each of its files."""
    try:
        vectors = await embedder.embed([_SENTENCE], "document")
    except VmemoError as error:
        return Check("model", "fail", str(error))
    return Check("model", "ok", f"{embedder.name}, files as released, {vectors.shape[1]} dimensions")


def _tokens(counter: TokenCounter) -> Check:
    count = counter(_SENTENCE)
    state: State = "ok" if count == _SENTENCE_TOKENS else "fail"
    return Check("tokens", state, f"cl100k counts offline: {count} tokens where {_SENTENCE_TOKENS} are right")


def engine(place: Place) -> tuple[Check, Context]:
    """Who reads here, and the context that go with it; a model that can't be made is left out of them."""
    try:
        context = place.context()
    except VmemoError as error:
        # A model's name, its key or its extra is wrong, and the message says which.
        return Check("engine", "fail", str(error)), Place(place.db, place.bank).context()
    if context.llm is None:
        return Check("engine", "ok", "local: calls no model; --llm or VMEMO_LLM names one"), context
    return Check("engine", "ok", f"{context.llm.name}, all it needs is installed; --llm-check asks it once"), context


async def answers(llm: LLM) -> Check:
    """Whether the model answers a tiny question."""
    try:
        usage = (await llm.complete(_ASK)).usage
    except VmemoError as error:
        return Check("llm", "fail", str(error))
    finally:
        if isinstance(llm, Closable):
            await llm.close()
    spent = f"{many(usage.input_tokens, 'token')} in, {usage.output_tokens:,} out"
    return Check("llm", "ok", f"{llm.name} answers ({spent})")


async def database(place: Place, context: Context) -> list[Check]:
    """The database's file and all its banks; a file that is not there is not made."""
    if place.file is not None and not place.file.exists():
        return [Check("database", "warn", f"there is no {place.file} yet; vmemo retain makes it")]
    try:
        await context.store.open()
        return [Check("database", "ok", f"{place.shown} opens"), *[check async for check in _opened(context)]]
    except VmemoError as error:
        return [Check("database", "fail", str(error))]
    finally:
        await context.store.close()


async def _opened(context: Context) -> AsyncIterator[Check]:
    store = context.store
    if isinstance(store, Checkable):
        yield Check("schema", "ok", f"version {await store.schema_version()}")
        yield _integrity(await store.damage())
    banks = await store.banks()
    statuses = [await store.status(BankId(bank.id)) for bank in banks]
    for bank, status in zip(banks, statuses, strict=True):
        yield _bank(bank, status, context.embedder)
    yield await _scrub(store, any(status.scrub_pending for status in statuses))
    yield Check("size", "ok", size(max((status.bytes for status in statuses), default=0)))


def _integrity(damage: list[str]) -> Check:
    if damage:
        return Check("integrity", "fail", f"SQLite finds {many(len(damage), 'fault')}: {damage[0]}. Restore a backup.")
    return Check("integrity", "ok", "SQLite finds no fault")


def _bank(bank: Bank, status: Status, embedder: Embedder) -> Check:
    name = f"bank {bank.id}"
    if bank.embedder != embedder.name:
        return Check(name, "warn", f"written with {bank.embedder}; run: vmemo reembed --bank {bank.id}")
    resume = f"vmemo process --bank {bank.id}"
    if status.troubles:
        unread = f"{many(status.pending, 'message')} unread"
        return Check(name, "warn", f"{unread}, the last error: {status.troubles[-1].error}; {resume} tries again")
    if failed := [each for each in status.backlog if each.failed]:
        return Check(name, "warn", "; ".join(map(_failed, failed)))
    if status.pending:
        return Check(name, "warn", f"{many(status.pending, 'message')} unread; {resume} reads them")
    return Check(name, "ok", f"{many(status.messages, 'message')}, {many(status.facts, 'fact')}, nothing unread")


def _failed(work: Backlog) -> str:
    again = "" if work.next_at is None else f", next try {moment(work.next_at)}"
    return f"{work.failed:,} of {work.kind} failed, the last error: {work.error}{again}"


async def _scrub(store: Store, pending: bool) -> Check:
    if not (pending and isinstance(store, Checkable)):
        return Check("scrub", "ok", "nothing forgotten is left in the file")
    try:
        await store.scrub()
    except ScrubDelayed as error:
        return Check("scrub", "warn", str(error))
    return Check("scrub", "ok", "traces of a forget were left, and are gone now")
