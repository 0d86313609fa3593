"""Removal of deleted text outside facts: in names, merges, confidence changes and queued jobs.

A name stays where the text of a remaining fact uses it. Reasons and errors may quote anything, so they are dropped
with the first of what they may be about.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Set
from dataclasses import replace

from sqlalchemy import Connection, delete, select, update

from vmemo.models import Entity
from vmemo.stores.sql import conditions, merge_rows, name_rows
from vmemo.stores.sql.conditions import among
from vmemo.stores.sql.merge_rows import Joined, StoredMerge
from vmemo.stores.sql.rows import dump, names_of
from vmemo.stores.sql.schema import entities, entity_names, facts, jobs, mentions, merges, messages, moves
from vmemo.text.names.fold import fold_name, folded_names


def forget_names(connection: Connection, bank: int, kept: Iterable[int]) -> None:
    """Drop names of entities that no remaining fact uses: they may have stood in the forgotten text alone."""
    for seq in sorted(kept):
        row = connection.execute(select(entities).where(conditions.row(entities, bank, seq))).one()
        texts = _texts(connection, bank, [seq])
        names = _used((row.name, *names_of(row.aliases)), texts)
        if names:
            values = {"name": names[0], "aliases": dump(names[1:])}
            connection.execute(update(entities).where(conditions.row(entities, bank, seq)).values(values))
            name_rows.replace(connection, bank, {seq: folded_names(names[0], names[1:])})
            _unsay(connection, bank, seq, texts)
        else:
            drop_entities(connection, bank, [seq])


def drop_entities(connection: Connection, bank: int, gone: Iterable[int]) -> None:
    """Delete entities with their mentions and names."""
    numbers = list(gone)
    for column in (mentions.c.entity, entity_names.c.entity, entities.c.seq):
        connection.execute(delete(column.table).where(column.table.c.bank == bank, among(column, numbers)))


def _used(names: Iterable[str], texts: str) -> list[str]:
    return [name for name in names if name.casefold() in texts]


def _texts(connection: Connection, bank: int, of: Iterable[int]) -> str:
    """Texts of the facts that mention one of these entities, in lower case."""
    statement = (
        select(facts.c.text)
        .join(mentions, conditions.points(mentions, "fact", facts))
        .where(mentions.c.bank == bank, among(mentions.c.entity, of))
    )
    return "\n".join(connection.execute(statement).scalars()).casefold()


def _unsay(connection: Connection, bank: int, entity: int, texts: str) -> None:
    own = mentions.c.bank == bank, mentions.c.entity == entity
    said = connection.execute(select(mentions.c.said).where(*own, mentions.c.said.is_not(None)).distinct()).scalars()
    gone = [name for name in said if name.casefold() not in texts]
    if gone:
        connection.execute(update(mentions).where(*own, among(mentions.c.said, gone)).values(said=None))


def forget_merges(connection: Connection, bank: int, touched: Set[int]) -> None:
    """Drop merges of entities that are gone; of entities that lost facts, keep only names that remaining facts use."""
    found = merge_rows.stored(connection, bank)
    into = {m.joined.seq: m.entity for m in found if m.absorbed is not None and m.undone_at is None}
    living = select(entities.c.seq).where(entities.c.bank == bank)
    there: set[int] = set(connection.execute(living).scalars()) if found else set()
    # What was merged into an entity that another absorbed later goes with that later merge.
    for merge in reversed(found):
        keeper = _keeper(merge.entity, into, there)
        kept: StoredMerge | None = merge
        if keeper is None:
            kept = None
        elif touched & {keeper, merge.entity, merge.joined.seq}:
            kept = _still_used(merge, _texts(connection, bank, {keeper, merge.joined.seq}))
        if kept is None:
            into.pop(merge.joined.seq, None)
            connection.execute(delete(merges).where(conditions.row(merges, bank, merge.seq)))
        elif kept is not merge:
            merge_rows.save(connection, bank, kept)


def _keeper(entity: int, into: dict[int, int], there: Set[int]) -> int | None:
    """The entity that another is part of by now; None if there is none left."""
    passed: set[int] = set()
    while entity not in there:
        if entity in passed or entity not in into:
            return None
        passed.add(entity)
        entity = into[entity]
    return entity


def _still_used(merge: StoredMerge, texts: str) -> StoredMerge | None:
    names = _used(merge.names, texts)
    if not names:
        return None
    return replace(
        merge,
        names=tuple(names),
        absorbed=None if merge.absorbed is None else _renamed(merge.absorbed, names),
        joined=_unsaid(merge.joined, texts),
        reason="",
    )


def _renamed(entity: Entity, names: list[str]) -> Entity:
    return entity.model_copy(update={"name": names[0], "aliases": tuple(names[1:])})


def _unsaid(joined: Joined, texts: str) -> Joined:
    held = [(fact, said if said and said.casefold() in texts else None, own) for fact, said, own in joined.mentions]
    return joined.model_copy(update={"own": tuple(_used(joined.own, texts)), "mentions": tuple(held)})


def forget_unrelated_names(connection: Connection, bank: int) -> None:
    """Drop names that were found to be another's where nobody goes by them any longer and no message holds them."""
    rows = connection.execute(
        select(entities.c.seq, entities.c.strangers).where(entities.c.bank == bank, entities.c.strangers != "[]")
    ).all()
    absorbed = [(m, m.absorbed) for m in merge_rows.stored(connection, bank, merges.c.absorbed.is_not(None))]
    estranged = [(merge, entity) for merge, entity in absorbed if entity is not None and entity.strangers]
    names = {name for row in rows for name in names_of(row.strangers)}
    names |= {name for _, entity in estranged for name in entity.strangers}
    known = _standing(connection, bank, names)
    for row in rows:
        left = dump([name for name in names_of(row.strangers) if name in known])
        connection.execute(update(entities).where(conditions.row(entities, bank, row.seq)).values(strangers=left))
    for merge, entity in estranged:
        kept = entity.model_copy(update={"strangers": tuple(name for name in entity.strangers if name in known)})
        merge_rows.save(connection, bank, replace(merge, absorbed=kept))


def _standing(connection: Connection, bank: int, names: Set[str]) -> set[str]:
    """Return the names that an entity or a message still uses."""
    if not names:
        return set()
    folded = {name: fold_name(name) for name in names}
    known = select(entity_names.c.name).where(entity_names.c.bank == bank, among(entity_names.c.name, folded.values()))
    own = set(connection.execute(known).scalars())
    found = {name for name in names if folded[name] in own}
    left = {name: name.casefold() for name in names - found}
    lines = select(messages.c.speaker, messages.c.content).where(messages.c.bank == bank)
    for speaker, content in connection.execute(lines) if left else ():
        line = f"{speaker or ''}\n{content}".casefold()
        found |= {name for name in left if left[name] in line}
    return found


def forget_moves(connection: Connection, bank: int, fallen: Iterable[int], ids: Set[str]) -> None:
    """Drop steps of opinions that fall, and from the steps of others what came of facts that do."""
    connection.execute(delete(moves).where(moves.c.bank == bank, among(moves.c.fact, fallen)))
    for seq, evidence in connection.execute(select(moves.c.seq, moves.c.evidence).where(moves.c.bank == bank)).all():
        known = names_of(evidence)
        left = [id for id in known if id not in ids]
        if len(left) < len(known):
            step = update(moves).where(conditions.row(moves, bank, seq))
            connection.execute(step.values(evidence=dump(left), reason=""))


def forget_jobs(connection: Connection, bank: int, *, episodes: Set[str], entities: Set[str]) -> None:
    """Drop work on episodes and entities that are gone, and the errors of all other work."""
    queued = select(jobs.c.seq, jobs.c.kind, jobs.c.key, jobs.c.detail).where(jobs.c.bank == bank)
    gone = [
        seq
        for seq, kind, key, detail in connection.execute(queued).all()
        if (kind == "extract" and json.loads(detail).get("episode") in episodes)
        or (kind == "observe" and key in entities)
    ]
    connection.execute(delete(jobs).where(conditions.rows(jobs, bank, gone)))
    connection.execute(update(jobs).where(jobs.c.bank == bank, jobs.c.error.is_not(None)).values(error=None))


def forget_errors(connection: Connection, bank: int, gone: Iterable[int], again: Iterable[int]) -> None:
    """Drop errors of messages that are read again, and those that others share with a message that is about to go."""
    shared = select(messages.c.error).where(conditions.rows(messages, bank, gone), messages.c.error.is_not(None))
    texts = connection.execute(shared.distinct()).scalars().all()
    told = messages.c.bank == bank, among(messages.c.error, texts) | among(messages.c.seq, again)
    connection.execute(update(messages).where(*told).values(error=None, failed_at=None))
