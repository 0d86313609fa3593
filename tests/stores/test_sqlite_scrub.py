"""After forgetting, the file and its log hold no trace of the text (L4)."""

import asyncio
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from sqlalchemy import Connection

from vmemo.errors import StoreError
from vmemo.lifecycle.entity_merges import merge_entities, undo_merge
from vmemo.lifecycle.forget import forget
from vmemo.models import BankId, ConfidenceChange, EntityId, Merge, MessageId, Profile
from vmemo.models.changes import Changes, ForgetTarget, JobFailure, Lease, MessageFailure, NewJob, ProfileChange
from vmemo.models.search import Encoding
from vmemo.models.select import MessageSelect
from vmemo.stores.sql import migrate
from vmemo.stores.sql.bank_rows import note_deletion
from vmemo.stores.sqlite import store as sqlite_store
from vmemo.stores.sqlite.store import SqliteStore
from vmemo.stores.values import decode_tokens
from vmemo.text.tokens import terms
from vmemo_conformance.samples import (
    BANK,
    EMBEDDER,
    OTHER,
    a_bank,
    a_batch,
    a_fact,
    a_message,
    an_entity,
    an_episode,
    day,
    matches,
    mention_of,
    named_entities,
    re_embedded,
    store_fact,
    store_messages,
    with_vector,
)

SECRET = a_message(
    "Quetzalcoatl hid the xylophone under Zephyrine's veranda.",
    id=MessageId("secret"),
    document="cryptogram",
    speaker="Balthasar",
    tags=["vorpal"],
    metadata={"brillig": "borogove"},
)
ZEPHYRINE = an_entity("Zephyrine", id="someone", aliases=["Zeph", "Çõntràriän"])
[STORED] = decode_tokens([(40, b"slithytovesgyre")])
TOKENS = None if STORED is None else STORED.vectors
"""Token vectors whose stored bytes can be read."""
TRACES = """quetzalcoatl hid xylophone zephyrine zeph veranda cryptogram balthasar vorpal brillig borogove
    zibaldone marginalia krakatau contrarian slithytovesgyre""".split()
"""Words that the secret alone brought in: its own, its entity's, its episode's, its error's, its speaker's.

The last two stand only among the names that entities are found by, and in the token vectors.
"""


async def tell_secret(store: SqliteStore, count: int) -> None:
    """A secret, a reply that has it as context, and some messages of other episodes around them."""
    for n in range(count):
        await store_fact(store, f"An unrelated line, number {n}, about gardening.")
    await store.append(BANK, [SECRET])
    await store.commit(
        Changes(bank=BANK, failures=[MessageFailure(messages=[SECRET.id], error="Krakatau: could not read it")])
    )
    [reply] = await store_messages(store, "Nobody will look there.")
    facts = [
        a_fact(SECRET.content, messages=[SECRET.id], entities=[mention_of(ZEPHYRINE)]),
        a_fact(reply.content, messages=[reply.id], context=SECRET.content, context_from=SECRET.id),
        a_fact("Zephyrine owns a veranda.", network="observation", entities=[mention_of(ZEPHYRINE)]),
    ]
    facts[2] = facts[2].model_copy(update={"basis": (facts[0].id,)})
    episode = an_episode("Zibaldone", [SECRET, reply], narrative="Marginalia about Quetzalcoatl.")
    batch = await a_batch(store, [with_vector(facts[0], tokens=TOKENS), *facts[1:]])
    assert await store.commit(
        replace(batch, pending=[SECRET.id, reply.id], episodes=[episode], entities=[ZEPHYRINE], becomes="extracted")
    )
    for n in range(count):
        await store_messages(store, f"A later line, number {n}, about gardening.")


def traces(folder: Path) -> set[str]:
    """Words of the secret, and their stems, that any file of the folder holds."""
    content = b"".join(file.read_bytes() for file in folder.iterdir()).lower()
    return {word for name in TRACES for word in (name, *terms(name)) if word.encode() in content}


@pytest.mark.parametrize("count", [0, 40])
@pytest.mark.parametrize(
    "target",
    [
        ForgetTarget(messages=[SECRET.id]),
        ForgetTarget(document="cryptogram"),
        ForgetTarget(entity=EntityId("someone")),
        ForgetTarget(bank=True),
    ],
    ids=["message", "document", "entity", "bank"],
)
def test_forgotten_text_is_in_neither_the_file_nor_its_log(tmp_path: Path, target: ForgetTarget, count: int) -> None:
    async def run() -> None:
        store = SqliteStore(tmp_path / "memory.db")
        await store.open()
        await store.create_bank(a_bank())
        await store.create_bank(a_bank(OTHER))
        await tell_secret(store, count)
        assert set(TRACES) - {"krakatau"} <= traces(tmp_path)
        await forget(store, BANK, target)
        assert traces(tmp_path) == set()
        await store_messages(store, "A line that comes after.", bank=OTHER)
        assert traces(tmp_path) == set()
        await store.close()

    asyncio.run(run())
    assert traces(tmp_path) == set()


def test_a_forgotten_pending_message_leaves_no_words_in_the_text_index(tmp_path: Path) -> None:
    async def run() -> None:
        store = SqliteStore(tmp_path / "memory.db")
        await store.open()
        await store.create_bank(a_bank())
        await store.append(BANK, [SECRET])
        await store_messages(store, *(f"line {n}" for n in range(50)))
        await forget(store, BANK, ForgetTarget(messages=[SECRET.id]))
        assert traces(tmp_path) == set()
        await store.close()

    asyncio.run(run())


def test_a_name_that_only_forgotten_text_used_is_scrubbed(tmp_path: Path) -> None:
    async def run() -> None:
        store = SqliteStore(tmp_path / "memory.db")
        await store.open()
        await store.create_bank(a_bank())
        known = an_entity("Rosalind", aliases=["Çõntràriän"])
        said, secret = await store_messages(store, "Rosalind came by.", "They call her Çõntràriän.")
        facts = [a_fact(m.content, messages=[m.id], entities=[mention_of(known)]) for m in (said, secret)]
        batch = replace(await a_batch(store, facts), entities=[known], pending=[said.id, secret.id])
        assert await store.commit(batch)
        assert "contrarian" in traces(tmp_path)
        await forget(store, BANK, ForgetTarget(messages=[secret.id]))
        assert traces(tmp_path) == set()
        assert await named_entities(store, BANK, "Rosalind") == [mention_of(known)]
        await store.close()

    asyncio.run(run())


async def revise_secret(store: SqliteStore) -> tuple[MessageId, str]:
    """A secret that moved an opinion, that work failed on, and whose entity became part of one that others told of."""
    rosalind = an_entity("Rosalind", aliases=["Rosa"], not_aliases=["Zephyrine's veranda"])
    eve = an_entity("Eve", not_aliases=["Vorpal"])
    said, other, secret = await store_messages(store, "Rosalind came by.", "Eve slept.", SECRET.content)
    facts = [
        a_fact(said.content, messages=[said.id], entities=[mention_of(rosalind)]),
        a_fact(other.content, messages=[other.id], entities=[mention_of(eve)]),
        a_fact(secret.content, messages=[secret.id], entities=[mention_of(ZEPHYRINE, "Zeph")]),
    ]
    view = a_fact("I like Rosalind.", network="opinion", confidence=0.5)
    step = ConfidenceChange(
        opinion=view.id,
        stance="weaken",
        before=0.5,
        after=0.4,
        evidence=(facts[0].id, facts[2].id),
        reason="The xylophone was hidden.",
        at=day(1),
    )
    batch = replace(await a_batch(store, [*facts, view]), entities=[rosalind, eve, ZEPHYRINE], confidence=[step])
    named = Merge(id="named", entity=rosalind.id, names=("Rosa",), reason="It sounds alike.", at=day(1))
    assert await store.commit(replace(batch, pending=[m.id for m in (said, other, secret)], merges=[named]))
    await store.commit(Changes(bank=BANK, jobs=[NewJob(kind="maintain")]))
    [job] = await store.lease("worker", 60, bank=BANK, kinds=["maintain"])
    lease = Lease(job=job.id, owner="worker", requests=job.requests)
    await store.commit(Changes(bank=BANK, failed=[JobFailure(lease=lease, error="Krakatau erupted", retry_at=day(1))]))
    merge = await merge_entities(store, BANK, rosalind.id, ZEPHYRINE.id, "Both keep a xylophone.")
    return secret.id, merge.id


@pytest.mark.parametrize("then", ["merged", "undone", "merged further"])
@pytest.mark.parametrize("whole", [False, True], ids=["message", "bank"])
def test_no_text_is_left_in_merges_names_confidence_changes_and_jobs(tmp_path: Path, then: str, whole: bool) -> None:
    async def run() -> None:
        store = SqliteStore(tmp_path / "memory.db")
        await store.open()
        await store.create_bank(a_bank())
        secret, merge = await revise_secret(store)
        if then == "undone":
            await undo_merge(store, BANK, merge)
        elif then == "merged further":
            await merge_entities(store, BANK, EntityId("eve"), EntityId("rosalind"), "Zephyrine is both.")
        assert {"xylophone", "zephyrine", "zeph", "vorpal", "krakatau", "contrarian"} <= traces(tmp_path)
        await forget(store, BANK, ForgetTarget(bank=True) if whole else ForgetTarget(messages=[secret]))
        assert traces(tmp_path) == set()
        await store.close()

    asyncio.run(run())


def test_replaced_token_vectors_are_removed_by_the_next_scrub(tmp_path: Path) -> None:
    async def run() -> None:
        store = SqliteStore(tmp_path / "memory.db")
        await store.open()
        await store.create_bank(a_bank())
        fact = a_fact("tulips")
        assert await store.commit(await a_batch(store, [with_vector(fact, tokens=TOKENS)]))
        assert traces(tmp_path) == {"slithytovesgyre", *terms("slithytovesgyre")}
        new = {fact.id: Encoding(EMBEDDER.vector("roses"))}
        assert await store.commit(re_embedded(BANK, "new", new, dimension=EMBEDDER.dimension))
        [other] = await store_messages(store, "roses")
        await forget(store, BANK, ForgetTarget(messages=[other.id]))
        assert traces(tmp_path) == set()
        await store.close()

    asyncio.run(run())


def test_deleting_a_bank_scrubs_its_profiles(tmp_path: Path) -> None:
    async def run() -> None:
        store = SqliteStore(tmp_path / "memory.db")
        await store.open()
        await store.create_bank(a_bank())
        await store.commit(
            Changes(
                bank=BANK, profile=ProfileChange(profile=Profile(name="Balthasar", background="I hid a xylophone."))
            )
        )
        await store.commit(
            Changes(bank=BANK, profile=ProfileChange(profile=Profile(name="Nobody"), reason="Zephyrine told it."))
        )
        for n in range(200):
            await store.commit(
                Changes(bank=BANK, profile=ProfileChange(profile=Profile(name=f"number {n}"), reason="Krakatau " * 20))
            )
        assert {"balthasar", "xylophone", "zephyrine", "krakatau"} <= traces(tmp_path)
        await forget(store, BANK, ForgetTarget(bank=True))
        assert traces(tmp_path) == set()
        await store.close()

    asyncio.run(run())
    assert traces(tmp_path) == set()


def test_the_file_shrinks_after_forgetting(tmp_path: Path) -> None:
    async def run() -> None:
        store = SqliteStore(tmp_path / "memory.db")
        await store.open()
        await store.create_bank(a_bank())
        empty = (await store.status(BANK)).bytes
        await store_messages(store, *("tulips and roses " * 20 + str(n) for n in range(2000)), document="long")
        full = (await store.status(BANK)).bytes
        await forget(store, BANK, ForgetTarget(document="long"))
        assert (await store.status(BANK)).bytes < empty + (full - empty) / 4
        await store.close()

    asyncio.run(run())


def test_a_scrub_that_a_reader_blocks_is_delayed_and_completed_later(tmp_path: Path) -> None:
    async def run() -> None:
        store = SqliteStore(tmp_path / "memory.db", busy_seconds=0.1)
        await store.open()
        await store.create_bank(a_bank())
        await tell_secret(store, 5)
        reader = sqlite3.connect(tmp_path / "memory.db", isolation_level=None)
        reader.execute("BEGIN")
        assert reader.execute("SELECT count(*) FROM messages").fetchone() == (12,)
        assert (await forget(store, BANK, ForgetTarget(messages=[SECRET.id]))).scrub_pending
        assert await store.messages(BANK, MessageSelect(ids=[SECRET.id])) == []
        assert await matches(store, "xylophone") == []
        assert (await store.status(BANK)).scrub_pending
        assert not await store.scrub()
        assert (await store.status(BANK)).scrub_pending
        reader.execute("ROLLBACK")
        reader.close()
        assert await store.scrub()
        assert not (await store.status(BANK)).scrub_pending
        assert traces(tmp_path) == set()
        await store.close()

    asyncio.run(run())


def test_a_scrub_cut_short_by_a_crash_is_completed_when_the_file_is_opened(tmp_path: Path) -> None:
    class Crash(Exception):
        """Stands for a power cut after the rows are deleted."""

    class CrashingStore(SqliteStore):
        async def scrub(self, *, patient: bool = False) -> bool:
            raise Crash

    async def run() -> None:
        store = CrashingStore(tmp_path / "memory.db")
        await store.open()
        await store.create_bank(a_bank())
        await tell_secret(store, 0)
        with pytest.raises(Crash):
            await forget(store, BANK, ForgetTarget(messages=[SECRET.id]))
        assert (await store.status(BANK)).scrub_pending
        await store.close()
        reader = SqliteStore(tmp_path / "memory.db")
        await reader.open(as_is=True)
        assert (await reader.status(BANK)).scrub_pending, "a store that is opened as it is changes nothing"
        await reader.close()
        again = SqliteStore(tmp_path / "memory.db")
        await again.open()
        assert not (await again.status(BANK)).scrub_pending
        assert traces(tmp_path) == set()
        await again.close()

    asyncio.run(run())
    assert traces(tmp_path) == set()


@pytest.mark.parametrize("key", [None, bytes(32)], ids=["plain", "encrypted"])
def test_a_failed_scrub_stays_pending_and_maintenance_completes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: bytes | None
) -> None:
    def full(*args: object, **options: object) -> None:
        raise StoreError("SQLite refused: database or disk is full.")

    async def run() -> None:
        store = SqliteStore(tmp_path / "memory.db", key=key)
        await store.open()
        await store.create_bank(a_bank())
        await tell_secret(store, 0)
        with monkeypatch.context() as patch:
            patch.setattr(sqlite_store.SqliteFile, "_vacuum", full)
            forgotten = await forget(store, BANK, ForgetTarget(messages=[SECRET.id]))
        assert (forgotten.messages, forgotten.scrub_pending) == (1, True)
        await store.optimise()
        assert not (await store.status(BANK)).scrub_pending
        # Encrypted bytes may be a short word by chance.
        assert key is not None or traces(tmp_path) == set()
        await store.close()

    asyncio.run(run())


@pytest.mark.parametrize("key", [None, bytes(32)], ids=["plain", "encrypted"])
def test_a_large_file_is_vacuumed_by_maintenance(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: bytes | None
) -> None:
    monkeypatch.setattr(sqlite_store, "VACUUM_AT_ONCE", 0)

    async def run() -> None:
        store = SqliteStore(tmp_path / "memory.db", key=key)
        await store.open()
        await store.create_bank(a_bank())
        await tell_secret(store, 5)
        assert (await forget(store, BANK, ForgetTarget(messages=[SECRET.id]))).scrub_pending
        # Rows, words and the log are gone at once. Only rebuilt pages could hold copies; these few rows caused none.
        assert (tmp_path / "memory.db-wal").stat().st_size == 0
        assert key is not None or traces(tmp_path) == set()
        assert (await store.status(BANK)).scrub_pending
        await store.optimise()
        assert not (await store.status(BANK)).scrub_pending
        await store.close()

    asyncio.run(run())


@pytest.mark.parametrize("vacuums", [True, False])
def test_a_vacuum_removes_the_copies_that_sqlite_leaves_in_rebuilt_pages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, vacuums: bool
) -> None:
    """Rows that grow at random places make SQLite divide pages, which leaves copies of some rows."""
    monkeypatch.setattr(sqlite_store, "VACUUM_AT_ONCE", 1 << 30 if vacuums else 0)
    opened, order = sqlite_store.SqliteFile(tmp_path / "memory.db", busy_seconds=1), Random(3)
    names = [f"{order.getrandbits(120):030x}" for _ in range(3000)]
    deleted = set(order.sample(names, 300))

    def fill(connection: Connection) -> None:
        connection.exec_driver_sql("CREATE TABLE rows (name TEXT PRIMARY KEY, value TEXT) WITHOUT ROWID")
        for number, name in enumerate(names):
            connection.exec_driver_sql("INSERT INTO rows VALUES (?, 'short')", (name,))
            grown = order.choice(names[: number + 1])
            value = "y" * order.randint(1, 900)
            connection.exec_driver_sql("UPDATE rows SET value = ? WHERE name = ?", (value, grown))

    def delete(connection: Connection) -> None:
        for name in deleted:
            connection.exec_driver_sql("DELETE FROM rows WHERE name = ?", (name,))
        note_deletion(connection)

    for run in (migrate.upgrade, fill, delete):
        opened.write(run)
    assert opened.scrub() == vacuums
    content = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    left = {name for name in deleted if name.encode() in content}
    # SQLite 3.40 leaves a few without the vacuum.
    assert len(left) < (1 if vacuums else 30)
    opened.close()


def test_a_deletion_during_a_vacuum_is_still_noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        store = SqliteStore(tmp_path / "memory.db")
        await store.open()
        await store.create_bank(a_bank())
        await tell_secret(store, 0)

        def delete_more(*args: object, **options: object) -> None:
            other.write(note_deletion)

        other = sqlite_store.SqliteFile(tmp_path / "memory.db", busy_seconds=1)
        with monkeypatch.context() as patch:
            patch.setattr(sqlite_store.SqliteFile, "_vacuum", delete_more)
            assert (await forget(store, BANK, ForgetTarget(messages=[SECRET.id]))).scrub_pending
        assert await store.scrub()
        other.close()
        await store.close()

    asyncio.run(run())


def test_copies_do_not_return_from_the_caches_of_other_connections(tmp_path: Path) -> None:
    async def run() -> None:
        store, other = SqliteStore(tmp_path / "memory.db"), SqliteStore(tmp_path / "memory.db")
        await store.open()
        await store.create_bank(a_bank())
        await tell_secret(store, 40)
        await other.open()
        # The other store has read all pages and writes some of them after the scrub.
        assert await other.messages(BANK, MessageSelect(limit=1000))
        assert await matches(other, "xylophone")
        assert not (await forget(store, BANK, ForgetTarget(messages=[SECRET.id]))).scrub_pending
        await tell_other(other, 40)
        await other.close()
        await store_messages(store, "A line that comes after.")
        await store.close()
        with closing(sqlite3.connect(tmp_path / "memory.db")) as connection:
            assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]

    asyncio.run(run())
    assert traces(tmp_path) == set()


async def tell_other(store: SqliteStore, count: int, bank: BankId = BANK) -> None:
    for n in range(count):
        await store_fact(store, f"Another line, number {n}, about cooking.", bank=bank)


def test_a_long_text_is_removed_while_others_write(tmp_path: Path) -> None:
    long = SECRET.model_copy(update={"content": f"{SECRET.content} {'garden ' * 3000}{SECRET.content}"})

    async def run() -> None:
        store, other = SqliteStore(tmp_path / "memory.db"), SqliteStore(tmp_path / "memory.db")
        await store.open()
        await other.open()
        await store.create_bank(a_bank())
        await store.create_bank(a_bank(OTHER))
        await store.append(BANK, [long])
        fact = a_fact(long.content, messages=[long.id], entities=[mention_of(ZEPHYRINE)])
        batch = replace(await a_batch(store, [fact]), pending=[long.id], entities=[ZEPHYRINE])
        assert await store.commit(batch)
        forgotten, _ = await asyncio.gather(
            forget(store, BANK, ForgetTarget(messages=[long.id])), tell_other(other, 20, bank=OTHER)
        )
        assert not forgotten.scrub_pending or await store.scrub()
        await other.close()
        await store.close()

    asyncio.run(run())
    assert traces(tmp_path) == set()
