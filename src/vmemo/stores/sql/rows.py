"""Rows of messages and episodes, of facts with their sources and links, and of entities with their names and merges.

Every name is stored folded, so that the names in a text find their entities. An absorbed entity has no row, but its
merge keeps its number: it returns under that number, and so in its place among others, when the merge is undone.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import replace
from typing import Any, get_args

from pydantic import JsonValue
from pydantic_core import from_json
from sqlalchemy import Connection, Table, delete, select, update

from vmemo.errors import InvalidInput
from vmemo.models import (
    BankId,
    ConfidenceChange,
    Entity,
    EntityId,
    Episode,
    Fact,
    FactId,
    Link,
    LinkKind,
    Mention,
    Merge,
    Message,
    MessageId,
    RevisionKind,
    utc_now,
)
from vmemo.models.changes import AddedSource, Changes, EntityMention, MergeRecord, MessageFailure, NewFact
from vmemo.stores.search import SearchIndex
from vmemo.stores.sql import statements
from vmemo.stores.sql.schema import (
    BASIS,
    CONTEXT,
    EPISODE,
    MESSAGE,
    confidence_changes,
    entities,
    entity_names,
    episode_messages,
    episodes,
    facts,
    links,
    mentions,
    merges,
    messages,
    sources,
)
from vmemo.stores.sql.statements import (
    AnySelect,
    Cell,
    Cells,
    Seqs,
    Values,
    among,
    fields_of,
    insert_all,
    insert_rows,
    later,
    listed,
    number_of,
    of_bank,
    record_of,
    row_values,
    rows_of,
    save_rows,
    seqs_of,
    update_row,
)
from vmemo.stores.values import (
    UNPROCESSED,
    WORDLESS,
    dump,
    micros,
    micros_or_none,
    missing_reference,
    names_of,
    storable_error,
    unstored,
)
from vmemo.text.names.compare import folded_names, name_runs

_KNOWN_IDS = select(messages.c.id).where(of_bank(messages), among(messages.c.id, later("ids")))
_KNOWN_KEYS = select(messages.c.document, messages.c.key).where(
    of_bank(messages), among(messages.c.document, later("documents")), among(messages.c.key, later("keys"))
)


def append_messages(connection: Connection, bank: int, new: Sequence[Message], index: SearchIndex) -> list[Message]:
    """Insert messages that are not stored yet, and index their words; return those inserted."""
    fresh = unstored(new, _known(connection, bank, new)) if new else []
    rows: list[Values] = []
    for message in fresh:
        failed_at = None if message.error is None else micros(message.recorded_at)
        rows.append(row_values(messages, bank, message, attempts=int(failed_at is not None), failed_at=failed_at))
    seqs = insert_rows(connection, messages, rows)
    worded = [(seqs[message.id], message.content) for message in fresh if message.state not in WORDLESS]
    index.add_words(connection, bank, worded)
    return fresh


def _known(connection: Connection, bank: int, new: Sequence[Message]) -> set[object]:
    """Return the ids, and pairs of document and key, of these messages that are stored already."""
    ids = listed([message.id for message in new])
    known: set[object] = {row.id for row in connection.execute(_KNOWN_IDS, {"of_bank": bank, "ids": ids}).all()}
    keys = [message.key for message in new if message.key]
    if keys:
        documents = {message.document for message in new if message.document}
        wanted = {"of_bank": bank, "documents": listed(documents), "keys": listed(keys)}
        known.update((row.document, row.key) for row in connection.execute(_KNOWN_KEYS, wanted).all())
    return known


def record_failure(connection: Connection, bank: int, failure: MessageFailure) -> None:
    """Note an error on messages that are still pending."""
    waiting = messages.c.bank == bank, among(messages.c.id, failure.messages), messages.c.state.in_(UNPROCESSED)
    error, attempts = storable_error(failure.error), messages.c.attempts + 1
    noted = update(messages).where(*waiting).values(attempts=attempts, error=error, failed_at=micros(utc_now()))
    connection.execute(noted)


def any_pending(connection: Connection, bank: int, documents: Sequence[str | None]) -> bool:
    """Return True if one of the documents has a pending message; None is the messages without a document."""
    if not documents:
        return False
    named = among(messages.c.document, [document for document in documents if document is not None])
    inside = named | messages.c.document.is_(None) if None in documents else named
    waiting = select(messages.c.seq).where(messages.c.bank == bank, messages.c.state == "pending", inside)
    return connection.execute(waiting.limit(1)).first() is not None


_WAITING = update(messages).where(of_bank(messages), among(messages.c.id, later("ids")))
_GROUPED = _WAITING.where(messages.c.state == "pending")
_PROCESSED = _WAITING.where((messages.c.state == "pending") | (messages.c.state == "grouped"))


def claim(connection: Connection, bank: int, changes: Changes) -> bool:
    """Give pending messages their new state; return False if one of them is no longer pending."""
    if not changes.pending:
        return True
    grouped = changes.becomes == "grouped"
    # A message that is only grouped keeps the note of why it could not be processed.
    new_state = {"state": changes.becomes} if grouped else {"state": changes.becomes, "error": None, "failed_at": None}
    waiting = {"of_bank": bank, "ids": listed(changes.pending)}
    claimed = connection.execute(_GROUPED if grouped else _PROCESSED, {**waiting, **new_state}).rowcount
    if claimed != len(changes.pending):
        return False
    if changes.unrepeated:
        without_facts = messages.c.bank == bank, among(messages.c.id, changes.unrepeated)
        connection.execute(update(messages).where(*without_facts).values(state="extracted"))
    return True


def delete_messages(connection: Connection, bank: int, ids: Sequence[MessageId], index: SearchIndex) -> None:
    """Delete messages. The facts and episodes that refer to them are deleted before."""
    numbers = list(seqs_of(connection, messages, bank, ids).values())
    if numbers:
        index.drop_messages(connection, bank, numbers)
        connection.execute(delete(messages).where(statements.by_numbers(messages, bank, numbers)))


def requeue(connection: Connection, bank: int, ids: Sequence[MessageId], index: SearchIndex) -> None:
    """Let messages wait to be processed again; their own words are searched until facts repeat them."""
    if not ids:
        return
    found = messages.c.bank == bank, among(messages.c.id, ids)
    repeated = select(messages.c.seq, messages.c.content).where(*found, messages.c.state == "derived")
    index.add_words(connection, bank, [(seq, content) for seq, content in connection.execute(repeated).all()])
    processed = messages.c.state.not_in(("raw", "curated"))
    connection.execute(update(messages).where(*found, processed).values(state="pending"))


def curate(connection: Connection, bank: int, ids: Sequence[MessageId], index: SearchIndex) -> None:
    """Let messages be neither processed again nor searched by their words."""
    if not ids:
        return
    found = messages.c.bank == bank, among(messages.c.id, ids)
    worded = select(messages.c.id).where(*found, messages.c.state.not_in(WORDLESS))
    index.drop_words(connection, bank, [MessageId(id) for id in connection.execute(worded).scalars()])
    connection.execute(update(messages).where(*found).values(state="curated", error=None, failed_at=None))


_WITHOUT_MESSAGES = delete(episode_messages).where(
    of_bank(episode_messages), among(episode_messages.c.episode, later("episodes"))
)


def save_episodes(connection: Connection, bank: int, new: Sequence[Episode]) -> Seqs:
    """Insert or replace episodes and the messages they hold."""
    known = seqs_of(connection, episodes, bank, (episode.id for episode in new))
    seqs = save_rows(connection, episodes, [row_values(episodes, bank, episode) for episode in new], known)
    members = seqs_of(connection, messages, bank, (id for episode in new for id in episode.messages))
    if known:
        connection.execute(_WITHOUT_MESSAGES, {"of_bank": bank, "episodes": listed(known.values())})
    rows = [(bank, seqs[episode.id], number_of(members, "message", id)) for episode in new for id in episode.messages]
    insert_all(connection, episode_messages, rows)
    return seqs


def dissolve(connection: Connection, bank: int, broken: Iterable[int]) -> set[int]:
    """Delete episodes; an episode that followed one follows its predecessor. Return the numbers of their facts."""
    gone = sorted(broken)
    if not gone:
        return set()
    for seq in gone:
        deleted = select(episodes.c.id, episodes.c.previous).where(statements.by_number(episodes, bank, seq))
        row = connection.execute(deleted).one()
        following = update(episodes).where(episodes.c.bank == bank, episodes.c.previous == row.id)
        connection.execute(following.values(previous=row.previous))
    stating = sources.c.bank == bank, sources.c.kind == EPISODE, among(sources.c.source, gone)
    found = set(connection.execute(select(sources.c.fact).where(*stating)).scalars())
    connection.execute(delete(sources).where(*stating))
    inside = episode_messages.c.bank == bank, among(episode_messages.c.episode, gone)
    connection.execute(delete(episode_messages).where(*inside))
    connection.execute(delete(episodes).where(statements.by_numbers(episodes, bank, gone)))
    return found


LINK_KINDS: tuple[LinkKind, ...] = get_args(LinkKind)
_LINK_NUMBERS: dict[LinkKind, int] = {kind: number for number, kind in enumerate(LINK_KINDS)}
REVISION_KINDS: dict[int, RevisionKind] = {LINK_KINDS.index(kind): kind for kind in get_args(RevisionKind)}
"""Kinds of links from a newer fact to an older one, by number."""
_RECORDED = tuple(name for name in Fact.model_fields if name not in facts.c and name not in ("bank", "embedding"))
"""The fields of a fact that only its record has."""
_LISTS = ("messages", "episodes", "basis")


def _record(fact: Fact, order: Callable[[str], int]) -> str:
    """Return the record of a fact; its sources and entities are in the order of their numbers."""
    values: dict[str, JsonValue] = {name: getattr(fact, name) for name in _RECORDED}
    values |= {name: sorted(getattr(fact, name), key=order) for name in _LISTS}
    mentioned = sorted(fact.entities, key=lambda mention: order(mention.id))
    return dump({**values, "entities": [[mention.id, mention.name_in_text] for mention in mentioned]})


def facts_of_rows(
    bank: BankId, rows: Sequence[Cells], named: Callable[[Set[EntityId]], Mapping[EntityId, Mention]]
) -> list[Fact]:
    """Return the facts of rows, without embeddings. They share what `named` returns: mentions of entities by id."""
    at = facts.columns.keys().index("record")
    written = f"[{','.join([row[at] for row in rows])}]"
    records: list[dict[str, Any]] = from_json(written, cache_strings="keys")
    known = named({id for record in records for id, _ in record["entities"]})
    found: list[Fact] = []
    for fields, record in zip(fields_of(Fact, facts, rows), records, strict=True):
        record["entities"] = [
            Mention.trusted({**known[id].__dict__, "name_in_text": said}) if said else known[id]
            for id, said in record["entities"]
        ]
        for each in (*_LISTS, "entities"):
            record[each] = tuple(record[each])
        found.append(Fact.trusted({**fields, **record, "bank": bank, "embedding": None}))
    return found


def entities_named(connection: Connection, bank: int, ids: Iterable[EntityId]) -> dict[EntityId, Mention]:
    """Return mentions of entities by id."""
    rows = rows_of(connection, _NAMES, {"of_bank": bank, "ids": listed(ids)})
    return {
        EntityId(id): Mention.trusted({"id": id, "name": name, "type": type, "name_in_text": ""})
        for id, name, type, _ in rows
    }


_NAMES = select(entities.c.id, entities.c.name, entities.c.type, entities.c.seq).where(
    of_bank(entities), among(entities.c.id, later("ids"))
)


def save_facts(connection: Connection, bank: int, new: Sequence[Fact], revision: int) -> Seqs:
    """Insert facts with their sources and mentions. Their messages, episodes and entities are stored already."""
    said = seqs_of(connection, messages, bank, (id for fact in new for id in (*fact.messages, *_context(fact))))
    inside = seqs_of(connection, episodes, bank, (id for fact in new for id in fact.episodes))
    behind = seqs_of(connection, facts, bank, (id for fact in new for id in fact.basis))
    mentioned = seqs_of(connection, entities, bank, (mention.id for fact in new for mention in fact.entities))
    # Facts of one batch may rest on each other.
    coming = {fact.id: 2**62 + place for place, fact in enumerate(new)}
    order = {**coming, **said, **inside, **behind, **mentioned}
    rows = [
        row_values(facts, bank, fact, revision=revision, record=_record(fact, lambda id: order.get(id, 0)))
        for fact in new
    ]
    seqs = insert_rows(connection, facts, rows)
    behind |= seqs
    origins: list[tuple[int, ...]] = []
    for fact in new:
        kinds = (
            (MESSAGE, "message", said, fact.messages),
            (CONTEXT, "message", said, _context(fact)),
            (EPISODE, "episode", inside, fact.episodes),
            (BASIS, "fact", behind, fact.basis),
        )
        number = seqs[fact.id]
        origins += [(bank, number, kind, number_of(known, what, id)) for kind, what, known, ids in kinds for id in ids]
    insert_all(connection, sources, origins)
    pairs = {
        (seqs[fact.id], number_of(mentioned, "entity", mention.id)): mention.name_in_text or None
        for fact in new
        for mention in fact.entities
    }
    insert_all(connection, mentions, [(bank, *pair, pairs[pair]) for pair in sorted(pairs)])
    return seqs


def _context(fact: Fact) -> tuple[MessageId, ...]:
    return () if fact.context_from is None else (fact.context_from,)


_MENTIONED = (
    select(mentions.c.fact, entities.c.id, mentions.c.name_in_text)
    .join(entities, statements.refers_to(mentions, "entity", entities))
    .where(of_bank(mentions), among(mentions.c.fact, later("facts")))
    .order_by(mentions.c.fact, mentions.c.entity)
)


def _sources_in(table: Table, kinds: Sequence[int]) -> AnySelect:
    return (
        select(sources.c.fact, sources.c.kind, table.c.id)
        .join(table, statements.refers_to(sources, "source", table))
        .where(of_bank(sources), sources.c.kind.in_(kinds), among(sources.c.fact, later("facts")))
        .order_by(sources.c.fact, sources.c.source)
    )


_SOURCES = _sources_in(messages, (MESSAGE, CONTEXT)), _sources_in(episodes, (EPISODE,)), _sources_in(facts, (BASIS,))


def rewrite_records(
    connection: Connection, bank: int, seqs: Iterable[int], revision: int, *, bare: Set[int] = frozenset()
) -> None:
    """Write the present sources and mentions of facts into their records; those of `bare` lose their context."""
    numbers = {"of_bank": bank, "facts": listed(seqs)}
    sourced: dict[int, dict[int, list[str]]] = defaultdict(lambda: defaultdict(list))
    for statement in _SOURCES:
        for fact, kind, id in connection.execute(statement, numbers):
            sourced[fact][kind].append(id)
    mentioned: dict[int, list[JsonValue]] = defaultdict(list)
    for fact, id, said in connection.execute(_MENTIONED, numbers):
        mentioned[fact].append([id, said or ""])
    stored = select(facts.c.seq, facts.c.record).where(statements.by_numbers(facts, bank, seqs))
    for seq, record in connection.execute(stored).all():
        kinds = sourced[seq]
        now: dict[str, JsonValue] = {
            **json.loads(record),
            "messages": [*kinds[MESSAGE]],
            "episodes": [*kinds[EPISODE]],
            "basis": [*kinds[BASIS]],
            "context_from": next(iter(kinds[CONTEXT]), None),
            "entities": mentioned[seq],
        }
        text = dump({**now, "context": ""} if seq in bare else now)
        if text != record:
            update_row(connection, facts, {"record": text, "revision": revision}, bank=bank, seq=seq)


def save_links(connection: Connection, bank: int, new: Sequence[Link], known: Seqs) -> None:
    """Insert links; one whose other end was deleted is left out."""
    ends = {end for link in new for end in (link.source, link.target)} - known.keys()
    numbers = {**known, **seqs_of(connection, facts, bank, ends)}
    rows = {
        (numbers[link.source], numbers[link.target], _LINK_NUMBERS[link.kind]): link.weight
        for link in new
        if link.source in numbers and link.target in numbers
    }
    insert_all(connection, links, [(bank, *key, weight) for key, weight in sorted(rows.items())])


def add_sources(connection: Connection, bank: int, sourced: Sequence[AddedSource]) -> set[int]:
    """Add messages and episodes that state a fact, known ones stay as they are; return the numbers of the facts."""
    if not sourced:
        return set()
    stated = _numbers(connection, bank, (item.fact for item in sourced))
    said = seqs_of(connection, messages, bank, (id for item in sourced for id in item.messages))
    held = seqs_of(connection, episodes, bank, (id for item in sourced for id in item.episodes))
    new = {
        (stated[item.fact], kind, number_of(known, what, id))
        for item in sourced
        for kind, what, known, ids in (
            (MESSAGE, "message", said, item.messages),
            (EPISODE, "episode", held, item.episodes),
        )
        for id in ids
    }
    there = select(sources.c.fact, sources.c.kind, sources.c.source).where(
        sources.c.bank == bank, among(sources.c.fact, stated.values())
    )
    new -= {(fact, kind, origin) for fact, kind, origin in connection.execute(there)}
    insert_all(connection, sources, [(bank, *source) for source in sorted(new)])
    return set(stated.values())


def update_facts(connection: Connection, bank: int, changes: Changes, revision: int) -> None:
    """Close and reopen facts, let them replace others, and set their claims, pins, metadata and expiries."""
    new: dict[FactId, Values] = defaultdict(dict)
    for closing in changes.closures:
        # An end that is not given stays as it is.
        ends = {"invalid_at": closing.invalid_at, "expired_at": closing.expired_at}
        new[closing.fact] |= {name: micros(time) for name, time in ends.items() if time is not None}
    known = _numbers(connection, bank, [*new, *changes.successors, *changes.successors.values()])
    for id, old in _successors(connection, bank, changes.successors).items():
        new[id]["supersedes"] = old
    for id in changes.reopened:
        new[id] |= {"invalid_at": None, "expired_at": None}
    for id, replaced in changes.rewired.items():
        new[id]["supersedes"] = replaced
    for id, claims in changes.claims.items():
        new[id]["claims"] = dump(claims)
    for id, pinned in changes.pinned.items():
        new[id]["pinned"] = int(pinned)
    for id, metadata in changes.metadata.items():
        new[id]["metadata"] = dump(metadata)
    for id, expiry in changes.expiries.items():
        new[id]["expires_at"] = micros_or_none(expiry)
    known |= seqs_of(connection, facts, bank, new.keys() - known.keys())
    for id in new.keys() & known.keys():
        update_row(connection, facts, {**new[id], "revision": revision}, bank=bank, seq=known[id])


def _successors(connection: Connection, bank: int, successors: Mapping[FactId, FactId]) -> dict[FactId, FactId]:
    """Return the facts that come to supersede others; one that supersedes a fact already stays as it is."""
    for new, old in successors.items():
        if new == old:
            raise InvalidInput(f"The fact {new!r} can't replace itself. Nothing was written.")
    if not successors:
        return {}
    free = facts.c.bank == bank, among(facts.c.id, successors), facts.c.supersedes.is_(None)
    return {id: successors[id] for id in connection.execute(select(facts.c.id).where(*free)).scalars()}


def change_confidence(connection: Connection, bank: int, new: Sequence[ConfidenceChange], revision: int) -> None:
    """Record confidence changes and set the confidence of their opinions."""
    if not new:
        return
    known = _numbers(connection, bank, (id for step in new for id in (step.opinion, *step.evidence)))
    moved = statements.by_numbers(facts, bank, [known[step.opinion] for step in new])
    wrong = set(connection.execute(select(facts.c.id).where(moved, facts.c.network != "opinion")).scalars())
    for step in new:
        if step.opinion in wrong:
            raise InvalidInput(
                f"The fact {step.opinion!r} is no opinion, so it has no confidence to move. Nothing was written."
            )
        changed = {"confidence": step.after, "revision": revision}
        update_row(connection, facts, changed, bank=bank, seq=known[step.opinion])
    record_confidence_history(connection, bank, new)


def record_confidence_history(connection: Connection, bank: int, past: Sequence[ConfidenceChange]) -> None:
    """Record earlier confidence changes: the opinions have their confidence already, and evidence may be deleted."""
    opinions = _numbers(connection, bank, (step.opinion for step in past))
    rows = [row_values(confidence_changes, bank, step, fact=opinions[step.opinion]) for step in past]
    if rows:
        connection.execute(confidence_changes.insert(), rows)


def read_confidence_changes(connection: Connection, bank: int, opinion: FactId | None) -> list[ConfidenceChange]:
    """Return the confidence changes of one opinion or of all, oldest first."""
    statement = (
        select(facts.c.id, confidence_changes)
        .join(facts, statements.refers_to(confidence_changes, "fact", facts))
        .where(confidence_changes.c.bank == bank)
        .order_by(confidence_changes.c.at, confidence_changes.c.seq)
    )
    if opinion is not None:
        statement = statement.where(facts.c.bank == bank, facts.c.id == opinion)
    found = connection.execute(statement).all()
    return [record_of(ConfidenceChange, confidence_changes, row[1:], opinion=row[0]) for row in found]


def _numbers(connection: Connection, bank: int, ids: Iterable[FactId]) -> Seqs:
    """Return the numbers of facts; raise InvalidInput if one does not exist."""
    wanted = list(ids)
    known = seqs_of(connection, facts, bank, wanted)
    for id in wanted:
        number_of(known, "fact", id)
    return known


def delete_facts(connection: Connection, bank: int, ids: Sequence[FactId], index: SearchIndex) -> set[int]:
    """Delete facts with their mentions, links and confidence changes, and as evidence of other changes.

    Return the numbers of facts that rested on them.
    """
    numbers = list(seqs_of(connection, facts, bank, ids).values())
    if not numbers:
        return set()
    resting = sources.c.bank == bank, sources.c.kind == BASIS, among(sources.c.source, numbers)
    found = set(connection.execute(select(sources.c.fact).where(*resting)).scalars())
    connection.execute(delete(sources).where(*resting))
    index.drop_facts(connection, bank, numbers)
    for column in (sources.c.fact, mentions.c.fact, links.c.source, links.c.target, confidence_changes.c.fact):
        table = column.table
        assert isinstance(table, Table)
        connection.execute(delete(table).where(table.c.bank == bank, among(column, numbers)))
    _drop_evidence(connection, bank, set(ids))
    connection.execute(delete(facts).where(statements.by_numbers(facts, bank, numbers)))
    return found


def _drop_evidence(connection: Connection, bank: int, ids: set[FactId]) -> None:
    known_evidence = select(confidence_changes.c.seq, confidence_changes.c.evidence)
    for seq, evidence in connection.execute(known_evidence.where(confidence_changes.c.bank == bank)).all():
        known = names_of(evidence)
        left = [id for id in known if id not in ids]
        if len(left) < len(known):
            update_row(connection, confidence_changes, {"evidence": dump(left), "reason": ""}, bank=bank, seq=seq)


def drop_context(
    connection: Connection, bank: int, changed: Sequence[NewFact], revision: int, index: SearchIndex
) -> None:
    """Remove the context of facts, from their rows and from the word index."""
    known = seqs_of(connection, facts, bank, (item.fact.id for item in changed))
    if not known:
        return
    index.drop_facts(connection, bank, list(known.values()))
    own = sources.c.bank == bank, sources.c.kind == CONTEXT, among(sources.c.fact, known.values())
    connection.execute(delete(sources).where(*own))
    rewrite_records(connection, bank, known.values(), revision, bare=set(known.values()))
    bare = [replace(item, fact=item.fact.model_copy(update={"context": ""})) for item in changed]
    index.add_facts(connection, bank, [(known[item.fact.id], item) for item in bare if item.fact.id in known])


def save_entities(
    connection: Connection, bank: int, new: Sequence[Entity], reserved: Mapping[str, int | None], revision: int
) -> None:
    """Insert or update entities, and change the facts that mention a renamed one.

    An entity with a reserved number returns under it.
    """
    if not new:
        return
    by_id = {entity.id: entity for entity in new}
    stored = rows_of(connection, _NAMES, {"of_bank": bank, "ids": listed(by_id)})
    known = {id: seq for id, _, _, seq in stored}
    renamed = [seq for id, name, type, seq in stored if (name, type) != (by_id[id].name, by_id[id].type)]
    if renamed:
        mentioning = select(mentions.c.fact).where(mentions.c.bank == bank, among(mentions.c.entity, renamed))
        touched = statements.bank_column(facts) == bank, statements.within(facts.c.seq, mentioning)
        connection.execute(update(facts).where(*touched).values(revision=revision))
    rows = [row_values(entities, bank, entity) for entity in new]
    for row in rows:
        if (number := reserved.get(str(row["id"]))) is not None:
            row["seq"] = number
    seqs = save_rows(connection, entities, rows, known)
    save_names(connection, bank, {seqs[entity.id]: folded_names(entity.name, entity.aliases) for entity in new})


def remove_mentions(connection: Connection, bank: int, removed: Sequence[EntityMention]) -> set[int]:
    """Delete mentions, and return the numbers of their facts."""
    by_entity: dict[EntityId, list[FactId]] = defaultdict(list)
    for mention in removed:
        by_entity[mention.entity].append(mention.fact)
    numbers = seqs_of(connection, entities, bank, by_entity)
    mentioning = seqs_of(connection, facts, bank, (mention.fact for mention in removed))
    for entity, ids in by_entity.items():
        rows = [mentioning[id] for id in ids if id in mentioning]
        own = mentions.c.bank == bank, mentions.c.entity == number_of(numbers, "entity", entity)
        connection.execute(delete(mentions).where(*own, among(mentions.c.fact, rows)))
    return set(mentioning.values())


def add_mentions(connection: Connection, bank: int, added: Sequence[EntityMention]) -> set[int]:
    """Insert mentions of stored facts, and return the numbers of these facts."""
    numbers = seqs_of(connection, entities, bank, (mention.entity for mention in added))
    mentioning = seqs_of(connection, facts, bank, (mention.fact for mention in added))
    rows: list[tuple[Cell, ...]] = []
    for mention in added:
        fact, entity = number_of(mentioning, "fact", mention.fact), number_of(numbers, "entity", mention.entity)
        rows.append((bank, fact, entity, mention.name_in_text or None))
    insert_all(connection, mentions, rows)
    return set(mentioning.values())


def delete_entities(connection: Connection, bank: int, deleted: Sequence[EntityId]) -> set[int]:
    """Delete entities with their mentions and names; return the numbers of the facts that mentioned them."""
    numbers = list(seqs_of(connection, entities, bank, deleted).values())
    if not numbers:
        return set()
    mentioning = select(mentions.c.fact).where(mentions.c.bank == bank, among(mentions.c.entity, numbers))
    found = set(connection.execute(mentioning).scalars())
    for column in (mentions.c.entity, entity_names.c.entity, entities.c.seq):
        connection.execute(delete(column.table).where(column.table.c.bank == bank, among(column, numbers)))
    return found


_STORED = select(entity_names.c.entity, entity_names.c.name).where(
    of_bank(entity_names), among(entity_names.c.entity, later("entities"))
)


def save_names(connection: Connection, bank: int, names: Mapping[int, set[str]]) -> None:
    """Store the folded names of new entities, and of those whose names changed."""
    stored: dict[int, set[str]] = defaultdict(set)
    for seq, name in rows_of(connection, _STORED, {"of_bank": bank, "entities": listed(names)}):
        stored[seq].add(name)
    changed = [seq for seq in names if names[seq] != stored[seq]]
    former = [seq for seq in changed if stored[seq]]
    if former:
        gone = entity_names.c.bank == bank, among(entity_names.c.entity, former)
        connection.execute(delete(entity_names).where(*gone))
    insert_all(connection, entity_names, [(bank, name, seq) for seq in changed for name in sorted(names[seq])])


_NAMED = (
    select(entity_names.c.name, entities.c.seq, entities.c.id, entities.c.name.label("known_as"), entities.c.type)
    .join(entities, statements.refers_to(entity_names, "entity", entities))
    .where(of_bank(entity_names), among(entity_names.c.name, later("names")))
    .order_by(entity_names.c.name, entity_names.c.entity)
)


def named_entities(connection: Connection, bank: int, text: str) -> dict[int, Mention]:
    """Return the entities named in a text, by number; a name inside a longer one does not count."""
    return mentions_in(text, lambda names: rows_of(connection, _NAMED, {"of_bank": bank, "names": listed(names)}))


def mentions_in(text: str, find: Callable[[Set[str]], Sequence[Cells]]) -> dict[int, Mention]:
    """Return the entities named in a text; `find` returns rows of folded name, number, id, name and type by names."""
    possible = list(name_runs(text))
    rows = find({run.name for run in possible})
    known = {name for name, *_ in rows}
    found = [run for run in possible if run.name in known]
    whole = {run.name for run in found if not any(run.within(other) for other in found)}
    return {
        seq: Mention.trusted({"id": EntityId(id), "name": known_as, "type": type, "name_in_text": ""})
        for name, seq, id, known_as, type in rows
        if name in whole
    }


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
