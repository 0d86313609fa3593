"""Entities that share facts, read for all names of a batch at once."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection

from vmemo.models import EntityId
from vmemo.stores.sql.conditions import listed
from vmemo.stores.sql.reads import LATEST
from vmemo.stores.sqlite.raw import fetch

_BESIDE = f"""
SELECT DISTINCT own.id, other.id
FROM entities AS own
CROSS JOIN mentions AS beside ON beside.bank = own.bank AND beside.fact IN (
    SELECT fact FROM mentions WHERE bank = own.bank AND entity = own.seq ORDER BY fact DESC LIMIT {LATEST}
)
CROSS JOIN entities AS other ON other.seq = beside.entity
WHERE own.bank = ? AND own.id IN (SELECT value FROM json_each(?)) AND other.seq != own.seq
"""
"""CROSS JOIN keeps this order: from each entity to its latest facts, so that the work does not grow with the bank."""


def cooccurring(connection: Connection, bank: int, ids: Sequence[EntityId]) -> dict[EntityId, set[EntityId]]:
    """Return for each entity the others that share one of its latest facts."""
    found: dict[EntityId, set[EntityId]] = {id: set() for id in ids}
    for own, other in fetch(connection, _BESIDE, bank, listed(ids)):
        found[own].add(other)
    return found
