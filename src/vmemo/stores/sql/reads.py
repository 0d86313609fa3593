"""Reads of records: the statements of selections, the conditions of a scope as text, and the records of rows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from copy import deepcopy
from dataclasses import dataclass
from datetime import datetime
from functools import cache, partial
from typing import Any, Literal, TypeVar

from pydantic import JsonValue
from sqlalchemy import ColumnElement, Connection, Select, Table, bindparam, func, literal_column, or_, select

from vmemo.models import (
    BankId,
    Entity,
    EntityId,
    Episode,
    EpisodeId,
    Fact,
    FactId,
    Interval,
    Link,
    Mention,
    Message,
    MessageId,
    utc_now,
)
from vmemo.models.changes import EntityMention
from vmemo.models.records import FEEDBACK, TIME_ORDERED, ShortId
from vmemo.models.search import Edges, RevisionEdge, Scope, Scored, StoredTokens
from vmemo.models.select import EntitySelect, EpisodeSelect, FactSelect, MessageSelect
from vmemo.ports import Loaded
from vmemo.stores.search import BankSearch, EdgeSearch, all_of, messages_in_time, tag_conditions, visible_facts
from vmemo.stores.sql import schema, statements
from vmemo.stores.sql.rows import LINK_KINDS, entities_named, facts_of_rows, named_entities
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
from vmemo.stores.sql.statements import AnyRow, AnySelect, among, later, listed, of_bank, record_of, rows_of, within
from vmemo.stores.values import decode_tokens, instant, micros, names_of, storable
from vmemo.text.names.compare import fold_name
from vmemo.text.temporal.annotation import OWN_WORDS_ENGINES, speaker_in

BEGAN = """coalesce(facts.occurred_start,
    CASE WHEN facts.occurred_end <= facts.mentioned_at THEN facts.occurred_end - 1 END, facts.mentioned_at)"""
"""Open ends of an occurrence reach to the time of mention, and every occurrence takes at least a microsecond."""


class Parameters(ABC):
    """The values of a statement, numbered as they are added, and the conditions that databases write differently."""

    def __init__(self) -> None:
        self.values: list[Any] = []
        self._types: list[str] = []

    def add(self, value: object, type: str) -> str:
        """Add a value and return its placeholder; the same value of the same type has one placeholder."""
        for number, known in enumerate(self.values, start=1):
            if known is value and self._types[number - 1] == type:
                return self.placeholder(number, type)
        self.values.append(value)
        self._types.append(type)
        return self.placeholder(len(self.values), type)

    @abstractmethod
    def placeholder(self, number: int, type: str) -> str: ...
    @abstractmethod
    def among(self, column: str, values: Iterable[str] | Iterable[int], type: str) -> str:
        """Return the condition that a column has one of these values."""

    @abstractmethod
    def has_tag(self, tags: str, tag: str) -> str: ...
    @abstractmethod
    def tag_count(self, tags: str) -> str: ...
    @abstractmethod
    def has_value(self, metadata: str, key: str, value: JsonValue) -> str:
        """Return the condition that metadata has a value, compared with its JSON type: 1, true and "1" differ."""


@dataclass(frozen=True)
class ScopeFilter:
    """A scope of one bank at one time, with the numbers of the entities that it names."""

    bank: int
    scope: Scope
    entities: Sequence[int]
    now: datetime

    @staticmethod
    def of(connection: Connection, bank: int, scope: Scope) -> ScopeFilter:
        """Return the filter of a scope; entities that it names are looked up."""
        named = _named_entities(connection, bank, scope.entities) if scope.entities else []
        return ScopeFilter(bank, scope, named, utc_now())

    def facts(self, values: Parameters) -> str:
        """Return the condition of facts; the statement names the bank itself."""
        scope = self.scope
        found = visible_facts(scope, "facts", self.now, _times(values))
        if scope.networks:
            found.append(values.among("facts.network", sorted(scope.networks), "text"))
        if scope.occurred is not None:
            found += occurred_in(values, scope.occurred)
        return all_of([*found, *self.references(values)])

    def references(self, values: Parameters) -> list[str]:
        """Return the conditions of facts by tags, metadata, entities and speakers."""
        scope, bank = self.scope, values.add(self.bank, "bigint")
        found = self._labels(values, "facts", "facts.tags = '[]' AND facts.network IN ('world', 'experience')")
        if scope.entities:
            named = values.among("mentions.entity", self.entities, "bigint")
            found.append(f"facts.seq IN (SELECT fact FROM mentions WHERE mentions.bank = {bank} AND {named})")
        if scope.speakers:
            said = values.among("messages.speaker", scope.speakers, "text")
            found.append(
                f"facts.seq IN (SELECT sources.fact FROM sources "
                f"JOIN messages ON messages.bank = {bank} AND messages.seq = sources.source "
                f"WHERE sources.bank = {bank} AND sources.kind = {MESSAGE} AND {said})"
            )
        return found

    def messages(self, values: Parameters) -> str:
        """Return the condition of messages that may be shown verbatim.

        A message has no facts, or a visible one: otherwise a superseded fact would come back in its words.
        """
        scope, bank, add = self.scope, values.add(self.bank, "bigint"), _times(values)
        found = self._labels(values, "messages", "messages.tags = '[]'")
        if scope.speakers:
            found.append(values.among("messages.speaker", scope.speakers, "text"))
        found += messages_in_time(scope, "messages", self.now, add)
        stating = f"sources.bank = {bank} AND sources.kind = {MESSAGE} AND sources.source = messages.seq"
        found.append(
            f"(NOT EXISTS (SELECT 1 FROM sources WHERE {stating}) OR EXISTS (SELECT 1 FROM sources "
            f"JOIN facts ON facts.bank = {bank} AND facts.seq = sources.fact "
            f"WHERE {stating} AND {all_of(visible_facts(scope, 'facts', self.now, add))}))"
        )
        return all_of(found)

    def _labels(self, values: Parameters, table: str, untagged: str) -> list[str]:
        """Return the conditions for the scope's tags and metadata."""
        scope, tags = self.scope, f"{table}.tags"
        held = [values.has_tag(tags, tag) if storable(tag) else "false" for tag in sorted(scope.tags)]
        found = [values.has_value(f"{table}.metadata", *item) for item in sorted(scope.metadata.items())]
        rule = tag_conditions(scope.tags_match, held, untagged=untagged, count=values.tag_count(tags))
        return [*rule, *found]


def _times(values: Parameters) -> Callable[[datetime], str]:
    known: dict[datetime, str] = {}
    return lambda time: known.get(time) or known.setdefault(time, values.add(micros(time), "bigint"))


def occurred_in(values: Parameters, interval: Interval) -> list[str]:
    """Return the conditions for facts that occurred within an interval, at least in part."""
    found: list[str] = []
    if interval.end is not None:
        found.append(f"{BEGAN} < {values.add(micros(interval.end), 'bigint')}")
    if interval.start is not None:
        start = values.add(micros(interval.start), "bigint")
        found.append(f"(coalesce(facts.occurred_end, facts.mentioned_at + 1) > {start} OR {BEGAN} >= {start})")
    return found


def instruction_statement(filter: ScopeFilter, values: Parameters, *, limit: int) -> str:
    """Return the statement for the numbers of the standing instructions of a scope, newest first."""
    return (
        f"SELECT seq FROM facts WHERE bank = {values.add(filter.bank, 'bigint')} AND instruction = 1 "
        f"AND {filter.facts(values)} ORDER BY mentioned_at DESC, seq DESC LIMIT {limit}"
    )


def _named_entities(connection: Connection, bank: int, names: Iterable[str]) -> list[int]:
    """Return the entities that have one of these ids, names or aliases, without regard to case.

    The folded names lead to few of them, whose own names are then compared. A name of signs alone has no folded one.
    """
    ids, folded = list(names), {fold_name(name) for name in names}
    wanted = {name.casefold() for name in ids}
    known = select(entities.c.seq, entities.c.id, entities.c.name, entities.c.aliases).where(entities.c.bank == bank)
    if "" not in folded:
        named = select(entity_names.c.entity).where(entity_names.c.bank == bank, among(entity_names.c.name, folded))
        known = known.where(or_(among(entities.c.id, ids), within(entities.c.seq, named)))
    return [
        seq
        for seq, id, name, aliases in connection.execute(known)
        if id in ids or not wanted.isdisjoint(each.casefold() for each in (name, *names_of(aliases)))
    ]


@cache
def by_ids(table: Table) -> AnySelect:
    """Return the statement for the rows of a bank with the ids that are bound when it runs."""
    return select(table).where(of_bank(table), among(table.c.id, later("ids")))


FoundBy = Literal["number", "page", "other columns"]
"""Rows are found by their numbers, in the order of these, or by an index of other columns."""


def _stored_after(
    table: Table, bank: int, after: str | None, *, found_by: FoundBy = "other columns", last_first: bool = False
) -> list[ColumnElement[bool]]:
    """Return the conditions of a bank's rows after one; those found by number are not looked up by bank."""
    of_bank = [(statements.bank_column(table) if found_by == "number" else table.c.bank) == bank]
    if found_by == "page":
        of_bank.append(statements.in_pages(table))
    if after is None:
        return of_bank
    start = select(table.c.seq).where(table.c.bank == bank, table.c.id == after).scalar_subquery()
    return [*of_bank, table.c.seq < start if last_first else table.c.seq > func.coalesce(start, -1)]


def _abbreviated(table: Table, short: ShortId) -> list[ColumnElement[bool]]:
    """Return the conditions of a short id; the first two can use the index of ids."""
    id, version = table.c.id, func.substr(table.c.id, 15, 1)
    # Hexadecimal digits and hyphens sort before "g".
    inside = [id >= short.start, id < f"{short.start}g", func.length(id) == 36]
    return [*inside, version.in_(TIME_ORDERED) if short.end else version.not_in(TIME_ORDERED), id.endswith(short.end)]


def _containing(column: ColumnElement[str], parts: Sequence[str]) -> Iterator[ColumnElement[bool]]:
    """Yield the conditions that a column contains each of these texts, in upper or lower case.

    SQLite and databases of the locale C fold the case of ASCII letters only.
    """
    for part in parts:
        cases = {part} if part.isascii() else {part.lower(), part.upper(), part.capitalize()}
        yield or_(*(column.icontains(case, autoescape=True) for case in cases))


def message_statement(bank: int, wanted: MessageSelect) -> AnySelect:
    # An id, a document, a state or times are found by indexes of their own.
    plain = wanted == MessageSelect(
        containing=wanted.containing, after=wanted.after, limit=wanted.limit, last_first=wanted.last_first
    )
    found_by = "page" if plain else "other columns"
    stored = _stored_after(messages, bank, wanted.after, found_by=found_by, last_first=wanted.last_first)
    statement = select(messages).where(*stored, *_containing(messages.c.content, wanted.containing)).limit(wanted.limit)
    if wanted.document is not None:
        statement = statement.where(messages.c.document == wanted.document)
    if wanted.state is not None:
        statement = statement.where(messages.c.state == wanted.state)
    if wanted.short_id is not None:
        statement = statement.where(*_abbreviated(messages, wanted.short_id))
    if wanted.expiring_until is not None:
        statement = statement.where(messages.c.expires_at <= micros(wanted.expiring_until))
        return statement.order_by(messages.c.expires_at, messages.c.seq)
    if wanted.preceding is not None:
        return _preceding(statement, bank, wanted.preceding)
    if wanted.last_first:
        return statement.order_by(messages.c.seq.desc())
    return statement.order_by(*((messages.c.timestamp,) if wanted.by_time else ()), messages.c.seq)


def _preceding(statement: AnySelect, bank: int, message: Message) -> AnySelect:
    """Return the statement of the messages that precede one in its document, the latest first."""
    at, number, time = messages.c.timestamp, messages.c.seq, micros(message.timestamp)
    own = select(number).where(messages.c.bank == bank, messages.c.id == message.id).scalar_subquery()
    earlier = or_(at < time, (at == time) & (number < own))
    same = messages.c.document.is_not_distinct_from(message.document)
    return statement.where(same, earlier).order_by(at.desc(), number.desc())


def fact_statement(bank: int, wanted: FactSelect) -> AnySelect:
    linked = _linked_facts(bank, wanted)
    after = None if wanted.newest_first else wanted.after
    stored = _stored_after(facts, bank, after, found_by="number" if linked else _found_by(wanted))
    statement = select(facts).where(*stored, *(within(facts.c.seq, numbers) for numbers in linked)).limit(wanted.limit)
    statement = statement.where(*_containing(facts.c.text, wanted.containing))
    if wanted.networks:
        statement = statement.where(facts.c.network.in_(wanted.networks))
    if wanted.supersedes is not None:
        statement = statement.where(among(facts.c.supersedes, wanted.supersedes))
    if wanted.short_id is not None:
        statement = statement.where(*_abbreviated(facts, wanted.short_id))
    if wanted.instructions:
        statement = statement.where(facts.c.instruction == literal_column("1"))
    if wanted.pinned:
        statement = statement.where(facts.c.pinned == literal_column("1"))
    if wanted.feedback:
        statement = statement.where(facts.c.metadata.like(f'%"{FEEDBACK}":%'))
    statement = statement.where(*_at_times(wanted))
    if wanted.newest_first:
        statement = statement.where(*_earlier(facts, "mentioned_at", bank, wanted.after))
        return statement.order_by(facts.c.mentioned_at.desc(), facts.c.seq.desc())
    return statement if wanted.around is not None else statement.order_by(facts.c.seq)


def _found_by(wanted: FactSelect) -> FoundBy:
    """Return "page" for facts in the order of storage; indexes of other columns find the others."""
    in_order = not wanted.newest_first and wanted.around is None and wanted.mentioned_before is None
    few = wanted.instructions or wanted.pinned or wanted.supersedes is not None or wanted.short_id is not None
    return "page" if in_order and not few else "other columns"


def _at_times(wanted: FactSelect) -> Iterator[ColumnElement[bool]]:
    time = micros(utc_now())
    if wanted.current:
        yield facts.c.expired_at.is_(None)
        yield facts.c.invalid_at.is_(None) | (facts.c.invalid_at > time)
        yield facts.c.expires_at.is_(None) | (facts.c.expires_at > time)
    if wanted.closed:
        yield facts.c.expired_at.is_not(None) | (facts.c.invalid_at <= time)
    if wanted.mentioned_before is not None:
        yield facts.c.mentioned_at < micros(wanted.mentioned_before)


def _earlier(table: Table, time: str, bank: int, after: str | None) -> Iterator[ColumnElement[bool]]:
    """Yield the conditions of rows that follow one in the order of a column with times, newest first."""
    if after is not None:
        other = table.alias()
        at, seq = (
            select(other.c[name]).where(other.c.bank == bank, other.c.id == after).scalar_subquery()
            for name in (time, "seq")
        )
        # The first one can use the index.
        yield table.c[time] <= at
        yield or_(table.c[time] < at, table.c.seq < seq)


def _linked_facts(bank: int, wanted: FactSelect) -> list[Select[int]]:
    """Return the numbers of the facts that refer to the selected records, one statement for each filter."""
    found: list[Select[int]] = []
    for kind, table, ids in (
        (EPISODE, episodes, None if wanted.episode is None else [wanted.episode]),
        (MESSAGE, messages, wanted.messages),
        (CONTEXT, messages, wanted.context),
        (BASIS, facts, wanted.basis),
    ):
        if ids is not None:
            resting = within(sources.c.source, numbers_of(table, bank, ids))
            found.append(select(sources.c.fact).where(sources.c.bank == bank, sources.c.kind == kind, resting))
    if wanted.entities is not None:
        mentioned = within(mentions.c.entity, numbers_of(entities, bank, wanted.entities))
        found.append(select(mentions.c.fact).where(mentions.c.bank == bank, mentioned))
    return found


def numbers_of(table: Table, bank: int, ids: Sequence[str]) -> Select[int]:
    """Return the numbers of rows by id. Nested, not joined: SQLite would begin a join with all rows of the bank."""
    own = table.alias()
    return select(own.c.seq).where(own.c.bank == bank, among(own.c.id, ids))


def mentioned_around(statement: AnySelect, time: int) -> tuple[AnySelect, AnySelect]:
    """Return the statements for facts mentioned up to a time and after it, nearest first: both can use the index."""
    at, seq = facts.c.mentioned_at, facts.c.seq
    earlier = statement.where(at <= time).order_by(at.desc(), seq.desc())
    return earlier, statement.where(at > time).order_by(at, seq)


def episode_statement(bank: int, wanted: EpisodeSelect) -> AnySelect:
    after = None if wanted.last_first else wanted.after
    plain = wanted == EpisodeSelect(after=wanted.after, limit=wanted.limit)
    found_by = "number" if wanted.messages is not None else "page" if plain else "other columns"
    stored = _stored_after(episodes, bank, after, found_by=found_by)
    statement = select(episodes).where(*stored).limit(wanted.limit)
    if wanted.messages is not None:
        inside = within(episode_messages.c.message, numbers_of(messages, bank, wanted.messages))
        held = select(episode_messages.c.episode).where(episode_messages.c.bank == bank, inside)
        statement = statement.where(within(episodes.c.seq, held))
    if wanted.last_first:
        statement = statement.where(*_earlier(episodes, "ended_at", bank, wanted.after))
        return statement.order_by(episodes.c.ended_at.desc(), episodes.c.seq.desc())
    return statement.order_by(episodes.c.seq)


def entity_statement(bank: int, wanted: EntitySelect) -> AnySelect:
    stored = _stored_after(entities, bank, wanted.after, found_by="page" if wanted.names is None else "number")
    statement = select(entities).where(*stored).order_by(entities.c.seq).limit(wanted.limit)
    if wanted.names is not None:
        named = entity_names.c.bank == bank, among(entity_names.c.name, {fold_name(name) for name in wanted.names})
        statement = statement.where(within(entities.c.seq, select(entity_names.c.entity).where(*named)))
    if wanted.containing is not None:
        part = entity_names.c.name.contains(fold_name(wanted.containing), autoescape=True)
        named = select(entity_names.c.entity).where(entity_names.c.bank == bank, part)
        statement = statement.where(within(entities.c.seq, named))
    if wanted.with_not_aliases:
        statement = statement.where(entities.c.not_aliases != "[]")
    return _most_mentioned(bank, statement).offset(wanted.offset) if wanted.most_mentioned else statement


def _most_mentioned(bank: int, statement: AnySelect) -> AnySelect:
    """Return a statement of entities in the order of the number of facts that mention them."""
    number = func.count().label("number")
    counted = select(mentions.c.entity, number).where(mentions.c.bank == bank).group_by(mentions.c.entity).subquery()
    joined = statement.outerjoin(counted, counted.c.entity == entities.c.seq).order_by(None)
    return joined.order_by(func.coalesce(counted.c.number, 0).desc(), entities.c.seq)


Key = TypeVar("Key", int, EntityId, EpisodeId, FactId)
Value = TypeVar("Value")
LoadedKey = tuple[BankId, int | EntityId | EpisodeId | FactId, int]
SEQ, _, ID = range(3)
"""Positions of the number, the bank and the id in the rows of every table with ids; names cost more to look up."""
LATEST = 50
"""Facts of an entity that decide which others occur beside it."""
Embeddings = Callable[[Connection, int, Sequence[int]], Mapping[int, tuple[float, ...]]]
"""Reads the vectors of a bank's facts by number."""


def _rows_by_id(connection: Connection, table: Table, bank: int, ids: Sequence[str]) -> list[AnyRow]:
    """Return rows in the order of the ids; missing ones are left out."""
    rows = rows_of(connection, by_ids(table), {"of_bank": bank, "ids": listed(ids)})
    found = {row[ID]: row for row in rows}
    return [found[id] for id in ids if id in found]


def messages_of(connection: Connection, bank: int, wanted: MessageSelect) -> list[Message]:
    if wanted.ids is not None:
        rows = _rows_by_id(connection, messages, bank, wanted.ids)
    else:
        rows = connection.execute(message_statement(bank, wanted)).all()
    return [record_of(Message, messages, row) for row in rows]


def facts_of(connection: Connection, bank: int, name: BankId, wanted: FactSelect, embeddings: Embeddings) -> list[Fact]:
    """Return the facts of a selection."""
    rows = _fact_rows(connection, bank, wanted)
    found = facts_of_rows(name, rows, partial(entities_named, connection, bank))
    if not wanted.with_embeddings:
        return found
    vectors = embeddings(connection, bank, [row[SEQ] for row in rows])
    return [fact.model_copy(update={"embedding": vectors.get(row[SEQ])}) for row, fact in zip(rows, found, strict=True)]


def _rows_by_number(connection: Connection, table: Table, bank: int, numbers: Sequence[int]) -> Sequence[AnyRow]:
    return rows_of(connection, _by_numbers(table), {"of_bank": bank, "seqs": listed(numbers)}) if numbers else ()


@cache
def _by_numbers(table: Table) -> AnySelect:
    return select(table).where(statements.of_numbers(table))


_TITLES = select(episodes.c.id, episodes.c.title).where(of_bank(episodes), among(episodes.c.id, later("ids")))


MOST_FACTS, MOST_LOADED = 8192, 4096
"""Facts and their token vectors, and numbers, names, titles and links, that are kept in memory once loaded."""


def _own_copy(fact: Fact) -> Fact:
    """Return a fact of the caller's own: its metadata is the only part that a caller could change."""
    nested = any(isinstance(value, dict | list) for value in fact.metadata.values())
    return Fact.trusted({**fact.__dict__, "metadata": deepcopy(fact.metadata) if nested else {**fact.metadata}})


class LoadedRecords:
    """Records of any bank that were loaded last, each by its bank, its number and its version.

    What changes gets another version, so that searches of different revisions may share them.
    """

    def __init__(self) -> None:
        self.facts: dict[LoadedKey, Fact] = {}
        """Their access counts are those at the time of loading."""
        self.numbers: dict[LoadedKey, int] = {}
        self.tokens: dict[LoadedKey, StoredTokens | None] = {}
        self.titles: dict[LoadedKey, str] = {}
        self.entities: dict[LoadedKey, Mention] = {}
        self.around: dict[LoadedKey, tuple[Sequence[Edges], Sequence[tuple[int, int]]]] = {}
        self.revisions: dict[LoadedKey, Sequence[tuple[int, int, int, RevisionEdge]]] = {}
        """The surroundings of facts that a graph search reads, and the links between older and newer facts."""

    def trim(self) -> None:
        """Drop the older half of what has become too much; searches go on with the former dictionaries."""
        for name, loaded in vars(self).items():
            most = MOST_FACTS if name in ("facts", "tokens") else MOST_LOADED
            if len(loaded) > most:
                setattr(self, name, dict(list(loaded.items())[-most // 2 :]))


class SqlBankSearch(BankSearch):
    """The part of the searches of a bank that is the same on every SQL database.

    It lives as long as a transaction, and reads only what is not loaded yet.
    """

    def __init__(self, connection: Connection, bank: BankId, number: int, loaded: LoadedRecords | None = None) -> None:
        self._connection = connection
        self._name = bank
        self._bank = number
        self._edges = EdgeSearch()
        self._loaded = LoadedRecords() if loaded is None else loaded
        self._revision = self._purges = 0

    def _reading(self) -> AbstractContextManager[None]:
        """Translate the errors of a read, on a database where nothing else does."""
        return nullcontext()

    @property
    def _by_key(self) -> Connection:
        """The connection for rows that are looked up by key."""
        return self._connection

    def named_entities(self, text: str) -> dict[int, Mention]:
        return named_entities(self._by_key, self._bank, text)

    def _versions(self, facts: Sequence[int]) -> Mapping[int, int]:
        """Return the versions of facts by which what is loaded is kept."""
        return dict.fromkeys(facts, 0)

    def load(self, numbers: Sequence[int]) -> Loaded:
        with self._reading():
            wanted = self._versions([number for number in numbers if number > 0])
            found = self._known(self._loaded.facts, wanted, self._load_facts)
            said = _rows_by_number(self._connection, messages, self._bank, [-each for each in numbers if each < 0])
            return Loaded(
                facts={number: _own_copy(fact) if fact.metadata else fact for number, fact in found.items()},
                messages={-row[SEQ]: record_of(Message, messages, row) for row in said},
                titles=self._titles({episode for fact in found.values() for episode in fact.episodes}),
            )

    def _known(
        self,
        loaded: dict[LoadedKey, Value],
        wanted: Mapping[Key, int],
        load: Callable[[Sequence[Key]], Mapping[Key, Value]],
    ) -> dict[Key, Value]:
        """Return records by their versions; `load` returns those that are not loaded yet."""
        name = self._name
        keys = [(name, each, version) for each, version in wanted.items()]
        with suppress(KeyError):
            return dict(zip(wanted, map(loaded.__getitem__, keys), strict=True))
        missing = {key[1]: key for key in keys if key not in loaded}
        new = load([each for each in wanted if each in missing])
        loaded.update({missing[each]: record for each, record in new.items()})
        return {each: loaded[key] for each, key in zip(wanted, keys, strict=True) if key in loaded}

    def _load_facts(self, numbers: Sequence[int]) -> dict[int, Fact]:
        rows = _rows_by_number(self._connection, facts, self._bank, numbers)
        found = facts_of_rows(self._name, rows, self._entities) if rows else []
        return {row[SEQ]: fact for row, fact in zip(rows, found, strict=True)}

    def _entities(self, wanted: Iterable[EntityId]) -> dict[EntityId, Mention]:
        load = partial(entities_named, self._connection, self._bank)
        return self._known(self._loaded.entities, dict.fromkeys(wanted, self._revision), load)

    def _titles(self, wanted: Iterable[EpisodeId]) -> dict[EpisodeId, str]:
        def load(missing: Sequence[EpisodeId]) -> dict[EpisodeId, str]:
            given = {"of_bank": self._bank, "ids": listed(missing)}
            return {EpisodeId(id): title for id, title in rows_of(self._connection, _TITLES, given)}

        return self._known(self._loaded.titles, dict.fromkeys(wanted, self._revision), load)

    def token_vectors(self, facts: Sequence[int]) -> Sequence[StoredTokens | None]:
        found = self._known(self._loaded.tokens, dict.fromkeys(facts, self._purges), self._load_tokens)
        return [found[fact] for fact in facts]

    def _load_tokens(self, facts: Sequence[int]) -> dict[int, StoredTokens | None]:
        with self._reading():
            stored = {fact: (width, packed) for fact, width, packed in self._stored_tokens(facts)}
        return dict(zip(facts, decode_tokens([stored.get(fact) for fact in facts]), strict=True))

    @abstractmethod
    def _stored_tokens(self, facts: Sequence[int]) -> Sequence[Sequence[Any]]:
        """Return the number, width and packed token vectors of those facts that have some."""
        ...

    def ids(self, numbers: Sequence[int]) -> dict[int, str]:
        found: dict[int, str] = {}
        for table, sign in ((facts, 1), (messages, -1)):
            if wanted := [sign * number for number in numbers if sign * number > 0]:
                known = select(table.c.seq, table.c.id).where(statements.by_numbers(table, self._bank, wanted))
                with self._reading():
                    found |= {sign * seq: id for seq, id in self._connection.execute(known)}
        return found

    def numbers(self, facts: Sequence[FactId]) -> dict[FactId, int]:
        return self._known(self._loaded.numbers, dict.fromkeys(facts, self._purges), self._load_numbers)

    def _load_numbers(self, facts: Sequence[FactId]) -> dict[FactId, int]:
        with self._reading():
            found = statements.seqs_of(self._connection, schema.facts, self._bank, facts)
        return {FactId(id): seq for id, seq in found.items()}

    def entity_names(self, entities: Sequence[int]) -> dict[int, str]:
        named = select(schema.entities.c.seq, schema.entities.c.name).where(
            statements.by_numbers(schema.entities, self._bank, entities)
        )
        with self._reading():
            return dict(self._connection.execute(named).all()) if entities else {}


_ENGINE = OWN_WORDS_ENGINES[0]
_OPENINGS = select(
    facts.c.seq, facts.c.id, func.substr(facts.c.text, 1, 200), facts.c.record.contains(f'"engine":"{_ENGINE}"')
).where(statements.of_numbers(facts))


def scored(
    connection: Connection, bank: int, found: Sequence[tuple[Sequence[int], Sequence[float]]]
) -> list[list[Scored]]:
    """Return the facts that searches found, given by their numbers and scores."""
    wanted = listed({seq for seqs, _ in found for seq in seqs})
    rows = rows_of(connection, _OPENINGS, {"of_bank": bank, "seqs": wanted})
    known = {seq: (FactId(id), speaker_in(text, _ENGINE if own else "")) for seq, id, text, own in rows}
    return [[Scored(known[seq][0], score, known[seq][1]) for seq, score in zip(*each, strict=True)] for each in found]


def entity_ids(connection: Connection, bank: int, numbers: Sequence[int]) -> dict[int, EntityId]:
    statement = select(entities.c.seq, entities.c.id).where(statements.by_numbers(entities, bank, numbers))
    return {seq: EntityId(id) for seq, id in connection.execute(statement)} if numbers else {}


def _fact_rows(connection: Connection, bank: int, wanted: FactSelect) -> list[AnyRow]:
    if wanted.ids is not None:
        return _rows_by_id(connection, facts, bank, wanted.ids)
    if wanted.around is None:
        return list(connection.execute(fact_statement(bank, wanted)))
    time = micros(wanted.around)
    parts = mentioned_around(fact_statement(bank, wanted), time)
    rows = [row for part in parts for row in connection.execute(part)]
    return sorted(rows, key=lambda row: abs(row.mentioned_at - time))[: wanted.limit]


_MEMBERS = (
    select(episode_messages.c.episode, messages.c.id)
    .join(messages, statements.refers_to(episode_messages, "message", messages))
    .where(of_bank(episode_messages), among(episode_messages.c.episode, later("episodes")))
    .order_by(messages.c.timestamp, messages.c.seq)
)


def episodes_of(connection: Connection, bank: int, wanted: EpisodeSelect) -> list[Episode]:
    """Return the episodes of a selection, with their messages in order of time."""
    if wanted.ids is not None:
        rows = _rows_by_id(connection, episodes, bank, wanted.ids)
    else:
        rows = list(connection.execute(episode_statement(bank, wanted)))
    members: dict[int, list[MessageId]] = defaultdict(list)
    given = {"of_bank": bank, "episodes": listed([row[SEQ] for row in rows])}
    for episode, id in rows_of(connection, _MEMBERS, given):
        members[episode].append(MessageId(id))
    return [record_of(Episode, episodes, row, messages=tuple(members[row[SEQ]])) for row in rows]


def entities_of(connection: Connection, bank: int, wanted: EntitySelect) -> list[Entity]:
    """Return the entities of a selection, with the number of facts that mention each unless it is not wanted."""
    if wanted.ids is not None:
        rows = _rows_by_id(connection, entities, bank, wanted.ids)
    else:
        rows = list(connection.execute(entity_statement(bank, wanted)))
    counts: dict[int, int] = {}
    if wanted.counted:
        of_entities = mentions.c.bank == bank, among(mentions.c.entity, [row[SEQ] for row in rows])
        counted = select(mentions.c.entity, func.count()).where(*of_entities).group_by(mentions.c.entity)
        counts = dict(connection.execute(counted).all())
    return [record_of(Entity, entities, row, mentions=counts.get(row[SEQ], 0)) for row in rows]


def links_of(connection: Connection, bank: int, ids: Sequence[FactId] | None) -> list[Link]:
    """Return the stored links that leave these facts, or all."""
    return [
        Link(source=FactId(source), target=FactId(target), kind=LINK_KINDS[int(kind)], weight=weight)
        for source, target, kind, weight in connection.execute(link_statement(bank, ids)).all()
    ]


def link_statement(bank: int, ids: Sequence[FactId] | None) -> AnySelect:
    """Return the statement of the links that leave some facts, or all, in the order of their facts."""
    origin, target = facts.alias("origin"), facts.alias("target")
    statement = (
        select(origin.c.id, target.c.id, links.c.kind, links.c.weight)
        .join(origin, statements.refers_to(links, "source", origin))
        .join(target, statements.refers_to(links, "target", target))
        .where(links.c.bank == bank)
        .order_by(links.c.source, links.c.target, links.c.kind)
    )
    if ids is not None:
        statement = statement.where(within(links.c.source, numbers_of(facts, bank, ids)))
    return statement


_OWN = select(entities.c.seq).where(of_bank(entities), entities.c.id == bindparam("entity")).scalar_subquery()
_LATEST_FACTS = select(mentions.c.fact).where(of_bank(mentions), mentions.c.entity == _OWN)
_BESIDE = (
    select(entities.c.id)
    .join(mentions, statements.refers_to(mentions, "entity", entities))
    .where(
        of_bank(mentions),
        mentions.c.fact.in_(_LATEST_FACTS.order_by(mentions.c.fact.desc()).limit(LATEST).scalar_subquery()),
        entities.c.seq != _OWN,
    )
    .distinct()
)


def cooccurring(connection: Connection, bank: int, ids: Sequence[EntityId]) -> dict[EntityId, set[EntityId]]:
    """Return for each entity the others that share one of its latest facts."""
    rows = {id: rows_of(connection, _BESIDE, {"of_bank": bank, "entity": id}) for id in ids}
    return {id: {EntityId(other) for (other,) in found} for id, found in rows.items()}


def entity_mentions(
    connection: Connection, bank: int, wanted: Sequence[EntityId], *, named: bool
) -> list[EntityMention]:
    """Return the mentions of entities, in the order of their facts; with `named`, those by another name only."""
    statement = (
        select(facts.c.id, facts.c.mentioned_at, entities.c.id.label("entity"), mentions.c.name_in_text)
        .join(facts, statements.refers_to(mentions, "fact", facts))
        .join(entities, statements.refers_to(mentions, "entity", entities))
        .where(mentions.c.bank == bank, entities.c.bank == bank, among(entities.c.id, wanted))
        .order_by(mentions.c.fact, mentions.c.entity)
    )
    if named:
        statement = statement.where(mentions.c.name_in_text.is_not(None))
    return [
        EntityMention(
            fact=FactId(row.id),
            entity=EntityId(row.entity),
            name_in_text=row.name_in_text or "",
            mentioned_at=instant(row.mentioned_at),
        )
        for row in connection.execute(statement)
    ]
