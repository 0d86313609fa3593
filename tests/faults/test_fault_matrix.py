"""Every verb that writes, under every fault: nothing is lost, doubled or left of a deleted bank; errors are vmemo's.

A fault may stop a verb before or after its effect, and never in between. Repeated after the fault, the verb leaves the
bank as if nothing had happened.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Awaitable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import FunctionType

import pytest
from verbs import BANK, VERBS, Verb, fill, memory_at

from consistency import assert_whole
from databases import rows
from vmemo import Memory, VmemoError
from vmemo.models import records

KILLS = (1, 3)
"""The commits before which a process is killed, until it gets through."""
STEPS = (2, 16)
"""Steps of the event loop after which a verb is cancelled."""
Snapshot = tuple[object, ...]


@pytest.fixture(scope="module")
def base_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the bank and its export."""
    folder = tmp_path_factory.mktemp("base")
    asyncio.run(fill(folder / "memory.db"))
    return folder


@pytest.fixture
def folder(base_folder: Path, tmp_path: Path) -> Path:
    """Return a copy of the bank's folder."""
    return copy_of(base_folder, tmp_path / "bank")


def copy_of(folder: Path, to: Path) -> Path:
    """Copy the bank's folder."""
    shutil.copytree(folder, to)
    return to


@dataclass(frozen=True)
class Child:
    """A program that runs a verb in a child process."""

    process: subprocess.Popen[str]

    def run(self, verb: str, folder: Path, **fault: int) -> str:
        """Return the outcome of a verb under a fault."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps({"verb": verb, "folder": str(folder), **fault}) + "\n")
        return self.process.stdout.readline().strip()


@pytest.fixture(scope="module")
def child(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Child]:
    """Run the program that forks children."""
    command = [sys.executable, str(Path(__file__).with_name("fault_child.py")), str(tmp_path_factory.mktemp("warm"))]
    # A process that forks must have no other thread, and numpy's library would start some.
    alone = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, bufsize=1, env=alone) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield Child(process)
        assert process.stdin is not None
        process.stdin.close()


async def snapshot(memory: Memory) -> Snapshot:
    """Return what a bank holds, without ids and times, after everything pending is processed; empty if it is gone."""
    if not await memory.exists():
        return ()
    await memory.process()
    profile = await memory.profile()
    return (
        sorted(message.content for message in await memory.messages(limit=1000)),
        sorted((fact.text, fact.pinned) for fact in await memory.facts(limit=1000) if fact.expired_at is None),
        sorted((entity.name, entity.aliases) for entity in await memory.entities(limit=1000)),
        sorted(merge.undone_at is None for merge in await memory.merges()),
        (profile.name, profile.background),
    )


async def state(folder: Path) -> list[Snapshot]:
    """Return what both banks and both files hold."""
    async with memory_at(folder / "memory.db") as memory:
        found = [await snapshot(memory), await snapshot(memory.bank("other"))]
    if (folder / "other.db").exists():
        async with memory_at(folder / "other.db") as memory:
            found.append(await snapshot(memory))
    return found


async def run(name: str, folder: Path) -> None:
    """Run a verb undisturbed."""
    verb = VERBS[name]
    async with memory_at(folder / "memory.db", llm=verb.llm) as memory:
        await verb.run(memory, folder)


@pytest.fixture(scope="module")
def undisturbed(base_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Snapshot]]:
    """Return the state that each verb leaves when nothing happens."""

    async def states() -> dict[str, list[Snapshot]]:
        found: dict[str, list[Snapshot]] = {}
        for name in VERBS:
            folder = copy_of(base_folder, tmp_path_factory.mktemp("undisturbed") / "bank")
            await run(name, folder)
            found[name] = await state(folder)
        return found

    return asyncio.run(states())


def contents(folder: Path) -> list[str]:
    """Return the messages of the bank."""
    wanted = f"SELECT content FROM messages m JOIN banks b ON b.seq = m.bank WHERE b.id = '{BANK}' ORDER BY content"
    return [str(content) for (content,) in rows(f"sqlite:///{folder / 'memory.db'}", wanted)]


def assert_all_or_nothing(verb: Verb, folder: Path, before: list[str], *, done: bool) -> None:
    """Check that a verb has taken effect on the messages or has not, and that it has if it said so."""
    after = sorted([*(text for text in before if text not in verb.removes), *verb.adds])
    assert contents(folder) in ([after] if done else [before, after])
    assert_whole(f"sqlite:///{folder / 'memory.db'}")


async def assert_recovers(name: str, folder: Path, expected: list[Snapshot], *, done: bool) -> None:
    """Repeat a verb that was cut off, and check that the result is that of one undisturbed run."""
    if not done:
        # A verb that took effect before it was cut off may have nothing left to work on.
        with suppress(VmemoError):
            await run(name, folder)
    assert await state(folder) == expected
    assert_whole(f"sqlite:///{folder / 'memory.db'}")


@pytest.mark.parametrize("name", VERBS)
def test_killed_at_a_commit(
    name: str, base_folder: Path, tmp_path: Path, child: Child, undisturbed: dict[str, list[Snapshot]]
) -> None:
    async def check() -> None:
        before = contents(base_folder)
        for number in KILLS:
            folder = copy_of(base_folder, tmp_path / f"killed {number}")
            outcome = child.run(name, folder, kill_at=number)
            assert outcome in ("killed 9", "done")
            assert_all_or_nothing(VERBS[name], folder, before, done=outcome == "done")
            await assert_recovers(name, folder, undisturbed[name], done=outcome == "done")
            if outcome == "done":
                return

    asyncio.run(check())


@pytest.mark.parametrize("name", VERBS)
def test_cancelled(name: str, base_folder: Path, tmp_path: Path, undisturbed: dict[str, list[Snapshot]]) -> None:
    async def cancelled(folder: Path, steps: int) -> bool:
        verb = VERBS[name]
        async with memory_at(folder / "memory.db", llm=verb.llm) as memory:
            task = asyncio.ensure_future(verb.run(memory, folder))
            for _ in range(steps):
                await asyncio.sleep(0.0005)
            task.cancel()
            with suppress(asyncio.CancelledError, VmemoError):
                await task
                return True
            return False

    async def check() -> None:
        before = contents(base_folder)
        for steps in STEPS:
            folder = copy_of(base_folder, tmp_path / f"cancelled {steps}")
            done = await cancelled(folder, steps)
            assert_all_or_nothing(VERBS[name], folder, before, done=done)
            await assert_recovers(name, folder, undisturbed[name], done=done)
            assert list(folder.glob("*.partial")) == []
            if done:
                return

    asyncio.run(check())


@pytest.mark.parametrize("name", VERBS)
def test_disk_full(name: str, folder: Path, child: Child, undisturbed: dict[str, list[Snapshot]]) -> None:
    async def check() -> None:
        before = contents(folder)
        # The log and the copies that a verb makes may not grow beyond this.
        outcome = child.run(name, folder, limit=16_384)
        assert outcome == "done" or " VmemoError " in outcome, outcome
        assert_all_or_nothing(VERBS[name], folder, before, done=outcome == "done")
        await assert_recovers(name, folder, undisturbed[name], done=outcome == "done")

    asyncio.run(check())


NAMES = ("Kowalski", "Hale", "Tanaka", "Quill", "Harbour", "kettle")
"""Words of the bank's messages."""
HERE = [name for name in VERBS if name != "migrate"]
"""The verbs that write to the file which is opened."""


async def attempt(work: Awaitable[object]) -> VmemoError | None:
    """Return the error of ours that work raises; any other is raised."""
    try:
        await work
    except VmemoError as error:
        return error
    return None


def take_away(folder: Path) -> None:
    """Delete the database file and its log."""
    for each in folder.glob("memory.db*"):
        each.unlink()


@pytest.mark.parametrize("replaced", [False, True], ids=["deleted", "replaced"])
@pytest.mark.parametrize("name", HERE)
def test_file_deleted_or_replaced(name: str, replaced: bool, base_folder: Path, folder: Path) -> None:
    async def check() -> None:
        verb, file = VERBS[name], folder / "memory.db"
        memory = memory_at(file, llm=verb.llm)
        await memory.status()
        take_away(folder)
        if replaced:
            shutil.copy(base_folder / "memory.db", file)
        error = await attempt(verb.run(memory, folder))
        await attempt(memory.close())
        # Nothing is acknowledged that no file holds, and another file is not touched.
        assert error is not None
        if replaced:
            assert contents(folder) == contents(base_folder)
            assert_whole(f"sqlite:///{file}")

    asyncio.run(check())


@pytest.mark.parametrize("name", HERE)
def test_bank_deleted_by_another_process(name: str, folder: Path) -> None:
    async def check() -> None:
        verb, file = VERBS[name], folder / "memory.db"
        async with memory_at(file, llm=verb.llm) as memory, memory_at(file) as other:
            await memory.recall("Where did Anna Kowalski meet Robert Hale?")
            await other.forget(bank=True)
            await attempt(verb.run(memory, folder))
            # Entities and facts of the deleted bank must not come back with new messages.
            await attempt(memory.retain("Anna is fine.", document="later", infer=not verb.llm))
            found = await snapshot(memory)
        assert set(contents(folder)) <= {*verb.adds, "Anna is fine."}
        assert not [name for name in NAMES if name in str(found)]
        assert_whole(f"sqlite:///{file}")

    asyncio.run(check())


@pytest.mark.parametrize("name", HERE)
def test_two_servers_on_one_file(name: str, folder: Path, undisturbed: dict[str, list[Snapshot]]) -> None:
    async def check() -> None:
        verb, file = VERBS[name], folder / "memory.db"
        async with memory_at(file, llm=verb.llm) as one, memory_at(file, llm=verb.llm) as two:
            errors = await asyncio.gather(attempt(verb.run(one, folder)), attempt(verb.run(two, folder)))
            assert None in errors
        assert await state(folder) == undisturbed[name]
        assert_whole(f"sqlite:///{file}")

    asyncio.run(check())


def hour_ago() -> datetime:
    """Return the time of a clock that was set back."""
    return datetime.fromtimestamp(datetime.now(UTC).timestamp() - 3600, UTC)


def in_an_hour() -> datetime:
    """Return the time of a clock that was set forward."""
    return datetime.fromtimestamp(datetime.now(UTC).timestamp() + 3600, UTC)


@pytest.mark.parametrize("clock", [hour_ago, in_an_hour], ids=["set back", "set forward"])
@pytest.mark.parametrize("name", VERBS)
def test_clock_moved(
    name: str,
    clock: FunctionType,
    folder: Path,
    undisturbed: dict[str, list[Snapshot]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def check() -> None:
        verb = VERBS[name]
        async with memory_at(folder / "memory.db", llm=verb.llm) as memory:
            await memory.status()
            # Models hold the function as a default factory, so that its code is what can be replaced.
            monkeypatch.setattr(records.utc_now, "__code__", clock.__code__)
            await verb.run(memory, folder)
        assert await state(folder) == undisturbed[name]
        assert_whole(f"sqlite:///{folder / 'memory.db'}")

    asyncio.run(check())
