"""`vmemo doctor`. A check reports a problem and never raises it."""

from __future__ import annotations

import asyncio
import platform
import sqlite3
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from importlib.metadata import entry_points
from typing import Annotated, Literal, Protocol, runtime_checkable

import typer
from rich.text import Text

from vmemo.cli.command import Output, command
from vmemo.cli.options import DatabaseWithModels
from vmemo.cli.output import one_line, size, timestamp
from vmemo.cli.target import Target
from vmemo.errors import VmemoError
from vmemo.models import Bank, BankId
from vmemo.models.records import counted, reembed_command
from vmemo.models.results import Backlog, Status
from vmemo.ports import LLM, Closable, Context, Embedder, LLMRequest, ReplicatedStore
from vmemo.stores.sqlite.connection import leftovers

CHECKS = "vmemo.checks"
"""Entry point group: functions of other distributions that return further checks."""
State = Literal["ok", "warn", "fail"]
_STYLES = {"ok": "green", "warn": "yellow", "fail": "bold red"}
_ASK = LLMRequest(
    step="check",
    system="You are being tested. Answer with JSON and nothing else.",
    user='Answer {"ready": true}',
    schema={"type": "object", "properties": {"ready": {"type": "boolean"}}, "required": ["ready"]},
    max_tokens=1024,
)
_SENTENCE, _SENTENCE_TOKENS = "Memory holds what was said.", 6


@dataclass(frozen=True)
class Check:
    name: str
    state: State
    detail: str


@runtime_checkable
class _Checkable(Protocol):
    """A store that can verify and scrub its database."""

    async def schema_version(self) -> str: ...
    async def damage(self) -> list[str]: ...
    async def scrub(self, *, patient: bool = False) -> bool: ...


@command(
    "vmemo doctor",
    "vmemo doctor --db team.db --json",
    "vmemo doctor --llm openai:gpt-5-mini --llm-check",
    "vmemo doctor --embedder ollama:nomic-embed-text --embedder-check",
    "VMEMO_URL=sqlite:///team.db vmemo doctor",
)
def doctor(
    llm_check: Annotated[bool, typer.Option("--llm-check", help="Send one small request to the model.")] = False,
    embedder_check: Annotated[
        bool, typer.Option("--embedder-check", help="Send one short text to a named embedder.")
    ] = False,
    *,
    target: DatabaseWithModels,
) -> Output:
    """Check the installation, the engine and the database; complete an interrupted forget."""
    checks = asyncio.run(_checks(target, llm_check=llm_check, embedder_check=embedder_check))
    checks += [check for point in entry_points(group=CHECKS) for check in point.load()()]
    sound = all(check.state != "fail" for check in checks)
    listed = [{"check": check.name, "state": check.state, "detail": check.detail} for check in checks]
    lines = [
        Text.assemble((f"{check.state:>4}", _STYLES[check.state]), f"  {check.name:<12} {one_line(check.detail)}")
        for check in checks
    ]
    return Output({"ok": sound, "checks": listed}, Text("\n").join(lines), exit_code=0 if sound else 1)


async def _checks(target: Target, *, llm_check: bool, embedder_check: bool) -> list[Check]:
    configured, context = _models(target)
    counted_tokens = context.counter(_SENTENCE)
    tokens: State = "ok" if counted_tokens == _SENTENCE_TOKENS else "fail"
    installed = [
        Check("python", "ok", f"{platform.python_version()} at {sys.executable}"),
        Check("sqlite", "ok", sqlite3.sqlite_version),
        Check("tokens", tokens, f"cl100k works offline: counted {counted_tokens} tokens, expected {_SENTENCE_TOKENS}"),
    ]
    answering = [await _model_answers(context.llm)] if llm_check and context.llm is not None else []
    if not context.owns_embedder:
        # Loading the packaged model verifies the hash of each of its files.
        installed.append(await _embeds("model", context.embedder, "files as released"))
    elif embedder_check:
        answering.append(await _embeds("embedder", context.embedder, "answers"))
    return [*installed, *configured, *answering, *await _database(target, context)]


async def _embeds(name: str, embedder: Embedder, success: str) -> Check:
    try:
        vectors = await embedder.embed([_SENTENCE], "document")
    except VmemoError as error:
        return Check(name, "fail", str(error))
    finally:
        if isinstance(embedder, Closable):
            await embedder.close()
    return Check(name, "ok", f"{embedder.name} {success}, {vectors.shape[1]} dimensions")


def _models(target: Target) -> tuple[list[Check], Context]:
    """Check the engine and a named embedder; return the context too, without those that cannot be constructed."""
    settings, failed = target.settings(), dict[str, Check]()
    for name, other in (("engine", "embedder"), ("embedder", "llm")):
        try:
            target.context(settings.model_copy(update={other: None}))
        except VmemoError as error:
            # The message names what is wrong: the model's name, its key or a missing extra.
            failed[name] = Check(name, "fail", str(error))
    without = {"llm" if name == "engine" else name: None for name in failed}
    context = target.context(settings.model_copy(update=without))
    engine = "local (no language model; set --llm or VMEMO_LLM to use one)"
    if context.llm is not None:
        engine = f"{context.llm.name}, installed; --llm-check sends one request"
    checks = [failed.get("engine") or Check("engine", "ok", engine)]
    if "embedder" in failed:
        checks.append(failed["embedder"])
    elif context.owns_embedder:
        checks.append(Check("embedder", "ok", f"{context.embedder.name}, configured; --embedder-check sends one text"))
    return checks, context


async def _model_answers(llm: LLM) -> Check:
    try:
        usage = (await llm.complete(_ASK)).usage
    except VmemoError as error:
        return Check("llm", "fail", str(error))
    finally:
        if isinstance(llm, Closable):
            await llm.close()
    spent = f"{counted(usage.input_tokens, 'token')} in, {usage.output_tokens:,} out"
    return Check("llm", "ok", f"{llm.name} answers ({spent})")


async def _database(target: Target, context: Context) -> list[Check]:
    """Check the database and its banks; a missing file is not created."""
    file, settings = target.file, target.settings()
    if file is not None and not file.exists():
        return [Check("database", "warn", f"{file} does not exist yet; vmemo retain creates it")]
    encrypted = file is not None and bool(settings.encryption_key or settings.encryption_key_file)
    opens = f"{target.safe_url} opens{', encrypted with SQLCipher' if encrypted else ''}"
    left = [] if file is None else leftovers(file)
    try:
        await context.store.open()
        return [
            Check("database", "ok", opens),
            *(Check("rekey", "warn", f"{each} is left by an interrupted rekey; run it again") for each in left),
            *[check async for check in _opened(context)],
        ]
    except VmemoError as error:
        return [Check("database", "fail", str(error))]
    finally:
        await context.store.close()


async def _opened(context: Context) -> AsyncIterator[Check]:
    store = context.store
    if isinstance(store, _Checkable):
        yield Check("schema", "ok", f"version {await store.schema_version()}")
        if damage := await store.damage():
            found = f"The database reports {counted(len(damage), 'error')}: {damage[0]}. Restore a backup."
            yield Check("integrity", "fail", found)
        else:
            yield Check("integrity", "ok", "no errors found")
    if isinstance(store, ReplicatedStore) and store.replica is not None:
        await store.replica.banks()
        yield Check("replica", "ok", "answers")
    banks = await store.banks()
    statuses = [await store.status(BankId(bank.id)) for bank in banks]
    for bank, status in zip(banks, statuses, strict=True):
        yield _bank(bank, status, context.embedder)
    if not isinstance(store, _Checkable) or not any(status.scrub_pending for status in statuses):
        yield Check("scrub", "ok", "no deleted text is left in the file")
    elif await store.scrub(patient=True):
        yield Check("scrub", "ok", "deleted text was left in the file and is removed now")
    else:
        yield Check("scrub", "warn", "deleted text is left in the file: close its other readers, then run this again")
    used = max((status.bytes for status in statuses), default=0)
    # Neo4j does not report how large its files are.
    if used:
        yield Check("size", "ok", size(used))


def _bank(bank: Bank, status: Status, embedder: Embedder) -> Check:
    name = f"bank {bank.id}"
    if bank.embedder != embedder.name:
        return Check(name, "warn", f"written with {bank.embedder}; run: {reembed_command(bank.id, embedder.name)}")
    resume = f"vmemo process --bank {bank.id}"
    if status.problems:
        pending = f"{counted(status.pending, 'message')} pending"
        return Check(name, "warn", f"{pending}, last error: {status.problems[-1].error}; {resume} retries")
    if failed := [_failed(each) for each in status.backlog if each.failed]:
        return Check(name, "warn", "; ".join(failed))
    if status.pending:
        return Check(name, "warn", f"{counted(status.pending, 'message')} pending; {resume} processes them")
    return Check(name, "ok", f"{counted(status.messages, 'message')}, {counted(status.facts, 'fact')}, none pending")


def _failed(work: Backlog) -> str:
    again = "" if work.next_at is None else f", next attempt {timestamp(work.next_at)}"
    return f"{counted(work.failed, f'{work.kind} job')} failed, last error: {work.error}{again}"
