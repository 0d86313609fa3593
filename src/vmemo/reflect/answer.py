"""Answering from memory in a character: recall, look again where that is not enough, answer, and check what is said."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from vmemo.asking.desk import Desk
from vmemo.asking.prompts import load, quoted
from vmemo.models import Hit, Profile, QueryType
from vmemo.ports import Ask
from vmemo.reflect import extractive
from vmemo.reflect.checks import REPEATED, Checks
from vmemo.reflect.citations import BACKGROUND, cited, resolved
from vmemo.reflect.disposition import character
from vmemo.reflect.guidance import BY_TYPE
from vmemo.reflect.material import Material
from vmemo.reflect.orders import gives_orders
from vmemo.reflect.reckoning import asked_on
from vmemo.reflect.shapes import Reflected
from vmemo.reflect.telling import Teller
from vmemo.reports import Answer, Looked

PROMPTS = Path(__file__).parent / "prompts"
STEP = "reflect"
"""The step of the call that answers."""
MOST_LOOKS = 3
"""Rounds in which memory may be asked again."""
MOST_QUESTIONS = 3
"""Questions to memory in one round."""
FIRST = 0.5
"""Share of the tokens that the question's own recall may take, where there may be others."""

_MAY_LOOK = """if memory may hold what is missing, up to {most} short questions to memory, each about one thing and in
  other words than were tried; leave `text` empty then. You get {left} more {rounds}. Leave it empty if the answer is
  here, or if nothing suggests that there is more."""
_NO_LOOK = "leave it empty: memory can't be asked again. Answer with what is here."
_JUDGES = """\
- `opinions`: only if the question asks what you think, prefer, expect or advise: the opinion that your answer comes to,
  in one sentence in the first person ("I think ... because ..."), with your `confidence` from 0 to 1 and the `facts` it
  rests on. One that you hold already is not formed again; if you now think otherwise, say which one it takes the place
  of in `instead_of`.
- `revised`: opinions shown above on which the shown facts bear: `reinforce`, `weaken` or `contradict`, with the F
  numbers as `evidence`."""
_NO_JUDGEMENT = "- `opinions` and `revised` stay empty."


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
class Question:
    """What is asked, when, of whom, and how much may be read for it."""

    text: str
    asked: datetime
    profile: Profile
    max_tokens: int
    looks: int
    judges: bool
    """Whether opinions may be formed and moved."""


@dataclass(frozen=True, kw_only=True)
class Thought:
    """An answer as the model gave it, with what it was made from and what is wrong with it."""

    given: Reflected
    material: Material
    checks: Checks
    looked: tuple[Looked, ...]

    @property
    def troubles(self) -> list[str]:
        """What is wrong with it."""
        return [trouble.flaw for trouble in self.checks.troubles(self.given)]


async def think(question: Question, sight: Sight, desk: Desk, teller: Teller) -> Thought | None:
    """Come to an answer; None if memory is empty and there is no background to answer from."""
    found = await sight.look(question.text, _first(question))
    material = Material(question.asked, timed=found.type == "temporal")
    material.add(found.hits, question.max_tokens)
    if not found.hits and not question.profile.background and await sight.blank():
        return None
    teller.name = material.id
    looked: list[Looked] = []
    left = question.looks
    while True:
        checks = _checks(question, material, found.type, left)
        teller.may_look = left > 0
        ask = _ask(question, material, found.type, looked, left)
        given = await desk.ask(ask, Reflected, checks.complaint, lenient=True)
        queries = _queries(given, question, looked) if left else []
        if not queries and (given.text.strip() or not left):
            return Thought(given=given, material=material, checks=checks, looked=tuple(looked))
        for query in queries:
            new = Looked(query=query, found=await _look(query, material, question, sight, left * len(queries)))
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


def _queries(given: Reflected, question: Question, looked: Sequence[Looked]) -> list[str]:
    """What the model wants to ask memory and has not asked yet."""
    tried = {question.text.casefold(), *(each.query.casefold() for each in looked)}
    wanted = dict.fromkeys(" ".join(query.split())[:500] for query in given.look_for)
    return [query for query in wanted if query and query.casefold() not in tried][:MOST_QUESTIONS]


def _checks(question: Question, material: Material, type: QueryType, left: int) -> Checks:
    return Checks(
        question=question.text,
        material=material,
        told="\n".join((load(PROMPTS, STEP).system.template, character(question.profile), BY_TYPE[type])),
        background=question.profile.background,
        looks_left=left,
    )


def _ask(question: Question, material: Material, type: QueryType, looked: Sequence[Looked], left: int) -> Ask:
    rounds = "round" if left == 1 else "rounds"
    profile = question.profile
    return load(PROMPTS, STEP).ask(
        Reflected,
        name=" ".join(profile.name.split()),
        character=character(profile),
        guidance=BY_TYPE[type],
        looking=_MAY_LOOK.format(most=MOST_QUESTIONS, left=left, rounds=rounds) if left else _NO_LOOK,
        judgement=_JUDGES if question.judges else _NO_JUDGEMENT,
        background=quoted([profile.background]) if profile.background else "(none)",
        today=asked_on(question.asked),
        question=quoted([question.text]),
        facts=material.shown("F"),
        observations=material.shown("S"),
        opinions=material.shown("O"),
        times=material.times(),
        looked=_told(looked),
    )


def _told(looked: Sequence[Looked]) -> str:
    if not looked:
        return ""
    lines = [f"{each.query} | {each.found or 'nothing'} new" for each in looked]
    return "\n\nMemory was asked before, and what it brought stands above:\n" + quoted(lines)


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
        background=BACKGROUND in cited(given.text),
        looked=thought.looked,
        steps=tuple(resolved(step, material.id) for step in given.steps if step.strip()),
        flaws=tuple(flaws),
        notes=tuple(notes),
        found=given.found,
    )


def _dropped(question: Question, thought: Thought) -> Answer:
    """What memory holds, quoted, in place of an answer that gives away what the model was told."""
    why = "the model repeated its instructions in place of an answer, so that was dropped"
    hits = [hit for hit in thought.material.hits.values() if not gives_orders(hit.text)]
    quoting = extractive.answer(question.text, hits, why=why)
    return quoting.model_copy(update={"flaws": (REPEATED.flaw,), "looked": thought.looked})


def unknown(query: str, looked: tuple[Looked, ...] = ()) -> Answer:
    """The answer of a memory that holds nothing about a question."""
    return Answer(query=query, text="I don't know: memory holds nothing about this.", found=False, looked=looked)
