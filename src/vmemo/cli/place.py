"""Which memory a command works on, and how it is opened for one verb."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from vmemo import Memory
from vmemo.errors import NotFound
from vmemo.models import BankId
from vmemo.settings import Parts, build

R = TypeVar("R")
_SQLITE = "sqlite:///"


@dataclass(frozen=True)
class Place:
    """A database, given as URL or as a plain path, and a bank in it."""

    db: str
    bank: str

    @property
    def url(self) -> str:
        """The database as URL."""
        return self.db if "://" in self.db else _SQLITE + self.db

    @property
    def file(self) -> Path | None:
        """The database's file, if it is one."""
        path = self.url.removeprefix(_SQLITE)
        return None if path in (self.url, "", ":memory:") else Path(path)

    def parts(self) -> Parts:
        """What a memory here is made of; nothing is opened yet."""
        return build(self.url, llm=None, embedder=None, reranker=None, settings=None)


def run(place: Place, verb: Callable[[Memory], Awaitable[R]], *, creates: bool = False) -> R:
    """Open the memory, call a verb and close; unless it creates them, the database and the bank must be there."""
    return asyncio.run(_run(place, verb, creates))


async def _run(place: Place, verb: Callable[[Memory], Awaitable[R]], creates: bool) -> R:
    if not creates:
        await _demand(place)
    # Not `async with`: that would make the bank, which import wants to be free, and refuse one that reembed is to mend.
    memory = Memory(place.url, place.bank)
    try:
        return await verb(memory)
    finally:
        await memory.close()


async def _demand(place: Place) -> None:
    """Refuse a place that is not there: opening would make it, and a mistyped name would look like an empty memory."""
    if place.file is not None and not place.file.exists():
        raise NotFound(f"There is no database {place.file}. `vmemo retain` makes one; --db names another.")
    store = place.parts().store
    await store.open()
    try:
        names = [bank.id for bank in await store.banks()]
    finally:
        await store.close()
    if BankId(place.bank) not in names:
        raise NotFound(f"There is no bank {place.bank!r} in {place.url}; there is {', '.join(names) or 'none yet'}.")
