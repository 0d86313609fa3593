"""Migration: banks go from one database to another whole and verified, whatever interrupts it."""

from __future__ import annotations

import asyncio
import hashlib
import json
import random
import re
import shutil
import sqlite3
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import closing, suppress
from itertools import pairwise
from pathlib import Path

import pytest
from rich_banks import BANKS, EMPTY, TOKYO, exports, fill
from sqlalchemy import Connection

from databases import store_at
from max_wait import MAX_WAIT
from vmemo import (
    InvalidInput,
    MigrationProgress,
    MigrationReport,
    NotFound,
    SchemaTooNew,
    StoreBusy,
    StoreError,
    migrate,
    migrate_sync,
)
from vmemo.embedding.token_counter import count_tokens
from vmemo.lifecycle.entity_merges import undo_merge
from vmemo.lifecycle.forget import forget
from vmemo.models import Bank, BankId
from vmemo.models.changes import Changes, ForgetTarget
from vmemo.models.select import EntitySelect, MessageSelect
from vmemo.ports import Store
from vmemo.stores.sqlite.search import SqliteSearchIndex
from vmemo.stores.sqlite.store import SqliteStore
from vmemo.transfer.files import export, read
from vmemo.transfer.incoming import incoming_banks, load_bank
from vmemo.transfer.migrate import TRIES, move
from vmemo_conformance.samples import BANK, EMBEDDER, OTHER, a_bank, matches, near, snapshot, store_fact, store_messages

PAGE, UP_TO_MERGES = 7, 37
"""Records of a page, and those of the first five pages: merges come in one page, however many there are."""


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with banks that hold something of everything."""
    return asyncio.run(fill(tmp_path_factory.mktemp("filled")))


@pytest.fixture
def target(sqlite_template: Path, tmp_path: Path) -> Path:
    """An empty database."""
    return Path(shutil.copy(sqlite_template, tmp_path / "target.db"))


@pytest.fixture
def source(filled: Path, tmp_path: Path) -> Path:
    """A copy of the filled file."""
    return Path(shutil.copy(filled, tmp_path / "source.db"))


@pytest.fixture(scope="module")
def whole(filled: Path) -> dict[BankId, list[str]]:
    """The exports of its banks."""
    return exported(url_of(filled))


def url_of(file: Path) -> str:
    return f"sqlite:///{file}"


def exported(url: str, *banks: BankId) -> dict[BankId, list[str]]:
    async def read() -> dict[BankId, list[str]]:
        store = store_at(url)
        await store.open()
        try:
            return await exports(store, *banks)
        finally:
            await store.close()

    return asyncio.run(read())


def asked(url: str, question: Callable[[Store], Awaitable[None]]) -> None:
    """Run something on a store."""

    async def run() -> None:
        store = store_at(url)
        await store.open()
        try:
            await question(store)
        finally:
            await store.close()

    asyncio.run(run())


class Interrupted(Exception):
    """Simulates the end of the process."""


def stopping(after: int) -> Callable[[MigrationProgress], None]:
    """Interrupts the migration at a sign of progress; one comes after each page, and some with verifying."""
    left = after

    def store_fact(_: MigrationProgress) -> None:
        nonlocal left
        if left == 0:
            raise Interrupted
        left -= 1

    return store_fact


async def moved(
    source: str,
    target: Store,
    *,
    on_progress: Callable[[MigrationProgress], None] | None = None,
    page: int = PAGE,
    banks: Sequence[BankId] = (BANK, EMPTY, TOKYO),
) -> MigrationReport:
    """Move banks in small pages."""
    store = store_at(source)
    try:
        await store.open(as_is=True)
        await target.open()
        return await move(store, target, banks, on_progress=on_progress, page=page)
    finally:
        await target.close()
        await store.close()


class Counting(SqliteStore):
    """A store that counts the records it was given."""

    received = 0

    async def commit(self, changes: Changes) -> bool:
        committed = await super().commit(changes)
        records = (
            changes.former_profiles,
            changes.messages,
            changes.entities,
            changes.episodes,
            changes.facts,
            changes.links,
            changes.confidence_history,
            changes.merges,
            changes.spending,
        )
        self.received += sum(map(len, records))
        return committed


def test_banks_migrate_to_postgresql_and_back_with_equal_exports(
    source: Path, whole: dict[BankId, list[str]], postgres_url: str, tmp_path: Path
) -> None:
    there = migrate_sync(url_of(source), postgres_url)
    assert exported(postgres_url) == whole
    back = migrate_sync(postgres_url, url_of(tmp_path / "back.db"))
    assert exported(url_of(tmp_path / "back.db")) == whole
    kinds = Counter(json.loads(line)["record"] for line in whole[BANK][1:])
    assert len(kinds) == 9
    for report in (there, back):
        assert [(bank.bank, bank.state) for bank in report.banks] == [(bank, "moved") for bank in BANKS]
        assert report.banks[0].records == kinds
        assert (report.unfinished, report.banks[1].records) == ((), {})
    for bank in there.banks:
        file = "".join(f"{line}\n" for line in whole[BankId(bank.bank)])
        assert bank.sha256 == hashlib.sha256(file.encode()).hexdigest()
    assert exported(url_of(source)) == whole


@pytest.mark.neo4j
@pytest.mark.parametrize("route", [("postgres_url", "neo4j_url"), ("neo4j_url", "postgres_url")])
def test_banks_migrate_between_all_stores_and_back_with_equal_exports(
    request: pytest.FixtureRequest, source: Path, whole: dict[BankId, list[str]], tmp_path: Path, route: tuple[str, ...]
) -> None:
    stops = [url_of(source), *(request.getfixturevalue(name) for name in route), url_of(tmp_path / "back.db")]
    for here, there in pairwise(stops):
        report = migrate_sync(here, there)
        assert [(bank.bank, bank.state) for bank in report.banks] == [(bank, "moved") for bank in BANKS]
        assert exported(there) == whole


def test_a_migrated_bank_is_searched_alike_and_its_merges_can_be_undone(source: Path, postgres_url: str) -> None:
    migrate_sync(url_of(source), postgres_url)
    found: list[object] = []

    async def look(store: Store) -> None:
        for merge in reversed(await store.merges(BANK)):
            if merge.undone_at is None:
                await undo_merge(store, BANK, merge.id)
        people = sorted(
            (e.name, e.aliases, e.not_aliases, e.mentions) for e in await store.entities(BANK, EntitySelect())
        )
        words = [await matches(store, text) for text in ("Caroline piano", "Øystein tea", "kind")]
        spots = [await near(store, EMBEDDER.vector(text), limit=1) for text in ("Caroline moved", "tea")]
        found.append((people, words, spots))

    asked(url_of(source), look)
    asked(postgres_url, look)
    assert found[0] == found[1]


def test_migration_queues_pending_messages_and_reports_jobs_left_behind(source: Path, postgres_url: str) -> None:
    alice, _, tokyo = migrate_sync(url_of(source), postgres_url).banks
    assert (alice.left, tokyo.left) == ({"observe": 2}, {})
    assert (alice.pending, tokyo.pending) == (4, 2)

    async def look(store: Store) -> None:
        jobs = await store.lease("worker", 60, limit=9)
        assert {(job.bank, job.kind) for job in jobs} == {(BANK, "process"), (TOKYO, "process")}
        assert {message.content for message in await store.messages(TOKYO, MessageSelect.oldest_pending(9))} == {
            "まだ読んでいない。",
            "Ещё одно.",
        }

    asked(postgres_url, look)


def test_a_migration_stopped_after_any_page_resumes_and_loads_no_page_twice(
    source: Path, whole: dict[BankId, list[str]], target: Path
) -> None:
    total = len(whole[BANK]) - 1

    async def stop_everywhere(ours: Store, theirs: Counting) -> int:
        stops, stopped = 0, True
        while stopped:
            theirs.received, stopped = 0, False
            try:
                await move(ours, theirs, [BANK], on_progress=stopping(stops), page=PAGE)
            except Interrupted:
                stopped = True
                await move(ours, theirs, [BANK], page=PAGE)
            assert theirs.received == total
            assert (await exports(theirs, BANK))[BANK] == whole[BANK]
            await forget(theirs, BANK, ForgetTarget(bank=True))
            stops += 1
        return stops

    async def run() -> int:
        ours, theirs = SqliteStore(source), Counting(target)
        await ours.open(as_is=True)
        await theirs.open()
        try:
            return await stop_everywhere(ours, theirs)
        finally:
            await ours.close()
            await theirs.close()

    assert asyncio.run(run()) > total / PAGE


def test_a_migration_to_postgresql_resumes(source: Path, whole: dict[BankId, list[str]], postgres_url: str) -> None:
    for stops in (1, 2):
        with pytest.raises(Interrupted):
            asyncio.run(moved(url_of(source), store_at(postgres_url), on_progress=stopping(stops)))
    report = asyncio.run(moved(url_of(source), store_at(postgres_url)))
    assert [bank.resumed for bank in report.banks] == [UP_TO_MERGES, 0, 0]
    assert exported(postgres_url) == whole


class FailingIndex(SqliteSearchIndex):
    """An index that fails in the middle of a transaction now and then."""

    dice = random.Random(7)

    def add_words(self, connection: Connection, bank: int, new: Sequence[tuple[int, str]]) -> None:
        super().add_words(connection, bank, new)
        if self.dice.random() < 0.3:
            raise Interrupted


class Failing(SqliteStore):
    """A store with such an index."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._index = FailingIndex()


def test_a_migration_that_fails_between_pages_resumes(
    source: Path, whole: dict[BankId, list[str]], target: Path
) -> None:
    store, failures = Failing(target), 0
    while True:
        try:
            asyncio.run(moved(url_of(source), store, page=3))
            break
        except Interrupted:
            failures += 1
    assert failures > 2
    assert exported(url_of(target)) == whole


def test_a_migration_cancelled_at_random_points_resumes(
    source: Path, whole: dict[BankId, list[str]], postgres_url: str
) -> None:
    dice = random.Random(11)

    async def once(busy_timeout: float) -> None:
        target = store_at(postgres_url)
        with suppress(TimeoutError):
            await asyncio.wait_for(moved(url_of(source), target, page=3), busy_timeout)

    for turn in range(8):
        asyncio.run(once(dice.uniform(0.01, 0.05 + turn / 50)))
    asyncio.run(moved(url_of(source), store_at(postgres_url)))
    assert exported(postgres_url) == whole


def test_a_bank_is_hidden_until_it_is_complete(source: Path, url: str) -> None:
    with pytest.raises(Interrupted):
        asyncio.run(moved(url_of(source), store_at(url), on_progress=stopping(4)))

    async def look(store: Store) -> None:
        assert await store.banks() == []
        assert await store.bank(BANK) is None
        assert await store.lease("worker", 60, limit=9) == []
        assert [(come.bank, come.records) for come in await incoming_banks(store)] == [(BANK, UP_TO_MERGES)]

    asked(url, look)


def change(file: Path, statement: str) -> None:
    """Write to a database as another process would."""
    with closing(sqlite3.connect(file, timeout=MAX_WAIT)) as connection:
        connection.execute(statement)
        connection.commit()


RECALL = "UPDATE facts SET access_count = access_count + 1 WHERE bank = (SELECT seq FROM banks WHERE id = 'alice')"
PROFILE = """UPDATE banks SET profile = '{"name": "Eve"}' WHERE id = 'alice'"""
LATER = "UPDATE messages SET content = content || '.' WHERE content = 'Read two.'"


@pytest.mark.parametrize(
    ("statement", "at"),
    [(RECALL, 1), (RECALL, 6), (PROFILE, 1), (LATER, 4), (LATER, 6)],
    ids=["facts early", "facts when loaded", "the profile", "a message late", "a message when loaded"],
)
def test_a_bank_written_to_once_during_migration_is_migrated_with_the_write(
    source: Path, target: Path, statement: str, at: int
) -> None:
    calls = 0

    def store_fact(_: MigrationProgress) -> None:
        nonlocal calls
        calls += 1
        if calls == at:
            change(source, statement)

    asyncio.run(moved(url_of(source), SqliteStore(target), on_progress=store_fact, banks=[BANK]))
    assert exported(url_of(target), BANK) == exported(url_of(source), BANK)


def test_a_bank_under_constant_writes_is_not_migrated(source: Path, target: Path) -> None:
    changes = 0

    def store_fact(now: MigrationProgress) -> None:
        nonlocal changes
        if now.step == "load":
            changes += 1
            change(source, RECALL)

    with pytest.raises(StoreBusy, match="Stop the processes that use the bank"):
        asyncio.run(moved(url_of(source), SqliteStore(target), on_progress=store_fact, banks=[BANK]))
    assert changes >= TRIES

    async def look(store: Store) -> None:
        assert (await store.banks(), await incoming_banks(store)) == ([], [])

    asked(url_of(target), look)


def test_what_was_loaded_before_the_source_changed_is_dropped(source: Path, target: Path) -> None:
    with pytest.raises(Interrupted):
        asyncio.run(moved(url_of(source), SqliteStore(target), on_progress=stopping(3), banks=[BANK]))
    change(source, "UPDATE messages SET content = 'Another beginning.' WHERE seq = (SELECT min(seq) FROM messages)")
    [report] = asyncio.run(moved(url_of(source), SqliteStore(target), banks=[BANK])).banks
    assert report.resumed == 0
    assert exported(url_of(target), BANK) == exported(url_of(source), BANK)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE facts SET text = 'Forged.' WHERE seq = (SELECT min(seq) FROM facts)",
        "DELETE FROM mentions",
        "UPDATE banks SET created_at = created_at + 1",
    ],
    ids=["a fact", "mentions", "the bank"],
)
def test_a_modified_hidden_bank_is_detected_and_removed(source: Path, target: Path, statement: str) -> None:
    with pytest.raises(Interrupted):
        asyncio.run(moved(url_of(source), SqliteStore(target), on_progress=stopping(4), banks=[BANK]))
    change(target, statement)
    with pytest.raises(StoreError, match="differs in the target after loading"):
        asyncio.run(moved(url_of(source), SqliteStore(target), banks=[BANK]))
    [report] = asyncio.run(moved(url_of(source), SqliteStore(target), banks=[BANK])).banks
    assert report.resumed == 0
    assert exported(url_of(target), BANK) == exported(url_of(source), BANK)


def test_an_equal_bank_in_the_target_is_skipped(source: Path, url: str, whole: dict[BankId, list[str]]) -> None:
    [first] = migrate_sync(url_of(source), url, banks=[BANK]).banks
    again = migrate_sync(url_of(source), url)
    assert [bank.state for bank in again.banks] == ["identical", "moved", "moved"]
    assert (again.banks[0].sha256, again.banks[0].records) == (first.sha256, first.records)
    assert exported(url) == whole


def test_a_different_bank_in_the_target_is_refused_before_anything_is_written(source: Path, url: str) -> None:
    async def disagree(store: Store) -> None:
        await store.create_bank(a_bank(TOKYO))
        await store_messages(store, "Something else.", bank=TOKYO)

    asked(url, disagree)
    before = exported(url, TOKYO)
    with pytest.raises(InvalidInput, match="already in the target and differs"):
        migrate_sync(url_of(source), url)

    async def look(store: Store) -> None:
        assert [bank.id for bank in await store.banks()] == [TOKYO]
        assert await incoming_banks(store) == []

    asked(url, look)
    assert exported(url, TOKYO) == before
    assert [bank.bank for bank in migrate_sync(url_of(source), url, banks=[BANK, EMPTY]).banks] == [BANK, EMPTY]


def test_an_empty_bank_of_the_same_name_is_replaced(source: Path, url: str, whole: dict[BankId, list[str]]) -> None:
    async def open_once(store: Store) -> None:
        await store.create_bank(Bank(id=BANK, embedder="another", dimension=3))

    asked(url, open_once)
    migrate_sync(url_of(source), url)
    assert exported(url) == whole


def test_other_banks_of_the_target_are_unchanged(source: Path, url: str) -> None:
    found: list[object] = []

    async def write(store: Store) -> None:
        await store.create_bank(a_bank(OTHER))
        await store_fact(store, "Bob has a boat.", bank=OTHER)
        found.append(await snapshot(store, OTHER))

    async def look(store: Store) -> None:
        found.append(await snapshot(store, OTHER))

    asked(url, write)
    migrate_sync(url_of(source), url)
    asked(url, look)
    assert found[0] == found[1]


def test_unfinished_banks_of_another_migration_are_reported_and_can_be_dropped(source: Path, url: str) -> None:
    with pytest.raises(Interrupted):
        asyncio.run(moved(url_of(source), store_at(url), on_progress=stopping(3)))
    assert migrate_sync(url_of(source), url, banks=[EMPTY]).unfinished == (BANK,)
    report = migrate_sync(url_of(source), url, banks=[TOKYO], restart=True)
    assert report.unfinished == ()
    assert exported(url, TOKYO) == exported(url_of(source), TOKYO)


def test_two_migrations_of_one_bank_do_not_mix(source: Path, url: str, whole: dict[BankId, list[str]]) -> None:
    async def both() -> list[object]:
        stores = [store_at(url), store_at(url)]
        await asyncio.gather(*(store.open() for store in stores))
        return list(
            await asyncio.gather(
                *(moved(url_of(source), store, page=3, banks=[BANK]) for store in stores), return_exceptions=True
            )
        )

    for failed in asyncio.run(both()):
        assert isinstance(failed, MigrationReport | StoreError | InvalidInput | NotFound), failed
    migrate_sync(url_of(source), url)
    assert exported(url) == whole


def test_a_reprocessed_bank_with_kept_opinions_is_imported_to_the_same_bytes(
    source: Path, url: str, tmp_path: Path
) -> None:
    file, again = tmp_path / "bank.jsonl", tmp_path / "again.jsonl"

    async def write(store: Store) -> None:
        await export(store, BANK, file)

    async def load(store: Store) -> None:
        found = read(file, counter=count_tokens)
        await load_bank(store, found.bank, found.records)
        await export(store, BANK, again)

    def uncounted(path: Path) -> bytes:
        # The samples do not count tokens as the counter does, and their keys are not those of their lines.
        counted = re.sub(rb'"tokens": \d+', b'"tokens": 0', path.read_bytes())
        return re.sub(rb'"key": "[^"]*"', b'"key": null', counted)

    asked(url_of(source), write)
    asked(url, load)
    assert uncounted(again) == uncounted(file)


def test_the_source_is_not_changed_by_a_byte(source: Path, target: Path) -> None:
    before = source.read_bytes()
    migrate_sync(url_of(source), url_of(target))
    assert source.read_bytes() == before


def test_progress_counts_the_records_of_all_banks(source: Path, whole: dict[BankId, list[str]], target: Path) -> None:
    seen: list[MigrationProgress] = []
    asyncio.run(moved(url_of(source), SqliteStore(target), on_progress=seen.append))
    lines = sum(len(lines) - 1 for lines in whole.values())
    for step in ("load", "verify"):
        done = [now.done for now in seen if now.step == step]
        assert done == sorted(done)
        assert {now.total for now in seen} == {done[-1]}
        # An episode of unread messages alone is counted and not moved.
        assert done[-1] == lines + 1


def test_a_missing_source_is_named_and_nothing_is_created(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="no database"):
        migrate_sync(url_of(tmp_path / "none.db"), url_of(tmp_path / "target.db"))
    assert list(tmp_path.iterdir()) == []


def test_a_source_without_memories_is_named(empty_postgres_url: str, tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="no memories"):
        migrate_sync(empty_postgres_url, url_of(tmp_path / "target.db"))
    assert list(tmp_path.iterdir()) == []


def test_a_source_of_a_newer_or_an_earlier_release_is_refused_and_untouched(source: Path, tmp_path: Path) -> None:
    for version, error in (("9999", SchemaTooNew), ("0000", StoreError)):
        change(source, f"UPDATE alembic_version SET version_num = '{version}'")
        before = source.read_bytes()
        with pytest.raises(error, match=f"schema {version}"):
            migrate_sync(url_of(source), url_of(tmp_path / "target.db"))
        assert source.read_bytes() == before
    assert not (tmp_path / "target.db").exists()


def test_invalid_requests_are_refused_and_nothing_is_created(source: Path, tmp_path: Path) -> None:
    target = url_of(tmp_path / "target.db")
    wrong: list[tuple[str, str, Sequence[str] | None, type[Exception], str]] = [
        (url_of(source), url_of(source.parent / "." / source.name), None, InvalidInput, "same database"),
        (url_of(source), "sqlite:///:memory:", None, InvalidInput, "in memory"),
        (url_of(source), target, ["nobody"], NotFound, "no bank 'nobody'"),
        (url_of(source), target, [], InvalidInput, "list of names"),
        (url_of(source), target, "alice", InvalidInput, "list of names"),
        (url_of(source), "redis://there", None, InvalidInput, "URL that starts with"),
    ]
    for origin, destination, banks, error, words in wrong:
        with pytest.raises(error, match=words):
            asyncio.run(migrate(origin, destination, banks=banks))
    assert not (tmp_path / "target.db").exists()
