"""A bank's second derivation, over the shared statements."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence

from sqlalchemy import Connection

from vmemo.models import BankId, Fact
from vmemo.models.changes import ForgetTarget, NewFact
from vmemo.stores.sql import batch_rows, forget, reads, reprocess, reprocess_carryover
from vmemo.stores.sql.base import Running
from vmemo.stores.sql.message_rows import BankState, bank_state
from vmemo.stores.sql.rows import AnyRow
from vmemo.stores.sql.search_index import Indexed


class ShadowStore(Running):
    """`Shadows` for every SQL store."""

    @abstractmethod
    def _index_facts(self, connection: Connection, bank: int, batch: Sequence[Indexed]) -> None:
        """Make new facts of a bank findable, in the transaction that inserts them."""

    @abstractmethod
    def _hand_on(self, connection: Connection, bank: int, other: int, facts: Iterable[int]) -> None:
        """Let the index find a bank's facts in another, before they become that one's."""

    @abstractmethod
    def _index_words(self, connection: Connection, bank: int, batch: Sequence[tuple[int, str]]) -> None:
        """Make messages findable by their words."""

    @abstractmethod
    def _unindex(self, connection: Connection, bank: int, removal: forget.Removal) -> None:
        """Take what is about to be removed out of the indexes."""

    async def shadow(self, bank: BankId, engine: str, *, embedder: str, dimension: int) -> BankId:
        """The bank in which all messages are derived again."""
        making = reprocess.Making(engine=engine, embedder=embedder, dimension=dimension)
        shadow, after = await self._write(self._fill, bank, making, 0)
        while after is not None:
            shadow, after = await self._write(self._fill, bank, making, after)
        return shadow

    def _fill(
        self, connection: Connection, bank: BankId, making: reprocess.Making, after: int
    ) -> tuple[BankId, int | None]:
        number = bank_state(connection, bank).seq
        shadow = reprocess.ensure(connection, number, making, self._unindex)
        following, copied = reprocess.copy(connection, number, shadow, after)
        self._index_words(connection, shadow, copied)
        reprocess.wake(connection, shadow)
        return reprocess.name(number), following

    async def untold(self, bank: BankId) -> list[Fact]:
        """Opinions that no message told."""
        return await self._read(self._untold, bank)

    @staticmethod
    def _untold(connection: Connection, bank: BankId) -> list[Fact]:
        number = bank_state(connection, bank).seq
        return reads.facts_of(
            connection, number, bank, list(connection.execute(reprocess_carryover.untold(number))), {}
        )

    async def adopt(self, bank: BankId, carried: Sequence[NewFact] = ()) -> bool:
        """Put the shadow in the bank's place in one step."""
        return await self._write(self._adopt, bank, carried)

    def _adopt(self, connection: Connection, bank: BankId, carried: Sequence[NewFact]) -> bool:
        state = bank_state(connection, bank)
        shadow = reprocess.find(connection, state.seq)
        ready = shadow is not None and reprocess.whole(connection, state.seq, shadow.seq)
        if shadow is None or not ready or not self._carry(connection, state, shadow, carried):
            connection.rollback()
            return False
        reprocess_carryover.estrange(connection, state.seq, shadow.seq)
        removal = forget.plan(connection, state.seq, ForgetTarget(bank=True))
        self._unindex(connection, state.seq, removal)
        reprocess.replace(connection, state.seq, shadow.seq)
        return True

    def _carry(self, connection: Connection, state: BankState, shadow: AnyRow, carried: Sequence[NewFact]) -> bool:
        """Hand untold opinions on to the shadow; False if one has no vector there."""
        opinions: dict[str, int] = {
            row.id: row.seq for row in connection.execute(reprocess_carryover.untold(state.seq))
        }
        given = {item.fact.id: item for item in carried if item.fact.id in opinions}
        same = (state.embedder, state.dimension) == (shadow.embedder, shadow.dimension)
        if not same and opinions.keys() > given.keys():
            return False
        batch_rows.demand_vectors((item.encoding for item in given.values()), shadow.dimension)
        replaced = frozenset(opinions[id] for id in given)
        none = frozenset[int]()
        self._unindex(connection, state.seq, forget.Removal(none, replaced, none, none, none))
        self._hand_on(connection, state.seq, shadow.seq, set(opinions.values()) - replaced)
        self._index_facts(connection, shadow.seq, [(opinions[id], item) for id, item in given.items()])
        reprocess_carryover.carry(connection, state.seq, shadow.seq, opinions)
        return True
