"""What a recall is asked for, checked before anything is searched."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal, TypedDict, cast, get_args

from pydantic import JsonValue

from vmemo.errors import InvalidInput
from vmemo.models import BankId, Budget, Interval, Network
from vmemo.models.search import Scope, TagsMatch

MAX_QUERY = 100_000
"""Characters a query may have. The embedder reads the first 512 tokens, keyword search the 64 longest words."""
MAX_TOKENS = 1_000_000
MAX_NODES = 10_000
NODES: dict[Literal["low", "mid", "high"], int] = {"low": 100, "mid": 200, "high": 1000}
"""Candidates taken from each channel by budget."""
LEAST_RERANKED = 64


class RecallOptions(TypedDict, total=False):
    """Filters, time travel and weighing, the same for recall, retrieve and reflect."""

    networks: Sequence[Network]
    tags: Sequence[str]
    tags_match: TagsMatch
    entities: Sequence[str]
    metadata: Mapping[str, JsonValue]
    occurred: Interval
    at_time: datetime | None
    known_at: datetime | None
    include_expired: bool
    recency_half_life: timedelta
    importance_weight: float
    now: datetime | None
    explain: bool


@dataclass(frozen=True, kw_only=True)
class Query:
    """A checked query."""

    text: str
    scope: Scope
    nodes: int
    max_tokens: int | None = None
    top_k: int | None = None
    recency_half_life: timedelta | None = None
    importance_weight: float = 0.0
    now: datetime | None = None
    """When the question is asked, for "last week" and the like; the present unless given."""
    explain: bool = False

    @property
    def reranked(self) -> int:
        """Candidates that a reranker looks at, at most."""
        return max(LEAST_RERANKED, self.nodes // 2)


def make_query(
    text: str,
    bank: BankId,
    options: RecallOptions,
    *,
    budget: Budget = "mid",
    max_tokens: int | None = None,
    top_k: int | None = None,
) -> Query:
    """A query from what the caller gave, or InvalidInput."""
    unknown = sorted(options.keys() - RecallOptions.__annotations__.keys())
    if unknown:
        raise InvalidInput(f"There is no option {unknown[0]!r}; there are {', '.join(RecallOptions.__annotations__)}.")
    if max_tokens is None and top_k is None:
        raise InvalidInput("A recall needs an end: max_tokens or top_k must be a whole number, not None.")
    return Query(
        text=clean(text),
        scope=_scope(bank, options),
        nodes=_nodes(budget),
        max_tokens=_whole("max_tokens", max_tokens, MAX_TOKENS),
        top_k=_whole("top_k", top_k, MAX_NODES),
        recency_half_life=_half_life(options.get("recency_half_life")),
        importance_weight=_weight(options.get("importance_weight", 0.0)),
        now=_aware("now", options.get("now")),
        explain=_flag("explain", options.get("explain", False)),
    )


def clean(text: object) -> str:
    """The query without control characters; empty, huge and non-text queries are refused."""
    if not isinstance(text, str):
        raise InvalidInput(f"A query must be text, not {type(text).__name__}.")
    if len(text) > MAX_QUERY:
        raise InvalidInput(f"A query may have {MAX_QUERY:,} characters; this one has {len(text):,}.")
    valid = text.encode("utf-8", "replace").decode("utf-8")
    kept = "".join(c if c.isprintable() else " " for c in valid).strip()
    if not kept:
        raise InvalidInput("A query must not be empty.")
    return kept


def _nodes(budget: Budget) -> int:
    if isinstance(budget, str) and budget in NODES:
        return NODES[budget]
    if isinstance(budget, str):
        raise InvalidInput(f"A budget is low, mid, high or a number of nodes, not {budget!r}.")
    nodes = _whole("budget", budget, MAX_NODES)
    if nodes is None:
        raise InvalidInput("A budget is low, mid, high or a number of nodes, not None.")
    return nodes


def _whole(name: str, value: object, most: int) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
        raise InvalidInput(f"{name} must be a whole number from 1 to {most:,}, not {value!r}.")
    return value


def _weight(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise InvalidInput(f"importance_weight must be from 0 to 1, not {value!r}.")
    return float(value)


def _half_life(value: object) -> timedelta | None:
    if value is None or (isinstance(value, timedelta) and value > timedelta(0)):
        return value
    raise InvalidInput(f"recency_half_life must be a timedelta longer than nothing, not {value!r}.")


def _scope(bank: BankId, options: RecallOptions) -> Scope:
    networks = _names("networks", options.get("networks", ()))
    unknown = networks - set(get_args(Network))
    if unknown:
        raise InvalidInput(f"There is no network {min(unknown)!r}; there are {', '.join(get_args(Network))}.")
    return Scope(
        bank=bank,
        networks=frozenset(network for network in get_args(Network) if network in networks),
        tags=_names("tags", options.get("tags", ())),
        tags_match=_tags_match(options.get("tags_match", "all")),
        entities=_names("entities", options.get("entities", ())),
        metadata=_metadata(options.get("metadata", {})),
        occurred=_interval(options.get("occurred")),
        at_time=_aware("at_time", options.get("at_time")),
        known_at=_aware("known_at", options.get("known_at")),
        include_expired=_flag("include_expired", options.get("include_expired", False)),
    )


def _tags_match(value: object) -> TagsMatch:
    found = next((rule for rule in get_args(TagsMatch) if rule == value), None)
    if found is None:
        raise InvalidInput(f"tags_match is one of {', '.join(get_args(TagsMatch))}, not {value!r:.40}.")
    return found


def _metadata(values: object) -> dict[str, JsonValue]:
    if not isinstance(values, Mapping):
        raise InvalidInput(f"metadata must be a mapping of names to JSON values, not {values!r}.")
    wanted = dict(cast("Mapping[str, JsonValue]", values))
    for name, value in wanted.items():
        text_of("metadata", name)
        if isinstance(value, int) and not -(2**63) <= value < 2**63:
            raise InvalidInput(f"metadata {name!r} is asked for with a number that is too large to compare.")
    try:
        json.dumps(wanted, ensure_ascii=False, allow_nan=False).encode("utf-8")
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"metadata must hold JSON values in valid Unicode: {error}.") from error
    return wanted


def _interval(value: object) -> Interval | None:
    if value is None or isinstance(value, Interval):
        return value
    raise InvalidInput(f"occurred must be an Interval(start=..., end=...), not {type(value).__name__}.")


def _flag(name: str, value: object) -> bool:
    if isinstance(value, bool):
        return value
    raise InvalidInput(f"{name} must be True or False, not {value!r}.")


def _names(name: str, values: object) -> frozenset[str]:
    if isinstance(values, str) or not isinstance(values, Sequence | frozenset | set):
        raise InvalidInput(f"{name} must be a list of texts, not {values!r}.")
    return frozenset(text_of(name, value) for value in cast("Iterable[object]", values))


def text_of(name: str, value: object) -> str:
    """A text that a database can compare with, or InvalidInput."""
    if not isinstance(value, str):
        raise InvalidInput(f"{name} must be text, not {value!r}.")
    try:
        value.encode("utf-8")
    except UnicodeEncodeError as error:
        raise InvalidInput(f"{name} must be valid Unicode without lone surrogates, not {value!r:.40}.") from error
    return value


def _aware(name: str, moment: object) -> datetime | None:
    if moment is None:
        return None
    if not isinstance(moment, datetime):
        raise InvalidInput(f"{name} must be a datetime, not {type(moment).__name__}.")
    if moment.tzinfo is None or moment.utcoffset() is None:
        raise InvalidInput(f"{name} needs a time zone (use datetime(..., tzinfo=UTC)); naive datetimes are refused.")
    return moment
