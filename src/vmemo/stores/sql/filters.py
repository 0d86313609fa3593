"""SQL conditions of a scope, as text with numbered parameters."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pydantic import JsonValue
from sqlalchemy import Connection, or_, select

from vmemo.models import Interval, utc_now
from vmemo.models.search import Scope
from vmemo.stores.search import all_of, messages_in_time, tag_conditions, visible_facts
from vmemo.stores.sql.schema import MESSAGE, entities, entity_names
from vmemo.stores.sql.statements import among, within
from vmemo.stores.values import micros, names_of, storable
from vmemo.text.names.compare import fold_name

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
