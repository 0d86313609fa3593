"""The local server of hooks: it has the models loaded, answers on loopback, and ends when nobody needs it.

A hook starts it with `python -m vmemo_agents.server`. It answers requests with the token of its address file, and
retains the transcripts of events in the spool folder, whose files it deletes afterwards: what a crash interrupts is
retained by the next server.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import os
import secrets
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from vmemo import Memory, VmemoError
from vmemo_agents.anchored_recall import prompt_context, session_context
from vmemo_agents.paths import address_file, log, made_spool_folder, make_private, spool_folder, state_folder
from vmemo_agents.repository import Repository
from vmemo_agents.retain import messages_of, retain_messages, retain_personal
from vmemo_agents.transcripts import Transcript, read_messages, read_transcript

IDLE_SECONDS = 1800.0
"""Seconds without a request after which the server ends; VMEMO_AGENTS_IDLE sets another number."""
MAX_REQUEST = 1 << 20
MAX_TRIES = 5
"""Times that the transcript of an event is read; after these its file stays in the folder `failed`."""


@dataclass
class SessionState:
    """The facts that a session was shown, and the messages of it that are retained."""

    shown: set[str] = field(default_factory=set[str])
    retained: set[str] = field(default_factory=set[str])


@dataclass
class HookServer:
    """Memories by database, sessions by agent, id and folder, and the work on the spool."""

    token: str = field(default_factory=lambda: secrets.token_urlsafe(24))
    memories: dict[str, Memory] = field(default_factory=dict[str, Memory])
    sessions: dict[tuple[str, str, str], SessionState] = field(default_factory=dict[tuple[str, str, str], SessionState])
    last_request: float = field(default_factory=time.monotonic)
    wake: asyncio.Event = field(default_factory=asyncio.Event)
    stopped: asyncio.Event = field(default_factory=asyncio.Event)
    tries: dict[str, int] = field(default_factory=dict[str, int])
    idle: asyncio.Event = field(default_factory=asyncio.Event)
    """Set while no event waits to be processed."""

    def memory(self, db: str, bank: str) -> Memory:
        if db not in self.memories:
            if "://" not in db:
                make_private(Path(db).parent)
            self.memories[db] = Memory(db, bank)
        return self.memories[db].bank(bank)

    def session(self, request: dict[str, Any]) -> SessionState:
        return self.sessions.setdefault((request["agent"], request["session"], request["folder"]), SessionState())

    async def answer(self, request: dict[str, Any]) -> str:
        """Return the text for a request."""
        self.last_request = time.monotonic()
        match request["kind"]:
            case "start":
                # After a compaction, or in a session that was cleared, the agent has nothing before its eyes.
                self.session(request).shown.clear()
                repository = await asyncio.to_thread(Repository.of, Path(request["folder"]))
                return await session_context(self._bank(request, repository), repository, request["me"])
            case "prompt":
                repository = await asyncio.to_thread(Repository.of, Path(request["folder"]))
                state = self.session(request)
                memory, prompt = self._bank(request, repository), request["prompt"]
                text, ids = await prompt_context(
                    memory, repository, prompt, session=request["session"], shown=state.shown, me=request["me"]
                )
                state.shown.update(ids)
                return text
            case "work":
                self.wake.set()
                return ""
            case "settle":
                self.idle.clear()
                self.wake.set()
                await self.idle.wait()
                return ""
            case "stop":
                self.stopped.set()
                return ""
            case _:
                return "vmemo"

    def _bank(self, request: dict[str, Any], repository: Repository) -> Memory:
        return self.memory(request["db"], request["bank"] or repository.name)

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one request; whoever does not know the token is disconnected."""
        with closing(writer), suppress(ConnectionError, ValueError, asyncio.LimitOverrunError):
            request = json.loads(await asyncio.wait_for(reader.readline(), 10))
            if not hmac.compare_digest(str(request.get("token")).encode(), self.token.encode()):
                return
            text = ""
            try:
                text = await self.answer(request)
            except (VmemoError, OSError, KeyError) as error:
                log(f"{_now()} {request.get('agent')} {request.get('kind')} {type(error).__name__}: {error}")
            writer.write(json.dumps({"text": text}).encode() + b"\n")
            await writer.drain()

    async def work(self) -> None:
        """Retain the transcripts of the spool whenever a hook says that there are some."""
        while True:
            self.wake.clear()
            self.idle.clear()
            for path in spooled():
                await self._process(path)
            self.idle.set()
            await self.wake.wait()

    async def _process(self, path: Path) -> None:
        started = time.monotonic()
        try:
            request = json.loads(await asyncio.to_thread(path.read_text, "utf-8"))
            count = await self.retain(request)
            log(f"{_now()} {request['agent']} retained {count} messages {(time.monotonic() - started) * 1000:.0f} ms")
            await asyncio.to_thread(path.unlink, missing_ok=True)
        except (VmemoError, OSError, ValueError, KeyError) as error:
            log(f"{_now()} {path.name} {type(error).__name__}: {error}")
            self.tries[path.name] = self.tries.get(path.name, 0) + 1
            if self.tries[path.name] >= MAX_TRIES:
                _set_aside(path)
        self.last_request = time.monotonic()

    async def retain(self, request: dict[str, Any]) -> int:
        """Retain what is new in the transcript of an event, and return the number of messages."""
        state, folder = self.session(request), Path(request["folder"])
        transcript = await asyncio.to_thread(_transcript, request)
        messages = await asyncio.to_thread(messages_of, transcript, folder=folder, known=state.retained)
        if not messages:
            return 0
        repository = await asyncio.to_thread(Repository.of, folder)
        memory = self._bank(request, repository)
        retained = await retain_messages(memory, messages)
        if request.get("me"):
            await retain_personal(memory, memory.bank(request["me"]), retained)
        state.retained.update(message["id"] for message in messages)
        return len(messages)

    def _is_used(self, seconds: float) -> bool:
        return not self.idle.is_set() or time.monotonic() - self.last_request < seconds

    async def run(self, seconds: float, ready: Callable[[int], None]) -> None:
        """Serve until a request to stop, or until nobody asked anything for some time."""
        server = await asyncio.start_server(self.connected, "127.0.0.1", 0, limit=MAX_REQUEST)
        made_spool_folder()
        working = asyncio.create_task(self.work())
        ready(server.sockets[0].getsockname()[1])
        try:
            while not self.stopped.is_set() and self._is_used(seconds):
                with suppress(TimeoutError):
                    await asyncio.wait_for(self.stopped.wait(), min(seconds, 60.0))
        finally:
            server.close()
            working.cancel()
            with suppress(asyncio.CancelledError):
                await working
            for memory in self.memories.values():
                await memory.close()


def _transcript(request: dict[str, Any]) -> Transcript:
    if request.get("messages"):
        return read_messages(request["agent"], request["session"], request["messages"])
    return read_transcript(request["agent"], Path(request["transcript"]))


def spooled() -> list[Path]:
    """Return the events that are not processed, oldest first."""
    return sorted(spool_folder().glob("*.json"))


def _set_aside(path: Path) -> None:
    path.replace(make_private(spool_folder() / "failed") / path.name)


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S%z")


def main() -> None:
    """Serve, unless another server runs: it holds a lock that ends with its process."""
    folder = make_private(state_folder())
    with closing(sqlite3.connect(folder / "server.lock", timeout=0, isolation_level=None)) as lock:
        try:
            lock.execute("BEGIN EXCLUSIVE")
        except sqlite3.OperationalError:
            return
        server, address = HookServer(), address_file()

        def ready(port: int) -> None:
            partial = address.with_suffix(f".{os.getpid()}")
            with open(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
                json.dump({"port": port, "token": server.token, "pid": os.getpid()}, file)
            partial.replace(address)

        try:
            asyncio.run(server.run(float(os.environ.get("VMEMO_AGENTS_IDLE") or IDLE_SECONDS), ready))
        finally:
            address.unlink(missing_ok=True)


if __name__ == "__main__":
    main()
