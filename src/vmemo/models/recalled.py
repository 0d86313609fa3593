"""The result of a recall, its explanation, and its form in a prompt."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Literal

from pydantic import Field

from vmemo.models import Channel, EpisodeId, Fact, FactId, Hit, Interval, Mention, QueryType
from vmemo.models.base import Instant, Record


class Explanation(Record):
    """The analysis of the question, the candidates of each channel, and the work of the reranker."""

    type: QueryType
    during: Interval | None
    resolved_by: Literal["rules", "model"] | None = None
    """The source of that time."""
    unresolved_time: str | None = None
    """Words for a time that the rules could not resolve, for which the model was called."""
    problem: str | None = None
    """The reason why the model returned no time."""
    parts: tuple[str, ...]
    entities: tuple[Mention, ...]
    weights: Mapping[Channel, float]
    candidates: Mapping[Channel, int]
    reranker: str
    reranked: int


class Recalled(Record):
    """Hits by relevance inside the budget; `timings` are milliseconds by stage."""

    query: str
    hits: tuple[Hit, ...] = ()
    tokens: int = 0
    at_time: Instant | None = None
    known_at: Instant | None = None
    titles: Mapping[EpisodeId, str] = Field(default_factory=dict[EpisodeId, str])
    timings: Mapping[str, float] = Field(default_factory=dict[str, float])
    explanation: Explanation | None = None

    @property
    def facts(self) -> tuple[Fact, ...]:
        """The recalled facts."""
        return tuple(hit.fact for hit in self.hits)

    def to_prompt(self) -> str:
        """Return the facts by episode and date, with ids to cite; the newest version of a fact is marked."""
        if not self.hits:
            return "Memory holds nothing about this."
        blocks = [self._block(key, facts) for key, facts in _grouped(self.facts).items()]
        return "\n\n".join(blocks)

    def _block(self, key: tuple[EpisodeId | None, str], facts: Sequence[Fact]) -> str:
        episode, day = key
        title = self.titles.get(episode) if episode else None
        heading = f"## {day}: {title}" if title else f"## {day}"
        replaced = {fact.supersedes for fact in facts if fact.supersedes}
        return "\n".join([heading, *(_line(fact, replaced) for fact in _versions_together(facts))])


def _grouped(facts: Sequence[Fact]) -> dict[tuple[EpisodeId | None, str], list[Fact]]:
    """Group facts by episode and day, in the order of the best fact of each group.

    All versions of one fact share the group of the best one, so that a reader sees the change.
    """
    by_id = {fact.id: fact for fact in facts}
    groups: dict[tuple[EpisodeId | None, str], list[Fact]] = {}
    places: dict[FactId, tuple[EpisodeId | None, str]] = {}
    for fact in facts:
        own = (fact.episodes[0] if fact.episodes else None, _day(fact.mentioned_at))
        key = places.setdefault(list(_versions(fact, by_id))[-1].id, own)
        groups.setdefault(key, []).append(fact)
    return groups


def _versions(fact: Fact, by_id: Mapping[FactId, Fact]) -> Iterator[Fact]:
    """Yield a fact and those versions it replaced that were recalled, newest first."""
    seen: set[FactId] = set()
    version: Fact | None = fact
    while version is not None and version.id not in seen:
        seen.add(version.id)
        yield version
        version = by_id.get(version.supersedes) if version.supersedes else None


def _versions_together(facts: Sequence[Fact]) -> list[Fact]:
    """Return each fact followed by the versions that it replaced, and none twice."""
    by_id = {fact.id: fact for fact in facts}
    replaced = {fact.supersedes for fact in facts}
    newest = [fact for fact in facts if fact.id not in replaced]
    ordered = (version for fact in (*newest, *facts) for version in _versions(fact, by_id))
    return list({version.id: version for version in ordered}.values())


def _line(fact: Fact, replaced: set[FactId]) -> str:
    marks: list[str] = []
    if fact.supersedes and fact.id not in replaced and fact.expired_at is None:
        marks.append("current")
    if fact.invalid_at is not None:
        marks.append(f"until {_day(fact.invalid_at)}")
    elif fact.expired_at is not None:
        marks.append("no longer believed")
    if fact.network in ("opinion", "observation"):
        marks.append(fact.network)
    note = f" ({', '.join(marks)})" if marks else ""
    return f"- [{fact.id}]{note} {fact.text}"


def _day(time: datetime) -> str:
    return f"{time.day} {time:%B %Y}"
