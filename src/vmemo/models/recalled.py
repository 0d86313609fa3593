"""The result of a recall: hits, their provenance, the explanation, and the form of hits in a prompt."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, time
from functools import cache
from typing import Literal, Self

from pydantic import Field, PrivateAttr

from vmemo.errors import InvalidInput
from vmemo.models.records import (
    COMPUTED_DATE,
    BankId,
    Channel,
    ConfidenceChange,
    EntityId,
    Episode,
    EpisodeId,
    Fact,
    FactId,
    HitStatus,
    Instant,
    Interval,
    LinkKind,
    Mention,
    Message,
    QueryType,
    QuestionTense,
    Record,
    RevisionKind,
    Share,
    counted,
    html_table,
    shortened,
    with_lines,
)

TRUNCATED = " […]"
"""The end of a truncated text."""
MIN_TRUNCATED = 16
"""Tokens that must be left for a truncated fact, unless it is the only one."""
MIN_SHARE = 0.25
"""Share of the tokens that whole sentences must use; if they use less, the text is cut after a word."""
MAX_TOKEN_LENGTH = 8
"""Characters per token that are considered at most; English text has about four."""
_SENTENCE_END = re.compile(
    r"(?<!\bMr)(?<!\bDr)(?<!\bMs)(?<!\bSt)(?<!\bMrs)(?<!\n\d)(?<!\n\d\d)(?<![.!?…])[.!?…]++[\"'”’)\]]*+(?=\s|$)|(?=\n)|[。！？]"
)
_PHRASE_END = re.compile(r"(?<=\S)(?!\s\d)(?!(?<=\d)\s[a-z])(?=\s|$)")
"""The end of a word, but not one between a number and its unit, or inside a date."""
_WORD_END = re.compile(r"(?<=\S)(?=\s|$)")
_STEP_END = re.compile(r"(?<=\S)(?=\s{1,2}(?:[-*+•‣·]|\(?\d{1,2}[.)])\s)")
"""The end of a step of a procedure, before the next one."""


def truncate(
    text: str, max_tokens: int, count: Callable[[str], int], preferred: re.Pattern[str] | None = None
) -> str | None:
    """Return the start of a text that fits into `max_tokens` with a mark at its end, or None if no word fits.

    The text is cut at the last of the `preferred` places that fits, or else at the end of a sentence or line; if whole
    sentences use too little of the tokens, after a word, if possible not between a number and what belongs to it.
    A block of code is cut only if nothing stands before it.
    """
    text = text.removesuffix(TRUNCATED)
    start = text[: max_tokens * MAX_TOKEN_LENGTH]
    fences = [match.start() for match in re.finditer("```", start)]
    first = [] if preferred is None else [(preferred, 0.0)]
    for ends, least in (*first, (_SENTENCE_END, max_tokens * MIN_SHARE), (_PHRASE_END, 0.0), (_WORD_END, 0.0)):
        found = (match.end() for match in ends.finditer(start))
        places = [end for end in found if ends is _WORD_END or bisect_left(fences, end) % 2 == 0]
        cut = _longest(start, places, max_tokens, count)
        if cut is not None and count(cut) >= least:
            return cut
    return None


def _longest(text: str, ends: Sequence[int], max_tokens: int, count: Callable[[str], int]) -> str | None:
    """Return the text up to the last of the ends that fits, with the mark."""
    fitting = bisect_right(ends, max_tokens, key=lambda end: count(_cut(text, end)))
    # A longer text may have fewer tokens, so the search can end a little too far.
    cuts = (_cut(text, end) for end in reversed(ends[:fitting]))
    return next((cut for cut in cuts if count(cut) <= max_tokens), None)


def _cut(text: str, end: int) -> str:
    return text[:end].rstrip() + TRUNCATED


@dataclass(frozen=True, slots=True)
class ChannelPlacement:
    """A fact's rank (from 1) and score in one channel."""

    rank: int
    score: float


@dataclass(frozen=True, slots=True)
class ChannelCandidate:
    """A candidate of one channel, its rank (from 1) and its score; the verbatim channel has ids of messages."""

    id: FactId
    rank: int
    score: float


@dataclass(frozen=True, slots=True)
class GraphStep:
    """An edge on the graph channel's path: from a fact, or an entity in the query, to a fact."""

    source: FactId | EntityId
    target: FactId
    kind: LinkKind
    weight: float
    via: str = ""
    """The entity that both ends share."""


@dataclass(frozen=True, slots=True)
class Reranking:
    """A fact's rank before and after reranking, and the reranker's score."""

    before: int
    after: int
    score: float | None
    """None if the fact could not be compared, so that only its fused score counted."""


class NewerFact(Record):
    """A newer fact that replaced another or may have outdated it, and the revision model's probability."""

    fact: FactId
    kind: RevisionKind
    probability: Share


class Hit(Record):
    """A recalled fact with its score; `verbatim` marks a message that has no fact of its own.

    `status` is the fact's status at the time of the question, or at the time of the recall (`at_time`, `known_at`).
    `claims` of the fact are those that are marked then: what a later statement, which may be seen, ended or may have.
    `truncated` is set if the text of `fact` was cut to fit the budget; `why` returns all of it.
    `path`, `reranking` and `newer` are set if the recall was requested with an explanation.
    """

    fact: Fact
    score: float
    channels: Mapping[Channel, ChannelPlacement] = Field(default_factory=dict[Channel, ChannelPlacement])
    verbatim: bool = False
    status: HitStatus = "current"
    truncated: bool = False
    outcomes: tuple[str, ...] = Field(
        default=(), description='what was last said of the outcome of a procedure: "3 May 2026: that worked"'
    )
    path: tuple[GraphStep, ...] = ()
    reranking: Reranking | None = None
    newer: tuple[NewerFact, ...] = ()

    @property
    def id(self) -> FactId:
        """The fact's id, for citations and `why`."""
        return self.fact.id

    @property
    def bank(self) -> BankId:
        """The bank that the fact is in."""
        return self.fact.bank

    @property
    def short_id(self) -> str:
        """The fact's short id, which prompts show and `why` accepts."""
        return self.fact.short_id

    @property
    def text(self) -> str:
        return self.fact.text

    @property
    def marked_text(self) -> str:
        """The text with its marked claims in brackets: "I paint, [maybe outdated: I live in Rome]"."""
        if self.status == "former" or self.is_marked_whole:
            return self.text
        return self.fact.marked_text(lambda claim: "maybe outdated" if claim.invalid_at is None else "former")

    @property
    def is_marked_whole(self) -> bool:
        """True if one claim is all that the fact says."""
        said = len(self.text) - len(self.text.partition(": ")[2] or self.text)
        return any(claim.start <= said and claim.end >= len(self.text) for claim in self.fact.claims)

    @property
    def tokens(self) -> int:
        return self.fact.tokens

    @property
    def status_note(self) -> str:
        """The status in words, such as "former, until 1 June 2022"; empty for a current fact."""
        if self.status == "current":
            return ""
        until = self.fact.invalid_at if self.status == "former" else None
        words = self.status.replace("_", " ")
        return words if until is None else f"{words}, until {until.day} {until:%B %Y}"

    def __repr__(self) -> str:
        return f"<Hit {self.line}>"

    @property
    def line(self) -> str:
        """The score, short id, status and text on one line."""
        note = f" ({self.status_note})" if self.status_note else ""
        return f"{self.score:.3f} [{self.short_id}]{note} {shortened(self.text)!r}"

    def truncate(self, max_tokens: int, count: Callable[[str], int]) -> Hit | None:
        """Return the hit with its text cut to `max_tokens`, or None if not even a word fits."""
        count = cache(count)
        text = truncate(self.text, max_tokens, count, _STEP_END if self.fact.is_procedure else None)
        if text is None:
            return None
        kept = len(text) - len(TRUNCATED)
        claims = tuple(claim for claim in self.fact.claims if claim.end <= kept)
        fact = self.fact.model_copy(update={"text": text, "tokens": count(text), "claims": claims})
        return self.model_copy(update={"fact": fact, "truncated": True})


def hits_table(caption: str, hits: Sequence[Hit]) -> str:
    """Return hits as a table for a notebook."""
    columns = ("score", "id", "date", "status", "fact")
    rows = [(f"{h.score:.3f}", h.short_id, f"{h.fact.mentioned_at:%Y-%m-%d}", h.status_note, h.text) for h in hits]
    return html_table(caption, columns, rows)


class Provenance(Record):
    """The sources of a fact, the facts that superseded it and, for an opinion, its confidence changes.

    `newer` are the decisions of the revision model: facts that replaced this one, or may have outdated it.
    """

    fact: Fact
    episodes: tuple[Episode, ...] = ()
    messages: tuple[Message, ...] = ()
    basis: tuple[Provenance, ...] = ()
    confidence_changes: tuple[ConfidenceChange, ...] = ()
    superseded_by: tuple[Fact, ...] = ()
    newer: tuple[NewerFact, ...] = ()


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
    "bank": "bank: the memory that a fact is from.",
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
    with_banks: bool = False
    """Name the bank of each fact."""
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
        bare = RecallPrompt(known_at=self.known_at, legend=False, with_banks=self.with_banks)
        return bare.fit(hits, max_tokens, count) if self.legend else ""

    def fitting(self, hits: Sequence[Hit], max_tokens: int, count: Callable[[str], int]) -> list[Hit]:
        """Return the first hits that fit with everything around them; the last may be truncated."""
        whole = self._whole(hits, max_tokens, count)
        if whole == len(hits):
            return list(hits)
        return [*hits[:whole], *self._truncated(hits[:whole], hits[whole], max_tokens, count)]

    def _whole(self, hits: Sequence[Hit], max_tokens: int, count: Callable[[str], int]) -> int:
        """Return the number of whole hits that fit, by bisection: each step lays out and counts the whole prompt."""
        if count(self.render(hits)) <= max_tokens:
            return len(hits)
        return bisect_right(range(1, len(hits) + 1), max_tokens, key=lambda n: count(self.render(hits[:n])))

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
        facts = NOTHING
        if hits:
            body = self._by_day(hits) if self.layout == "days" else "\n".join(map(self._item, hits))
            body = f"{self.heading}\n{body}" if self.heading else body
            facts = f"{legend_of(hits, with_banks=self.with_banks)}\n\n{body}" if self.legend else body
        if not self.instructions:
            return facts
        banks = [f"({_bank_mark(fact)}) " if self.with_banks else "" for fact in self.instructions]
        lines = [f"- [{fact.short_id}] {bank}{fact.text}" for bank, fact in zip(banks, self.instructions, strict=True)]
        return "\n".join([INSTRUCTIONS, *lines, "", facts])

    def _by_day(self, hits: Sequence[Hit]) -> str:
        # Messages of one time were recorded in the order in which they were said.
        ordered = sorted(hits, key=lambda hit: (hit.fact.mentioned_at, hit.fact.recorded_at))
        nested = _former_versions(ordered)
        inside = {hit.id for versions in nested.values() for hit in versions}
        blocks: dict[tuple[date, EpisodeId | None], list[str]] = {}
        for hit in ordered:
            if hit.id not in inside:
                episode = hit.fact.episodes[0] if hit.fact.episodes else None
                lines = blocks.setdefault((hit.fact.mentioned_at.date(), episode), [])
                lines.append(self._line(hit))
                lines += [self._line(version, nested=True) for version in nested.get(hit.id, ())]
        bodies = {key: "\n".join(lines) for key, lines in blocks.items()}
        return "\n\n".join(f"{self._day_heading(key, lines)}\n{lines}" for key, lines in bodies.items())

    def _item(self, hit: Hit) -> str:
        plain = [_bank_mark(hit.fact)] if self.with_banks else []
        plain += ["maybe outdated"] if hit.status == "maybe_outdated" else []
        marks = ", ".join(self._marks(hit, dated=True) if self.layout == "dated" else plain)
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
        if self.with_banks:
            yield _bank_mark(fact)
        if hit.status == "former":
            yield "former"
        elif hit.status == "maybe_outdated" and hit.marked_text == hit.text:
            yield "maybe outdated"
        elif fact.supersedes is not None:
            yield "current"
        if dated:
            yield f"said {_day(fact.mentioned_at)}"
        # The end may not have been known yet at the time of the recall.
        ended_later = self.known_at is not None and fact.expired_at is not None and fact.expired_at > self.known_at
        if fact.invalid_at is not None and not ended_later:
            yield f"until {_day(fact.invalid_at)}"
        if fact.network in ("opinion", "observation"):
            yield fact.network


def fit_instructions(instructions: Sequence[Fact], max_tokens: int) -> list[Fact]:
    """Return the instructions that fit into a number of tokens, in their order; one that is too long is left out."""
    kept: list[Fact] = []
    for fact in instructions:
        if fact.tokens <= max_tokens:
            kept.append(fact)
            max_tokens -= fact.tokens
    return kept


def _bank_mark(fact: Fact) -> str:
    # A name is the caller's text, and must not begin a line of its own.
    return f"bank {' '.join(fact.bank.split())}"


def legend_of(hits: Sequence[Hit], start: str = LEGEND, *, with_banks: bool = False) -> str:
    """Return the line that explains the layout and the marks of hits."""
    used = {mark for hit in hits for mark in (hit.status.replace("_", " "), "[…]" if hit.truncated else "")}
    if any(claim.invalid_at is not None for hit in hits for claim in hit.fact.claims):
        used.add("former")
    if any(COMPUTED_DATE in hit.text for hit in hits):
        used.add(COMPUTED_DATE)
    if with_banks:
        used.add("bank")
    return " ".join([start, *(meaning for mark, meaning in EXPLAINED_MARKS.items() if mark in used)])


def _bullet(hit: Hit, marks: str, indent: str = "") -> str:
    """Return the line of a hit; further lines of its text are indented, so that they can't look like headings."""
    text = hit.marked_text.replace("\n", f"\n{indent}  ")
    outcomes = "".join(f"\n{indent}  (later, {each})" for each in hit.outcomes)
    return f"{indent}- [{hit.short_id}] {marks}{text}{outcomes}"


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


class Explanation(Record):
    """The analysis of the question, the candidates of each channel, and the work of the reranker."""

    type: QueryType
    tense: QuestionTense = "present"
    """A question about the past also finds facts that are not true any more."""
    profile: bool = False
    """A question for a profile or a summary, in whose budget observations have a share."""
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
    rankings: Mapping[Channel, tuple[ChannelCandidate, ...]] = Field(
        default_factory=dict[Channel, tuple[ChannelCandidate, ...]],
        description="the first 20 candidates of each channel, also those that were not returned",
    )
    reranker: str
    reranked: int
    signals: Mapping[str, float] = Field(
        default_factory=dict[str, float], description="the numbers from which `answerable` was computed"
    )


class Recalled(Record):
    """Hits by relevance inside the budget; `timings` are milliseconds by stage.

    `tokens` are those of the hits' texts, at most `max_tokens`. The last hit may be truncated.
    """

    query: str
    banks: tuple[BankId, ...] = Field(default=(), description="the banks that were searched, if they were named")
    hits: tuple[Hit, ...] = ()
    instructions: tuple[Fact, ...] = Field(
        default=(), description="the user's standing instructions, newest first, whatever the question is about"
    )
    tokens: int = 0
    max_tokens: int | None = None
    answerable: Share | None = Field(
        default=None,
        description="the probability that the facts hold the answer; null without the packaged embedder and reranker",
    )
    at_time: Instant | None = None
    known_at: Instant | None = None
    titles: Mapping[EpisodeId, str] = Field(default_factory=dict[EpisodeId, str])
    timings: Mapping[str, float] = Field(default_factory=dict[str, float])
    explanation: Explanation | None = None
    _counter: Callable[[str], int] | None = PrivateAttr(default=None)

    def __eq__(self, other: object) -> bool:
        # The counter is no part of the result: one that was written as JSON and read again is equal.
        return isinstance(other, Recalled) and self.__dict__ == other.__dict__

    def __repr__(self) -> str:
        return with_lines(f"Recalled {self._summary}", [hit.line for hit in self.hits])

    def _repr_html_(self) -> str:
        return hits_table(f"Recalled {self._summary}", self.hits)

    @property
    def _summary(self) -> str:
        instructions = f", {counted(len(self.instructions), 'instruction')}" if self.instructions else ""
        size = f"{counted(len(self.hits), 'fact')}, {counted(self.tokens, 'token')}{instructions}"
        return f"{size} for {shortened(self.query)!r}"

    @property
    def facts(self) -> tuple[Fact, ...]:
        return tuple(hit.fact for hit in self.hits)

    def to_prompt(self, max_tokens: int | None = None) -> str:
        """Return the facts for a prompt: by day and episode in order of time, with short ids to cite.

        The user's standing instructions come first, and each fact names its bank if several were searched. The prompt
        has at most `max_tokens` in all, by default those of the recall; `retrieve` sets no limit. The most relevant
        facts take precedence, and one that does not fit is cut at a sentence and marked " […]".
        """
        limit = self.max_tokens if max_tokens is None else max_tokens
        shown = self.instructions
        if limit is not None:
            shown = fit_instructions(shown, limit // INSTRUCTION_SHARE)
        several = len(self.banks) > 1
        prompt = RecallPrompt(titles=self.titles, known_at=self.known_at, instructions=shown, with_banks=several)
        repeated = {fact.id for fact in shown}
        hits = [hit for hit in self.hits if hit.id not in repeated]
        if limit is None:
            return prompt.render(hits)
        if limit < 1:
            raise InvalidInput(f"max_tokens is {limit} and must be at least 1.")
        if self._counter is None:
            raise InvalidInput(
                "This result was not made by a Memory or a client, so it has no token counter; use "
                "`result.counted_by(vmemo.providers.count_tokens)`."
            )
        return prompt.fit(hits, limit, self._counter)

    def counted_by(self, counter: Callable[[str], int]) -> Self:
        """Return this result with the counter of tokens that `to_prompt` uses."""
        counted = self.model_copy()
        counted._counter = counter
        return counted
