"""Statements over banks that come in page by page from another store.

Such a bank has a name that users can't give, and is the shadow of no bank: so it is in no list, and its jobs are in no
worker's hands. How far it has come stands with it, and changes in the transaction that adds a page.
"""

from __future__ import annotations

import json
from hashlib import sha256

from sqlalchemy import Connection, null, select, update

from vmemo.models import Bank, BankId
from vmemo.models.changes import ForgetTarget
from vmemo.ports import Arrival
from vmemo.stores.sql import forget, import_rows, message_rows, reprocess
from vmemo.stores.sql.message_rows import BankState
from vmemo.stores.sql.rows import AnyRow, dump
from vmemo.stores.sql.schema import banks
from vmemo.stores.sql.timestamps import micros

NO_BANK = 0
"""What such a bank is the shadow of; numbers of banks begin with 1."""


def name(bank: BankId) -> BankId:
    """The name that a bank is hidden under; it is short, however long the bank's own is."""
    return BankId(f"\x1farriving {sha256(bank.encode()).hexdigest()}")


def listed(connection: Connection) -> list[Arrival]:
    """All that have begun, by name."""
    rows = connection.execute(select(banks.c.id, banks.c.engine).where(banks.c.shadow_of == NO_BANK))
    return sorted(map(_arrival, rows), key=lambda arrival: arrival.bank)


def find(connection: Connection, bank: BankId) -> Arrival | None:
    """How far the bank of this name has come."""
    row = connection.execute(select(banks.c.id, banks.c.engine).where(banks.c.id == name(bank))).one_or_none()
    return None if row is None else _arrival(row)


def _arrival(row: AnyRow) -> Arrival:
    known = json.loads(row.engine)
    return Arrival(bank=known["bank"], hidden=BankId(row.id), records=known["records"], digest=known["digest"])


def begin(connection: Connection, bank: Bank) -> BankState:
    """The hidden bank, locked; it is made if it is not there."""
    hidden = name(BankId(bank.id))
    values = {"id": hidden, "profile": bank.profile.model_dump_json(), "shadow_of": NO_BANK}
    space = {"embedder": bank.embedder, "dimension": bank.dimension, "created_at": micros(bank.created_at)}
    message_rows.insert_missing(connection, banks, {**values, **space, "engine": _note(BankId(bank.id), 0, "")})
    return message_rows.bank_state(connection, hidden)


def note(connection: Connection, state: BankState, bank: BankId, records: int, digest: str) -> None:
    """Keep how far a bank has come."""
    changed = update(banks).where(banks.c.seq == state.seq)
    connection.execute(changed.values(engine=_note(bank, records, digest)))


def _note(bank: BankId, records: int, digest: str) -> str:
    return dump({"bank": bank, "records": records, "digest": digest})


def admit(connection: Connection, bank: BankId) -> None:
    """Give the hidden bank its name and queue what is unread."""
    state = message_rows.bank_state(connection, name(bank))
    import_rows.make_room(connection, bank)
    values = {"id": bank, "shadow_of": null(), "engine": null()}
    connection.execute(update(banks).where(banks.c.seq == state.seq).values(values))
    reprocess.wake(connection, state.seq)


def dismiss(connection: Connection, bank: BankId, unindex: reprocess.Unindex) -> None:
    """Remove the hidden bank."""
    state = message_rows.state_or_none(connection, name(bank))
    if state is not None:
        unindex(connection, state.seq, forget.plan(connection, state.seq, ForgetTarget(bank=True)))
        message_rows.clear(connection, state.seq)
