"""What every verb stands on: a memory's parts, its bank, and how both are opened and closed."""

from __future__ import annotations

from typing import Self

from vmemo.auth.service import AuthService
from vmemo.errors import InvalidInput
from vmemo.memory.context import Shared
from vmemo.memory.lookup import Lookup
from vmemo.models import Bank, BankId
from vmemo.ports import Embedder, Store
from vmemo.retain.pipeline import embedder_mismatch
from vmemo.settings import Settings, build
from vmemo.sync import twin


class Opened:
    """A memory on one bank, before its verbs."""

    def __init__(
        self,
        url: str = "sqlite:///memory.db",
        bank: str = "default",
        llm: object = None,
        embedder: Embedder | None = None,
        reranker: object = None,
        settings: Settings | None = None,
    ) -> None:
        """Nothing is opened or loaded yet: that happens with the first verb, or in `async with`."""
        self._name = bank_id(bank)
        self._shared = Shared.of(build(url, llm=llm, embedder=embedder, reranker=reranker, settings=settings))

    def bank(self, name: str) -> Self:
        """The same memory on another bank; closing either closes both."""
        other = object.__new__(type(self))
        other._name, other._shared = bank_id(name), self._shared
        return other

    async def __aenter__(self) -> Self:
        try:
            await self.open()
        except BaseException:
            # Nobody leaves a block that was never entered, and a file half opened would stay so.
            await self.close()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def __enter__(self) -> Self:
        try:
            self.open_sync()
        except BaseException:
            self.close_sync()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close_sync()

    @property
    def _store(self) -> Store:
        return self._shared.context.store

    @property
    def auth(self) -> AuthService:
        """Keys to this database and the record of what was written through its doors; the library asks for none."""
        return AuthService(self._store)

    @property
    def lookup(self) -> Lookup:
        """What the bank holds by its ids, for doors that show it in another shape."""
        context = self._shared.context
        return Lookup(self._name, context.store, context.counter, models=context.llm is not None)

    async def exists(self) -> bool:
        """Whether there is a bank of this name; nothing is created."""
        await self._store.open()
        return await self._store.bank(self._name) is not None

    async def open(self) -> None:
        """Open the store, create the bank if it is new, and refuse a bank of another embedder."""
        if self._name in self._shared.checked:
            return
        await self._store.open()
        embedder = self._shared.context.embedder
        wanted = Bank(id=self._name, embedder=embedder.name, dimension=embedder.dimension)
        stored = await self._store.create_bank(wanted)
        if error := embedder_mismatch(stored, embedder):
            raise error
        self._shared.checked.add(self._name)

    async def close(self) -> None:
        """Write what is left of access counts and close the store. A closed memory opens again with the next verb.

        Queued work that is not done yet stays queued.
        """
        self._shared.checked.clear()
        await self._shared.stop()
        try:
            await self._shared.access.close()
        finally:
            # A server that is away keeps counts from being written, but no connection open.
            await self._store.close()

    exists_sync = twin(exists)
    open_sync = twin(open)
    close_sync = twin(close)


def bank_id(name: str) -> BankId:
    """A name that a bank can have, or InvalidInput."""
    bank = Bank.of({"id": name, "embedder": "-", "dimension": 1})
    if bank.id.startswith("\x1f"):
        raise InvalidInput(
            f"A bank's name must not begin with the character U+001F, which marks our own: {name!r:.60}."
        )
    return BankId(bank.id)
