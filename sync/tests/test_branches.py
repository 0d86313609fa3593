"""Forks, differences and merges of banks, in Python and on the command line."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest
from sync_banks import content_of, run_async
from typer.testing import CliRunner, Result

from vmemo import InvalidInput, Memory, Profile
from vmemo.cli.app import load_extension
from vmemo.models.select import FactSelect
from vmemo_conformance.embedders import HashEmbedder
from vmemo_sync import diff, fork, merge


def memory_in(folder: Path, bank: str = "one") -> Memory:
    return Memory(folder / "memory.db", bank=bank, embedder=HashEmbedder())


@run_async
async def test_a_fork_holds_all_records_and_is_independent(tmp_path: Path) -> None:
    one = memory_in(tmp_path)
    stored = await one.retain(["I live in Porto.", "I prefer tea."], speaker="Eve", document="notes")
    await one.pin(stored.derived[0])
    await one.update(stored.derived[1], "Eve: I prefer coffee.")
    forked = await fork(one, "two")
    two = one.bank("two")
    assert (forked.origin, forked.bank, forked.messages) == ("one", "two", 2)
    assert await content_of(one) == await content_of(two)
    assert not await diff(one, two)
    await two.forget(document="notes")
    assert len(await one.facts()) == 3
    with pytest.raises(InvalidInput, match=r"holds messages already"):
        await fork(two, "one")
    await one.close()


@run_async
async def test_the_later_edit_wins_and_a_forget_wins_over_every_edit(tmp_path: Path) -> None:
    one = memory_in(tmp_path)
    stored = await one.retain(["I live in Porto.", "My code is 7031.", "I prefer tea."], speaker="Eve")
    await fork(one, "two")
    two = one.bank("two")
    facts = {fact.text: fact.id for fact in await two.facts()}
    for memory in (two, one):
        await memory.update(facts["Eve: I prefer tea."], "Eve: I prefer coffee.")
    await two.update(facts["Eve: I live in Porto."], "Eve: I live in Braga.")
    await one.update(facts["Eve: I live in Porto."], "Eve: I live in Faro.")
    await one.update(facts["Eve: My code is 7031."], "Eve: my code is 8142.")
    await two.forget(messages=[stored.stored[1]])
    await two.profile(Profile(name="Ada"))
    await merge(two, one)
    current = await one.store.facts(one.name, FactSelect(current=True))
    assert sorted(fact.text for fact in current) == ["Eve: I live in Faro.", "Eve: I prefer coffee."]
    assert (await one.profile()).name == "Ada"
    await merge(one, two)
    assert await content_of(one) == await content_of(two)
    assert not await diff(one, two)
    await one.close()


@run_async
async def test_names_that_the_user_joined_or_separated_are_so_in_both(tmp_path: Path) -> None:
    one = Memory(tmp_path / "memory.db", bank="one")
    await one.retain(["Tom lives in Berlin.", "Robert works at Siemens.", "Ana has a dog."], speaker="Eve")
    await fork(one, "two")
    two = one.bank("two")
    joined = await two.merge_entities("Tom", "Robert")
    await merge(two, one)
    assert {"Tom", "Robert"} in [{entity.name, *entity.aliases} for entity in await one.entities()]
    await two.undo_merge(joined.id)
    await merge(two, one)
    assert {"Tom", "Robert"} <= {entity.name for entity in await one.entities()}
    assert await content_of(one) == await content_of(two)
    await one.close()


@run_async
async def test_a_bank_can_not_be_merged_with_itself(tmp_path: Path) -> None:
    one = memory_in(tmp_path)
    await one.retain("I live in Porto.")
    with pytest.raises(InvalidInput, match=r"can't be merged with itself. Nothing was changed."):
        await merge(one, one)
    await one.close()


def run(name: str, arguments: Sequence[str]) -> Result:
    app = load_extension(EntryPoint(name, f"vmemo_sync.commands:{name}", "vmemo.commands"))
    return CliRunner().invoke(app, [*arguments])


def test_the_commands_fork_compare_and_merge(tmp_path: Path) -> None:
    with Memory(tmp_path / "memory.db") as memory:
        memory.retain_sync("I live in Porto.", speaker="Eve")
        at = ["--db", str(tmp_path / "memory.db")]
        assert run("fork", ["trial", *at]).stdout == "Bank 'trial' is a copy of 'default' with 1 message.\n"
        memory.bank("trial").retain_sync("I prefer tea.", speaker="Eve")
    found = run("diff", ["trial", *at])
    assert "only in trial:\n  message:" in found.stdout
    assert '"prefer' not in found.stdout
    assert '"profiles_differ": false' in run("diff", ["trial", "--json", *at]).stdout
    assert "1 message added" in run("merge", ["trial", *at]).stdout
    assert run("merge", ["missing", *at]).exit_code == 1
