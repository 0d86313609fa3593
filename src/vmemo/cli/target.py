"""Which memory a command works on, and how it is opened for one verb."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar
from urllib.parse import urlsplit

from vmemo import Memory
from vmemo.errors import NotFound
from vmemo.ports import Context
from vmemo.settings import Settings, build

R = TypeVar("R")
_SQLITE = "sqlite:///"


@dataclass(frozen=True)
class Place:
    """A database, given as URL or as a plain path, a bank in it, and the model that reads, if one does."""

    db: str
    bank: str
    llm: str | None = None

    @property
    def url(self) -> str:
        """The database as URL."""
        return self.db if "://" in self.db else _SQLITE + self.db

    @property
    def shown(self) -> str:
        """The URL as it may be told: without user, password and parameters."""
        context = urlsplit(self.url)
        if self.file is not None or not context.netloc:
            return self.url
        return f"{context.scheme}://{context.netloc.rpartition('@')[2]}{context.path}"

    @property
    def file(self) -> Path | None:
        """The database's file, if it is one."""
        path = self.url.removeprefix(_SQLITE)
        return None if path in (self.url, "", ":memory:") else Path(path)

    def settings(self) -> Settings:
        """Those of the environment. The model is the command's own: one that needs none asks for no key."""
        return replace(Settings.from_environment(), llm=self.llm or None)

    def context(self) -> Context:
        """What a memory here is made of; nothing is opened yet."""
        return build(self.url, llm=None, embedder=None, reranker=None, settings=self.settings())


def run(place: Place, verb: Callable[[Memory], Awaitable[R]], *, creates: bool = False) -> R:
    """Open the memory, call a verb and close; unless it creates them, the database and the bank must be there."""
    return asyncio.run(_run(place, verb, creates))


async def _run(place: Place, verb: Callable[[Memory], Awaitable[R]], creates: bool) -> R:
    if not creates:
        await demand(place, place.bank)
    # Not `async with`: that would make the bank, which import wants to be free, and refuse one that reembed is to mend.
    memory = Memory(place.url, place.bank, settings=place.settings())
    try:
        return await verb(memory)
    finally:
        await memory.close()


async def demand(place: Place, *banks: str) -> None:
    """Refuse a place that is not there: opening would make it, and a mistyped name would look like an empty memory."""
    if place.file is not None and not place.file.exists():
        raise NotFound(f"There is no database {place.file}. `vmemo retain` makes one; --db names another.")
    store = place.context().store
    await store.open()
    try:
        names = [bank.id for bank in await store.banks()]
    finally:
        await store.close()
    for bank in banks:
        if bank not in names:
            raise NotFound(f"There is no bank {bank!r} in {place.shown}; there is {', '.join(names) or 'none yet'}.")
