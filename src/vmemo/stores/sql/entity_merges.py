"""Who is who: making one entity of two, and parting them again."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import NamedTuple, TypedDict

from sqlalchemy import ColumnElement, Connection, delete, func, select, update

from vmemo.errors import InvalidInput, NotFound
from vmemo.models import Entity, EntityId, EntityType, Merge, new_id, utc_now
from vmemo.stores.sql import merge_rows, message_rows, name_rows, row_conditions
from vmemo.stores.sql.batch_rows import insert_all, insert_rows, number_of, seqs_of
from vmemo.stores.sql.in_list import among
from vmemo.stores.sql.merge_rows import Joined, StoredMerge
from vmemo.stores.sql.rows import entity_of, entity_values
from vmemo.stores.sql.schema import entities, entity_names, facts, mentions
from vmemo.stores.sql.schema import merges as merge_table
from vmemo.stores.sql.timestamps import instant


class Known(NamedTuple):
    """An entity and its number."""

    seq: int
    entity: Entity

    @property
    def names(self) -> tuple[str, ...]:
        """All that it goes by, its name first."""
        return self.entity.name, *self.entity.aliases


def record(connection: Connection, bank: int, new: Sequence[Merge]) -> None:
    """Keep that bare names became names of entities; the batch that tells it gave them these already."""
    numbers = seqs_of(connection, entities, bank, (merge.entity for merge in new))
    for merge in new:
        if merge.absorbed is not None or not merge.names:
            raise InvalidInput(f"The merge {merge.id!r} must be of names, and of no entity. Nothing was written.")
        given = merge.model_dump(exclude={"entity", "absorbed"})
        entity = number_of(numbers, "entity", merge.entity)
        merge_rows.save(connection, bank, StoredMerge(entity=entity, absorbed=None, joined=Joined(), **given))


def merges(connection: Connection, bank: int) -> list[Merge]:
    """All merges in the order they were made."""
    found = merge_rows.stored(connection, bank)
    ids: dict[int, str] = {merge.joined.seq: merge.absorbed.id for merge in found if merge.absorbed is not None}
    there = select(entities.c.seq, entities.c.id).where(
        row_conditions.rows(entities, bank, {merge.entity for merge in found})
    )
    ids.update(dict(connection.execute(there).all()))
    return [merge.named(ids[merge.entity]) for merge in found]


def merge(connection: Connection, bank: int, keep: EntityId, absorb: EntityId, reason: str) -> Merge:
    """Make one entity of two."""
    if keep == absorb:
        raise InvalidInput(f"The entity {keep!r} can't be merged with itself. Nothing was changed.")
    kept, gone = (_find(connection, bank, entities.c.id == id, id) for id in (keep, absorb))
    joined = _joined(connection, bank, kept, gone)
    made = StoredMerge(
        id=new_id(),
        entity=kept.seq,
        absorbed=gone.entity,
        names=gone.names,
        joined=joined,
        reason=reason,
        at=utc_now(),
    )
    _take(connection, bank, kept, gone)
    connection.execute(delete(entity_names).where(entity_names.c.bank == bank, entity_names.c.entity == gone.seq))
    connection.execute(delete(entities).where(row_conditions.row(entities, bank, gone.seq)))
    _save(connection, bank, Known(kept.seq, _union(kept, gone)))
    merge_rows.save(connection, bank, made)
    message_rows.bump(connection, bank, purge=True)
    return made.named(keep)


def _find(connection: Connection, bank: int, which: ColumnElement[bool], id: str) -> Known:
    row = connection.execute(select(entities).where(entities.c.bank == bank, which)).one_or_none()
    if row is None:
        raise NotFound(f"There is no entity {id!r} in this bank. Nothing was changed.")
    return Known(row.seq, entity_of(row, 0))


def _joined(connection: Connection, bank: int, kept: Known, gone: Known) -> Joined:
    """What both were; names and mentions that the keeping one owes to other merges are not its own."""
    others = merge_rows.active(connection, bank, kept.seq)
    own = {name.casefold() for name in kept.names}.difference(*(other.brought for other in others))
    mine = _mentions(connection, bank, kept.seq).keys() - {fact for other in others for fact in other.lent}
    return Joined(
        seq=gone.seq,
        own=tuple(name for name in gone.names if name.casefold() in own),
        mentions=tuple((fact, said, fact in mine) for fact, said in _mentions(connection, bank, gone.seq).items()),
        **_before(kept.entity, others),
    )


class Before(TypedDict):
    """What an entity is by itself, without what became part of it."""

    type: EntityType
    first_seen: datetime
    last_seen: datetime


def _before(entity: Entity, others: Iterable[StoredMerge]) -> Before:
    own = Before(type=entity.type, first_seen=entity.first_seen, last_seen=entity.last_seen)
    for absorbed, before in _whole(others):
        if absorbed.type == entity.type:
            own["type"] = before["type"]
        if absorbed.first_seen == entity.first_seen:
            own["first_seen"] = before["first_seen"]
        if absorbed.last_seen == entity.last_seen:
            own["last_seen"] = before["last_seen"]
    return own


def _whole(made: Iterable[StoredMerge]) -> list[tuple[Entity, Before]]:
    """The entities that merges absorbed, each with what the keeping one was before."""
    return [
        (merge.absorbed, Before(type=was.type, first_seen=was.first_seen, last_seen=was.last_seen))
        for merge in made
        for was in [merge.joined]
        if merge.absorbed and was.type and was.first_seen and was.last_seen
    ]


def _mentions(connection: Connection, bank: int, entity: int) -> dict[int, str | None]:
    """Facts that mention an entity, with the name each knows it by where that is another than its own."""
    statement = select(mentions.c.fact, mentions.c.said).where(mentions.c.bank == bank, mentions.c.entity == entity)
    return dict(connection.execute(statement.order_by(mentions.c.fact)).all())


def _take(connection: Connection, bank: int, kept: Known, gone: Known) -> None:
    """Let facts that mention one mention the other; a fact that mentions both does so once."""
    there, more = _mentions(connection, bank, kept.seq), _mentions(connection, bank, gone.seq)
    _unmention(connection, bank, gone.seq, more)
    said = {fact: name or gone.entity.name for fact, name in more.items() if fact not in there}
    _mention(connection, bank, kept, said)


def _mention(connection: Connection, bank: int, by: Known, said: dict[int, str | None] | dict[int, str]) -> None:
    rows = [
        {"bank": bank, "fact": fact, "entity": by.seq, "said": None if name == by.entity.name else name}
        for fact, name in said.items()
    ]
    insert_all(connection, mentions, rows)


def _unmention(connection: Connection, bank: int, entity: int, of: Iterable[int]) -> None:
    gone = mentions.c.bank == bank, mentions.c.entity == entity, among(mentions.c.fact, of)
    connection.execute(delete(mentions).where(*gone))


def _union(kept: Known, gone: Known) -> Entity:
    one, other = kept.entity, gone.entity
    names = _distinct((*kept.names, *gone.names))
    return one.model_copy(
        update={
            "type": other.type if one.type == "OTHER" else one.type,
            "aliases": names[1:],
            "strangers": _distinct((*one.strangers, *other.strangers), besides=names),
            "first_seen": min(one.first_seen, other.first_seen),
            "last_seen": max(one.last_seen, other.last_seen),
        }
    )


def _distinct(names: Iterable[str], besides: Iterable[str] = ()) -> tuple[str, ...]:
    """Names without repetitions in another case, and without some others."""
    left = {name.casefold() for name in besides}
    known: dict[str, str] = {}
    for name in names:
        known.setdefault(name.casefold(), name)
    return tuple(name for key, name in known.items() if key not in left)


def _save(connection: Connection, bank: int, changed: Known) -> None:
    values = entity_values(bank, changed.entity)
    connection.execute(update(entities).where(row_conditions.row(entities, bank, changed.seq)).values(values))
    name_rows.save(connection, bank, [changed.entity], {changed.entity.id: changed.seq})


def undo(connection: Connection, bank: int, id: str) -> EntityId:
    """Part what a merge joined; the entity that is on its own again is returned."""
    made = _undoable(connection, bank, id)
    keep = _keeper(connection, bank, made)
    others = [other for other in merge_rows.active(connection, bank, keep.seq) if other.seq != made.seq]
    lost = made.brought.difference(*(other.brought for other in others))
    names = tuple(name for name in keep.names if name.casefold() not in lost)
    if not names:
        raise InvalidInput(f"{keep.entity.name!r} goes by no other name, so nothing is left to part. Nothing changed.")
    moved = _said(connection, bank, keep, made, lost)
    parted = _stand_alone(connection, bank, made, _parted(connection, bank, made, keep=keep, names=names, moved=moved))
    _give_back(connection, bank, made, keep=keep, parted=parted, others=others)
    _unmention(connection, bank, keep.seq, moved)
    _mention(connection, bank, parted, moved)
    _save(connection, bank, Known(keep.seq, _remaining(keep.entity, made, names, others)))
    undone = replace(made, undone_at=utc_now(), joined=made.joined.model_copy(update={"seq": parted.seq}))
    merge_rows.save(connection, bank, undone)
    message_rows.bump(connection, bank, purge=True)
    return parted.entity.id


def _undoable(connection: Connection, bank: int, id: str) -> StoredMerge:
    found = merge_rows.stored(connection, bank, merge_table.c.id == id)
    if not found:
        raise NotFound(f"There is no merge {id!r} in this bank. Nothing was changed.")
    [made] = found
    if made.undone_at is not None:
        raise InvalidInput(f"The merge {id!r} was undone already. Nothing was changed.")
    if made.absorbed is not None and seqs_of(connection, entities, bank, [made.absorbed.id]):
        raise InvalidInput(f"There is another entity {made.absorbed.id!r} by now. Nothing was changed.")
    return made


def _keeper(connection: Connection, bank: int, made: StoredMerge) -> Known:
    """The entity that a merge joined something to, unless it became part of another itself."""
    row = connection.execute(select(entities).where(row_conditions.row(entities, bank, made.entity))).one_or_none()
    if row is not None:
        return Known(row.seq, entity_of(row, 0))
    whole = merge_table.c.absorbed.is_not(None), merge_table.c.undone_at.is_(None)
    for later in merge_rows.stored(connection, bank, *whole):
        if later.joined.seq == made.entity:
            raise InvalidInput(
                f"What the merge {made.id!r} joined became part of another entity since. Nothing was changed; "
                f"undo the merge {later.id!r} first."
            )
    raise NotFound(f"The entity of the merge {made.id!r} is gone. Nothing was changed.")


def _said(connection: Connection, bank: int, keep: Known, made: StoredMerge, lost: set[str]) -> dict[int, str]:
    """Facts that know the keeping entity by a name it loses, beyond those that the merge itself brought."""
    own = name_rows.folded_names("", (name for name in keep.names if name.casefold() not in lost))
    wanted = name_rows.folded_names("", made.names) - own
    brought = {fact for fact, _, _ in made.joined.mentions}
    known = _mentions(connection, bank, keep.seq)
    return {
        fact: said
        for fact, said in known.items()
        if said and fact not in brought and (said.casefold() in lost or name_rows.fold(said) in wanted)
    }


def _bare(made: StoredMerge) -> Entity:
    """The entity that a merge's names alone tell of."""
    name, *aliases = made.names
    return Entity(id=EntityId(new_id()), name=name, aliases=tuple(aliases), first_seen=made.at, last_seen=made.at)


def _parted(
    connection: Connection, bank: int, made: StoredMerge, *, keep: Known, names: Sequence[str], moved: Iterable[int]
) -> Entity:
    """The entity that stands alone again, to which the other's names are strange."""
    entity = made.absorbed or _bare(made)
    exact = made.joined.first_seen is not None
    span = func.min(facts.c.mentioned_at), func.max(facts.c.mentioned_at)
    first, last = connection.execute(select(*span).where(row_conditions.rows(facts, bank, moved))).one()
    seen = [instant(first), instant(last)] if first is not None else []
    seen += [entity.first_seen, entity.last_seen] if exact else []
    seen = seen or [keep.entity.first_seen, keep.entity.last_seen]
    own = entity.name, *entity.aliases
    return entity.model_copy(
        update={
            "type": entity.type if exact else keep.entity.type,
            "strangers": _distinct((*entity.strangers, *names), besides=own),
            "first_seen": min(seen),
            "last_seen": max(seen),
        }
    )


def _stand_alone(connection: Connection, bank: int, made: StoredMerge, entity: Entity) -> Known:
    """Insert an entity, under its old number where it had one: earlier merges into it know it by that."""
    old = {"seq": made.joined.seq} if made.joined.seq else {}
    seqs = insert_rows(connection, entities, [{**entity_values(bank, entity), **old}])
    name_rows.save(connection, bank, [entity], seqs)
    return Known(seqs[entity.id], entity)


def _give_back(
    connection: Connection, bank: int, made: StoredMerge, *, keep: Known, parted: Known, others: Sequence[StoredMerge]
) -> None:
    """Give the entity its mentions in facts that still exist; what other merges mention stays with the keeper."""
    mentioning = [fact for fact, _, _ in made.joined.mentions]
    there = set(connection.execute(select(facts.c.seq).where(row_conditions.rows(facts, bank, mentioning))).scalars())
    _mention(connection, bank, parted, {fact: said for fact, said, _ in made.joined.mentions if fact in there})
    _unmention(connection, bank, keep.seq, made.lent)
    left = {fact: said for other in others for fact, said in other.lent.items() if fact in there and fact in made.lent}
    _mention(connection, bank, keep, left)


def _remaining(keep: Entity, made: StoredMerge, names: Sequence[str], others: Sequence[StoredMerge]) -> Entity:
    """The keeping entity without what it got; what else became of it since stays."""
    changes: dict[str, object] = {
        "name": names[0],
        "aliases": tuple(names[1:]),
        "strangers": _distinct((*keep.strangers, *made.names), besides=names),
    }
    for absorbed, own in _whole([made]):
        left = [entity for entity, _ in _whole(others)]
        first = min([own["first_seen"], *(entity.first_seen for entity in left)])
        last = max([own["last_seen"], *(entity.last_seen for entity in left)])
        types = [own["type"], *(entity.type for entity in left)]
        if keep.type == absorbed.type:
            changes["type"] = next((type for type in types if type != "OTHER"), "OTHER")
        if keep.first_seen == min(first, absorbed.first_seen):
            changes["first_seen"] = first
        if keep.last_seen == max(last, absorbed.last_seen):
            changes["last_seen"] = last
    return keep.model_copy(update=changes)
