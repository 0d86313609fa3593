"""Machines that share a folder hold the same, whatever happens to them or to the folder."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
import tempfile
import zlib
from collections.abc import Sequence
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from sync_banks import PHASES, Action, actions, apply_to, content_of, run_async
from typer.testing import CliRunner

from vmemo import InvalidInput, Memory
from vmemo.cli.app import load_extension
from vmemo.models.select import FactSelect, MessageSelect
from vmemo_conformance.embedders import HashEmbedder
from vmemo_sync import sync

Turn = tuple[int, Sequence[Action]]


async def texts(memory: Memory) -> list[str]:
    """Return the texts of the facts that a bank believes."""
    facts = await memory.store.facts(memory.name, FactSelect(current=True))
    return sorted(fact.text for fact in facts)


def contents(folder: Path) -> str:
    """Return what the plain files of a folder hold."""
    files = sorted(folder.rglob("*.log"))
    return "".join(zlib.decompress(file.read_bytes().partition(b"\n")[2]).decode() for file in files)


@settings(max_examples=4, phases=PHASES, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(turns=st.lists(st.tuples(st.integers(0, 2), actions), max_size=4))
def test_machines_that_wrote_apart_and_synchronized_hold_the_same(turns: Sequence[Turn]) -> None:
    async def run(folder: Path) -> None:
        machines = [Memory(folder / f"{name}.db", embedder=HashEmbedder()) for name in "abc"]
        for number, chosen in turns:
            await apply_to(machines[number], chosen)
            if len(chosen) % 2:
                await sync(machines[number], folder / "shared", exact=True)
        for _ in range(2):
            for memory in machines:
                await sync(memory, folder / "shared", exact=True)
        files = sorted((folder / "shared").rglob("*"))
        first, *others = [await content_of(memory) for memory in machines]
        assert all(each == first for each in others)
        for memory in machines:
            again = await sync(memory, folder / "shared", exact=True)
            assert (again.published, again.received, again.derived, again.waiting) == (0, 0, 0, ())
        assert sorted((folder / "shared").rglob("*")) == files
        for memory in machines:
            await memory.close()

    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(run(Path(folder)))


def memory_in(folder: Path, name: str, bank: str = "default") -> Memory:
    return Memory(folder / f"{name}.db", bank, embedder=HashEmbedder())


@run_async
async def test_machines_that_wrote_at_the_same_time_hold_the_same(tmp_path: Path) -> None:
    one, two = memory_in(tmp_path, "one"), memory_in(tmp_path, "two")
    await one.retain(["I live in Porto.", "I prefer tea."], speaker="Eve")
    await two.retain(["I sold my car.", "I bought a bike."], speaker="Eve")
    for memory in (one, two, one):
        done = await sync(memory, tmp_path / "shared")
    assert (done.published, done.received) == (0, 2)
    assert await content_of(one) == await content_of(two)
    await one.close()
    await two.close()


@run_async
async def test_what_one_machine_forgot_is_gone_everywhere_and_from_the_folder(tmp_path: Path) -> None:
    one, two = memory_in(tmp_path, "one"), memory_in(tmp_path, "two")
    shared = tmp_path / "shared"
    stored = await one.retain(["My code is 7031.", "I prefer tea."], speaker="Eve")
    await sync(one, shared)
    await sync(two, shared)
    [code] = [fact for fact in await two.facts() if "7031" in fact.text]
    await two.update(code.id, "Eve: my code is 8142.")
    await sync(two, shared)
    await sync(one, shared)
    assert "8142" in str(await texts(one))
    await one.forget(messages=[stored.stored[0]])
    for memory in (one, two, one, two):
        await sync(memory, shared)
    assert await texts(one) == await texts(two) == ["Eve: I prefer tea."]
    held = contents(shared)
    assert stored.stored[0] in held
    assert "7031" not in held
    assert "8142" not in held
    await one.close()
    await two.close()
    assert all(b"7031" not in (tmp_path / f"{name}.db").read_bytes() for name in ("one", "two"))


@run_async
async def test_what_was_forgotten_never_comes_back(tmp_path: Path) -> None:
    one, two = memory_in(tmp_path, "one"), memory_in(tmp_path, "two")
    stored = await one.retain("My code is 7031.", speaker="Eve")
    await sync(one, tmp_path / "shared")
    old = tmp_path / "old"
    shutil.copytree(tmp_path / "shared", old)
    await sync(two, tmp_path / "shared")
    await two.forget(messages=list(stored.stored))
    for memory in (two, one):
        await sync(memory, tmp_path / "shared")
    # A file from before arrives once more.
    shutil.copytree(old, tmp_path / "shared", dirs_exist_ok=True)
    for memory in (two, one, two):
        await sync(memory, tmp_path / "shared")
    assert await texts(one) == await texts(two) == []
    assert "7031" not in contents(tmp_path / "shared")
    await one.close()
    await two.close()


@run_async
async def test_an_incomplete_file_is_named_and_left_for_later(tmp_path: Path) -> None:
    one, two = memory_in(tmp_path, "one"), memory_in(tmp_path, "two")
    await one.retain("I live in Porto.", speaker="Eve")
    await sync(one, tmp_path / "shared")
    [file] = (tmp_path / "shared").rglob("*.log")
    whole = file.read_bytes()
    file.write_bytes(whole[:40])
    done = await sync(two, tmp_path / "shared")
    assert done.received == 0
    assert file.name in done.waiting[0]
    assert "incomplete or damaged" in done.waiting[0]
    file.write_bytes(whole)
    assert (await sync(two, tmp_path / "shared")).received == 1
    assert await texts(two) == ["Eve: I live in Porto."]
    await one.close()
    await two.close()


@run_async
async def test_files_may_arrive_in_any_order(tmp_path: Path) -> None:
    one, two = memory_in(tmp_path, "one"), memory_in(tmp_path, "two")
    await one.retain("I live in Porto.", speaker="Eve")
    await sync(one, tmp_path / "shared")
    [fact] = await one.facts()
    await one.pin((await one.update(fact.id, "Eve: I live in Braga.")).id)
    await sync(one, tmp_path / "shared")
    first, second = sorted((tmp_path / "shared").rglob("*.log"))
    arrived = tmp_path / "arrived" / first.relative_to(tmp_path / "shared").parent
    arrived.mkdir(parents=True)
    shutil.copy(second, arrived)
    done = await sync(two, tmp_path / "arrived")
    assert "waits for messages that another file holds" in done.waiting[0]
    shutil.copy(first, arrived)
    assert not (await sync(two, tmp_path / "arrived")).waiting
    assert await texts(two) == await texts(one) == ["Eve: I live in Braga."]
    [pinned] = await two.store.facts(two.name, FactSelect(pinned=True))
    assert pinned.text == "Eve: I live in Braga."
    await one.close()
    await two.close()


@run_async
async def test_what_is_pinned_is_kept_where_it_is_not_derived_until_it_is_unpinned(tmp_path: Path) -> None:
    one, two, three = [Memory(tmp_path / f"{name}.db") for name in ("one", "two", "three")]
    # Alone, Eve instructs the assistant; beside Max, she may speak to him.
    said = await one.retain("From now on be brief.", speaker="Eve")
    await two.retain("I work at Google now.", speaker="Max")
    await one.pin(said.derived[0])
    for memory in (one, two, one):
        await sync(memory, tmp_path / "shared", exact=True)
    assert "Eve: From now on be brief." in await texts(two)
    assert await content_of(one) == await content_of(two)
    [kept] = await two.store.facts(two.name, FactSelect(pinned=True))
    await two.pin(kept.id, pinned=False)
    for memory in (two, one, three):
        await sync(memory, tmp_path / "shared", exact=True)
    assert await texts(one) == await texts(two) == await texts(three) == ["Max: I work at Google now."]
    await one.forget(messages=list(said.stored))
    for memory in (one, two, three):
        await sync(memory, tmp_path / "shared", exact=True)
    assert "briefly" not in contents(tmp_path / "shared")
    for memory in (one, two, three):
        await memory.close()


@run_async
async def test_files_that_were_read_are_not_read_again(tmp_path: Path) -> None:
    one, two = memory_in(tmp_path, "one"), memory_in(tmp_path, "two")
    await one.retain("I live in Porto.", speaker="Eve")
    await sync(one, tmp_path / "shared")
    await sync(two, tmp_path / "shared")
    read = max((tmp_path / "shared").rglob("*.log"), key=lambda file: file.stat().st_size)
    read.write_bytes(b"")
    assert not (await sync(two, tmp_path / "shared")).waiting
    await one.close()
    await two.close()


@run_async
async def test_lines_that_two_machines_were_given_are_stored_once(tmp_path: Path) -> None:
    one, two = memory_in(tmp_path, "one"), memory_in(tmp_path, "two")
    for memory in (one, two):
        await memory.retain(["I live in Porto.", "I prefer tea."], speaker="Eve", document="notes")
    for memory in (one, two, one, two):
        await sync(memory, tmp_path / "shared")
    first, second = [await memory.store.messages(memory.name, MessageSelect()) for memory in (one, two)]
    assert {message.id for message in first} == {message.id for message in second}
    assert len(first) == 2
    assert await texts(one) == await texts(two)
    await one.close()
    await two.close()


@run_async
async def test_each_machine_embeds_with_its_own_model(tmp_path: Path) -> None:
    one = memory_in(tmp_path, "one")
    two = Memory(tmp_path / "two.db", embedder=HashEmbedder("other", 32))
    await one.retain("I live in Porto.", speaker="Eve")
    await sync(one, tmp_path / "shared")
    [fact] = await one.facts()
    await one.update(fact.id, "Eve: I live in Braga.")
    await two.retain("I prefer tea.", speaker="Eve")
    for memory in (two, one, two):
        await sync(memory, tmp_path / "shared")
    assert await texts(one) == await texts(two) == ["Eve: I live in Braga.", "Eve: I prefer tea."]
    await one.close()
    await two.close()


@run_async
async def test_a_file_and_a_server_synchronize(tmp_path: Path, postgres_url: str) -> None:
    one, two = memory_in(tmp_path, "one"), Memory(postgres_url, embedder=HashEmbedder())
    stored = await one.retain(["I live in Porto.", "My code is 7031."], speaker="Eve")
    await two.retain("I prefer tea.", speaker="Eve")
    await sync(one, tmp_path / "shared")
    await sync(two, tmp_path / "shared")
    await one.forget(messages=[stored.stored[1]])
    for memory in (one, two, one):
        await sync(memory, tmp_path / "shared")
    assert await texts(one) == await texts(two) == ["Eve: I live in Porto.", "Eve: I prefer tea."]
    await one.close()
    await two.close()


@run_async
async def test_an_encrypted_folder_holds_no_text_and_needs_its_key(tmp_path: Path) -> None:
    one, two = memory_in(tmp_path, "one", bank="diary"), memory_in(tmp_path, "two", bank="diary")
    await one.retain("I live in Porto.", speaker="Eve")
    await sync(one, tmp_path / "shared", key="correct")
    held = b"".join(file.read_bytes() + file.name.encode() for file in (tmp_path / "shared").rglob("*.log"))
    assert all(word not in held for word in (b"Porto", b"Eve", b"diary", b"message", b"content"))
    with pytest.raises(InvalidInput, match=r"is encrypted, and no key is set. Nothing was changed."):
        await sync(two, tmp_path / "shared")
    with pytest.raises(InvalidInput, match=r"was encrypted with another key. Nothing was changed."):
        await sync(two, tmp_path / "shared", key="wrong")
    await sync(two, tmp_path / "shared", key=b"correct")
    assert await texts(two) == ["Eve: I live in Porto."]
    await sync(one, tmp_path / "plain")
    with pytest.raises(InvalidInput, match=r"is not encrypted, and a key is set"):
        await sync(two, tmp_path / "plain", key="correct")
    await one.close()
    await two.close()


@run_async
async def test_a_folder_that_lost_the_files_of_this_machine_is_refused(tmp_path: Path) -> None:
    one, two = memory_in(tmp_path, "one"), memory_in(tmp_path, "two")
    await one.retain("I live in Porto.", speaker="Eve")
    await sync(one, tmp_path / "shared")
    shutil.rmtree(tmp_path / "shared")
    with pytest.raises(InvalidInput, match=r"lacks the files that this machine wrote"):
        await sync(one, tmp_path / "shared")
    await sync(one, tmp_path / "shared", anew=True)
    assert (await sync(two, tmp_path / "shared")).received == 1
    await one.close()
    await two.close()


def test_a_machine_that_is_killed_at_any_step_continues(tmp_path: Path) -> None:
    # A process that forks must have no other thread, and numpy's library would start some.
    alone = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    child = [sys.executable, str(Path(__file__).with_name("sync_child.py")), str(tmp_path)]
    done = subprocess.run(child, env=alone, stdout=subprocess.PIPE, text=True, check=True)
    assert int(done.stdout) > 2


def test_the_command_synchronizes_all_banks_of_a_database(tmp_path: Path) -> None:
    app = load_extension(EntryPoint("sync", "vmemo_sync.commands:sync", "vmemo.commands"))
    with Memory(tmp_path / "one.db", bank="work") as memory:
        memory.retain_sync("I live in Porto.", speaker="Eve")
    shared, key = str(tmp_path / "shared"), tmp_path / "key"
    key.write_text("correct\n")
    command = [shared, "--key-file", str(key), "--json", "--db"]
    assert CliRunner().invoke(app, [*command, str(tmp_path / "one.db")]).exit_code == 0
    result = CliRunner().invoke(app, [*command, str(tmp_path / "two.db"), "--bank", "work"])
    assert '"received": 1' in result.stdout
    refused = CliRunner().invoke(app, [shared, "--db", str(tmp_path / "two.db")])
    assert refused.exit_code == 1
