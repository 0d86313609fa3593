"""Answering from memory in a character: recall, look again where that is not enough, answer, and check what is said."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial

from vmemo.llm.structured import StructuredLLM
from vmemo.models import Hit, QueryType
from vmemo.models.results import Answer, MemoryLookup
from vmemo.reflect import extractive
from vmemo.reflect.answer_checks import REPEATED, Checks
from vmemo.reflect.citations import BACKGROUND, bare, cited, resolved
from vmemo.reflect.date_math import asks_for_lengths
from vmemo.reflect.evidence import Material
from vmemo.reflect.llm_schemas import Reflected
from vmemo.reflect.prompt_building import MOST_QUESTIONS, Question, brief, rules
from vmemo.reflect.streaming import Teller
from vmemo.text.injection import contains_instructions

MOST_LOOKS = 3
"""Rounds in which memory may be asked again."""
FIRST = 0.5
"""Share of the tokens that the question's own recall may take, where there may be others."""


@dataclass(frozen=True)
class Found:
    """What memory brought for a question, and what kind of question it is."""

    hits: Sequence[Hit]
    type: QueryType


@dataclass(frozen=True, kw_only=True)
class Sight:
    """What can be seen of memory: `look` asks it a question for so many tokens, `blank` tells whether it is empty."""

    look: Callable[[str, int], Awaitable[Found]]
    blank: Callable[[], Awaitable[bool]]


@dataclass(frozen=True, kw_only=True)
class Thought:
    """An answer as the model gave it, with what it was made from and what is wrong with it."""

    given: Reflected
    material: Material
    checks: Checks
    looked: tuple[MemoryLookup, ...]

    @property
    def troubles(self) -> list[str]:
        """What is wrong with it."""
        return [trouble.flaw for trouble in self.checks.troubles(self.given)]


async def think(question: Question, sight: Sight, desk: StructuredLLM, teller: Teller) -> Thought | None:
    """Come to an answer; None if memory is empty and there is no background to answer from."""
    found = await sight.look(question.text, _first(question))
    material = Material(question.asked, timed=found.type == "temporal" and asks_for_lengths(question.text))
    material.add(found.hits, question.max_tokens)
    if not found.hits and not question.profile.background and await sight.blank():
        return None
    teller.name = material.id
    looked: list[MemoryLookup] = []
    left = question.looks
    while True:
        wanted = partial(_queries, question=question, looked=tuple(looked), left=left)
        checks = _checks(question, material, found.type, wanted)
        teller.may_look = left > 0
        ask = brief(question, material, found.type, looked, left)
        given = await desk.ask(ask, Reflected, checks.complaint, lenient=True)
        queries = wanted(given)
        if not queries and (given.text.strip() or not left):
            return Thought(given=given, material=material, checks=checks, looked=tuple(looked))
        for query in queries:
            new = MemoryLookup(query=query, found=await _look(query, material, question, sight, left * len(queries)))
            looked.append(new)
            teller.tell(new)
        # Who has nothing new to ask, and no answer either, is made to answer.
        left = left - 1 if queries else 0


def _first(question: Question) -> int:
    return max(1, int(question.max_tokens * FIRST)) if question.looks else question.max_tokens


async def _look(query: str, material: Material, question: Question, sight: Sight, shares: int) -> int:
    """Ask memory again; what it brings has its share of the tokens that are left."""
    room = (question.max_tokens - material.tokens) // shares
    if room < 1:
        return 0
    # What is shown already comes back with what is new, so there must be room for both.
    found = await sight.look(query, material.tokens + room)
    return material.add(found.hits, room)


def _queries(given: Reflected, *, question: Question, looked: Sequence[MemoryLookup], left: int) -> list[str]:
    """What the model wants to ask memory, can ask, and has not asked yet."""
    tried = {"", *(_key(each) for each in (question.text, *(each.query for each in looked)))}
    wanted = {_key(query): query for each in given.look_for if (query := " ".join(bare(each[:2000]).split())[:500])}
    return [query for key, query in wanted.items() if key not in tried][:MOST_QUESTIONS] if left else []


def _key(query: str) -> str:
    """A question without what makes it no other one: case and punctuation."""
    return " ".join(re.findall(r"\w+", query.casefold()))


def _checks(question: Question, material: Material, type: QueryType, asks: Callable[[Reflected], object]) -> Checks:
    return Checks(
        question=question.text,
        type=type,
        material=material,
        told=rules(question, type),
        background=question.profile.background,
        asks=asks,
    )


def concluded(question: Question, thought: Thought) -> Answer:
    """The answer with its marks as ids, and what is wrong with it said so in its own words."""
    given, material, flaws = thought.given, thought.material, thought.troubles
    if REPEATED.flaw in flaws:
        return _dropped(question, thought)
    facts = material.facts(cited(given.text))
    text = resolved(given.text, material.id)
    notes = [f"(Not supported: {flaw})" for flaw in flaws]
    if not given.found and thought.looked:
        notes.append("(I also looked for: " + "; ".join(each.query for each in thought.looked) + ")")
    return Answer(
        query=question.text,
        text="\n".join([text, *notes]).strip(),
        citations=tuple(map(extractive.citation, facts)),
        facts=extractive.of_networks(facts, "world", "experience"),
        observations=extractive.of_networks(facts, "observation"),
        opinions=extractive.of_networks(facts, "opinion"),
        background=bool(question.profile.background) and BACKGROUND in cited(given.text),
        looked=thought.looked,
        steps=tuple(step for each in given.steps if (step := resolved(each[:2000], material.id))),
        flaws=tuple(flaws),
        notes=tuple(notes),
        found=given.found,
    )


def _dropped(question: Question, thought: Thought) -> Answer:
    """What memory holds, quoted, in place of an answer that gives away what the model was told."""
    why = "the model repeated its instructions in place of an answer, so that was dropped"
    hits = [hit for hit in thought.material.hits.values() if not contains_instructions(hit.text)]
    quoting = extractive.answer(question.text, hits, why=why)
    return quoting.model_copy(update={"flaws": (REPEATED.flaw,), "looked": thought.looked})


def unknown(query: str, looked: tuple[MemoryLookup, ...] = ()) -> Answer:
    """The answer of a memory that holds nothing about a question."""
    return Answer(query=query, text="I don't know: memory holds nothing about this.", found=False, looked=looked)
