"""Cypher conditions of a scope, for the facts of a variable and for messages `m`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import LiteralString, assert_never

from pydantic import JsonValue

from vmemo.models import Interval, utc_now
from vmemo.models.base import TagsMatch
from vmemo.models.search import Scope
from vmemo.stores.values import metadata_of, micros_or_none, storable
from vmemo.text.names.compare import fold_name
from vmemo_neo4j.connection import Transaction


@dataclass(frozen=True)
class Filter:
    """The condition of a scope for facts `f`, and the parameters of its statement."""

    condition: LiteralString
    parameters: Mapping[str, object]

    def of(self, variable: LiteralString) -> LiteralString:
        """Return the condition for facts of another variable."""
        return self.condition.replace("f.", f"{variable}.").replace("(f)", f"({variable})")


async def filter_of(tx: Transaction, bank: str, scope: Scope) -> Filter:
    """Return the filter of a scope; entities and metadata that it names are looked up."""
    found: list[LiteralString] = ["f.bank = $bank", *visible(scope)]
    parameters: dict[str, object] = {"bank": bank, **times(scope)}
    if scope.networks:
        found.append("f.network IN $networks")
        parameters["networks"] = sorted(scope.networks)
    if scope.occurred is not None:
        # A fact occurred within an interval if a part of it did.
        found.append("f.began < coalesce($before, f.ended) AND f.ended > coalesce($after, f.began)")
        parameters["after"] = micros_or_none(scope.occurred.start)
        parameters["before"] = micros_or_none(scope.occurred.end)
    if scope.entities:
        found.append("EXISTS { MATCH (f)-[:MENTIONS]->(named:Entity) WHERE named.id IN $entities }")
        parameters["entities"] = await _named(tx, bank, scope.entities)
    if scope.speakers:
        found.append("EXISTS { MATCH (f)-[:SOURCE]->(said:Message) WHERE said.speaker IN $speakers }")
        parameters["speakers"] = [*scope.speakers]
    if scope.tags:
        none: LiteralString = "size(f.tags) = 0 AND f.network IN ['world', 'experience']"
        found.append(_tagged(scope.tags_match, "f.tags", none))
        parameters["tags"] = sorted(scope.tags)
    if scope.metadata:
        found.append("f.id IN $with_metadata")
        parameters["with_metadata"] = await _with_metadata(tx, bank, "Fact", scope.metadata)
    return Filter(" AND ".join(found), parameters)


async def message_filter_of(tx: Transaction, bank: str, scope: Scope) -> Filter:
    """Return the filter of a scope for messages `m` that may be shown verbatim.

    A message has no facts, or a visible one: otherwise a superseded fact would come back in the words of its message.
    """
    shown = " AND ".join(visible(scope)) or "true"
    found: list[LiteralString] = [
        "m.bank = $bank",
        "(m.expires_at IS NULL OR m.expires_at > $now)",
        f"(NOT EXISTS {{ MATCH (m)<-[:SOURCE]-(:Fact) }} OR EXISTS {{ MATCH (m)<-[:SOURCE]-(f:Fact) WHERE {shown} }})",
    ]
    parameters: dict[str, object] = {"bank": bank, "now": utc_now(), **times(scope)}
    if scope.tags:
        found.append(_tagged(scope.tags_match, "m.tags", "size(m.tags) = 0"))
        parameters["tags"] = sorted(scope.tags)
    if scope.speakers:
        found.append("m.speaker IN $speakers")
        parameters["speakers"] = [*scope.speakers]
    if scope.metadata:
        found.append("m.id IN $with_metadata")
        parameters["with_metadata"] = await _with_metadata(tx, bank, "Message", scope.metadata)
    if scope.occurred is not None:
        if scope.occurred.start is not None:
            found.append("m.timestamp >= $occurred_start")
        if scope.occurred.end is not None:
            found.append("m.timestamp < $occurred_end")
        parameters |= bounds(scope.occurred, "occurred")
    if scope.at_time is not None:
        found.append("m.timestamp <= $at_time")
    if scope.known_at is not None:
        found.append("m.recorded_at <= $known_at")
    return Filter(" AND ".join(found), parameters)


def times(scope: Scope) -> dict[str, object]:
    """Return the parameters of `visible`."""
    found: dict[str, object] = {"now": utc_now(), "at_time": scope.at_time, "known_at": scope.known_at}
    return found if scope.former is None else found | bounds(scope.former, "former")


def bounds(interval: Interval, name: str) -> dict[str, object]:
    """Return the ends of an interval as parameters."""
    return {f"{name}_start": interval.start, f"{name}_end": interval.end}


def visible(scope: Scope) -> list[LiteralString]:
    """Return the conditions that a fact was true at one time and believed at another, and has not expired."""
    found = _in_time(scope)
    return found if scope.past_expiry else [*found, "(f.expires_at IS NULL OR f.expires_at > $now)"]


def _in_time(scope: Scope) -> list[LiteralString]:
    if scope.at_time is None and scope.known_at is None:
        if scope.include_expired:
            return []
        now: LiteralString = "(f.expired_at IS NULL AND (f.invalid_at IS NULL OR f.invalid_at > $now))"
        return [now] if scope.former is None else [f"({now} OR {_former(scope.former)})"]
    found: list[LiteralString] = []
    ended: LiteralString = "true"
    if scope.known_at is None:
        # The current belief decides: a fact that expired without an end was never true.
        found.append("(f.expired_at IS NULL OR f.invalid_at IS NOT NULL)")
    else:
        found.append("f.recorded_at <= $known_at AND (f.expired_at IS NULL OR f.expired_at > $known_at)")
        # A fact closed later was, at that time, believed to be still true.
        ended = "f.expired_at IS NULL"
    if scope.at_time is not None:
        found.append("(f.valid_at IS NULL OR f.valid_at <= $at_time)")
        found.append(f"NOT ({ended} AND f.invalid_at IS NOT NULL AND f.invalid_at <= $at_time)")
    return found


def _former(during: Interval) -> LiteralString:
    """Return the condition that a fact is not true any more, and was at some time of an interval."""
    # A fact that ended at its start was never true.
    found: LiteralString = "f.invalid_at IS NOT NULL AND (f.valid_at IS NULL OR f.valid_at < f.invalid_at)"
    if during.end is not None:
        found += " AND (f.valid_at IS NULL OR f.valid_at < $former_end)"
    if during.start is not None:
        found += " AND f.invalid_at > $former_start"
    return f"({found})"


def _tagged(rule: TagsMatch, tags: LiteralString, none: LiteralString) -> LiteralString:
    """Return the condition for the scope's tags; `none` is the one for records without tags."""
    every: LiteralString = f"all(tag IN $tags WHERE tag IN {tags})"
    some: LiteralString = f"any(tag IN $tags WHERE tag IN {tags})"
    match rule:
        case "all":
            return every
        case "any":
            return some
        case "exact":
            return f"{every} AND size({tags}) = size($tags)"
        case "all_or_none":
            return f"({every} OR ({none}))"
        case "any_or_none":
            return f"({some} OR ({none}))"
        case _:
            assert_never(rule)


async def _named(tx: Transaction, bank: str, names: Iterable[str]) -> list[str]:
    """Return the ids of entities that have one of these ids, names or aliases, without regard to case.

    The folded names lead to few of them, whose own names are then compared. A name of signs alone has no folded one.
    """
    given = [name for name in names if storable(name)]
    wanted, folded = {name.casefold() for name in given}, {fold_name(name) for name in given}
    found = await tx.rows(
        "MATCH (e:Entity {bank: $bank}) WHERE e.id IN $given "
        "RETURN e.id AS id, e.name AS name, e.aliases AS aliases "
        "UNION MATCH (n:EntityName {bank: $bank})<-[:KNOWN_AS]-(e:Entity) WHERE n.name IN $folded "
        "RETURN e.id AS id, e.name AS name, e.aliases AS aliases "
        "UNION MATCH (e:Entity {bank: $bank}) WHERE $unfolded AND e.id > '' "
        "RETURN e.id AS id, e.name AS name, e.aliases AS aliases",
        bank=bank,
        given=given,
        folded=sorted(folded),
        unfolded="" in folded,
    )
    return [
        row["id"]
        for row in found
        if row["id"] in given or not wanted.isdisjoint(name.casefold() for name in (row["name"], *row["aliases"]))
    ]


async def _with_metadata(
    tx: Transaction, bank: str, label: LiteralString, wanted: Mapping[str, JsonValue]
) -> list[str]:
    """Return the ids of records that have these values, which Cypher can't read in their JSON."""
    keys = [json.dumps(key, ensure_ascii=False) for key in wanted]
    found = await tx.rows(
        f"MATCH (n:{label} {{bank: $bank}}) WHERE n.id > '' AND all(key IN $keys WHERE n.metadata CONTAINS key) "
        "RETURN n.id AS id, n.metadata AS metadata",
        bank=bank,
        keys=[key for key in keys if storable(key)],
    )
    return [row["id"] for row in found if _has_values(metadata_of(row["metadata"]), wanted)]


def _has_values(metadata: Mapping[str, JsonValue], wanted: Mapping[str, JsonValue]) -> bool:
    return all(key in metadata and _same(metadata[key], value) for key, value in wanted.items())


def _same(one: JsonValue, other: JsonValue) -> bool:
    """Compare with the JSON type, so that 1, true and "1" stay three values."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_same(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_same, one, other))
    return isinstance(one, bool) == isinstance(other, bool) and one == other
