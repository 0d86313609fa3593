"""Statements over whole banks: creating, renaming and deleting one, hidden banks, and profiles.

A hidden bank has a name that users can't give. Its `replaces` is the number of the bank it was derived from, or
`NO_BANK`, and its `engine` column holds the note of the process that fills it.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection, insert, null, select, update

from vmemo.models import Bank, BankId, FormerProfile, Profile, new_id, utc_now
from vmemo.models.changes import NoteChange, ProfileChange, Rename
from vmemo.models.results import Spending
from vmemo.ports import HIDDEN, HiddenBank
from vmemo.stores.sql import message_rows, queue, webhook_rows
from vmemo.stores.sql.message_rows import BankState
from vmemo.stores.sql.rows import bank_of
from vmemo.stores.sql.schema import banks, messages, profiles, spending
from vmemo.stores.sql.search import SearchIndex
from vmemo.stores.values import instant, micros

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
        origin = NO_BANK if replaces is None else message_rows.bank_state(connection, replaces).seq
        values |= {"replaces": origin, "engine": note}
    existing = message_rows.find_bank(connection, BankId(bank.id))
    while existing is None:
        if message_rows.insert_missing(connection, banks, values):
            return bank
        existing = message_rows.find_bank(connection, BankId(bank.id))
    return existing


def hidden(connection: Connection) -> list[HiddenBank]:
    """Return the hidden banks by name."""
    origin = banks.alias("origin")
    statement = (
        select(banks, origin.c.id.label("replaced"))
        .outerjoin(origin, origin.c.seq == banks.c.replaces)
        .where(banks.c.replaces.is_not(None))
        .order_by(banks.c.id)
    )
    return [
        HiddenBank(
            bank=bank_of(row), replaces=None if row.replaced is None else BankId(row.replaced), note=row.engine or ""
        )
        for row in connection.execute(statement)
    ]


def save_note(connection: Connection, bank: int, change: NoteChange) -> bool:
    """Replace the note of a hidden bank; return False if it is not the expected one."""
    same = banks.c.seq == bank, banks.c.engine == change.expected
    return connection.execute(update(banks).where(*same).values(engine=change.note)).rowcount == 1


def rename(connection: Connection, state: BankState, change: Rename, index: SearchIndex) -> bool:
    """Give a hidden bank its name, in place of the bank that has it; return False if that bank may not be replaced."""
    replaced = message_rows.state_or_none(connection, change.to)
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
    message_rows.bump(connection, state.seq, purges=1)
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
    counters = {
        "revision": max(state.revision, replaced.revision),
        "purges": max(state.purges, replaced.purges),
    }
    row = connection.execute(select(banks).where(banks.c.seq == replaced.seq)).one()
    origin = connection.execute(select(banks.c.replaces).where(banks.c.seq == state.seq)).scalar_one()
    if origin != replaced.seq:
        return dict[str, object](counters)
    costs = connection.execute(select(spending).where(spending.c.bank == replaced.seq)).mappings().all()
    spent = [Spending.of({name: value for name, value in cost.items() if name != "bank"}) for cost in costs]
    queue.spend(connection, state.seq, spent)
    connection.execute(update(profiles).where(profiles.c.bank == replaced.seq).values(bank=state.seq))
    webhook_rows.hand_over(connection, state.seq, replaced.seq)
    return {**counters, "profile": row.profile, "created_at": row.created_at}


def _derived_from(connection: Connection, bank: int, *, but: int | None = None) -> list[int]:
    """Return the hidden banks that were derived from a bank, locked after it."""
    found = select(banks.c.seq).where(banks.c.replaces == bank, banks.c.seq != (but or NO_BANK)).with_for_update()
    return list(connection.execute(found).scalars())


def drop(connection: Connection, bank: BankId, index: SearchIndex) -> bool:
    """Delete a bank and the hidden banks derived from it; return False if there is none of this name."""
    state = message_rows.state_or_none(connection, bank)
    if state is None:
        return False
    visible = connection.execute(select(banks.c.replaces).where(banks.c.seq == state.seq)).scalar_one() is None
    drop_derived(connection, state.seq, index)
    _clear(connection, state.seq, index)
    if visible:
        message_rows.note_deletion(connection)
    return True


def drop_derived(connection: Connection, bank: int, index: SearchIndex) -> None:
    """Delete the hidden banks that were derived from a bank."""
    for number in _derived_from(connection, bank):
        _clear(connection, number, index)


def _clear(connection: Connection, bank: int, index: SearchIndex) -> None:
    index.drop_bank(connection, bank)
    message_rows.clear(connection, bank)


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
    """Add former profiles to the bank's history."""
    rows = [
        {
            "bank": bank,
            "profile": each.profile.model_dump_json(),
            "until": micros(each.until),
            "reason": each.reason,
        }
        for each in former
    ]
    connection.execute(insert(profiles), rows)


def former_profiles(connection: Connection, bank: int) -> list[FormerProfile]:
    """Return the former profiles of the bank, oldest first."""
    rows = connection.execute(select(profiles).where(profiles.c.bank == bank).order_by(profiles.c.seq))
    return [
        FormerProfile(
            profile=Profile.model_validate_json(row.profile),
            until=instant(row.until),
            reason=row.reason,
        )
        for row in rows
    ]
