"""The database, bank and model that a command works with."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, TypeVar
from urllib.parse import urlsplit

from vmemo import Memory
from vmemo.errors import NotFound
from vmemo.ports import Context
from vmemo.settings import Settings, build, database_url

R = TypeVar("R")
_SQLITE = "sqlite:///"


@dataclass(frozen=True)
class Target:
    """A database (URL or path), a bank in it, and the language model, if any."""

    db: str
    bank: str
    llm: str | None = None

    @property
    def url(self) -> str:
        """The database URL."""
        return database_url(self.db)

    @property
    def safe_url(self) -> str:
        """The URL without user, password and parameters."""
        url = urlsplit(self.url)
        if self.file is not None or not url.netloc:
            return self.url
        return f"{url.scheme}://{url.netloc.rpartition('@')[2]}{url.path}"

    @property
    def file(self) -> Path | None:
        """The database file, or None for a server."""
        path = self.url.removeprefix(_SQLITE)
        return None if path in (self.url, "", ":memory:") else Path(path)

    def settings(self) -> Settings:
        """Return the environment's settings with the command's model: a command without one needs no key."""
        return replace(Settings.from_environment(), llm=self.llm or None)

    def context(self) -> Context:
        """Return the context of a memory on this target, without opening it."""
        return build(self.url, llm=None, embedder=None, reranker=None, settings=self.settings())


Requires = Literal["bank", "database", "nothing"]
"""The part that must exist before a verb is called; the verb creates the rest."""


def run(target: Target, verb: Callable[[Memory], Awaitable[R]], *, requires: Requires = "bank") -> R:
    """Open the memory, call a verb and close; raise NotFound if something that the verb requires is missing."""
    return asyncio.run(_run(target, verb, requires))


async def _run(target: Target, verb: Callable[[Memory], Awaitable[R]], requires: Requires) -> R:
    if requires != "nothing":
        await require_banks(target, *([target.bank] if requires == "bank" else []))
    # Not `async with`: it would create the bank, which import needs unused, and refuse one that reembed switches.
    memory = Memory(target.url, target.bank, settings=target.settings())
    try:
        return await verb(memory)
    finally:
        await memory.close()


async def require_banks(target: Target, *banks: str) -> None:
    """Raise NotFound for a missing database or bank: opening would create it and hide a mistyped name."""
    if target.file is not None and not target.file.exists():
        raise NotFound(
            f"Database {target.file} does not exist. Create it with `vmemo retain`, or pass another one with --db."
        )
    store = target.context().store
    await store.open()
    try:
        names = [bank.id for bank in await store.banks()]
    finally:
        await store.close()
    for bank in banks:
        if bank not in names:
            raise NotFound(
                f"There is no bank {bank!r} in {target.safe_url}. Existing banks: {', '.join(names) or 'none'}."
            )
