"""SQL conditions of a scope on PostgreSQL, as text: the rules of `sql.scope_conditions` without expressions."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import assert_never

from pydantic import JsonValue
from sqlalchemy import Connection

from vmemo.models import Interval, Network, utc_now
from vmemo.models.search import Scope
from vmemo.stores.postgres.driver import Parameters, fetch
from vmemo.stores.sql.schema import MESSAGE
from vmemo.stores.values import micros, names_of, storable
from vmemo.text.names.fold import fold_name

BEGAN = "coalesce(facts.occurred_start, least(facts.mentioned_at, facts.occurred_end - 1), facts.mentioned_at)"
"""Open ends of an occurrence reach to the time of mention, and every occurrence takes at least a microsecond."""
ENDED = f"greatest(coalesce(facts.occurred_end, facts.mentioned_at + 1), {BEGAN} + 1)"

_COMMON: frozenset[Network] = frozenset({"world", "experience"})


def wide(scope: Scope) -> bool:
    """Return True if a scope admits most facts: it filters by times or common networks at most."""
    narrow = scope.tags or scope.entities or scope.metadata or scope.occurred is not None
    return not narrow and not (scope.networks and scope.networks.isdisjoint(_COMMON))


@dataclass(frozen=True)
class ScopeFilter:
    """A scope of one bank at one time, with the numbers of the entities that it names."""

    bank: int
    scope: Scope
    entities: Sequence[int]
    now: int

    @staticmethod
    def of(connection: Connection, bank: int, scope: Scope) -> ScopeFilter:
        """Return the filter of a scope; entities that it names are looked up."""
        named = _named(connection, bank, scope.entities) if scope.entities else []
        return ScopeFilter(bank, scope, named, micros(utc_now()))

    def facts(self, values: Parameters) -> str:
        """Return the condition of facts; the statement names the bank itself."""
        scope = self.scope
        found = self._visible(values)
        if scope.networks:
            found.append(f"facts.network = ANY({values.add(sorted(scope.networks), 'text[]')})")
        if scope.occurred is not None:
            found += inside(values, scope.occurred)
        if scope.entities:
            found.append(
                f"facts.seq IN (SELECT fact FROM mentions WHERE mentions.bank = {values.add(self.bank, 'bigint')} "
                f"AND mentions.entity = ANY({values.add(self.entities, 'bigint[]')}))"
            )
        bare = "facts.tags = '[]' AND facts.network IN ('world', 'experience')"
        return _all([*found, *self._labelled(values, "facts", bare)])

    def messages(self, values: Parameters) -> str:
        """Return the condition of messages that may be shown verbatim.

        A message has no facts, or a visible one: otherwise a superseded fact would come back in its words.
        """
        scope, bank = self.scope, values.add(self.bank, "bigint")
        found = [*self._labelled(values, "messages", "messages.tags = '[]'"), self._unexpired(values, "messages")]
        if scope.occurred is not None and scope.occurred.start is not None:
            found.append(f"messages.timestamp >= {values.add(micros(scope.occurred.start), 'bigint')}")
        if scope.occurred is not None and scope.occurred.end is not None:
            found.append(f"messages.timestamp < {values.add(micros(scope.occurred.end), 'bigint')}")
        if scope.at_time is not None:
            found.append(f"messages.timestamp <= {values.add(micros(scope.at_time), 'bigint')}")
        if scope.known_at is not None:
            found.append(f"messages.recorded_at <= {values.add(micros(scope.known_at), 'bigint')}")
        stating = f"sources.bank = {bank} AND sources.kind = {MESSAGE} AND sources.source = messages.seq"
        found.append(
            f"(NOT EXISTS (SELECT 1 FROM sources WHERE {stating}) OR EXISTS (SELECT 1 FROM sources "
            f"JOIN facts ON facts.bank = {bank} AND facts.seq = sources.fact "
            f"WHERE {stating} AND {_all(self._visible(values))}))"
        )
        return _all(found)

    def _visible(self, values: Parameters) -> list[str]:
        """A fact was true at one time and believed at another, and has not expired."""
        found = self._in_time(values)
        return found if self.scope.past_expiry else [*found, self._unexpired(values, "facts")]

    def _unexpired(self, values: Parameters, table: str) -> str:
        return f"({table}.expires_at IS NULL OR {table}.expires_at > {values.add(self.now, 'bigint')})"

    def _in_time(self, values: Parameters) -> list[str]:
        """A fact was true at one time and believed at another; now, without times."""
        scope = self.scope
        if scope.at_time is None and scope.known_at is None:
            return [] if scope.include_expired else [self._true_now(values)]
        if scope.known_at is None:
            # The current belief decides: a fact that expired without an end was never true.
            found, ended = ["(facts.expired_at IS NULL OR facts.invalid_at IS NOT NULL)"], "true"
        else:
            known = values.add(micros(scope.known_at), "bigint")
            found = [f"facts.recorded_at <= {known}", f"(facts.expired_at IS NULL OR facts.expired_at > {known})"]
            # A fact closed later was, at that time, believed to be still true.
            ended = "facts.expired_at IS NULL"
        if scope.at_time is not None:
            at = values.add(micros(scope.at_time), "bigint")
            found.append(f"(facts.valid_at IS NULL OR facts.valid_at <= {at})")
            found.append(f"NOT ({ended} AND facts.invalid_at IS NOT NULL AND facts.invalid_at <= {at})")
        return found

    def _true_now(self, values: Parameters) -> str:
        now = values.add(self.now, "bigint")
        true_now = f"facts.expired_at IS NULL AND (facts.invalid_at IS NULL OR facts.invalid_at > {now})"
        former = self.scope.former
        return f"({true_now})" if former is None else f"({true_now} OR {_former(values, former)})"

    def _labelled(self, values: Parameters, table: str, none: str) -> list[str]:
        """The scope's tags and metadata; `none` is the condition for a row without tags."""
        scope = self.scope
        held = [_has_tag(values, f"{table}.tags", tag) for tag in sorted(scope.tags)]
        found = [_has_value(values, f"{table}.metadata", *item) for item in sorted(scope.metadata.items())]
        if not held:
            return found
        match scope.tags_match:
            case "all":
                return [*held, *found]
            case "any":
                return [f"({' OR '.join(held)})", *found]
            case "exact":
                return [*held, f"jsonb_array_length({table}.tags::jsonb) = {len(held)}", *found]
            case "all_or_none":
                return [f"({_all(held)} OR {none})", *found]
            case "any_or_none":
                return [f"({' OR '.join(held)} OR {none})", *found]
            case _:
                assert_never(scope.tags_match)


def _all(found: Sequence[str]) -> str:
    return f"({' AND '.join(found)})" if found else "true"


def _former(values: Parameters, during: Interval) -> str:
    """A fact is not true any more, and was at some time of an interval."""
    # A fact that ended at its start was never true.
    found = ["facts.invalid_at IS NOT NULL", "(facts.valid_at IS NULL OR facts.valid_at < facts.invalid_at)"]
    if during.end is not None:
        end = values.add(micros(during.end), "bigint")
        found.append(f"(facts.valid_at IS NULL OR facts.valid_at < {end})")
    if during.start is not None:
        found.append(f"facts.invalid_at > {values.add(micros(during.start), 'bigint')}")
    return _all(found)


def inside(values: Parameters, interval: Interval) -> list[str]:
    """Return the conditions for facts that occurred within an interval, at least in part."""
    found: list[str] = []
    if interval.end is not None:
        found.append(f"{BEGAN} < {values.add(micros(interval.end), 'bigint')}")
    if interval.start is not None:
        found.append(f"{ENDED} > {values.add(micros(interval.start), 'bigint')}")
    return found


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


def _named(connection: Connection, bank: int, names: Iterable[str]) -> list[int]:
    """Entities that have one of these ids, names or aliases, without regard to case.

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
