"""The state of a bank, its lock, and its counters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from vmemo.models import BankId, BankRevision
from vmemo.ports import BankNotFound
from vmemo.stores.values import demand_embedder
from vmemo_neo4j.connection import Transaction
from vmemo_neo4j.nodes import Node


@dataclass(frozen=True)
class BankHeader:
    """A bank's key, and its change counters: `purges` grows with every removal."""

    key: str
    revision: int
    purges: int
    dimension: int
    embedder: str

    @property
    def bank_revision(self) -> BankRevision:
        """The revision with the identity of the bank."""
        return BankRevision(self.key, self.revision)

    def demand(self, embedder: str) -> None:
        """Refuse vectors of another embedder than the bank's."""
        demand_embedder(self.embedder, embedder)


FIND: Final = "MATCH (b:Bank {namespace: $namespace, name: $name}) "
"""Finds a bank by name."""
LOCK: Final = "SET b.locked = true REMOVE b.locked WITH b "
"""Locks a bank: setting a property takes the lock of its node, removing one that is absent does not."""
# `properties` reads the locked node, where a property by its name may come from the index that found the node.
_STATE: Final = (
    "WITH properties(b) AS stored RETURN stored {.name, .key, .revision, .purges, .dimension, .embedder} AS bank"
)


async def bank_state(tx: Transaction, bank: BankId, *, lock: bool = False) -> BankHeader:
    """Return the bank's state; raise BankNotFound if there is no such bank.

    With `lock` its other writers wait until the transaction ends. Every function that writes locks the bank before it
    reads anything else of it.
    """
    found = await state_or_none(tx, bank, lock=lock)
    if found is None:
        raise BankNotFound(bank)
    return found


async def state_or_none(tx: Transaction, bank: BankId, *, lock: bool = False) -> BankHeader | None:
    """Return the bank's state as `bank_state` does, or None if there is no such bank."""
    row = await tx.one(FIND + LOCK + _STATE if lock else FIND + _STATE, name=bank)
    if row is not None and row["bank"]["name"] != bank:
        # The bank was replaced while we waited for its lock.
        row = await tx.one(FIND + LOCK + _STATE, name=bank)
    if row is None:
        return None
    return header_of(row["bank"])


def header_of(node: Node) -> BankHeader:
    """A bank's state from its node."""
    return BankHeader(node["key"], node["revision"], node["purges"], node["dimension"], node["embedder"])


async def bump(tx: Transaction, bank: str, *, purge: bool = False, count: int = 0) -> tuple[int, int]:
    """Count a change of the facts of a bank that is locked, and reserve numbers for new records.

    Return the new revision and the first of the numbers.
    """
    row = await tx.one(
        "MATCH (b:Bank {key: $bank}) SET b.revision = b.revision + 1, b.purges = b.purges + $purged, "
        "b.last_seq = b.last_seq + $count RETURN b.revision AS revision, b.last_seq AS last",
        bank=bank,
        purged=int(purge),
        count=count,
    )
    assert row is not None
    return row["revision"], row["last"] - count + 1


NUMBERED: Final = (
    "MATCH (b:Bank {key: $bank}) SET b.last_seq = b.last_seq + size($rows) WITH b.last_seq - size($rows) AS last "
    "UNWIND range(1, size($rows)) AS place WITH $rows[place - 1] AS row, last + place AS seq "
)
"""Begins a statement that creates a record for each `row` under the number `seq`."""
