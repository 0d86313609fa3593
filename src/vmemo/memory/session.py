"""One bank of an opened memory."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import TypeVar

from vmemo.errors import EmbeddingFailed, InvalidInput, NotFound
from vmemo.memory.runtime import MemoryRuntime
from vmemo.models import Bank, BankId
from vmemo.ports import BankNotFound, Embedder, LearningEmbedder, Store, dimension_of
from vmemo.retain.context import RetainContext
from vmemo.retain.pipeline import embedder_mismatch

R = TypeVar("R")


@dataclass(frozen=True, eq=False)
class MemorySession:
    """The bank that the verbs work on, with the state that it shares with other banks."""

    runtime: MemoryRuntime
    bank: BankId
    caller: str = ""
    """The principal of a server's request, which takes turns with others."""
    creates: bool = True
    """Create a missing bank; otherwise raise NotFound."""

    @property
    def context(self) -> RetainContext:
        """The store, the models and the settings."""
        return self.runtime.context

    @property
    def store(self) -> Store:
        """The store of the context."""
        return self.runtime.context.store

    @property
    def reads(self) -> Store:
        """The store that recalls and listings read from, whose data may be a little old."""
        return self.runtime.reading.store

    async def open(self) -> None:
        """Open the store and the bank, which is created or raises NotFound if it is missing.

        Raise EmbedderMismatch if another embedder wrote it.
        """
        # Before a model is used, whose threads do not exist in a forked child either.
        self.runtime.guard.enter()
        if self.bank in self.runtime.open_banks:
            return
        await self.store.open()
        stored = await self.store.bank(self.bank) or await self._create()
        expect_dimension(self.context.embedder, [stored])
        if error := embedder_mismatch(stored, self.context.embedder):
            raise error
        self.runtime.open_banks.add(self.bank)

    async def _create(self) -> Bank:
        if not self.creates:
            raise NotFound(f"There is no bank {self.bank!r:.80} here.")
        embedder = self.context.embedder
        if not embedder.dimension:
            # Another bank saves a request, which fails while the embedder's service is down.
            expect_dimension(embedder, await self.store.banks())
        try:
            dimension = await dimension_of(embedder)
        except EmbeddingFailed as error:
            raise EmbeddingFailed(
                f"{str(error).rstrip('.')}. Nothing was stored: a new bank needs the dimension that the first answer "
                "of its embedder states."
            ) from error
        return await self.store.create_bank(Bank(id=self.bank, embedder=embedder.name, dimension=dimension))

    async def run(self, verb: Callable[[], Awaitable[R]]) -> R:
        """Run a verb; if another process deleted the bank since it was opened here, open it and run the verb again.

        A verb that finds no bank has changed nothing, or its changes were deleted with the bank.
        """
        was_open = self.bank in self.runtime.open_banks
        try:
            return await verb()
        except BankNotFound as error:
            if error.bank != self.bank or not (was_open or self.bank in self.runtime.open_banks):
                raise
        await self._reopen()
        return await verb()

    async def recheck(self) -> None:
        """Open the bank, and create it again if another process deleted it since it was opened here.

        Raise EmbedderMismatch if another process switched it to another embedder.
        """
        await self.open()
        stored = await self.store.bank(self.bank)
        if stored is None:
            await self._reopen()
        elif error := embedder_mismatch(stored, self.context.embedder):
            raise error

    async def _reopen(self) -> None:
        self.runtime.open_banks.discard(self.bank)
        await self.open()


def expect_dimension(embedder: Embedder, banks: Iterable[Bank]) -> None:
    """Make an embedder that does not know its dimension yet expect that of the banks which it wrote."""
    for bank in banks:
        if bank.embedder == embedder.name and not embedder.dimension and isinstance(embedder, LearningEmbedder):
            embedder.expect_dimension(bank.dimension)


def bank_id(name: str) -> BankId:
    """Return a bank's id, or raise InvalidInput if no bank can have this name."""
    if not isinstance(name, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidInput(f"A bank's name must be text, not {name!r:.60}. Write bank(str(id)) for another kind of id.")
    bank = Bank.of({"id": name, "embedder": "-", "dimension": 1})
    if bank.id.startswith("\x1f"):
        raise InvalidInput(f"A bank's name must not start with the reserved character U+001F: {name!r:.60}.")
    return BankId(bank.id)
