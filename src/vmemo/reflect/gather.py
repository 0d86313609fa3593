"""Recall for a reflection, and its second look by session for orders, summaries, counts and contradictions."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from vmemo.models import Fact, FactId, Hit, Network, QueryType, QuestionTense
from vmemo.ports import TokenCounter
from vmemo.reflect.coverage import (
    SHORT_LINE,
    asked_speaker,
    by_speaker,
    cover_course,
    cover_items,
    cover_sessions,
    interleave,
)
from vmemo.reflect.sources import LoadMessages, Source, load_sources
from vmemo.text.questions.subqueries import opposite_statements, topics

FACTS: tuple[Network, ...] = ("world", "experience")
"""Networks of evidence; observations summarize it, and opinions follow from it."""
SCORE_SHARE: Mapping[QueryType, float] = {"count": 0.3, "contradiction": 0.4}
"""Share of a query's best score that a fact must have, by the types whose answers need single items and no course."""
GATHERED: frozenset[QueryType] = frozenset(("ordering", "summary", "change", *SCORE_SHARE))
"""The types of questions whose facts are gathered by session."""
WIDE: Mapping[Network | None, int] = {None: 12, "world": 16, "experience": 36}
"""Times the budget that is recalled, because the lines are shortened afterwards. The assistant's texts are the longest,
and one part of a reply is enough to find it."""


@dataclass(frozen=True)
class RecallOutcome:
    """The hits of one recall and the type of its question."""

    hits: Sequence[Hit]
    type: QueryType
    parts: tuple[str, ...] = ()
    """The sub-queries of the question."""
    links: tuple[str, ...] = ()
    """Queries for traits of persons on which the answer may depend."""
    instructions: tuple[Fact, ...] = ()
    """The user's standing instructions, newest first."""
    tense: QuestionTense = "present"
    """The tense of the question, which its sub-queries share: topics and events have none of their own."""

    @property
    def shared_tense(self) -> QuestionTense | None:
        """The tense of sub-queries, or None for their own."""
        return None if self.tense == "present" else self.tense


class Recall(Protocol):
    """A recall with a token limit; a wide one explores more candidates, and messages that only ask.

    `tense` is that of the question, if the text is a part of it. With a `network`, only its facts are found, as far
    as the filters of the question allow it.
    """

    async def __call__(
        self,
        text: str,
        max_tokens: int,
        *,
        wide: bool = False,
        tense: QuestionTense | None = None,
        network: Network | None = None,
    ) -> RecallOutcome: ...


@dataclass(frozen=True, kw_only=True)
class Recaller:
    """Access to a bank's memory: `messages` returns messages by id."""

    recall: Recall
    messages: LoadMessages
    is_empty: Callable[[], Awaitable[bool]]


async def gather_by_session(
    question: str,
    recalled: RecallOutcome,
    recaller: Recaller,
    *,
    max_tokens: int,
    count: TokenCounter,
    score_share: float | None = None,
) -> tuple[list[Hit], Mapping[FactId, Source]]:
    """Return short lines from every session that touches the question's topics, in the order in which they were said.

    Facts below a share of the best score that a query finds are left out.
    """
    rankings = await _rankings(question, recalled, recaller, max_tokens)
    share = SCORE_SHARE.get(recalled.type, 0.0) if score_share is None else score_share
    close = [[hit for hit in hits if hit.score >= share * hits[0].score] for hits in rankings]
    hits = [hit for hit in interleave(close) if hit.fact.network in FACTS]
    # Standing instructions have a section of their own.
    hits = [hit for hit in hits if not hit.fact.instruction] or hits
    sources = await load_sources(hits, recaller.messages)
    if _is_course(question, recalled.type):
        return cover_course(hits, sources, max_tokens=max_tokens, count=count, question=question), sources
    said = by_speaker(hits, sources, recalled.type, question)
    if recalled.type in SCORE_SHARE:
        return cover_items(said, sources, max_tokens=max_tokens, count=count, question=question), sources
    limits = {"max_tokens": max_tokens, "min_line": SHORT_LINE}
    return cover_sessions(said, sources, **limits, count=count, question=question), sources


def _is_course(question: str, type: QueryType) -> bool:
    """Return True if the answer follows what people said and what was replied to it."""
    return type == "summary" or (type == "change" and asked_speaker(question) != "assistant")


async def _rankings(question: str, recalled: RecallOutcome, recaller: Recaller, max_tokens: int) -> list[Sequence[Hit]]:
    """Return what each query finds in each network that is searched by itself."""
    networks = _networks(question, recalled.type)
    found = [
        (
            await recaller.recall(
                query, max_tokens * WIDE[network], wide=True, tense=recalled.shared_tense, network=network
            )
        ).hits
        for query in _queries(question, recalled)
        for network in networks
    ]
    if any(found) or networks == (None,):
        return found
    return [(await recaller.recall(question, max_tokens * WIDE[None], wide=True, tense=recalled.shared_tense)).hits]


def _queries(question: str, recalled: RecallOutcome) -> list[str]:
    whole = () if recalled.type in ("ordering", "summary") and recalled.parts else (question,)
    return [
        *whole,
        *recalled.parts,
        *(opposite_statements(question) if recalled.type == "contradiction" else ()),
        *(topics(question) if recalled.type == "count" and not recalled.parts else ()),
    ]


def _networks(question: str, type: QueryType) -> tuple[Network | None, ...]:
    """Return the networks to search by themselves, so that long replies do not displace what people said.

    An order or a summary of a long course has many subjects, of which a single ranking of both finds few.
    """
    if _is_course(question, type):
        return FACTS
    if type == "ordering":
        speaker = asked_speaker(question)
        return ("world",) if speaker == "user" else ("experience",) if speaker == "assistant" else FACTS
    return (None,)
