"""Recalled facts as text for a prompt: by day and episode in order of time, with ids to cite, within a token budget."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, time
from typing import Literal

from vmemo.models.facts import COMPUTED_DATE, Fact
from vmemo.models.hits import Hit
from vmemo.models.ids import EpisodeId, FactId

NOTHING = "Memory holds nothing about this."
LEGEND = "Facts from memory, oldest first, times in UTC. Cite a fact by its [id]."
INSTRUCTIONS = "The user's standing instructions, newest first; a newer one takes precedence:"
INSTRUCTION_SHARE = 4
"""Instructions take at most this part of a prompt: a fourth."""
EXPLAINED_MARKS = {
    "former": "former: no longer true.",
    "maybe outdated": "maybe outdated: a newer fact may replace it.",
    "[…]": "[…]: shortened.",
    COMPUTED_DATE: "(= date): computed from the day of the message.",
}
"""Sentences that the legend has only if the mark occurs."""
QUOTED = 24
"""First characters of a title that show if it is quoted from a fact, which may be truncated."""
Layout = Literal["days", "dated", "plain"]
"""Facts by day, as a list in their order with the day of each, or as a list of their texts."""


@dataclass(frozen=True, kw_only=True)
class RecallPrompt:
    """The layout of recalled facts."""

    titles: Mapping[EpisodeId, str] = field(default_factory=dict[EpisodeId, str])
    known_at: datetime | None = None
    instructions: Sequence[Fact] = ()
    """The user's standing instructions, which come first."""
    legend: bool = True
    """False leaves out the first line."""
    heading: str = ""
    """A line above the facts."""
    layout: Layout = "days"
    least_truncated: int | None = 1
    """Tokens that must be left to truncate the next fact; None truncates none."""

    def fit(self, hits: Sequence[Hit], max_tokens: int, count: Callable[[str], int]) -> str:
        """Return the prompt of the first hits that fit with everything around them.

        The first hit that does not fit is truncated to what is left; those after it are left out.
        """
        shown = self.fitting(hits, max_tokens, count)
        text = self.render(shown)
        if (shown or not hits) and count(text) <= max_tokens:
            return text
        # A small budget is left to the facts.
        return RecallPrompt(known_at=self.known_at, legend=False).fit(hits, max_tokens, count) if self.legend else ""

    def fitting(self, hits: Sequence[Hit], max_tokens: int, count: Callable[[str], int]) -> list[Hit]:
        """Return the first hits that fit with everything around them; the last may be truncated."""
        whole = self._whole(hits, max_tokens, count)
        if whole == len(hits):
            return list(hits)
        return [*hits[:whole], *self._truncated(hits[:whole], hits[whole], max_tokens, count)]

    def _whole(self, hits: Sequence[Hit], max_tokens: int, count: Callable[[str], int]) -> int:
        """Return the number of whole hits that fit, by bisection: each step lays out and counts the whole prompt."""
        low, high = 0, len(hits)
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if count(self.render(hits[:middle])) <= max_tokens else (low, middle - 1)
        return low

    def _truncated(self, hits: Sequence[Hit], next_hit: Hit, max_tokens: int, count: Callable[[str], int]) -> list[Hit]:
        """Return the next hit, truncated to what the hits before it leave; nothing if no part of it fits."""
        if self.least_truncated is None:
            return []
        left = max_tokens - count(self.render([*hits, next_hit])) + next_hit.tokens
        while left >= self.least_truncated and (short := next_hit.truncate(left, count)) is not None:
            excess = count(self.render([*hits, short])) - max_tokens
            if excess <= 0:
                return [short]
            left -= excess
        return []

    def render(self, hits: Sequence[Hit]) -> str:
        """Return the instructions and all hits, oldest first; a hit that replaced others is followed by them."""
        facts = self._facts(hits) if hits else NOTHING
        if not self.instructions:
            return facts
        lines = [f"- [{fact.short_id}] {fact.text}" for fact in self.instructions]
        return "\n".join([INSTRUCTIONS, *lines, "", facts])

    def _facts(self, hits: Sequence[Hit]) -> str:
        body = self._by_day(hits) if self.layout == "days" else "\n".join(map(self._item, hits))
        body = f"{self.heading}\n{body}" if self.heading else body
        return f"{legend_of(hits)}\n\n{body}" if self.legend else body

    def _by_day(self, hits: Sequence[Hit]) -> str:
        ordered = sorted(hits, key=_said)
        nested = _former_versions(ordered)
        inside = {hit.id for versions in nested.values() for hit in versions}
        blocks: dict[tuple[date, EpisodeId | None], list[str]] = {}
        for hit in ordered:
            if hit.id not in inside:
                lines = blocks.setdefault(_group(hit), [])
                lines.append(self._line(hit))
                lines += [self._line(version, nested=True) for version in nested.get(hit.id, ())]
        bodies = {key: "\n".join(lines) for key, lines in blocks.items()}
        return "\n\n".join(f"{self._day_heading(key, lines)}\n{lines}" for key, lines in bodies.items())

    def _item(self, hit: Hit) -> str:
        marks = ", ".join(self._marks(hit, dated=True)) if self.layout == "dated" else ""
        return _bullet(hit, f"({marks}) " if marks else "")

    def _day_heading(self, key: tuple[date, EpisodeId | None], lines: str) -> str:
        """Return the day, and the episode's title unless it is quoted from the facts below it."""
        day, episode = key
        title = self.titles.get(episode, "") if episode else ""
        is_quoted = title[:QUOTED].rstrip("….") in lines
        return f"## {_day(day)}" if is_quoted else f"## {_day(day)}: {title}"

    def _line(self, hit: Hit, *, nested: bool = False) -> str:
        marks = ", ".join(self._marks(hit, dated=nested))
        said_at = "" if nested or hit.fact.mentioned_at.time() == time() else f"{hit.fact.mentioned_at:%H:%M} "
        return _bullet(hit, f"{said_at}{f'({marks}) ' if marks else ''}", indent="  " if nested else "")

    def _marks(self, hit: Hit, *, dated: bool) -> Iterator[str]:
        fact = hit.fact
        if hit.status == "former":
            yield "former"
        elif hit.status == "maybe_outdated":
            yield "maybe outdated"
        elif fact.supersedes is not None:
            yield "current"
        if dated:
            yield f"said {_day(fact.mentioned_at)}"
        if fact.invalid_at is not None and not self._ended_later(hit):
            yield f"until {_day(fact.invalid_at)}"
        if fact.network in ("opinion", "observation"):
            yield fact.network

    def _ended_later(self, hit: Hit) -> bool:
        """Return True if the fact's end was not known yet at the time of the recall."""
        expired = hit.fact.expired_at
        return self.known_at is not None and expired is not None and expired > self.known_at


def fit_instructions(instructions: Sequence[Fact], max_tokens: int) -> list[Fact]:
    """Return the instructions that fit into a number of tokens, in their order; one that is too long is left out."""
    kept: list[Fact] = []
    for fact in instructions:
        if fact.tokens <= max_tokens:
            kept.append(fact)
            max_tokens -= fact.tokens
    return kept


def legend_of(hits: Sequence[Hit], start: str = LEGEND) -> str:
    """Return the line that explains the layout and the marks of hits."""
    used = {mark for hit in hits for mark in (hit.status.replace("_", " "), "[…]" if hit.truncated else "")}
    if any(COMPUTED_DATE in hit.text for hit in hits):
        used.add(COMPUTED_DATE)
    return " ".join([start, *(meaning for mark, meaning in EXPLAINED_MARKS.items() if mark in used)])


def _bullet(hit: Hit, marks: str, indent: str = "") -> str:
    """Return the line of a hit; further lines of its text are indented, so that they can't look like headings."""
    text = hit.text.replace("\n", f"\n{indent}  ")
    return f"{indent}- [{hit.short_id}] {marks}{text}"


def _said(hit: Hit) -> tuple[datetime, datetime]:
    """Return the sort key of the order in which facts were said; messages of one time were recorded in that order."""
    return hit.fact.mentioned_at, hit.fact.recorded_at


def _group(hit: Hit) -> tuple[date, EpisodeId | None]:
    return hit.fact.mentioned_at.date(), hit.fact.episodes[0] if hit.fact.episodes else None


def _former_versions(hits: Sequence[Hit]) -> dict[FactId, list[Hit]]:
    """Return for each hit that is not replaced by another one the versions before it, newest first."""
    by_id = {hit.id: hit for hit in hits}
    replaced = {hit.fact.supersedes for hit in hits}
    versions: dict[FactId, list[Hit]] = {}
    seen = {hit.id for hit in hits if hit.id not in replaced}
    for newest in reversed([hit for hit in hits if hit.id in seen]):
        version = by_id.get(newest.fact.supersedes or FactId(""))
        while version is not None and version.id not in seen:
            seen.add(version.id)
            versions.setdefault(newest.id, []).append(version)
            version = by_id.get(version.fact.supersedes or FactId(""))
    return versions


def _day(day: date) -> str:
    return f"{day.day} {day:%B %Y}"
