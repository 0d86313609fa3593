"""Forgetting: deletes messages with all that rests on them, and queues what they were read together with again."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass

from sqlalchemy import Column, Connection, Table, and_, delete, select, update

from vmemo.errors import NotFound
from vmemo.models.changes import ForgetTarget, NewJob
from vmemo.models.results import Forgotten
from vmemo.stores.sql import conditions, forget_cleanup, message_rows, queue, selects
from vmemo.stores.sql.conditions import among
from vmemo.stores.sql.rows import names_of
from vmemo.stores.sql.schema import (
    BASIS,
    CONTEXT,
    MESSAGE,
    entities,
    episode_messages,
    episodes,
    facts,
    links,
    mentions,
    messages,
    notes,
    sources,
)
from vmemo.stores.sql.selects import current

Seqs = set[int]


@dataclass(frozen=True)
class Removal:
    """Numbers of what goes, and of the messages that will be read again."""

    messages: frozenset[int]
    facts: frozenset[int]
    episodes: frozenset[int]
    entities: frozenset[int]
    again: frozenset[int]

    def counts(self) -> Forgotten:
        """The same as counts."""
        return Forgotten(
            messages=len(self.messages),
            facts=len(self.facts),
            episodes=len(self.episodes),
            entities=len(self.entities),
            requeued=len(self.again),
        )


def plan(connection: Connection, bank: int, target: ForgetTarget) -> Removal:
    """Return what forgetting a target removes.

    The episodes of forgotten messages dissolve: their other messages are read again, so nothing that quotes or
    summarises the forgotten text is left. So are messages that had a forgotten one as context, and those that told
    a fact together with it.
    """
    if target.bank:
        tables = (messages, facts, episodes, entities)
        return Removal(*(_all(connection, bank, table) for table in tables), again=frozenset())
    gone, named = _targeted(connection, bank, target), _entity(connection, bank, target)
    about = _related(connection, bank, mentions.c.entity, named, mentions.c.fact)
    again, broken, fallen = _spread(connection, bank, gone, about)
    touched = _related(connection, bank, mentions.c.fact, fallen, mentions.c.entity)
    orphans = touched - _still_mentioned(connection, bank, touched, fallen)
    return Removal(*map(frozenset, (gone, fallen, broken, orphans | named, again)))


def _all(connection: Connection, bank: int, table: Table) -> frozenset[int]:
    return frozenset(connection.execute(select(table.c.seq).where(table.c.bank == bank)).scalars())


def _spread(connection: Connection, bank: int, gone: Seqs, about: Seqs) -> tuple[Seqs, Seqs, Seqs]:
    """Messages to read again, episodes that dissolve and facts that fall, followed until nothing more is touched."""
    again = _sources_of(connection, bank, _resting(connection, bank, CONTEXT, gone)) - gone
    while True:
        broken = _related(connection, bank, episode_messages.c.message, gone | again, episode_messages.c.episode)
        members = _related(connection, bank, episode_messages.c.episode, broken, episode_messages.c.message)
        read = _resting(connection, bank, MESSAGE, gone | again | members)
        fallen = _with_dependents(connection, bank, read | about)
        wider = (again | members | _sources_of(connection, bank, fallen)) - gone
        if wider == again:
            return again, broken, fallen
        again = wider


def _targeted(connection: Connection, bank: int, target: ForgetTarget) -> Seqs:
    if target.entity is not None:
        named = _entity(connection, bank, target)
        told = _sources_of(connection, bank, _related(connection, bank, mentions.c.entity, named, mentions.c.fact))
        return told | _naming(connection, bank, named)
    if target.document is not None:
        statement = select(messages.c.seq).where(messages.c.bank == bank, messages.c.document == target.document)
        found = set(connection.execute(statement).scalars())
        if not found:
            raise NotFound(f"There is no document {target.document!r} in this bank. Nothing was forgotten.")
        return found
    return _messages(connection, bank, target)


def _naming(connection: Connection, bank: int, named: Seqs) -> Seqs:
    """Messages kept in their own words that hold one of the entity's names; such messages have no mentions."""
    known = select(entities.c.name, entities.c.aliases).where(conditions.rows(entities, bank, named))
    row = connection.execute(known).one()
    names = "|".join(re.escape(name) for name in (row.name, *names_of(row.aliases)))
    pattern = re.compile(rf"(?<!\w)(?:{names})(?!\w)", re.IGNORECASE)
    kept = select(messages.c.seq, messages.c.content).where(messages.c.bank == bank, messages.c.state != "derived")
    return {seq for seq, content in connection.execute(kept) if pattern.search(content)}


def _messages(connection: Connection, bank: int, target: ForgetTarget) -> Seqs:
    statement = select(messages.c.id, messages.c.seq).where(
        messages.c.bank == bank, among(messages.c.id, target.messages)
    )
    found = dict(connection.execute(statement).all())
    missing = [id for id in target.messages if id not in found]
    if missing:
        raise NotFound(f"There is no message {missing[0]!r} in this bank. Nothing was forgotten.")
    return set(found.values())


def _entity(connection: Connection, bank: int, target: ForgetTarget) -> Seqs:
    if target.entity is None:
        return set()
    statement = select(entities.c.seq).where(entities.c.bank == bank, entities.c.id == target.entity)
    found = connection.execute(statement).scalar_one_or_none()
    if found is None:
        raise NotFound(f"There is no entity {target.entity!r} in this bank. Nothing was forgotten.")
    return {found}


def _related(connection: Connection, bank: int, by: Column[int], values: Iterable[int], wanted: Column[int]) -> Seqs:
    """Values of one column of a table in the rows where another column has one of these."""
    return set(connection.execute(select(wanted).where(by.table.c.bank == bank, among(by, values))).scalars())


def _resting(connection: Connection, bank: int, kind: int, on: Iterable[int]) -> Seqs:
    """Facts that come from these sources."""
    resting = sources.c.bank == bank, sources.c.kind == kind, among(sources.c.source, on)
    return set(connection.execute(select(sources.c.fact).where(*resting)).scalars())


def _sources_of(connection: Connection, bank: int, of: Iterable[int]) -> Seqs:
    """Messages that these facts were read from. To read the evidence of a formed opinion again brings nothing back."""
    stating = sources.c.bank == bank, among(sources.c.fact, of), sources.c.kind == MESSAGE
    read = select(sources.c.source).join(facts, conditions.points(sources, "fact", facts)).where(~selects.formed(bank))
    return set(connection.execute(read.where(*stating)).scalars())


def _with_dependents(connection: Connection, bank: int, fallen: Seqs) -> Seqs:
    """Facts and everything that rests on them, directly or not."""
    reached, edge = set(fallen), set(fallen)
    while edge:
        edge = _resting(connection, bank, BASIS, edge) - reached
        reached |= edge
    return reached


def _still_mentioned(connection: Connection, bank: int, touched: Seqs, fallen: Seqs) -> Seqs:
    statement = select(mentions.c.entity, mentions.c.fact).where(
        mentions.c.bank == bank, among(mentions.c.entity, touched)
    )
    return {entity for entity, fact in connection.execute(statement).all() if fact not in fallen}


def remove(connection: Connection, bank: int, removal: Removal) -> None:
    """Delete what a plan names and queue the rest of its messages again."""
    touched = _related(connection, bank, mentions.c.fact, removal.facts, mentions.c.entity)
    kept = touched - removal.entities
    outdated = _described(connection, bank, kept, removal.facts)
    episode_ids = _ids(connection, bank, episodes, removal.episodes)
    entity_ids = _ids(connection, bank, entities, removal.entities)
    forget_cleanup.forget_moves(connection, bank, removal.facts, _ids(connection, bank, facts, removal.facts))
    forget_cleanup.forget_errors(connection, bank, removal.messages, removal.again)
    _delete_all(connection, bank, removal)
    forget_cleanup.forget_names(connection, bank, kept)
    forget_cleanup.forget_merges(connection, bank, touched | removal.entities)
    forget_cleanup.forget_unrelated_names(connection, bank)
    forget_cleanup.forget_jobs(connection, bank, episodes=episode_ids, entities=entity_ids)
    _requeue(connection, bank, removal.again, outdated)
    _demand_scrub(connection)


def _ids(connection: Connection, bank: int, table: Table, seqs: Iterable[int]) -> set[str]:
    return set(connection.execute(select(table.c.id).where(conditions.rows(table, bank, seqs))).scalars())


def _described(connection: Connection, bank: int, kept: Seqs, fallen: Iterable[int]) -> Seqs:
    """Return the entities with an observation that is deleted or still current."""
    told = among(facts.c.seq, fallen) | and_(*current(bank))
    statement = (
        select(mentions.c.entity)
        .join(facts, conditions.points(mentions, "fact", facts))
        .where(mentions.c.bank == bank, among(mentions.c.entity, kept), facts.c.network == "observation", told)
    )
    return set(connection.execute(statement).scalars())


def _delete_all(connection: Connection, bank: int, removal: Removal) -> None:
    _reopen(connection, bank, removal.facts)
    for column in (sources.c.fact, mentions.c.fact, links.c.source, links.c.target):
        _delete(connection, bank, column, removal.facts)
    _delete(connection, bank, facts.c.seq, removal.facts)
    forget_cleanup.drop_entities(connection, bank, removal.entities)
    message_rows.dissolve(connection, bank, removal.episodes)
    _delete(connection, bank, messages.c.seq, removal.messages)


def _requeue(connection: Connection, bank: int, again: Iterable[int], outdated: Iterable[int]) -> None:
    """Queue messages that are read again, and entities that are described again."""
    read = update(messages).where(conditions.rows(messages, bank, again), messages.c.state != "raw")
    waiting = connection.execute(read.values(state="pending")).rowcount
    new = [NewJob(kind="process")] if waiting else []
    described = sorted(_ids(connection, bank, entities, outdated))
    new += [NewJob(kind="observe", key=id, detail={"anew": True}) for id in described]
    queue.enqueue(connection, bank, new)


def remove_bank(connection: Connection, bank: int) -> None:
    """Delete a bank, so that its text is in no byte of the file once that is rewritten."""
    message_rows.clear(connection, bank)
    _demand_scrub(connection)


def _demand_scrub(connection: Connection) -> None:
    message_rows.insert_missing(connection, notes, {"name": message_rows.SCRUB, "value": "pending"})


def _delete(connection: Connection, bank: int, column: Column[int], values: Iterable[int]) -> None:
    table = column.table
    assert isinstance(table, Table)
    connection.execute(delete(table).where(table.c.bank == bank, among(column, values)))


def _reopen(connection: Connection, bank: int, fallen: Iterable[int]) -> None:
    """Give what a deleted fact superseded to the fact that superseded it, or reopen it."""
    statement = select(facts.c.id, facts.c.supersedes).where(facts.c.bank == bank, facts.c.supersedes.is_not(None))
    replaces: dict[str, str] = dict(connection.execute(statement).all())
    lost = _ids(connection, bank, facts, fallen)
    for id, old in replaces.items():
        if id not in lost and old in lost:
            _update(connection, bank, id, {"supersedes": _beyond(old, replaces, lost)})
    held = {_beyond(old, replaces, lost) for id, old in replaces.items() if id not in lost}
    for old in {old for id, old in replaces.items() if id in lost and old not in lost} - held:
        _update(connection, bank, old, {"invalid_at": None, "expired_at": None})


def _beyond(id: str, replaces: Mapping[str, str], lost: Set[str]) -> str | None:
    """The first fact on the way back from this one that is not lost."""
    passed: set[str] = set()
    step: str | None = id
    while step is not None and step in lost and step not in passed:
        passed.add(step)
        step = replaces.get(step)
    return None if step in lost else step


def _update(connection: Connection, bank: int, fact: str, values: Mapping[str, str | None]) -> None:
    connection.execute(update(facts).where(facts.c.bank == bank, facts.c.id == fact).values(values))
