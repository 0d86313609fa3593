"""The Replay page of a bank: an upload, or the bank's own messages, is replayed in a memory of its own.

The response to the request is the replay: a stream of its progress that ends with the report. Nothing of it is stored,
and it ends when the browser leaves or the server stops.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
import zipfile
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Annotated

from fastapi import Query, Response
from sse_starlette import EventSourceResponse, ServerSentEvent

from vmemo import Memory
from vmemo.cli.demo import conversation
from vmemo.errors import InvalidInput, StoreError, VmemoError
from vmemo.models import Message, MessageId
from vmemo.models.select import MessageSelect
from vmemo.ports import renewed
from vmemo_replay.commands import summary_rows
from vmemo_replay.configuration import Configuration
from vmemo_replay.page import view
from vmemo_replay.replay import ReplayOptions, replay
from vmemo_replay.report import Report, as_json
from vmemo_replay.transcripts import Transcript, in_order, new_message, read_transcript
from vmemo_server.console.dependencies import BankPage, ReadForm, ReadPage
from vmemo_server.console.route import console_router
from vmemo_server.console.session import check_token
from vmemo_server.errors import RequestInProgress
from vmemo_server.problems import HttpProblem
from vmemo_server.state import IdempotentRequest

router = console_router("/banks/{bank}/replay")
MAX_UPLOAD = 100_000_000
"""Bytes of an uploaded file, and of the JSON files in an archive."""
MAX_MESSAGES = 5_000
"""Messages of one replay: the last ones of the file or bank."""
MAX_TURNS = 500
TURNS = 100
"""Turns that are asked at by default."""
PING_SECONDS = 15
RENEW_SECONDS = 3.0
_RUNNING = "console replay"
"""The idempotency key that a principal holds while its replay runs, in whichever process."""
_PAGE = 1_000
Read = Callable[[timedelta], Awaitable[Transcript]]
Turns = Annotated[int, Query(ge=1, le=MAX_TURNS)]


@dataclass(frozen=True, kw_only=True)
class ServerConfiguration(Configuration):
    """The local engine with the embedder and the settings of a server."""

    server: Memory

    def memory(self, url: str, bank: str = "default") -> Memory:
        """Return a temporary memory; the server's embedder stays open when it is closed."""
        parts = self.server.providers
        # What belongs to the server's own database, and costs.
        own = ("llm", "read_url", "encryption_key", "encryption_key_file", "embedding_cache")
        changes = {**dict.fromkeys(own), "background": False, "observe_delay": 0.0}
        return Memory(url, bank, embedder=parts.embedder, settings=parts.settings.model_copy(update=changes))


@router.get("")
async def choose(page: ReadPage) -> Response:
    """Show the form."""
    return page.render("replay.html", default=TURNS, most=MAX_TURNS, most_messages=MAX_MESSAGES, most_bytes=MAX_UPLOAD)


@router.post("/bank")
async def replay_bank(form: ReadForm, turns: Turns = TURNS) -> Response:
    """Replay the messages of the bank."""

    async def read(gap: timedelta) -> Transcript:
        return await asyncio.to_thread(in_order, map(new_message, await _last_messages(form)), gap)

    events = _events(form, read, nullcontext(), name=form.bank, turns=turns)
    return EventSourceResponse(events, ping=PING_SECONDS)


@router.post("/sample")
async def replay_sample(form: ReadForm, turns: Turns = TURNS) -> Response:
    """Replay the conversation of `vmemo demo`."""

    async def read(gap: timedelta) -> Transcript:
        return await asyncio.to_thread(lambda: in_order(map(new_message, conversation()), gap))

    return EventSourceResponse(_events(form, read, nullcontext(), name="sample", turns=turns), ping=PING_SECONDS)


@router.post("/upload")
async def replay_upload(page: ReadPage, name: str = "chat.json", turns: Turns = TURNS) -> Response:
    """Replay the file that is the body of the request."""
    check_token(page.request)
    folder = tempfile.TemporaryDirectory(prefix="vmemo-replay-", ignore_cleanup_errors=True)
    # The name may come from any system, and is only shown.
    shown = "".join(c for c in name if c.isprintable() and c not in "/\\:")[-100:].strip(". ")
    path = Path(folder.name) / (shown or "chat")
    try:
        # One file at a time too.
        async with _only_one(page):
            await _save(page, path)
    except BaseException:
        folder.cleanup()
        raise

    async def read(gap: timedelta) -> Transcript:
        return await asyncio.to_thread(_read, path, gap)

    return EventSourceResponse(_events(page, read, folder, name=path.name, turns=turns), ping=PING_SECONDS)


async def _save(page: BankPage, path: Path) -> None:
    """Write the body of the request to a file."""
    with path.open("wb") as file:
        async for part in page.request.stream():
            file.write(part)
            if file.tell() > MAX_UPLOAD:
                raise HttpProblem(
                    413,
                    "BodyTooLarge",
                    f"A file to replay may have {MAX_UPLOAD:,} bytes here. Use `vmemo replay` on your machine.",
                )


def _read(path: Path, gap: timedelta) -> Transcript:
    """Return the messages of a file, of an archive only if its files are not too large in all."""
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            size = sum(info.file_size for info in archive.infolist() if info.filename.endswith(".json"))
        if size > MAX_UPLOAD:
            raise InvalidInput(
                f"{path.name} unpacks to {size:,} bytes, and a replay reads at most {MAX_UPLOAD:,} here. Use "
                "`vmemo replay` on your machine."
            )
    try:
        return read_transcript([path], gap=gap)
    except InvalidInput as error:
        # The folder of an upload means nothing to its reader.
        raise InvalidInput(str(error).replace(f"{path.parent}/", "")) from error


async def _last_messages(page: BankPage) -> list[Message]:
    """Return the messages of the bank that were stored last."""
    found: list[Message] = []
    while len(found) < MAX_MESSAGES:
        after = MessageId(found[-1].id) if found else None
        select = MessageSelect(after=after, last_first=True, limit=_PAGE)
        part = await page.store.messages(page.bank, select)
        found += part
        if len(part) < _PAGE:
            break
    if not found:
        raise InvalidInput("This bank has no messages, so there is nothing to replay. Drop a file instead.")
    return found[::-1]


async def _events(
    page: BankPage, read: Read, files: AbstractContextManager[object], *, name: str, turns: int
) -> AsyncGenerator[ServerSentEvent]:
    """Yield the progress of a replay and its report, or its problem: the response has started by then."""
    events: asyncio.Queue[ServerSentEvent] = asyncio.Queue()

    def progress(label: str, done: int) -> None:
        events.put_nowait(_event("progress", {"done": done, "of": asked}))

    async def run() -> None:
        nonlocal asked
        async with _only_one(page):
            events.put_nowait(_event("reading", {}))
            configuration = ServerConfiguration(server=page.memory)
            gap = timedelta(minutes=page.memory.providers.settings.episode_gap_minutes)
            transcript = _shortened(await read(gap), gap)
            options = ReplayOptions(most=turns)
            asked = len(options.turns(transcript))
            if not asked:
                raise InvalidInput(f"{name}: no message is of a user, so there is no turn to ask at.")
            progress("", 0)
            report = await replay(transcript, [configuration], options, files=[name], origin=None, on_turn=progress)
            shown = await asyncio.to_thread(_shown, report)
            events.put_nowait(ServerSentEvent(shown, event="report"))

    async def run_to_the_end() -> None:
        try:
            with files:
                await run()
        except VmemoError as error:
            events.put_nowait(_event("problem", {"text": str(error)}))

    asked = 0
    task = asyncio.create_task(run_to_the_end())
    try:
        while not (task.done() and events.empty()):
            waiting = asyncio.create_task(events.get())
            await asyncio.wait([waiting, task], return_when=asyncio.FIRST_COMPLETED)
            if waiting.done():
                yield waiting.result()
            else:
                waiting.cancel()
        await task
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


def _event(name: str, values: Mapping[str, object]) -> ServerSentEvent:
    return ServerSentEvent(json.dumps(values), event=name)


def _shown(report: Report) -> str:
    return json.dumps({"html": view(report, summary_rows(report))})[:-1] + f', "report": {as_json(report)}}}'


def _shortened(transcript: Transcript, gap: timedelta) -> Transcript:
    """Return a transcript of the last messages, if it is longer than a replay may be."""
    total = len(transcript.lines)
    if total <= MAX_MESSAGES:
        return transcript
    kept = in_order([line.message for line in transcript.lines[-MAX_MESSAGES:]], gap)
    return replace(kept, notes=(*transcript.notes, f"The last {MAX_MESSAGES:,} of {total:,} messages were replayed."))


@asynccontextmanager
async def _only_one(page: BankPage) -> AsyncGenerator[None]:
    """Let no other replay of the principal run within the context; a process that dies frees it after seconds."""
    claim = IdempotentRequest(owner=page.principal.name, key=_RUNNING, fingerprint="", bank=page.bank)
    if await page.state.claim(claim) is not None:
        raise RequestInProgress("Another replay of yours is running. Wait for it, or cancel it and try again.")
    try:
        async with renewed(lambda: page.state.renew(claim), RENEW_SECONDS):
            yield
    finally:
        # A claim that can't be released now is free when its lease ends.
        with suppress(StoreError):
            await asyncio.shield(page.state.release(claim))
