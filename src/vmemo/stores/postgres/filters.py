"""SQL conditions of a scope on PostgreSQL."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from pydantic import JsonValue
from sqlalchemy import Connection

from vmemo.models import Interval, utc_now
from vmemo.models.search import Scope
from vmemo.stores.postgres.connection import Parameters, fetch
from vmemo.stores.search import all_of, messages_in_time, tag_conditions, visible_facts
from vmemo.stores.sql.schema import MESSAGE
from vmemo.stores.values import micros, names_of, storable
from vmemo.text.names.compare import fold_name

BEGAN = "coalesce(facts.occurred_start, least(facts.mentioned_at, facts.occurred_end - 1), facts.mentioned_at)"
"""Open ends of an occurrence reach to the time of mention, and every occurrence takes at least a microsecond."""
ENDED = f"greatest(coalesce(facts.occurred_end, facts.mentioned_at + 1), {BEGAN} + 1)"


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
        entities = _named_entities(connection, bank, scope.entities) if scope.entities else []
        return ScopeFilter(bank, scope, entities, utc_now())

    def facts(self, values: Parameters) -> str:
        """Return the condition of facts; the statement names the bank itself."""
        scope = self.scope
        found = visible_facts(scope, "facts", self.now, _times(values))
        if scope.networks:
            found.append(f"facts.network = ANY({values.add(sorted(scope.networks), 'text[]')})")
        if scope.occurred is not None:
            found += occurred_in(values, scope.occurred)
        if scope.entities:
            found.append(
                f"facts.seq IN (SELECT fact FROM mentions WHERE mentions.bank = {values.add(self.bank, 'bigint')} "
                f"AND mentions.entity = ANY({values.add(self.entities, 'bigint[]')}))"
            )
        if scope.speakers:
            bank = values.add(self.bank, "bigint")
            found.append(
                f"facts.seq IN (SELECT sources.fact FROM sources JOIN messages ON messages.bank = {bank} "
                f"AND messages.seq = sources.source WHERE sources.bank = {bank} AND sources.kind = {MESSAGE} "
                f"AND {_said_by(values, scope)})"
            )
        untagged = "facts.tags = '[]' AND facts.network IN ('world', 'experience')"
        return all_of([*found, *self._labels(values, "facts", untagged)])

    def messages(self, values: Parameters) -> str:
        """Return the condition of messages that may be shown verbatim.

        A message has no facts, or a visible one: otherwise a superseded fact would come back in its words.
        """
        scope, bank, add = self.scope, values.add(self.bank, "bigint"), _times(values)
        found = [*self._labels(values, "messages", "messages.tags = '[]'")]
        if scope.speakers:
            found.append(_said_by(values, scope))
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
        scope = self.scope
        held = [_has_tag(values, f"{table}.tags", tag) for tag in sorted(scope.tags)]
        count = f"jsonb_array_length({table}.tags::jsonb)"
        found = [_has_value(values, f"{table}.metadata", *item) for item in sorted(scope.metadata.items())]
        return [*tag_conditions(scope.tags_match, held, untagged=untagged, count=count), *found]


def _times(values: Parameters) -> Callable[[datetime], str]:
    known: dict[datetime, str] = {}
    return lambda time: known.get(time) or known.setdefault(time, values.add(micros(time), "bigint"))


def occurred_in(values: Parameters, interval: Interval) -> list[str]:
    """Return the conditions for facts that occurred within an interval, at least in part."""
    found: list[str] = []
    if interval.end is not None:
        found.append(f"{BEGAN} < {values.add(micros(interval.end), 'bigint')}")
    if interval.start is not None:
        found.append(f"{ENDED} > {values.add(micros(interval.start), 'bigint')}")
    return found


def _said_by(values: Parameters, scope: Scope) -> str:
    return f"messages.speaker = ANY({values.add([name for name in scope.speakers if storable(name)], 'text[]')})"


def _has_tag(values: Parameters, tags: str, tag: str) -> str:
    if not storable(tag):
        return "false"
    # Most rows have other tags, and reading their JSON costs more than finding the word in it.
    written = values.add(json.dumps(tag, ensure_ascii=False), "text")
    return f"(strpos({tags}, {written}) > 0 AND {tags}::jsonb ? {values.add(tag, 'text')})"


def _has_value(values: Parameters, metadata: str, key: str, value: JsonValue) -> str:
    """Compared with its JSON type, so that 1, true and "1" stay three values."""
    wanted = json.dumps(value, ensure_ascii=False)
    # A character that PostgreSQL can't keep stands in the text as an escape, which its JSONB does not take either.
    if not (storable(key) and storable(wanted)) or "\\u0000" in wanted:
        return "false"
    readable = rf"replace({metadata}, '\u0000', '\ufffd')::jsonb"
    return f"({readable} -> {values.add(key, 'text')}) = {values.add(wanted, 'text')}::jsonb"


_NAMED = """
SELECT seq, id, name, aliases FROM entities WHERE bank = $1 AND (
    id = ANY($2::text[]) OR $4 OR seq IN (SELECT entity FROM entity_names WHERE bank = $1 AND name = ANY($3::text[]))
)
"""


def _named_entities(connection: Connection, bank: int, names: Iterable[str]) -> list[int]:
    """Return the entities that have one of these ids, names or aliases, without regard to case.

    The folded names lead to few of them, whose own names are then compared. A name of signs alone has no folded one.
    """
    ids = [name for name in names if storable(name)]
    wanted = {name.casefold() for name in ids}
    folded = {fold_name(name) for name in ids}
    rows = fetch(connection, _NAMED, bank, ids, list(folded), "" in folded)
    return [
        seq
        for seq, id, name, aliases in rows
        if id in ids or not wanted.isdisjoint(known.casefold() for known in (name, *names_of(aliases)))
    ]
