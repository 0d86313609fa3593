"""The Usage page: requests, tokens, model costs and time of each key by day, of all processes of a server."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Annotated, Any

from fastapi import Query, Request, Response
from sqlalchemy import BigInteger, Column, Connection, Float, Table, Text, delete, select
from sqlalchemy.dialects import postgresql, sqlite

from vmemo.errors import StoreError
from vmemo.models import BankId, requests as r, utc_now
from vmemo.models.prompt_context import PromptContext
from vmemo.models.recalled import Recalled
from vmemo.models.results import Answer, Retained, Usage
from vmemo_server.auth import Principal
from vmemo_server.console.dependencies import AdminPage
from vmemo_server.console.render import render
from vmemo_server.console.route import console_router
from vmemo_server.dependencies import AppState
from vmemo_server.state import ServerState, metadata

router = console_router("/usage")
WRITE_SECONDS = 2.0
"""Seconds for which counts are collected before they are written."""
KEPT = timedelta(days=400)
VERBS: dict[type[r.Returns[Any]], str] = {
    r.RecallRequest: "recall",
    r.RetrieveRequest: "retrieve",
    r.ContextRequest: "context",
    r.ReflectRequest: "reflect",
    r.RetainRequest: "retain",
    r.ProcessRequest: "process",
}
"""The requests that are counted."""
COUNTS = ("requests", "tokens", "model_calls", "model_tokens", "cost", "seconds")
_usage = Table(
    "request_usage",
    metadata,
    Column("day", Text, primary_key=True),
    # The id of a key; a dash for callers without one.
    Column("key", Text, primary_key=True),
    Column("verb", Text, primary_key=True),
    *(Column(name, BigInteger, nullable=False) for name in COUNTS[:4]),
    *(Column(name, Float, nullable=False) for name in COUNTS[4:]),
)
Bucket = tuple[str, str, str]
"""A day, a key and a verb."""
Days = Annotated[int, Query(ge=1, le=KEPT.days)]


@dataclass(frozen=True)
class UsageRow:
    """The usage of a key: on one day, with one verb, or of several together."""

    day: str
    key: str
    verb: str
    counts: Counter[str]


class UsageCounter:
    """Counts requests, and adds the counts to those in the server's tables after a while."""

    def __init__(self, state: ServerState) -> None:
        self._state = state
        self._counts: dict[Bucket, Counter[str]] = {}
        self._writing: asyncio.Task[None] | None = None

    def note(self, principal: Principal, bank: BankId, request: r.Returns[Any], result: object, seconds: float) -> None:
        """Count a request."""
        verb = VERBS.get(type(request))
        if verb is None:
            return
        used = result.usage if isinstance(result, Answer | Retained) else Usage()
        counts = self._counts.setdefault((utc_now().date().isoformat(), principal.name, verb), Counter())
        counts.update(requests=1, model_calls=used.calls, model_tokens=used.input_tokens + used.output_tokens)
        counts.update({"cost": used.cost, "seconds": seconds})  # pyright: ignore[reportArgumentType] - these are numbers too
        if isinstance(result, Recalled | PromptContext):
            counts.update(tokens=result.tokens)
        if self._writing is None or self._writing.done():
            self._writing = asyncio.get_running_loop().create_task(self._write_later())

    async def _write_later(self) -> None:
        await asyncio.sleep(WRITE_SECONDS)
        # The counts stay here until the next request, or the end.
        with suppress(StoreError):
            await self.write()

    async def write(self) -> None:
        """Write what was counted."""
        taken, self._counts = self._counts, {}
        if not taken:
            return
        try:
            await self._state.write(lambda c: _add(c, taken), repeatable=False)
        except BaseException:
            for bucket, counts in taken.items():
                self._counts.setdefault(bucket, Counter()).update(counts)
            raise

    async def close(self) -> None:
        """Write what is left."""
        if self._writing is not None:
            self._writing.cancel()
        with suppress(StoreError):
            await self.write()


def _add(connection: Connection, counts: dict[Bucket, Counter[str]]) -> None:
    new = (postgresql.insert if connection.dialect.name == "postgresql" else sqlite.insert)(_usage)
    added = {name: _usage.c[name] + new.excluded[name] for name in COUNTS}
    rows = [
        {"day": day, "key": key, "verb": verb, **{name: found[name] for name in COUNTS}}
        for (day, key, verb), found in sorted(counts.items())
    ]
    connection.execute(new.on_conflict_do_update(index_elements=["day", "key", "verb"], set_=added), rows)
    connection.execute(delete(_usage).where(_usage.c.day < _days_ago(KEPT.days)))


def _days_ago(days: int) -> str:
    today: date = utc_now().date()
    return (today - timedelta(days=days)).isoformat()


def count(state: AppState) -> None:
    """Count the requests of a server."""
    counter = UsageCounter(state.auth)
    state.access.listeners.append(counter.note)
    state.auth.on_close.append(counter.close)


@router.get("")
async def usage(request: Request, principal: AdminPage, days: Days = 30) -> Response:
    """Show the usage by key, and by day, key and verb, of the last days."""
    auth = AppState.of(request).auth
    wanted = select(_usage).where(_usage.c.day > _days_ago(days)).order_by(_usage.c.day.desc(), _usage.c.key)
    found = await auth.read(lambda c: c.execute(wanted).mappings().all())
    rows = [UsageRow(row["day"], row["key"], row["verb"], Counter({n: row[n] for n in COUNTS})) for row in found]
    totals: dict[str, Counter[str]] = {}
    for row in rows:
        totals.setdefault(row.key, Counter()).update(row.counts)
    ordered = sorted(totals.items(), key=lambda each: -each[1]["requests"])
    names = {key.id: key.name for key in await auth.keys()} | {"-": "no key"}
    return render(request, "usage.html", {"rows": rows, "totals": ordered, "names": names, "days": days})
