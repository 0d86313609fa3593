"""Lives: how well a bank understands long, realistic conversations in which everything is annotated.

All metrics are shares of annotations; docs/benchmarks.md describes each. A fact holds a text if it has the words of the
text in their order, or four of five of them; inserted dates don't count as words.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from itertools import combinations
from typing import Literal

from pydantic import AwareDatetime, BaseModel

from vmemo import Memory
from vmemo.models import EntityId, Fact, Hit, MessageId
from vmemo.ports import Embedder
from vmemo.settings import Settings
from vmemo_bench.annotated import (
    AnnotatedConversation,
    Reference,
    count_table,
    first_ranks,
    measure_conversations,
    retain_conversation,
)
from vmemo_bench.bank_contents import all_facts
from vmemo_bench.options import BenchOptions
from vmemo_bench.progress import ProgressSink
from vmemo_bench.report import Report
from vmemo_bench.statistics import Outcome, shares

MAX_TOKENS = 300
RANKS = 3
SHARED_WORDS = 0.8
"""Share of a claim's words that a fact has at least, if it has them in another order."""
MONTH, YEAR = 28, 365
"""Days from which a period may be written as a month or a year."""
BY_CONVERSATION = ("first", "current", "closed", "wrongly_closed", "noise_kept", "dates_right")
"""Metrics that the report has for each conversation as well."""
_INSERTED = re.compile(r"\(= [^)]*\)")
_WORD = re.compile(r"\w+")


class Passage(BaseModel):
    """A text in a message."""

    message: Reference
    text: str


class Instruction(Passage):
    """A standing instruction; `until` is the message that revokes it."""

    until: Reference | None = None


class DatedPassage(Passage):
    """A date in words, and the days from `start` up to `end`."""

    start: date
    end: date


class Person(BaseModel):
    """A person with all mentions by name or title."""

    name: str
    mentions: list[Passage]


class LifeQuestion(BaseModel):
    """A question in the file; one that cannot be answered has no evidence."""

    question: str
    time: AwareDatetime
    evidence: list[Reference]
    outdated: list[Reference] = []
    type: str


class Life(AnnotatedConversation):
    changes: list[Passage]
    still_true: list[Passage]
    instructions: list[Instruction]
    not_instructions: list[Passage]
    noise: list[Reference]
    dates: list[DatedPassage]
    no_dates: list[Passage]
    people: list[Person]
    questions: list[LifeQuestion]


async def measure_lives(options: BenchOptions, embedder: Embedder, settings: Settings, sink: ProgressSink) -> Report:
    """Retain every conversation, compare its bank with the annotations, and ask its questions."""

    async def measure(memory: Memory, life: Life) -> list[Outcome]:
        turns = await retain_conversation(memory, life)
        answers = [outcome for asked in life.questions for outcome in await _ask(memory, life, asked, turns)]
        if options.part == "retrieval":
            return answers
        bank = await LifeBank.read(memory, turns)
        return [*bank.closing(life), *answers, *bank.instructions(life), *bank.contents(life), *bank.people(life)]

    measured, config = await measure_conversations(options, embedder, settings, sink, model=Life, measure=measure)
    lives = {life.id: shares(outcomes) for life, outcomes in measured}
    return Report(
        benchmark="lives",
        metrics=shares(outcome for _, outcomes in measured for outcome in outcomes),
        tables={
            "lives": count_table(measured),
            "conversations": {
                life: {name: own[name] for name in BY_CONVERSATION if name in own} for life, own in lives.items()
            },
        },
        config={**config, "part": options.part},
    )


async def _ask(memory: Memory, life: Life, asked: LifeQuestion, turns: Mapping[MessageId, int]) -> list[Outcome]:
    if not asked.evidence:
        return []
    hits = (await memory.recall(asked.question, max_tokens=MAX_TOKENS, now=asked.time)).hits
    ranks = first_ranks(hits, turns)
    found = [ranks[turn] for turn in asked.evidence if turn in ranks]
    first = min(found, default=len(hits))
    right = len(found) == len(asked.evidence) if asked.type == "multi" else bool(found) and first < RANKS
    outcomes: list[Outcome] = [("first", bool(found) and first == 0), (asked.type, right)]
    outdated = [claim for claim in life.changes if claim.message in asked.outdated]
    if outdated and asked.type in ("current", "advice"):
        shown = any(_shows_as_current(hit, claim, turns) for hit in hits for claim in outdated)
        outcomes += [("outdated_shown", shown), ("outdated_alone", shown and not found)]
    return outcomes


def _shows_as_current(hit: Hit, claim: Passage, turns: Mapping[MessageId, int]) -> bool:
    """Return True for a current hit that says the passage; a fact with claims says those that have no end."""
    fact = hit.fact
    said = [each.text for each in fact.claims if not each.invalid_at] if fact.claims else [fact.text]
    same_message = claim.message in {turns[message] for message in fact.messages}
    shown = hit.status == "current" and same_message and not _is_closed(fact)
    return shown and any(_covers(text, claim.text) for text in said)


@dataclass(frozen=True)
class LifeBank:
    """The facts of a conversation by the message that they come from, and the ids of the current ones with a newer."""

    facts: Mapping[int, Sequence[Fact]]
    marked: frozenset[str]

    @classmethod
    async def read(cls, memory: Memory, turns: Mapping[MessageId, int]) -> LifeBank:
        facts: defaultdict[int, list[Fact]] = defaultdict(list)
        marked = set[str]()
        for fact in await all_facts(memory):
            for message in fact.messages:
                facts[turns[message]].append(fact)
            if not fact.expired_at and (await memory.why(fact.id)).newer:
                marked.add(fact.id)
        return cls(facts, frozenset(marked))

    def closing(self, life: Life) -> Iterator[Outcome]:
        """Yield the outcomes of claims that change and of claims that stay true."""
        for prefix, claims in (("", life.changes), ("wrongly_", life.still_true)):
            for claim in claims:
                states = [self._state(fact, claim) for fact in self._holders(claim)]
                closed = bool(states) and all(state == "closed" for state in states)
                yield f"{prefix}closed", closed
                yield f"{prefix}marked", bool(states) and not closed and "current" not in states
                if closed:
                    yield "closing_precision", not prefix

    def _state(self, fact: Fact, passage: Passage) -> Literal["closed", "marked", "current"]:
        """Return the state of a passage of a fact: that of the claims which hold it, if the fact has claims."""
        claims = [claim for claim in fact.claims if _covers(claim.text, passage.text)]
        if _is_closed(fact) or (claims and all(claim.invalid_at for claim in claims)):
            return "closed"
        return "marked" if claims or (not fact.claims and fact.id in self.marked) else "current"

    def _holders(self, passage: Passage) -> list[Fact]:
        """Return the facts of the message that have the words of the passage."""
        return [fact for fact in self.facts.get(passage.message, ()) if _covers(fact.text, passage.text)]

    def instructions(self, life: Life) -> Iterator[Outcome]:
        """Yield the outcomes of instructions, revoked ones, and texts that are none."""
        for text in life.instructions:
            found = [fact for fact in self._holders(text) if fact.instruction]
            yield "instructions_found", bool(found)
            if text.until is not None:
                yield "revoked_closed", bool(found) and all(fact.expired_at for fact in found)
        for text in life.not_instructions:
            yield "instructions_invented", any(fact.instruction for fact in self._holders(text))

    def contents(self, life: Life) -> Iterator[Outcome]:
        """Yield the outcomes of messages without content, of dates, and of texts without one."""
        for message in life.noise:
            yield "noise_kept", any(not fact.expired_at for fact in self.facts.get(message, ()))
        for dated in life.dates:
            yield "dates_right", any(_has_date(fact, dated) for fact in self.facts.get(dated.message, ()))
        for text in life.no_dates:
            yield "dates_invented", any(f"{text.text} (=" in fact.text for fact in self.facts.get(text.message, ()))

    def people(self, life: Life) -> Iterator[Outcome]:
        """Yield the outcomes of persons with several mentions, and of pairs with the same first name."""
        found = [(person, self._entities(person)) for person in life.people]
        for person, entities in found:
            if len(person.mentions) > 1:
                yield "people_joined", len(entities) == 1
        for (one, entities), (other, others) in combinations(found, 2):
            if _words(one.name)[:1] == _words(other.name)[:1]:
                yield "namesakes_apart", bool(entities and others) and entities.isdisjoint(others)

    def _entities(self, person: Person) -> set[EntityId]:
        """Return the entities of the mentions: those of exactly that name, or else those that share a word of it."""
        found = set[EntityId]()
        for mention in person.mentions:
            name = _words(mention.text)
            named = [entity for fact in self.facts.get(mention.message, ()) for entity in fact.entities]
            found |= {each.id for each in named if name in (_words(each.name), _words(each.name_in_text))} or {
                each.id for each in named if set(name) & {*_words(each.name), *_words(each.name_in_text)}
            }
        return found


def _is_closed(fact: Fact) -> bool:
    return bool(fact.invalid_at or fact.expired_at)


def _words(text: str) -> list[str]:
    return _WORD.findall(_INSERTED.sub("", text).casefold())


def _covers(text: str, claim: str) -> bool:
    words, wanted = _words(text), _words(claim)
    shared = sum(word in words for word in wanted)
    return " ".join(wanted) in " ".join(words) or shared >= SHARED_WORDS * len(wanted)


def _has_date(fact: Fact, dated: DatedPassage) -> bool:
    """Return True if the fact has the first day as its time or in its text, or the month or year of a long period."""
    start, length = dated.start, (dated.end - dated.start).days
    if fact.occurred_start is not None and fact.occurred_start.date() == start:
        return True
    month = f"{start:%B}"
    forms = [
        rf"\b{start.day}(?:\s*[-–]\s*\d+)?\s+{month}\s+{start.year}\b",
        rf"\b{start.day}\s+{month}(?:\s+{start.year})?\s*[-–]",
        rf"\b{start:%Y-%m-%d}\b",
        *([rf"(?<!\d ){month}\s+{start.year}\b"] if length >= MONTH else ()),
        *([rf"\(= {start.year}\)"] if length >= YEAR else ()),
    ]
    return any(re.search(form, fact.text) for form in forms)
