"""Export and import of what became of a bank: profiles, moves, merges, costs, and messages that wait in episodes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest
from builders import NOON, counted_fact, open_memory
from exports import Line, alone, assert_refused, fill, repeated, replaced

from databases import NewDatabase, store_at
from vmemo import Memory
from vmemo.lifecycle.entity_merges import merge_entities, undo_merge
from vmemo.models import BankId, ConfidenceChange, FormerProfile, Profile
from vmemo.models.changes import Changes, ProfileChange
from vmemo.models.results import Spending
from vmemo.models.select import EntitySelect, EpisodeSelect, FactSelect, first_of
from vmemo.ports import Store
from vmemo_conformance.samples import a_batch, an_entity, an_episode, mention_of, store_messages

STORES = ("sqlite",)

DEFAULT = BankId("default")


def make_revised(url: str) -> None:
    """Fill a bank; its opinions moved and its entities were merged and parted, it had costs, and some waits."""
    with open_memory(url) as memory:
        fill(memory)
    asyncio.run(revise(url))


@pytest.fixture(scope="module")
def revised(new_database: NewDatabase) -> Iterator[str]:
    """The database of a revised bank."""
    with new_database() as url:
        make_revised(url)
        yield url


@pytest.fixture(scope="module")
def revised_file(revised: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Its export."""
    path = tmp_path_factory.mktemp("revised") / "bank.jsonl"
    with open_memory(revised) as memory:
        memory.export_sync(path)
    return path


async def revise(url: str) -> None:
    store = store_at(url)
    await store.open()
    fact = (await store.facts(DEFAULT, FactSelect()))[0]
    opinion = counted_fact("Robert is kind.", bank=DEFAULT, network="opinion", confidence=0.5, basis=[fact.id])
    assert await store.commit(await a_batch(store, [opinion], bank=DEFAULT))
    steps = [
        ConfidenceChange(
            opinion=opinion.id, stance="reinforce", before=0.5, after=0.7, evidence=(fact.id,), reason="seen", at=NOON
        ),
        ConfidenceChange(opinion=opinion.id, stance="weaken", before=0.7, after=0.6, at=NOON),
    ]
    spent = [Spending(step="extract", model="m", calls=3, failures=1, input_tokens=70, output_tokens=9, cost=0.1)]
    names = ["Ann", "Anna", "Anne", "Annie"]
    people = [an_entity(name, not_aliases=["Hannah"] if name == "Ann" else []) for name in names]
    batch = replace(await a_batch(store, bank=DEFAULT), confidence=steps, spending=spent, entities=people)
    assert await store.commit(batch)
    told = [counted_fact(f"{person.name} came.", bank=DEFAULT, entities=[mention_of(person)]) for person in people]
    assert await store.commit(await a_batch(store, told, bank=DEFAULT))
    ann, anna, anne, annie = (person.id for person in people)
    await merge_entities(store, DEFAULT, anna, annie, "a nickname")
    await merge_entities(store, DEFAULT, ann, anna, "alike")
    parted = await merge_entities(store, DEFAULT, ann, anne, "alike too")
    await undo_merge(store, DEFAULT, parted.id)
    await store.commit(
        Changes(
            bank=DEFAULT,
            profile=ProfileChange(
                profile=Profile(name="Ada", background="I like chaos."), reason="You like chaos now. 🙂"
            ),
        )
    )
    await group(store)
    await store.close()


async def group(store: Store) -> None:
    """One episode of a read and an unread message, one of an unread one alone, and one after it of a read one."""
    last = first_of(await store.episodes(DEFAULT, EpisodeSelect(last_first=True, limit=1)))
    lines = await store_messages(
        store, "Read one.", "Waits one.", "Waits two.", "Read two.", bank=DEFAULT, timestamp=NOON
    )
    mixed = an_episode("mixed", lines[:2], previous=None if last is None else last.id)
    alone = an_episode("alone", lines[2:3], previous=mixed.id)
    after = an_episode("after", lines[3:], previous=alone.id)
    batch = replace(await a_batch(store, bank=DEFAULT), episodes=[mixed, alone, after], becomes="grouped")
    assert await store.commit(replace(batch, pending=[line.id for line in lines]))
    read = replace(await a_batch(store, bank=DEFAULT), pending=[lines[0].id, lines[3].id], becomes="extracted")
    assert await store.commit(read)


def test_confidence_changes_merges_and_costs_are_imported_to_the_same_bytes(
    revised_file: Path, url: str, tmp_path: Path
) -> None:
    lines: list[Line] = [json.loads(line) for line in revised_file.read_text(encoding="utf-8").splitlines()]
    assert [line["record"] for line in lines][-4:] == ["merge", "merge", "merge", "spending"]
    assert [line["after"] for line in lines if line["record"] == "confidence_change"] == [0.7, 0.6]
    with open_memory(url) as memory:
        memory.import_bank_sync(revised_file)
        memory.export_sync(tmp_path / "again.jsonl")
    assert (tmp_path / "again.jsonl").read_bytes() == revised_file.read_bytes()


def test_former_profiles_are_exported_and_imported(revised: str, revised_file: Path, url: str) -> None:
    lines: list[Line] = [json.loads(line) for line in revised_file.read_text(encoding="utf-8").splitlines()]
    assert [line["record"] for line in lines][:4] == ["bank", "profile", "profile", "message"]
    assert [line["reason"] for line in lines if line["record"] == "profile"] == ["", "You like chaos now. 🙂"]
    with open_memory(url, "copy") as memory:
        memory.import_bank_sync(revised_file)
        assert memory.profile_sync().background == "I like chaos."
    history = asyncio.run(former_profiles(url, BankId("copy")))
    assert [each.profile.background for each in history] == ["", "I like order."]
    assert history == asyncio.run(former_profiles(revised, DEFAULT))


async def former_profiles(url: str, bank: BankId) -> list[FormerProfile]:
    store = store_at(url)
    await store.open()
    try:
        return await store.former_profiles(bank)
    finally:
        await store.close()


def test_a_bank_that_never_had_another_profile_exports_none(url: str, tmp_path: Path) -> None:
    with open_memory(url) as memory:
        memory.retain_sync("The kettle is red.", timestamp=NOON)
        memory.export_sync(tmp_path / "bank.jsonl")
    kinds = [json.loads(line)["record"] for line in (tmp_path / "bank.jsonl").read_text(encoding="utf-8").splitlines()]
    assert (kinds[:2], "profile" in kinds) == (["bank", "message"], False)


def test_merges_can_be_undone_after_an_import_as_before_it(
    revised_file: Path, url: str, new_database: NewDatabase
) -> None:
    async def parted(url: str) -> list[tuple[str, tuple[str, ...], tuple[str, ...], int]]:
        store = store_at(url)
        await store.open()
        for merge in reversed(await store.merges(DEFAULT)):
            if merge.undone_at is None:
                await undo_merge(store, DEFAULT, merge.id)
        found = await store.entities(DEFAULT, EntitySelect())
        await store.close()
        return sorted((e.name, e.aliases, e.not_aliases, e.mentions) for e in found)

    with open_memory(url) as memory:
        memory.import_bank_sync(revised_file)
    with new_database() as original:
        make_revised(original)
        assert asyncio.run(parted(url)) == asyncio.run(parted(original))


def test_grouped_pending_messages_are_exported_as_pending_and_processed_after_import(
    revised_file: Path, url: str
) -> None:
    lines: list[Line] = [json.loads(line) for line in revised_file.read_text(encoding="utf-8").splitlines()]
    states = {line["content"]: line["state"] for line in lines if line["record"] == "message"}
    assert (states["Waits one."], states["Waits two."], states["Read one."]) == ("pending", "pending", "extracted")
    episodes = {str(line["title"]): line for line in lines if line["record"] == "episode"}
    assert "alone" not in episodes
    assert episodes["after"]["previous"] == episodes["mixed"]["id"]
    told = {line["id"]: line["content"] for line in lines if line["record"] == "message"}
    assert [told[id] for id in cast("list[str]", episodes["mixed"]["messages"])] == ["Read one."]
    with open_memory(url) as memory:
        memory.import_bank_sync(revised_file)
        assert [work.kind for work in memory.status_sync().backlog] == ["process"]
        memory.process_sync()
        assert memory.status_sync().pending == 0
        assert {"User: Waits one.", "User: Waits two."} <= {fact.text for fact in memory.facts_sync()}


REVISIONS: list[tuple[str, Callable[[list[Line]], int], str]] = [
    ("a change of no opinion", replaced("confidence_change", opinion="nobody"), "refers to fact 'nobody'"),
    ("a change beyond certainty", replaced("confidence_change", after=1.5), "after"),
    ("a merge into nobody", replaced("merge", entity="nobody"), "refers to entity 'nobody'"),
    ("a merge of unknown facts", replaced("merge", mentions=[{"fact": "none"}]), "refers to fact 'none'"),
    ("a merge of nothing", replaced("merge", names=[]), "names"),
    ("a merge of half an entity", replaced("merge", absorbed="nobody", was=None), "must be the id of the entity"),
    ("a merge twice", repeated("merge"), "repeats merge"),
    ("a profile of no time", replaced("profile", until="yesterday"), "until"),
    ("a profile that is none", replaced("profile", profile={"bias": 2.0}), "bias"),
    ("costs twice", repeated("spending"), "repeats spending"),
]


@pytest.fixture(scope="module")
def here(new_database: NewDatabase) -> Iterator[Memory]:
    """A bank that broken files are to be imported beside."""
    with new_database() as url, alone(url) as memory:
        yield memory


@pytest.mark.parametrize(("change", "words"), [case[1:] for case in REVISIONS], ids=[case[0] for case in REVISIONS])
def test_a_broken_revision_is_named_and_nothing_is_imported(
    revised_file: Path, here: Memory, tmp_path: Path, change: Callable[[list[Line]], int], words: str
) -> None:
    lines: list[Line] = [json.loads(line) for line in revised_file.read_text(encoding="utf-8").splitlines()]
    at = change(lines)
    text = "".join(json.dumps(line) + "\n" for line in lines)
    assert_refused(here, tmp_path, text.encode(), rf"line {at}\b.*{words}")
