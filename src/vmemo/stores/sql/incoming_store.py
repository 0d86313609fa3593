"""Banks that come in page by page, over the shared statements."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection

from vmemo.models import Bank, BankId
from vmemo.models.changes import RestoreRecord
from vmemo.ports import Arrival
from vmemo.stores.sql import import_rows, incoming_banks
from vmemo.stores.sql.reprocess_store import ShadowStore


class ArrivalStore(ShadowStore):
    """`Arrivals` for every SQL store."""

    async def arrivals(self) -> list[Arrival]:
        """All that have begun."""
        return await self._read(incoming_banks.listed)

    async def arrival(self, bank: BankId) -> Arrival | None:
        """How far a bank has come."""
        return await self._read(incoming_banks.find, bank)

    async def receive(self, bank: Bank, records: Sequence[RestoreRecord], *, after: int, digest: str) -> bool:
        """Add the next records in one step."""
        return await self._write(self._receive, bank, records, after, digest)

    def _receive(
        self, connection: Connection, bank: Bank, records: Sequence[RestoreRecord], after: int, digest: str
    ) -> bool:
        name, come = BankId(bank.id), after + len(records)
        state = incoming_banks.begin(connection, bank)
        found = incoming_banks.find(connection, name)
        assert found is not None
        if found.records == come and found.digest == digest:
            # The answer to this page's own commit may have been lost.
            return True
        if found.records != after:
            connection.rollback()
            return False
        import_rows.load(connection, state, records, self._index_facts, self._index_words)
        incoming_banks.note(connection, state, name, come, digest)
        return True

    async def admit(self, bank: BankId) -> None:
        """Give the bank its name."""
        await self._write(incoming_banks.admit, bank)

    async def dismiss(self, bank: BankId) -> None:
        """Remove what has come of the bank."""
        await self._write(incoming_banks.dismiss, bank, self._unindex)
