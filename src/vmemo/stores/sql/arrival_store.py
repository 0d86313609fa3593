"""Banks that come in page by page, over the shared statements."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection

from vmemo.models import Bank, BankId
from vmemo.ports import Arrival
from vmemo.stores.sql import arriving, restoring
from vmemo.stores.sql.shadow_store import ShadowStore
from vmemo.writes import RestoreRecord


class ArrivalStore(ShadowStore):
    """`Arrivals` for every SQL store."""

    async def arrivals(self) -> list[Arrival]:
        """All that have begun."""
        return await self._read(arriving.listed)

    async def arrival(self, bank: BankId) -> Arrival | None:
        """How far a bank has come."""
        return await self._read(arriving.find, bank)

    async def receive(self, bank: Bank, records: Sequence[RestoreRecord], *, after: int, digest: str) -> bool:
        """Add the next records in one step."""
        return await self._write(self._receive, bank, records, after, digest)

    def _receive(
        self, connection: Connection, bank: Bank, records: Sequence[RestoreRecord], after: int, digest: str
    ) -> bool:
        name, come = BankId(bank.id), after + len(records)
        state = arriving.begin(connection, bank)
        found = arriving.find(connection, name)
        assert found is not None
        if found.records == come and found.digest == digest:
            # The answer to this page's own commit may have been lost.
            return True
        if found.records != after:
            connection.rollback()
            return False
        restoring.load(connection, state, records, self._index_facts, self._index_words)
        arriving.note(connection, state, name, come, digest)
        return True

    async def admit(self, bank: BankId) -> None:
        """Give the bank its name."""
        await self._write(arriving.admit, bank)

    async def dismiss(self, bank: BankId) -> None:
        """Remove what has come of the bank."""
        await self._write(arriving.dismiss, bank, self._unindex)
