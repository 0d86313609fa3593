"""Merges as they are stored: with all that it takes to undo them exactly."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import ColumnElement, Connection, insert, select, update

from vmemo.models import Entity, EntityType, Merge
from vmemo.models.base import Instant, Record
from vmemo.stores.sql import row_conditions
from vmemo.stores.sql.rows import AnyRow, Values, dump, names_of
from vmemo.stores.sql.schema import merges
from vmemo.stores.sql.timestamps import instant, micros, micros_or_none

Held = tuple[int, str | None, bool]
"""The number of a fact that mentioned an absorbed entity, the name it was said by, and whether the fact mentioned the
keeping entity by itself too."""


class Joined(Record):
    """What the parts of a merge were before. `type` and the times are those of the keeping entity."""

    seq: int = 0
    """The number of the entity that was absorbed, or that a bare name became when it was parted."""
    own: tuple[str, ...] = ()
    """Those of the absorbed names that the keeping entity went by anyway."""
    mentions: tuple[Held, ...] = ()
    type: EntityType | None = None
    first_seen: Instant | None = None
    last_seen: Instant | None = None


@dataclass(frozen=True, kw_only=True)
class StoredMerge:
    """A merge's row; `entity` is the number of the keeping entity."""

    seq: int = 0
    id: str
    entity: int
    absorbed: Entity | None
    names: tuple[str, ...]
    joined: Joined
    reason: str
    at: datetime
    undone_at: datetime | None = None

    @property
    def brought(self) -> set[str]:
        """Its names, in lower case, but for those that the keeping entity went by anyway."""
        return {name.casefold() for name in self.names} - {name.casefold() for name in self.joined.own}

    @property
    def lent(self) -> dict[int, str | None]:
        """Facts that mention the keeping entity through this merge, with the name each knows it by."""
        name = None if self.absorbed is None else self.absorbed.name
        return {fact: said or name for fact, said, own in self.joined.mentions if not own}

    def named(self, entity: str) -> Merge:
        """The merge as others see it, with the keeping entity's id."""
        return Merge.of(
            {
                "id": self.id,
                "entity": entity,
                "absorbed": None if self.absorbed is None else self.absorbed.id,
                "names": self.names,
                "reason": self.reason,
                "at": self.at,
                "undone_at": self.undone_at,
            }
        )


def stored(connection: Connection, bank: int, *where: ColumnElement[bool]) -> list[StoredMerge]:
    """Merges of a bank in the order they were made."""
    statement = select(merges).where(merges.c.bank == bank, *where).order_by(merges.c.seq)
    return [_merge_of(row) for row in connection.execute(statement)]


def active(connection: Connection, bank: int, entity: int) -> list[StoredMerge]:
    """Merges into an entity that were not undone."""
    return stored(connection, bank, merges.c.entity == entity, merges.c.undone_at.is_(None))


def save(connection: Connection, bank: int, merge: StoredMerge) -> None:
    """Insert a merge, or replace the one of its number."""
    values = _merge_values(bank, merge)
    if merge.seq:
        connection.execute(update(merges).where(row_conditions.row(merges, bank, merge.seq)).values(values))
    else:
        connection.execute(insert(merges).values(values))


def _merge_of(row: AnyRow) -> StoredMerge:
    return StoredMerge(
        seq=row.seq,
        id=row.id,
        entity=row.entity,
        absorbed=None if row.absorbed is None else Entity.model_validate_json(row.absorbed),
        names=names_of(row.names),
        joined=Joined.model_validate_json(row.facts),
        reason=row.reason,
        at=instant(row.at),
        undone_at=None if row.undone_at is None else instant(row.undone_at),
    )


def _merge_values(bank: int, merge: StoredMerge) -> Values:
    return {
        "bank": bank,
        "id": merge.id,
        "entity": merge.entity,
        "absorbed": None if merge.absorbed is None else merge.absorbed.model_dump_json(),
        "names": dump(merge.names),
        "facts": merge.joined.model_dump_json(),
        "reason": merge.reason,
        "at": micros(merge.at),
        "undone_at": micros_or_none(merge.undone_at),
    }
