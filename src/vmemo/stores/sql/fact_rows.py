"""Rows of facts, their sources and links, and the updates of stored facts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import get_args

from sqlalchemy import BigInteger, Connection, Integer, Table, bindparam, delete, func, select, update

from vmemo.errors import InvalidInput
from vmemo.models import (
    BankId,
    ConfidenceChange,
    Fact,
    FactId,
    Link,
    LinkKind,
    Mention,
    MessageId,
    RevisionKind,
)
from vmemo.models.changes import AddedSource, Changes, FactClosure, NewFact
from vmemo.models.search import FactOutline
from vmemo.stores.sql import statements
from vmemo.stores.sql.schema import (
    BASIS,
    CONTEXT,
    EPISODE,
    MESSAGE,
    confidence_changes,
    episodes,
    facts,
    links,
    mentions,
    messages,
    sources,
)
from vmemo.stores.sql.search import SearchIndex
from vmemo.stores.sql.statements import (
    Cells,
    Seqs,
    Values,
    among,
    insert_all,
    insert_cells,
    insert_rows,
    number_of,
    row_values,
    seqs_of,
)
from vmemo.stores.values import dump, instant, metadata_of, micros, micros_or_none, names_of

LINK_KINDS: tuple[LinkKind, ...] = get_args(LinkKind)
_LINK_NUMBERS: dict[LinkKind, int] = {kind: number for number, kind in enumerate(LINK_KINDS)}
REVISION_KINDS: dict[int, RevisionKind] = {LINK_KINDS.index(kind): kind for kind in get_args(RevisionKind)}
"""Kinds of links from a newer fact to an older one, by number."""


def fact_fields(
    row: Cells, bank: BankId, entities: Sequence[Mention], sources: Sequence[Sequence[str]]
) -> dict[str, object]:
    """Return the fields of a fact without its embedding, from its row, its mentions and its sources by kind."""
    values: dict[str, object] = dict(zip(_FACT_FIELDS, row[2:-1], strict=True))
    for name, at in _FACT_TIMES:
        if row[at] is not None:
            values[name] = instant(row[at])
    values["bank"] = bank
    values["tags"] = names_of(row[_TAGS])
    values["metadata"] = metadata_of(row[_METADATA])
    values["instruction"] = row[_INSTRUCTION] == 1
    values["pinned"] = row[_PINNED] == 1
    values["entities"] = tuple(entities)
    values["messages"] = tuple(sources[0])
    values["context_from"] = sources[1][0] if sources[1] else None
    values["episodes"] = tuple(sources[2])
    values["basis"] = tuple(sources[3])
    values["embedding"] = None
    return values


def outline_of(id: FactId, row: Cells) -> FactOutline:
    """The outline of a fact from its other values in their order, the id of its first episode last."""
    network, tokens, engine, importance, mentioned_at, supersedes, has_basis, episode = row
    episodes = () if episode is None else (episode,)
    time, rests = instant(mentioned_at), has_basis == 1
    return FactOutline(id, network, tokens, engine, importance, time, supersedes, rests, episodes)


_COLUMNS = tuple(column.name for column in facts.columns)
_TAGS, _METADATA, _INSTRUCTION, _PINNED = map(_COLUMNS.index, ("tags", "metadata", "instruction", "pinned"))
_FACT_FIELDS = _COLUMNS[2:-1]
"""All columns but the numbers of fact and bank in front and the revision at the end."""

_FACT_TIMES = tuple(
    (name, at) for at, name in enumerate(_COLUMNS) if name.endswith("_at") or name.startswith("occurred")
)


def save_facts(connection: Connection, bank: int, new: Sequence[NewFact], revision: int) -> Seqs:
    return insert_rows(connection, facts, [row_values(facts, bank, item.fact, revision=revision) for item in new])


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


def _context(fact: Fact) -> tuple[MessageId, ...]:
    return () if fact.context_from is None else (fact.context_from,)


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


def close_facts(connection: Connection, bank: int, closings: Sequence[FactClosure], revision: int) -> None:
    """Set when facts stopped being true or believed; an end that is not given stays as it is."""
    known = _numbers(connection, bank, (closing.fact for closing in closings))
    rows = [
        {
            "number": known[closing.fact],
            "of": bank,
            "invalid": micros_or_none(closing.invalid_at),
            "expired": micros_or_none(closing.expired_at),
            "at": revision,
        }
        for closing in closings
    ]
    if rows:
        connection.execute(_CLOSE, rows)


_CLOSE = (
    update(facts)
    .where(
        statements.bank_column(facts) == bindparam("of", type_=BigInteger),
        facts.c.seq == bindparam("number", type_=BigInteger),
    )
    .values(
        invalid_at=func.coalesce(bindparam("invalid", type_=BigInteger), facts.c.invalid_at),
        expired_at=func.coalesce(bindparam("expired", type_=BigInteger), facts.c.expired_at),
        revision=bindparam("at", type_=Integer),
    )
)


def add_sources(connection: Connection, bank: int, sourced: Sequence[AddedSource]) -> None:
    """Add messages and episodes that state a fact; known ones stay as they are."""
    if not sourced:
        return
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
    rows = [{"bank": bank, "fact": fact, "kind": kind, "source": origin} for fact, kind, origin in sorted(new)]
    insert_all(connection, sources, rows)


def set_successors(connection: Connection, bank: int, successors: Mapping[FactId, FactId], revision: int) -> None:
    """Let stored facts supersede others; one that supersedes a fact already stays as it is."""
    known = _numbers(connection, bank, (*successors, *successors.values()))
    for new, old in successors.items():
        if new == old:
            raise InvalidInput(f"The fact {new!r} can't replace itself. Nothing was written.")
        statement = update(facts).where(statements.by_number(facts, bank, known[new]), facts.c.supersedes.is_(None))
        connection.execute(statement.values(supersedes=old, revision=revision))


def update_facts(connection: Connection, bank: int, changes: Changes, revision: int) -> None:
    """Remove the ends of facts, let them replace other facts than before, pin them, and set their expiry."""
    new: dict[FactId, Values] = defaultdict(dict)
    for id in changes.reopened:
        new[id] |= {"invalid_at": None, "expired_at": None}
    for id, old in changes.rewired.items():
        new[id]["supersedes"] = old
    for id, pinned in changes.pinned.items():
        new[id]["pinned"] = int(pinned)
    for id, time in changes.expiries.items():
        new[id]["expires_at"] = micros_or_none(time)
    for id, values in new.items():
        own = facts.c.bank == bank, facts.c.id == id
        connection.execute(update(facts).where(*own).values(**values, revision=revision))


def change_confidence(connection: Connection, bank: int, new: Sequence[ConfidenceChange]) -> None:
    """Record confidence changes and set the confidence of their opinions."""
    if not new:
        return
    known = _numbers(connection, bank, (id for step in new for id in (step.opinion, *step.evidence)))
    _demand_opinions(connection, bank, [(step.opinion, known[step.opinion]) for step in new])
    insert_all(connection, confidence_changes, [_history_row(bank, known[step.opinion], step) for step in new])
    for step in new:
        opinion = update(facts).where(statements.by_number(facts, bank, known[step.opinion]))
        connection.execute(opinion.values(confidence=step.after))


def record_confidence_history(connection: Connection, bank: int, past: Sequence[ConfidenceChange]) -> None:
    """Record earlier confidence changes: the opinions have their confidence already, and evidence may be deleted."""
    opinions = seqs_of(connection, facts, bank, (step.opinion for step in past))
    rows = [_history_row(bank, number_of(opinions, "fact", step.opinion), step) for step in past]
    insert_all(connection, confidence_changes, rows)


def _history_row(bank: int, opinion: int, step: ConfidenceChange) -> dict[str, int | float | str | None]:
    return {
        "bank": bank,
        "fact": opinion,
        "stance": step.stance,
        "before": step.before,
        "after": step.after,
        "evidence": dump(step.evidence),
        "reason": step.reason,
        "at": micros(step.at),
    }


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
    return [
        ConfidenceChange(
            opinion=FactId(row.id),
            stance=row.stance,
            before=row.before,
            after=row.after,
            evidence=tuple(FactId(id) for id in names_of(row.evidence)),
            reason=row.reason,
            at=instant(row.at),
        )
        for row in connection.execute(statement)
    ]


def _numbers(connection: Connection, bank: int, ids: Iterable[FactId]) -> Seqs:
    """Return the numbers of facts; raise InvalidInput if one does not exist."""
    wanted = list(ids)
    known = seqs_of(connection, facts, bank, wanted)
    for id in wanted:
        number_of(known, "fact", id)
    return known


def _demand_opinions(connection: Connection, bank: int, of: Sequence[tuple[FactId, int]]) -> None:
    moved = statements.by_numbers(facts, bank, [seq for _, seq in of])
    wrong = set(connection.execute(select(facts.c.seq).where(moved, facts.c.network != "opinion")).scalars())
    for id, seq in of:
        if seq in wrong:
            raise InvalidInput(f"The fact {id!r} is no opinion, so it has no confidence to move. Nothing was written.")


def delete_facts(connection: Connection, bank: int, ids: Sequence[FactId], index: SearchIndex) -> None:
    """Delete facts with their mentions, links and confidence changes, and as evidence of other changes."""
    numbers = list(seqs_of(connection, facts, bank, ids).values())
    if not numbers:
        return
    index.drop_facts(connection, bank, numbers)
    for column in (sources.c.fact, mentions.c.fact, links.c.source, links.c.target, confidence_changes.c.fact):
        table = column.table
        assert isinstance(table, Table)
        connection.execute(delete(table).where(table.c.bank == bank, among(column, numbers)))
    _drop_evidence(connection, bank, set(ids))
    connection.execute(delete(facts).where(statements.by_numbers(facts, bank, numbers)))


def _drop_evidence(connection: Connection, bank: int, ids: set[FactId]) -> None:
    known_evidence = select(confidence_changes.c.seq, confidence_changes.c.evidence)
    for seq, evidence in connection.execute(known_evidence.where(confidence_changes.c.bank == bank)).all():
        known = names_of(evidence)
        left = [id for id in known if id not in ids]
        if len(left) < len(known):
            change = update(confidence_changes).where(statements.by_number(confidence_changes, bank, seq))
            connection.execute(change.values(evidence=dump(left), reason=""))


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
    own_rows = statements.by_numbers(facts, bank, known.values())
    connection.execute(update(facts).where(own_rows).values(context="", revision=revision))
    bare = [replace(item, fact=item.fact.model_copy(update={"context": ""})) for item in changed]
    index.add_facts(connection, bank, [(known[item.fact.id], item) for item in bare if item.fact.id in known])
