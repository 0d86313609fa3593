"""Tools that a model may use while it answers: search, timeline, count and between."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from itertools import product
from typing import Annotated, get_args

from pydantic import BeforeValidator, Field

from vmemo.llm.structured import AnswerSchema
from vmemo.models import BankId, Hit, Interval, QuestionTense
from vmemo.models.results import LookupTool, MemoryLookup
from vmemo.ports import Store
from vmemo.reflect.citations import parse_marks, without_citations
from vmemo.reflect.evidence import Evidence, Recall, says_nothing
from vmemo.reflect.fact_times import FactTime, describe_distance, mentioned_day, times_of
from vmemo.text.temporal.calendar_days import add_days
from vmemo.text.temporal.format import DateSpan, format_interval
from vmemo.text.tokens import terms

MAX_CALLS, MAX_QUERY_LENGTH = 3, 500
"""Calls in one round, and characters of a query."""
MAX_FOUND = 8
"""New facts that one search adds."""
GATHERED_SHARE = 0.3
"""Share of the best score that a statement on the subject of a timeline or a count must have."""
PEOPLE_SHARE = 0.4
"""Share of a timeline's tokens for whole statements of people, before the others are shown in short."""
SHORT = 20
"""Tokens of a statement in short; it is shown whole if tokens are left in the end."""
WIDE = 4
"""Multiple of the tokens that a timeline, a count or a search within dates recalls before it selects."""
EVENT_FACTS = 3
"""Best facts about an event among which one with a date is looked for."""
MAX_EVENT_TIMES = 2
"""Times of one fact that `between` compares."""
_NOW = frozenset(("today", "now", "the question", "question", "this question"))

LooseText = Annotated[str, Field(max_length=100_000)]
"""A text that is truncated or dropped later, so that its length does not make the whole answer invalid."""


def _known_tool(value: object) -> object:
    return value if value in get_args(LookupTool) else "search"


class LookupCall(AnswerSchema):
    """One request to memory."""

    tool: Annotated[LookupTool, BeforeValidator(_known_tool)] = "search"
    query: LooseText = Field(default="", description="what to search for, the subject, or the first event")
    other: LooseText = Field(default="", description="between: the second event")
    after: LooseText = Field(default="", description="search, timeline: the first day, as YYYY-MM-DD")
    before: LooseText = Field(default="", description="search, timeline: the last day, as YYYY-MM-DD")

    def plain(self) -> LookupCall:
        """Return the call with short texts; marks are kept only where an event may be one."""
        texts = {"query": self.query[:2000], "other": self.other[:2000]}
        keep = self.tool == "between"
        plain = {name: _plain(text if keep else without_citations(text)) for name, text in texts.items()}
        return self.model_copy(update=plain)

    @property
    def label(self) -> str:
        """The arguments on one line."""
        dates = [f"{name} {day}" for name, day in (("from", _day(self.after)), ("to", _day(self.before))) if day]
        second = f" and {self.other}" if self.tool == "between" else ""
        return " ".join([self.query + second, *(dates if self.tool in ("search", "timeline") else ())])

    @property
    def key(self) -> tuple[str, ...]:
        """Equal for calls that ask the same."""
        return _key(self.tool, self.label)


def new_calls(calls: Sequence[LookupCall], question: str, made: Sequence[MemoryLookup]) -> list[LookupCall]:
    """Return the calls that can be made and that were not made yet."""
    known = {LookupCall(query=question).key, *(_key(each.tool, each.query) for each in made)}
    asked = {
        call.key: call for each in calls if (call := each.plain()).query and (call.other or each.tool != "between")
    }
    return [call for key, call in asked.items() if key not in known and len(key) > 1][:MAX_CALLS]


def _key(tool: LookupTool, label: str) -> tuple[str, ...]:
    return tool, *re.findall(r"\w+", label.casefold())


@dataclass(frozen=True, kw_only=True)
class LookupResult:
    """A call that was made, and what the model is told about it beside the facts that it added."""

    lookup: MemoryLookup
    note: str


@dataclass(frozen=True, kw_only=True)
class LookupTools:
    """Runs calls, which add facts to the evidence. `tense` is that of the question, which may ask for `own` words."""

    bank: BankId
    store: Store
    recall: Recall
    evidence: Evidence
    tense: QuestionTense | None
    own: bool = False

    async def run(self, call: LookupCall, max_tokens: int) -> LookupResult:
        """Run one call, which adds at most `max_tokens` of facts."""
        known, limit = len(self.evidence.hits), self.evidence.tokens + max_tokens
        runs = {"search": self._search, "timeline": self._timeline, "count": self._count, "between": self._between}
        note = await runs[call.tool](call, limit) if max_tokens > 0 else "no tokens are left"
        found = len(self.evidence.hits) - known
        return LookupResult(lookup=MemoryLookup(tool=call.tool, query=call.label, found=found), note=note)

    async def _search(self, call: LookupCall, limit: int) -> str:
        after, before = _day(call.after), _day(call.before)
        # The dates are part of the text too, so that recall searches by time.
        text = f"{call.query} {format_interval(_interval(after, before))}" if after or before else call.query
        hits = await self._recall(text, limit, tense=self.tense, wide=bool(after or before))
        shown = {hit.id for hit in self.evidence.hits.values() if not hit.truncated}
        inside = [hit for hit in hits if self._is_within(hit, after, before)]
        new = [hit for hit in inside if hit.id not in shown][:MAX_FOUND]
        self.evidence.add(new, limit - self.evidence.tokens)
        return ", ".join(self.evidence.marks(new or inside[:MAX_FOUND])) or "nothing"

    async def _timeline(self, call: LookupCall, limit: int) -> str:
        found = _on_subject(await self._recall(call.query, limit, tense="former", wide=True))
        hits = [hit for hit in found if self._is_within(hit, _day(call.after), _day(call.before))]
        people = [hit for hit in hits if self.own or not self.evidence.is_own(hit)]
        self.evidence.add(people, int((limit - self.evidence.tokens) * PEOPLE_SHARE), whole=True)
        short = [self.evidence.shortened(hit, call.query, SHORT) for hit in people]
        self.evidence.add(short, limit - self.evidence.tokens)
        self.evidence.add(hits, limit - self.evidence.tokens, whole=True)
        return self._complete(hits, self.evidence.marks(hits), call)

    async def _count(self, call: LookupCall, limit: int) -> str:
        found = _on_subject(await self._recall(call.query, limit, tense=self.tense, wide=True))
        hits = [hit for hit in found if self.own or not self.evidence.is_own(hit)] or found
        self.evidence.add(hits, limit - self.evidence.tokens, whole=True)
        groups: dict[frozenset[str], list[str]] = {}
        for mark in self.evidence.marks(hits):
            groups.setdefault(frozenset(terms(self.evidence.hits[mark].text)), []).append(mark)
        marks = [f"{one} (again in {', '.join(more)})" if more else one for one, *more in groups.values()]
        return self._complete(hits, marks)

    async def _between(self, call: LookupCall, limit: int) -> str:
        first, second = [await self._event(event, limit) for event in (call.query, call.other)]
        pairs = [
            f"{one} and {other}: {describe_distance(start, end)}"
            for (one, start), (other, end) in product(first, second)
            if (one, start) != (other, end)
        ]
        return "; ".join(pairs) or "not known: memory does not have both events"

    async def _event(self, event: str, limit: int) -> list[tuple[str, FactTime]]:
        """Return the times of an event with the mark of its fact; without a named time, the day of its mention."""
        asked_at = self.evidence.asked_at
        if event.casefold() in _NOW:
            return [("the question", FactTime("on", DateSpan(asked_at.date(), asked_at.date())))]
        marks = [mark for mark in parse_marks([event]) if mark in self.evidence.hits][:1]
        if not marks:
            hits = (await self._recall(event, limit, tense="past", wide=False))[:EVENT_FACTS]
            dated = [hit for hit in hits if times_of(hit.fact, asked_at)[0].kind != "mentioned"] or hits
            self.evidence.add(dated[:1], limit - self.evidence.tokens)
            marks = self.evidence.marks(dated[:1])
        found = [(mark, times_of(self.evidence.hits[mark].fact, asked_at)) for mark in marks]
        return [(mark, time) for mark, times in found for time in times[:MAX_EVENT_TIMES]]

    async def _recall(self, text: str, limit: int, *, tense: QuestionTense | None, wide: bool) -> Sequence[Hit]:
        """Recall facts with their sources. Facts that are shown already are found again, so the limit covers both."""
        tokens = limit * WIDE if wide else limit
        hits = (await self.recall(text, tokens, tense=tense, wide=wide)).hits
        await self.evidence.load_sources(hits, self.bank, self.store)
        return hits

    def _is_within(self, hit: Hit, after: date | None, before: date | None) -> bool:
        """Return True if the fact was mentioned or happened within the days."""
        fact, asked_at = hit.fact, self.evidence.asked_at
        spans = (mentioned_day(fact, asked_at), *(time.period for time in times_of(fact, asked_at)))
        return any(span.last >= (after or date.min) and span.first <= (before or date.max) for span in spans)

    def _complete(self, hits: Sequence[Hit], marks: Sequence[str], paged: LookupCall | None = None) -> str:
        """Return the marks, and how many statements did not fit; also the days of the next of a `paged` call."""
        shown, asked_at = {hit.id for hit in self.evidence.hits.values()}, self.evidence.asked_at
        left_out = [hit for hit in hits if hit.id not in shown and not says_nothing(hit)]
        if not left_out:
            return ", ".join(marks) or "nothing"
        days = sorted(mentioned_day(hit.fact, asked_at).first for hit in left_out)
        page = days[: max(1, len(marks))]
        # The same days again would be the same call.
        more = paged is not None and (page[0], page[-1]) != (_day(paged.after), _day(paged.before))
        ask = f"; for the next {len(page)} ask again with `after` {page[0]} and `before` {page[-1]}" if more else ""
        return f"{', '.join(marks) or 'nothing'}; {len(days)} more did not fit{ask}"


def _on_subject(hits: Sequence[Hit]) -> list[Hit]:
    """Return whole facts that are near enough to the subject; standing instructions are shown elsewhere."""
    least = GATHERED_SHARE * max((hit.score for hit in hits), default=0.0)
    kept = [hit for hit in hits if hit.score >= least and not hit.truncated and not hit.fact.instruction]
    return [hit for hit in kept if hit.fact.network in ("world", "experience")]


def _interval(after: date | None, before: date | None) -> Interval:
    start, end = (day and datetime.combine(day, time.min, UTC) for day in (after, before and add_days(before, 1)))
    return Interval(start=start, end=end)


def _day(text: str) -> date | None:
    try:
        return date.fromisoformat(text.strip()[:10])
    except ValueError:
        return None


def _plain(text: str) -> str:
    return " ".join(text.split())[:MAX_QUERY_LENGTH]
