"""The database, bank and models that a command works with."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeVar
from urllib.parse import urlsplit

from vmemo import Memory
from vmemo.errors import EmbeddingFailed, NotFound
from vmemo.models import Bank
from vmemo.models.search import Vectors
from vmemo.ports import Context, Embedder, TextKind
from vmemo.settings import Settings, build, build_store, database_url

R = TypeVar("R")
_SQLITE = "sqlite:///"


@dataclass(frozen=True)
class Target:
    """A database (URL or path), a bank in it, and the language model and the embedder, if any."""

    db: str
    bank: str = "default"
    llm: str | None = None
    embedder: str | None = None
    """The embedder; None leaves it to the environment, where the option has looked already if there is one."""
    more_banks: tuple[str, ...] = ()
    """Further banks that a search covers."""

    @property
    def banks(self) -> tuple[str, ...]:
        """The banks of a search, if it covers several."""
        return (self.bank, *self.more_banks) if self.more_banks else ()

    @property
    def url(self) -> str:
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
        path = self.url.removeprefix(_SQLITE)
        return None if path in (self.url, "", ":memory:") else Path(path)

    def settings(self, **given: object) -> Settings:
        """Return the environment's settings with the command's models: a command without one needs no key."""
        if self.embedder:
            given["embedder"] = self.embedder
        return Settings.from_environment(llm=self.llm or None, **given)

    def context(self, settings: Settings | None = None) -> Context:
        """Return the context of a memory on this target, without opening it."""
        return build(self.url, llm=None, embedder=None, reranker=None, settings=settings or self.settings())


Requires = Literal["bank", "database", "nothing"]
"""The part that must exist before a verb is called; the verb creates the rest."""


@dataclass(frozen=True)
class _StoredSpace:
    """The embedder of a stored bank for a verb that embeds nothing: its name and dimension are all that is needed."""

    name: str
    dimension: int

    async def embed(self, texts: Sequence[str], kind: TextKind) -> Vectors:
        raise EmbeddingFailed(
            f"This command embeds no texts, and the bank was written with {self.name!r}. What was to be deleted is "
            "deleted; `vmemo process` with that embedder derives again what had other sources."
        )


def run(
    target: Target, verb: Callable[[Memory], Awaitable[R]], *, requires: Requires = "bank", embeds: bool = True
) -> R:
    """Open the memory, call a verb and close; raise NotFound if something that the verb requires is missing.

    A verb that embeds nothing works on a bank of any embedder.
    """
    return asyncio.run(_run(target, verb, requires, embeds=embeds))


async def _run(target: Target, verb: Callable[[Memory], Awaitable[R]], requires: Requires, *, embeds: bool) -> R:
    space: Embedder | None = None
    if requires != "nothing":
        banks = await require_banks(target, *([target.bank, *target.more_banks] if requires == "bank" else []))
        stored = next((bank for bank in banks if bank.id == target.bank), None)
        # The packaged embedder is always at hand, and forgetting derives again what had other sources.
        if not embeds and stored is not None:
            packaged = target.context(target.settings().model_copy(update={"llm": None, "embedder": None})).embedder
            is_packaged = stored.embedder == packaged.name
            space = packaged if is_packaged else _StoredSpace(stored.embedder, stored.dimension)
    # Not `async with`: it would create the bank, which import needs unused, and refuse one that reembed switches.
    memory = Memory(target.url, target.bank, embedder=space, settings=target.settings())
    try:
        return await verb(memory)
    finally:
        await memory.close()


async def require_banks(target: Target, *banks: str) -> list[Bank]:
    """Return all banks; raise NotFound for a missing one or a missing database, which opening would create."""
    if target.file is not None and not target.file.exists():
        raise NotFound(
            f"Database {target.file} does not exist. Create it with `vmemo retain`, or pass another one with --db."
        )
    store = build_store(target.url, target.settings())
    await store.open()
    try:
        stored = await store.banks()
    finally:
        await store.close()
    names = [bank.id for bank in stored]
    for bank in banks:
        if bank not in names:
            raise NotFound(
                f"There is no bank {bank!r} in {target.safe_url}. Existing banks: {', '.join(names) or 'none'}."
            )
    return stored
