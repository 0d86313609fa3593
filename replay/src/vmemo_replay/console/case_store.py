"""The cases of banks, with their last results, in the tables of a server."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Column, Connection, Index, Row, Table, Text, delete, func, insert, select, update

from vmemo.errors import InvalidInput
from vmemo.models import BankId, MessageId, utc_now
from vmemo.models.records import Instant, Record
from vmemo.models.select import MessageSelect
from vmemo.ports import Store
from vmemo_replay.case_run import CaseResult
from vmemo_replay.cases import Case
from vmemo_server.state import Number, ServerState, metadata

MAX_CASES = 500
"""Cases of one bank."""
_cases = Table(
    "console_cases",
    metadata,
    Column("id", Number, primary_key=True, autoincrement=True),
    Column("bank", Text, nullable=False),
    Column("body", Text, nullable=False),
    # The messages of the bank that the case names, as a JSON list.
    Column("messages", Text, nullable=False),
    Column("result", Text),
    Index("console_cases_bank", "bank", "id"),
    sqlite_autoincrement=True,
)


class LastResult(Record):
    """The result of the last run of a case."""

    failures: tuple[str, ...] = ()
    hits: tuple[str, ...] = ()
    at: Instant


@dataclass(frozen=True)
class KeptCase:
    """A case of a bank."""

    id: int
    case: Case
    messages: tuple[str, ...]
    result: LastResult | None

    @property
    def failures(self) -> tuple[str, ...]:
        """The expectations that the last run did not meet."""
        return () if self.result is None else self.result.failures

    @staticmethod
    def of(row: Row[Any]) -> KeptCase:
        result = None if row.result is None else LastResult.of(json.loads(row.result))
        case = Case.of(json.loads(row.body))
        return KeptCase(row.id, case, tuple(json.loads(row.messages)), result)


async def kept_cases(state: ServerState, bank: BankId) -> list[KeptCase]:
    """Return the cases of a bank, oldest first."""
    wanted = select(_cases).where(_cases.c.bank == bank).order_by(_cases.c.id)
    return [KeptCase.of(row) for row in await state.read(lambda c: c.execute(wanted).all())]


async def keep_cases(state: ServerState, store: Store, bank: BankId, cases: Sequence[Case]) -> None:
    """Add cases to a bank; raise InvalidInput if it would have too many."""
    named = {text for case in cases for text in (*case.must_recall, *case.must_not_recall, case.first) if text}
    found = await store.messages(bank, MessageSelect(ids=[MessageId(text) for text in named if text.isprintable()]))
    ids = {message.id for message in found}
    rows = [
        {
            "bank": bank,
            "body": case.model_dump_json(exclude_defaults=True, exclude={"source"}),
            "messages": json.dumps([id for id in (*case.must_recall, *case.must_not_recall, case.first) if id in ids]),
        }
        for case in cases
    ]
    counted = select(func.count()).where(_cases.c.bank == bank)
    number = await state.read(lambda c: c.execute(counted).scalar_one())
    if number + len(rows) > MAX_CASES:
        raise InvalidInput(
            f"A bank has at most {MAX_CASES} cases here; this one has {number}, and {len(rows)} would be added. Delete "
            "some, or keep them in files for `vmemo test`. Nothing was changed."
        )
    await state.write(lambda c: c.execute(insert(_cases), rows))


async def delete_case(state: ServerState, bank: BankId, id: int) -> None:
    await state.write(lambda c: c.execute(delete(_cases).where(_cases.c.bank == bank, _cases.c.id == id)))


async def note_results(state: ServerState, bank: BankId, results: Mapping[int, CaseResult]) -> None:
    """Store the results of a run; a case that was deleted meanwhile has none."""
    now = utc_now()
    bodies = {
        id: LastResult(failures=result.failures, hits=result.hits, at=now).model_dump_json()
        for id, result in results.items()
    }

    def write(connection: Connection) -> None:
        for id, body in bodies.items():
            wanted = _cases.c.bank == bank, _cases.c.id == id
            connection.execute(update(_cases).where(*wanted).values(result=body))

    await state.write(write)


def forget_with(state: ServerState, store: Store) -> Callable[[str], Awaitable[None]]:
    """Return the function that deletes what the cases quote of a bank, after text of the bank was deleted."""

    async def erased(name: str) -> None:
        bank = BankId(name)
        kept = await kept_cases(state, bank)
        if not kept:
            return
        gone = _cases.c.bank == bank
        if await store.bank(bank) is not None:
            ids = {MessageId(id) for each in kept for id in each.messages}
            left = {message.id for message in await store.messages(bank, MessageSelect(ids=list(ids)))}
            gone = _cases.c.id.in_([each.id for each in kept if not left.issuperset(each.messages)])
            await state.write(lambda c: c.execute(update(_cases).where(_cases.c.bank == bank).values(result=None)))
        await state.write(lambda c: c.execute(delete(_cases).where(gone)))

    return erased
