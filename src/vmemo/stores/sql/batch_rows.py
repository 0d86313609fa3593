"""Rows of derived memories. Everything here runs inside the caller's one transaction."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import get_args

from sqlalchemy import BigInteger, Connection, Table, bindparam, delete, update

from vmemo.models import Entity, EntityId, Episode, Fact, FactId, Link, LinkKind, MessageId, RevisionKind
from vmemo.models.changes import Changes, EntityMention, NewFact
from vmemo.stores.sql import name_rows
from vmemo.stores.sql.bulk import Seqs, insert_all, insert_cells, insert_rows, seqs_of, update_rows
from vmemo.stores.sql.conditions import among, later, listed
from vmemo.stores.sql.prepared import Prepared
from vmemo.stores.sql.rows import Values, entity_values, episode_values, fact_values
from vmemo.stores.sql.schema import (
    BASIS,
    CONTEXT,
    EPISODE,
    MESSAGE,
    entities,
    entity_names,
    episode_messages,
    episodes,
    facts,
    links,
    mentions,
    messages,
    sources,
)
from vmemo.stores.values import missing_reference

LINK_KINDS: tuple[LinkKind, ...] = get_args(LinkKind)
_LINK_NUMBERS: dict[LinkKind, int] = {kind: number for number, kind in enumerate(LINK_KINDS)}
REVISION_KINDS: dict[int, RevisionKind] = {LINK_KINDS.index(kind): kind for kind in get_args(RevisionKind)}
"""Kinds of links from a newer fact to an older one, by number."""


_WAITING = update(messages).where(
    messages.c.bank == bindparam("of_bank", type_=BigInteger), among(messages.c.id, later("ids"))
)
_GROUPED = Prepared(_WAITING.where(messages.c.state == "pending"))
_PROCESSED = Prepared(_WAITING.where((messages.c.state == "pending") | (messages.c.state == "grouped")))


def claim(connection: Connection, bank: int, changes: Changes) -> bool:
    """Give pending messages their new state; return False if one of them is no longer pending."""
    if not changes.pending:
        return True
    grouped = changes.becomes == "grouped"
    # A message that is only grouped keeps the note of why it could not be processed.
    new_state = {"state": changes.becomes} if grouped else {"state": changes.becomes, "error": None, "failed_at": None}
    waiting = {"of_bank": bank, "ids": listed(changes.pending)}
    claimed = (_GROUPED if grouped else _PROCESSED).execute(connection, {**waiting, **new_state})
    if claimed != len(changes.pending):
        return False
    if changes.unrepeated:
        without_facts = messages.c.bank == bank, among(messages.c.id, changes.unrepeated)
        connection.execute(update(messages).where(*without_facts).values(state="extracted"))
    return True


def _save(connection: Connection, table: Table, values: Sequence[Values], known: Seqs) -> Seqs:
    """Update rows whose ids are known, insert the others, and return the numbers of all."""
    update_rows(connection, table, [row for row in values if row["id"] in known], known)
    return {**known, **insert_rows(connection, table, [row for row in values if row["id"] not in known])}


def save_entities(
    connection: Connection, bank: int, new: Sequence[Entity], reserved: Mapping[str, int] = MappingProxyType({})
) -> Seqs:
    """Insert or update entities; one with a reserved number returns under it."""
    if not new:
        return {}
    known = seqs_of(connection, entities, bank, (entity.id for entity in new))
    rows = [
        {**entity_values(bank, entity), **({"seq": reserved[entity.id]} if entity.id in reserved else {})}
        for entity in new
    ]
    seqs = _save(connection, entities, rows, known)
    name_rows.save(connection, bank, new, seqs)
    return seqs


_WITHOUT_MESSAGES = Prepared(
    delete(episode_messages).where(
        episode_messages.c.bank == bindparam("of_bank", type_=BigInteger),
        among(episode_messages.c.episode, later("episodes")),
    )
)


def save_episodes(connection: Connection, bank: int, new: Sequence[Episode]) -> Seqs:
    """Insert or replace episodes and the messages they hold."""
    known = seqs_of(connection, episodes, bank, (episode.id for episode in new))
    seqs = _save(connection, episodes, [episode_values(bank, episode) for episode in new], known)
    members = seqs_of(connection, messages, bank, (id for episode in new for id in episode.messages))
    if known:
        _WITHOUT_MESSAGES.execute(connection, {"of_bank": bank, "episodes": listed(known.values())})
    rows = [(bank, seqs[episode.id], number_of(members, "message", id)) for episode in new for id in episode.messages]
    insert_cells(connection, episode_messages, ("bank", "episode", "message"), rows)
    return seqs


def save_facts(connection: Connection, bank: int, new: Sequence[NewFact], revision: int) -> Seqs:
    """Insert facts."""
    return insert_rows(connection, facts, [fact_values(bank, item.fact, revision) for item in new])


def save_sources(connection: Connection, bank: int, new: Sequence[Fact], seqs: Seqs) -> None:
    """Insert the sources of each fact. Facts may rest on older facts of the bank."""
    said = seqs_of(connection, messages, bank, (id for fact in new for id in (*fact.messages, *_context(fact))))
    inside = seqs_of(connection, episodes, bank, (id for fact in new for id in fact.episodes))
    behind = seqs_of(connection, facts, bank, (id for fact in new for id in fact.basis))
    rows: list[tuple[int, ...]] = []
    for fact in new:
        origins = (
            (MESSAGE, "message", said, fact.messages),
            (CONTEXT, "message", said, _context(fact)),
            (EPISODE, "episode", inside, fact.episodes),
            (BASIS, "fact", behind, fact.basis),
        )
        number = seqs[fact.id]
        rows += [(bank, number, kind, number_of(known, what, id)) for kind, what, known, ids in origins for id in ids]
    insert_cells(connection, sources, ("bank", "fact", "kind", "source"), rows)


def number_of(known: Seqs, what: str, id: str) -> int:
    """Return the number of a record that a batch refers to; raise InvalidInput if it does not exist."""
    if id not in known:
        raise missing_reference(what, id)
    return known[id]


def _context(fact: Fact) -> tuple[MessageId, ...]:
    return () if fact.context_from is None else (fact.context_from,)


def save_mentions(connection: Connection, bank: int, new: Sequence[Fact], seqs: Seqs, known: Seqs) -> None:
    """Insert the mentions of entities in each fact."""
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
    """Delete mentions of entities in stored facts."""
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
    """Insert mentions of entities in stored facts."""
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


def save_links(connection: Connection, bank: int, new: Sequence[Link], known: Seqs) -> None:
    """Insert links; one whose other end was deleted is left out."""
    ends = {end for link in new for end in (link.source, link.target)} - known.keys()
    numbers = {**known, **seqs_of(connection, facts, bank, ends)}
    rows = {
        (numbers[link.source], numbers[link.target], _LINK_NUMBERS[link.kind]): link.weight
        for link in new
        if link.source in numbers and link.target in numbers
    }
    values = [(bank, *key, weight) for key, weight in sorted(rows.items())]
    insert_cells(connection, links, ("bank", "source", "target", "kind", "weight"), values)
