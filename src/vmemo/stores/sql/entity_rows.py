"""Rows of entities, their names, their mentions in facts, and their merges.

Every name is stored folded, so that the names in a text find their entities. An absorbed entity has no row, but its
merge keeps its number: it returns under that number, and so in its place among others, when the merge is undone.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence, Set

from sqlalchemy import BigInteger, Connection, bindparam, delete, select

from vmemo.models import (
    Entity,
    EntityId,
    Fact,
    FactId,
    Mention,
    Merge,
)
from vmemo.models.changes import EntityMention, MergeRecord
from vmemo.stores.sql import statements
from vmemo.stores.sql.schema import (
    entities,
    entity_names,
    facts,
    mentions,
    merges,
)
from vmemo.stores.sql.statements import (
    AnyRow,
    Cells,
    Prepared,
    Seqs,
    Values,
    among,
    insert_all,
    insert_cells,
    later,
    listed,
    number_of,
    row_values,
    save_rows,
    seqs_of,
)
from vmemo.stores.values import instant, missing_reference, names_of
from vmemo.text.names.compare import folded_names, name_runs


def entity_of(row: AnyRow, mentions: int) -> Entity:
    """An entity from its row and how many facts mention it."""
    return Entity.model_construct(
        id=EntityId(row.id),
        name=row.name,
        type=row.type,
        aliases=names_of(row.aliases),
        not_aliases=names_of(row.not_aliases),
        first_seen=instant(row.first_seen),
        last_seen=instant(row.last_seen),
        mentions=mentions,
    )


def mentions_of(rows: Iterable[Cells]) -> dict[int, list[Mention]]:
    """Mentions by the number of their fact, from rows of it, the entity's id, name and type, and `name_in_text`.

    Facts share them: most facts of a recall mention the same few entities.
    """
    found: dict[int, list[Mention]] = defaultdict(list)
    known: dict[str | tuple[str, str], Mention] = {}
    for fact, id, name, type, said in rows:
        key = id if said is None else (id, said)
        if key not in known:
            known[key] = Mention.trusted({"id": id, "name": name, "type": type, "name_in_text": said or ""})
        found[fact].append(known[key])
    return found


def save_entities(connection: Connection, bank: int, new: Sequence[Entity], reserved: Mapping[str, int | None]) -> Seqs:
    """Insert or update entities; one with a reserved number returns under it."""
    if not new:
        return {}
    known = seqs_of(connection, entities, bank, (entity.id for entity in new))
    rows = [row_values(entities, bank, entity) for entity in new]
    for row in rows:
        if (number := reserved.get(str(row["id"]))) is not None:
            row["seq"] = number
    seqs = save_rows(connection, entities, rows, known)
    save_names(connection, bank, {seqs[entity.id]: folded_names(entity.name, entity.aliases) for entity in new})
    return seqs


def save_mentions(connection: Connection, bank: int, new: Sequence[Fact], seqs: Seqs, known: Seqs) -> None:
    missing = {mention.id for fact in new for mention in fact.entities} - known.keys()
    numbers = {**known, **seqs_of(connection, entities, bank, missing)}
    pairs = {
        (seqs[fact.id], number_of(numbers, "entity", mention.id)): mention.name_in_text or None
        for fact in new
        for mention in fact.entities
    }
    rows = [(bank, fact, entity, pairs[fact, entity]) for fact, entity in sorted(pairs)]
    insert_cells(connection, mentions, ("bank", "fact", "entity", "name_in_text"), rows)


def remove_mentions(connection: Connection, bank: int, removed: Sequence[EntityMention]) -> None:
    by_entity: dict[EntityId, list[FactId]] = defaultdict(list)
    for mention in removed:
        by_entity[mention.entity].append(mention.fact)
    numbers = seqs_of(connection, entities, bank, by_entity)
    mentioning = seqs_of(connection, facts, bank, (mention.fact for mention in removed))
    for entity, ids in by_entity.items():
        rows = [mentioning[id] for id in ids if id in mentioning]
        own = mentions.c.bank == bank, mentions.c.entity == number_of(numbers, "entity", entity)
        connection.execute(delete(mentions).where(*own, among(mentions.c.fact, rows)))


def add_mentions(connection: Connection, bank: int, added: Sequence[EntityMention]) -> None:
    numbers = seqs_of(connection, entities, bank, (mention.entity for mention in added))
    mentioning = seqs_of(connection, facts, bank, (mention.fact for mention in added))
    rows = [
        {
            "bank": bank,
            "fact": number_of(mentioning, "fact", mention.fact),
            "entity": number_of(numbers, "entity", mention.entity),
            "name_in_text": mention.name_in_text or None,
        }
        for mention in added
    ]
    insert_all(connection, mentions, rows)


def delete_entities(connection: Connection, bank: int, deleted: Sequence[EntityId]) -> None:
    """Delete entities with their mentions and names."""
    numbers = list(seqs_of(connection, entities, bank, deleted).values())
    if not numbers:
        return
    for column in (mentions.c.entity, entity_names.c.entity, entities.c.seq):
        connection.execute(delete(column.table).where(column.table.c.bank == bank, among(column, numbers)))


_STORED = Prepared(
    select(entity_names.c.entity, entity_names.c.name).where(
        entity_names.c.bank == bindparam("bank", type_=BigInteger), among(entity_names.c.entity, later("entities"))
    )
)


def save_names(connection: Connection, bank: int, names: Mapping[int, set[str]]) -> None:
    """Store the folded names of new entities, and of those whose names changed."""
    stored: dict[int, set[str]] = defaultdict(set)
    for seq, name in _STORED.rows(connection, {"bank": bank, "entities": listed(names)}):
        stored[seq].add(name)
    changed = [seq for seq in names if names[seq] != stored[seq]]
    former = [seq for seq in changed if stored[seq]]
    if former:
        gone = entity_names.c.bank == bank, among(entity_names.c.entity, former)
        connection.execute(delete(entity_names).where(*gone))
    rows = [{"bank": bank, "name": name, "entity": seq} for seq in changed for name in sorted(names[seq])]
    insert_all(connection, entity_names, rows)


_NAMED = Prepared(
    select(entity_names.c.name, entities.c.id, entities.c.name.label("known_as"), entities.c.type)
    .join(entities, statements.refers_to(entity_names, "entity", entities))
    .where(entity_names.c.bank == bindparam("bank", type_=BigInteger), among(entity_names.c.name, later("names")))
    .order_by(entity_names.c.name, entity_names.c.entity)
)


def named_entities(connection: Connection, bank: int, text: str) -> list[Mention]:
    """Return the entities named in a text; a name inside a longer one does not count."""
    return mentions_in(text, lambda names: _NAMED.rows(connection, {"bank": bank, "names": listed(names)}))


def mentions_in(text: str, find: Callable[[Set[str]], Sequence[Cells]]) -> list[Mention]:
    """Return the entities named in a text; `find` returns rows of folded name, id, name and type by folded names."""
    possible = list(name_runs(text))
    rows = find({run.name for run in possible})
    known = {name for name, *_ in rows}
    found = [run for run in possible if run.name in known]
    whole = {run.name for run in found if not any(run.within(other) for other in found)}
    mentions = {
        id: Mention.trusted({"id": EntityId(id), "name": known_as, "type": type, "name_in_text": ""})
        for name, id, known_as, type in rows
        if name in whole
    }
    return list(mentions.values())


def merge_records(connection: Connection, bank: int) -> list[MergeRecord]:
    """Return all merges in the order they were made, without entities and facts that were deleted since."""
    statement = select(merges.c.record).where(merges.c.bank == bank).order_by(merges.c.seq)
    found = [MergeRecord.model_validate_json(record) for record in connection.execute(statement).scalars()]
    ids = {id for merge in found for id in (merge.entity, merge.parted) if id is not None}
    known = seqs_of(connection, entities, bank, ids).keys() | {merge.absorbed for merge in found}
    numbers = seqs_of(connection, facts, bank, (mention.fact for merge in found for mention in merge.mentions))
    return [_present(merge, known, numbers) for merge in found if merge.entity in known]


def _present(merge: MergeRecord, known: Set[str | None], facts: Seqs) -> MergeRecord:
    mentions = sorted((each for each in merge.mentions if each.fact in facts), key=lambda each: facts[each.fact])
    parted = merge.parted if merge.absorbed is None and merge.parted in known else None
    return merge.model_copy(update={"mentions": tuple(mentions), "parted": parted})


def save_merges(connection: Connection, bank: int, new: Sequence[Merge]) -> None:
    """Insert merges, or replace those of the same ids. Their facts are stored already, and so are their entities."""
    if not new:
        return
    changed = [merge if isinstance(merge, MergeRecord) else MergeRecord.of(merge.model_dump()) for merge in new]
    ids = {id for merge in changed for id in (merge.entity, merge.absorbed, merge.parted) if id is not None}
    numbers = {**reserved_numbers(connection, bank), **seqs_of(connection, entities, bank, ids)}
    known = numbers.keys() | {merge.absorbed for merge in changed}
    mentioning = seqs_of(connection, facts, bank, (mention.fact for merge in changed for mention in merge.mentions))
    rows: list[Values] = []
    for merge in changed:
        for id in (merge.entity, merge.parted):
            if id is not None and id not in known:
                raise missing_reference("entity", id)
        for mention in merge.mentions:
            number_of(mentioning, "fact", mention.fact)
        number = None if merge.absorbed is None else numbers.get(merge.absorbed)
        identity = {"bank": bank, "id": merge.id, "absorbed": merge.absorbed, "absorbed_seq": number}
        rows.append({**identity, "record": merge.model_dump_json()})
    save_rows(connection, merges, rows, seqs_of(connection, merges, bank, (merge.id for merge in changed)))


def reserved_numbers(connection: Connection, bank: int) -> dict[str, int | None]:
    """Return the numbers of absorbed entities by id; None for one that was never stored, as in an import."""
    absorbed = select(merges.c.absorbed, merges.c.absorbed_seq).where(merges.c.absorbed.is_not(None))
    return dict(connection.execute(absorbed.where(merges.c.bank == bank).order_by(merges.c.seq)).all())


def delete_merges(connection: Connection, bank: int, ids: Sequence[str]) -> None:
    if ids:
        connection.execute(delete(merges).where(merges.c.bank == bank, among(merges.c.id, ids)))
