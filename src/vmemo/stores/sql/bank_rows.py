"""Rows of banks: their state, creating, renaming and deleting one, hidden banks, profiles and statistics.

A hidden bank has a name that users can't give. Its `replaces` is the number of the bank it was derived from, or
`NO_BANK`, and its `engine` column holds the note of the process that fills it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import get_args

from sqlalchemy import (
    ColumnElement,
    Connection,
    Integer,
    Table,
    bindparam,
    delete,
    func,
    insert,
    literal_column,
    null,
    select,
    update,
)
from sqlalchemy.dialects import sqlite

from vmemo.models import Bank, BankId, BankRevision, FactId, FormerProfile, JobKind, Profile, new_id, utc_now
from vmemo.models.changes import Changes, NoteChange, ProfileChange, Rename
from vmemo.models.results import Backlog, DailyCount, ProcessingProblem, Spending, Status
from vmemo.ports import HIDDEN, BankNotFound, HiddenBank
from vmemo.stores.search import SearchIndex
from vmemo.stores.sql import queue, schema, statements
from vmemo.stores.sql.schema import banks, entities, episodes, facts, jobs, links, messages, notes, profiles, spending
from vmemo.stores.sql.statements import AnyRow, among, rows_of
from vmemo.stores.values import UNPROCESSED, demand_embedder, instant, micros

DELETION = "deletion"
"""Name of the note that rows were deleted since the last vacuum of a SQLite file."""
WRITES = "vmemo_writes"
"""The execution option of a connection that writes."""


@dataclass(frozen=True)
class BankState:
    """A bank's number and identity, and its change counters.

    `purges` grows with every removal, and when all vectors are replaced.
    """

    seq: int
    identity: str
    revision: int
    purges: int
    dimension: int
    embedder: str

    @property
    def bank_revision(self) -> BankRevision:
        return BankRevision(self.identity, self.revision)

    def demand(self, embedder: str) -> None:
        demand_embedder(self.embedder, embedder)


_FIND_STATE = select(
    banks.c.seq, banks.c.identity, banks.c.revision, banks.c.purges, banks.c.dimension, banks.c.embedder
).where(banks.c.id == bindparam("bank"))

_STATE, _LOCKED = _FIND_STATE, _FIND_STATE.with_for_update()
_BANK = select(banks).where(banks.c.id == bindparam("name"))

_BUMP = (
    update(banks)
    .where(banks.c.seq == bindparam("number"))
    .values(revision=banks.c.revision + 1, purges=banks.c.purges + bindparam("purged", type_=Integer))
    .returning(banks.c.revision)
)


def bank_state(connection: Connection, bank: BankId) -> BankState:
    """Return the bank's state; raise BankNotFound if there is no such bank.

    On a connection that writes, the bank's row is locked, so that its writers take turns where a database lets several
    write. Every function that writes calls this before it reads anything else of the bank.
    """
    found = state_or_none(connection, bank)
    if found is None:
        raise BankNotFound(bank)
    return found


def state_or_none(connection: Connection, bank: BankId) -> BankState | None:
    """Return the bank's state as `bank_state` does, or None if there is no such bank."""
    writing = connection.get_execution_options().get(WRITES, False)
    found = rows_of(connection, _LOCKED if writing else _STATE, {"bank": bank})
    if not found and writing:
        # The bank may have been replaced while we waited for its row lock; look it up again.
        found = rows_of(connection, _LOCKED, {"bank": bank})
    return BankState(*found[0]) if found else None


def all_banks(connection: Connection) -> list[Bank]:
    """Return the banks by name, without hidden ones."""
    statement = select(banks).where(banks.c.replaces.is_(None)).order_by(banks.c.id)
    return [bank_of(row) for row in connection.execute(statement)]


def find_bank(connection: Connection, bank: BankId) -> Bank | None:
    row = connection.execute(_BANK, {"name": bank}).first()
    return None if row is None else bank_of(row)


def note_deletion(connection: Connection) -> None:
    """Note that a SQLite file needs a vacuum; other databases do that by themselves."""
    if connection.dialect.name == "sqlite":
        # Another value each time, so that a vacuum that is running does not remove the note of a later deletion.
        note = sqlite.insert(notes).values(name=DELETION, value=new_id())
        connection.execute(note.on_conflict_do_update(["name"], set_={"value": note.excluded.value}))


def bump(connection: Connection, bank: int, *, purges: int = 0) -> int:
    """Count a change of the bank's facts and return the new revision."""
    [(revision,)] = connection.execute(_BUMP, {"number": bank, "purged": purges}).all()
    return revision


def bank_of(row: AnyRow) -> Bank:
    """Return a bank from its row; raise ValueError for a damaged one."""
    if row.dimension < 1:
        raise ValueError(f"{row.dimension} is not a dimension")
    return Bank.model_construct(
        id=row.id,
        profile=Profile.model_validate_json(row.profile),
        embedder=row.embedder,
        dimension=row.dimension,
        created_at=instant(row.created_at),
    )


NO_BANK = 0
"""The origin of a hidden bank that was derived from no other; numbers of banks begin with 1."""


def create(connection: Connection, bank: Bank, replaces: BankId | None, note: str) -> Bank:
    """Insert the bank unless it exists; return the stored one."""
    values: dict[str, str | int] = {
        "id": bank.id,
        "identity": new_id(),
        "profile": bank.profile.model_dump_json(),
        "embedder": bank.embedder,
        "dimension": bank.dimension,
        "created_at": micros(bank.created_at),
    }
    if bank.id.startswith(HIDDEN):
        origin = NO_BANK if replaces is None else bank_state(connection, replaces).seq
        values |= {"replaces": origin, "engine": note}
    existing = find_bank(connection, BankId(bank.id))
    while existing is None:
        if statements.insert_missing(connection, banks, values):
            return bank
        existing = find_bank(connection, BankId(bank.id))
    return existing


def hidden(connection: Connection) -> list[HiddenBank]:
    origin = banks.alias("origin")
    statement = (
        select(banks, origin.c.id.label("replaced"))
        .outerjoin(origin, origin.c.seq == banks.c.replaces)
        .where(banks.c.replaces.is_not(None))
        .order_by(banks.c.id)
    )
    found = connection.execute(statement)
    return [HiddenBank(bank=bank_of(row), replaces=row.replaced, note=row.engine or "") for row in found]


def save_note(connection: Connection, bank: int, change: NoteChange) -> bool:
    """Replace the note of a hidden bank; return False if it is not the expected one."""
    same = banks.c.seq == bank, banks.c.engine == change.expected
    return connection.execute(update(banks).where(*same).values(engine=change.note)).rowcount == 1


def rename(connection: Connection, state: BankState, change: Rename, index: SearchIndex) -> bool:
    """Give a hidden bank its name, in place of the bank that has it; return False if that bank may not be replaced."""
    replaced = state_or_none(connection, change.to)
    if replaced is None and change.revision is not None:
        return False
    values: dict[str, object] = {"id": change.to, "replaces": null(), "engine": null()}
    if replaced is not None:
        if change.revision not in (None, replaced.bank_revision) or _lacks_messages(
            connection, state.seq, replaced.seq
        ):
            return False
        values |= _inherited(connection, state, replaced)
        for number in (*_derived_from(connection, replaced.seq, but=state.seq), replaced.seq):
            _clear(connection, number, index)
    connection.execute(update(banks).where(banks.c.seq == state.seq).values(values))
    bump(connection, state.seq, purges=1)
    return True


def _lacks_messages(connection: Connection, bank: int, replaced: int) -> bool:
    """Return True if the replaced bank holds a message that the other lacks."""
    copies = messages.alias("copies")
    copied = select(copies.c.seq).where(copies.c.bank == bank, copies.c.id == messages.c.id).exists()
    lost = select(messages.c.seq).where(messages.c.bank == replaced, ~copied).limit(1)
    return connection.execute(lost).first() is not None


def _inherited(connection: Connection, state: BankState, replaced: BankState) -> dict[str, object]:
    """Hand over the history, costs and webhooks of the replaced bank; return the columns that are taken over.

    Both counters continue from the larger ones, so that no commit begun before succeeds, and every index is rebuilt.
    """
    counters = {"revision": max(state.revision, replaced.revision), "purges": max(state.purges, replaced.purges)}
    row = connection.execute(select(banks).where(banks.c.seq == replaced.seq)).one()
    origin = connection.execute(select(banks.c.replaces).where(banks.c.seq == state.seq)).scalar_one()
    if origin != replaced.seq:
        return dict[str, object](counters)
    queue.spend(connection, state.seq, _spending(connection, replaced.seq))
    connection.execute(update(profiles).where(profiles.c.bank == replaced.seq).values(bank=state.seq))
    queue.hand_over_webhooks(connection, state.seq, replaced.seq)
    return {**counters, "profile": row.profile, "created_at": row.created_at}


def _derived_from(connection: Connection, bank: int, *, but: int | None = None) -> list[int]:
    """Return the hidden banks that were derived from a bank, locked after it."""
    found = select(banks.c.seq).where(banks.c.replaces == bank, banks.c.seq != (but or NO_BANK)).with_for_update()
    return list(connection.execute(found).scalars())


def drop(connection: Connection, bank: BankId, index: SearchIndex) -> bool:
    """Delete a bank and the hidden banks derived from it; return False if there is none of this name."""
    state = state_or_none(connection, bank)
    if state is None:
        return False
    visible = connection.execute(select(banks.c.replaces).where(banks.c.seq == state.seq)).scalar_one() is None
    drop_derived(connection, state.seq, index)
    _clear(connection, state.seq, index)
    if visible:
        note_deletion(connection)
    return True


def drop_derived(connection: Connection, bank: int, index: SearchIndex) -> None:
    for number in _derived_from(connection, bank):
        _clear(connection, number, index)


def _clear(connection: Connection, bank: int, index: SearchIndex) -> None:
    index.drop_bank(connection, bank)
    for table in schema.metadata.sorted_tables:
        if "bank" in table.c:
            connection.execute(delete(table).where(table.c.bank == bank))
    connection.execute(delete(banks).where(banks.c.seq == bank))


def save_profile(connection: Connection, bank: int, change: ProfileChange) -> bool:
    """Replace the bank's profile and keep the previous one; return False if that is not the expected one."""
    stored = connection.execute(select(banks.c.profile).where(banks.c.seq == bank)).scalar_one()
    present = Profile.model_validate_json(stored)
    if change.expected is not None and present != change.expected:
        return False
    if present != change.profile:
        keep_profiles(connection, bank, [FormerProfile(profile=present, until=utc_now(), reason=change.reason)])
        connection.execute(update(banks).where(banks.c.seq == bank).values(profile=change.profile.model_dump_json()))
    return True


def keep_profiles(connection: Connection, bank: int, former: Sequence[FormerProfile]) -> None:
    for each in former:
        values = {"profile": each.profile.model_dump_json(), "until": micros(each.until), "reason": each.reason}
        connection.execute(insert(profiles).values(bank=bank, **values))


def former_profiles(connection: Connection, bank: int) -> list[FormerProfile]:
    rows = connection.execute(select(profiles).where(profiles.c.bank == bank).order_by(profiles.c.seq))
    return [
        FormerProfile(profile=Profile.model_validate_json(row.profile), until=instant(row.until), reason=row.reason)
        for row in rows
    ]


def erase_copies(connection: Connection, bank: int, changes: Changes, index: SearchIndex) -> None:
    """Delete what may quote the deleted text: derived banks and errors.

    An error of several messages may quote any of them, so those that share one with a deleted message lose it too.
    """
    drop_derived(connection, bank, index)
    quoting = select(messages.c.error).where(messages.c.bank == bank, messages.c.error.is_not(None))
    shared = quoting.where(among(messages.c.id, changes.deleted.messages)).distinct()
    errors = connection.execute(shared).scalars().all()
    cleared = {"error": None, "failed_at": None}
    unread = messages.c.bank == bank, messages.c.state.in_(UNPROCESSED)
    connection.execute(update(messages).where(*unread, among(messages.c.error, errors)).values(cleared))
    requeued = messages.c.bank == bank, among(messages.c.id, changes.requeued)
    connection.execute(update(messages).where(*requeued).values(cleared))
    connection.execute(update(jobs).where(jobs.c.bank == bank, jobs.c.error.is_not(None)).values(error=None))
    note_deletion(connection)


_KINDS: tuple[JobKind, ...] = get_args(JobKind)
DAY = 86_400_000_000
"""Microseconds of a day."""
_ACCESSED = (
    update(facts)
    .where(statements.of_bank(facts), among(facts.c.id, statements.later("ids")))
    .values(access_count=facts.c.access_count + bindparam("times", type_=Integer))
)


def count_accesses(connection: Connection, bank: int, counts: Mapping[FactId, int]) -> None:
    """Add to access counts. The bank's revision stays: no search depends on them."""
    for times in set(counts.values()):
        ids = statements.listed([fact for fact, accesses in counts.items() if accesses == times])
        connection.execute(_ACCESSED, {"of_bank": bank, "ids": ids, "times": times})


def status(connection: Connection, bank: BankId) -> Status:
    number = bank_state(connection, bank).seq
    stored = find_bank(connection, bank)
    assert stored is not None
    return Status(
        bank=bank,
        engine="",
        embedder=stored.embedder,
        dimension=stored.dimension,
        messages=_count(connection, messages, number),
        pending=_count(connection, messages, number, messages.c.state.in_(UNPROCESSED)),
        episodes=_count(connection, episodes, number),
        facts=_count(connection, facts, number),
        closed_facts=_count(connection, facts, number, facts.c.expired_at.is_not(None)),
        entities=_count(connection, entities, number),
        links=_count(connection, links, number),
        problems=_problems(connection, number),
        backlog=_backlog(connection, number),
        spending=_spending(connection, number),
        scrub_pending=connection.execute(select(notes.c.value).where(notes.c.name == DELETION)).first() is not None,
    )


def daily_counts(connection: Connection, bank: int) -> list[DailyCount]:
    """Return the numbers of messages and facts by the day of their mention."""
    by_day: dict[int, list[int]] = defaultdict(lambda: [0, 0])
    for place, (table, column) in enumerate(((messages, messages.c.timestamp), (facts, facts.c.mentioned_at))):
        day = (column // literal_column(str(DAY))).label("day")
        for number, count in connection.execute(select(day, func.count()).where(table.c.bank == bank).group_by(day)):
            by_day[int(number)][place] = count
    return [
        DailyCount(day=instant(number * DAY), messages=said, facts=derived)
        for number, (said, derived) in sorted(by_day.items())
    ]


def _count(connection: Connection, table: Table, bank: int, *where: ColumnElement[bool]) -> int:
    counted = select(func.count()).select_from(table).where(table.c.bank == bank, *where)
    return connection.execute(counted).scalar_one()


def _problems(connection: Connection, bank: int) -> tuple[ProcessingProblem, ...]:
    statement = (
        select(messages.c.error, func.count(), func.max(messages.c.attempts), func.min(messages.c.failed_at))
        .where(messages.c.bank == bank, messages.c.state.in_(UNPROCESSED), messages.c.error.is_not(None))
        .group_by(messages.c.error)
        .order_by(func.min(messages.c.failed_at), messages.c.error)
    )
    return tuple(
        ProcessingProblem(error=error, messages=count, attempts=attempts, since=instant(since))
        for error, count, attempts, since in connection.execute(statement)
    )


def _backlog(connection: Connection, bank: int) -> tuple[Backlog, ...]:
    queued: dict[str, list[AnyRow]] = defaultdict(list)
    columns = jobs.c.kind, jobs.c.due, jobs.c.until, jobs.c.error
    for row in connection.execute(select(*columns).where(jobs.c.bank == bank).order_by(jobs.c.failed_at, jobs.c.seq)):
        queued[row.kind].append(row)
    return tuple(_backlog_of(kind, queued[kind]) for kind in _KINDS if kind in queued)


def _backlog_of(kind: JobKind, queued: Sequence[AnyRow]) -> Backlog:
    """Return the counts of jobs of one kind, which are in the order of their failures."""
    now = micros(utc_now())
    free = [row for row in queued if (row.until or 0) <= now]
    failed = sum(row.error is not None for row in free)
    errors = [row.error for row in queued if row.error is not None]
    return Backlog(
        kind=kind,
        waiting=len(free) - failed,
        running=len(queued) - len(free),
        failed=failed,
        error=errors[-1] if errors else None,
        next_at=instant(min(row.due for row in free)) if free else None,
    )


def _spending(connection: Connection, bank: int) -> tuple[Spending, ...]:
    names = tuple(Spending.model_fields)
    statement = select(*(spending.c[name] for name in names)).where(spending.c.bank == bank)
    rows = connection.execute(statement.order_by(spending.c.step, spending.c.model))
    return tuple(Spending.of(dict(zip(names, row, strict=True))) for row in rows)
