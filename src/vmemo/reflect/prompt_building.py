"""What a model is told: who it is, how it answers, what memory brought, and what it may ask further."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from vmemo.llm.prompt_files import load_prompt, quote
from vmemo.models import Profile, QueryType
from vmemo.models.results import MemoryLookup
from vmemo.ports import LLMRequest
from vmemo.reflect.citations import unmarked
from vmemo.reflect.date_math import asked_on
from vmemo.reflect.disposition import character
from vmemo.reflect.evidence import Material
from vmemo.reflect.llm_schemas import Reflected
from vmemo.reflect.question_guidance import BY_TYPE, RECKONED

PROMPTS = Path(__file__).parent / "prompts"
STEP = "reflect"
"""The step of the call that answers."""
MOST_QUESTIONS = 3
"""Questions to memory in one round."""

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
_PARTS = {
    "F": "- Facts (F numbers) are evidence: what was said, seen and done.",
    "S": "- Observations (S numbers) are summaries of facts.",
    "O": "- Opinions (O numbers) are what you came to think. They prove nothing, and you tell them as what you think.",
    "B": "- What you know of yourself from your background is marked [B].",
}
_HEADS = {"F": "Facts", "S": "Observations", "O": "Opinions that you hold"}


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


def rules(question: Question, type: QueryType) -> str:
    """What must not be found again in an answer."""
    own = load_prompt(PROMPTS, STEP).system.template, character(question.profile), BY_TYPE[type]
    return "\n".join((*own, RECKONED, _MAY_LOOK, _JUDGES, *_PARTS.values()))


def brief(
    question: Question, material: Material, type: QueryType, looked: Sequence[MemoryLookup], left: int
) -> LLMRequest:
    """The question to the model; `left` is how often memory may still be asked."""
    rounds = "round" if left == 1 else "rounds"
    return load_prompt(PROMPTS, STEP).request(
        Reflected,
        name=" ".join(question.profile.name.split()),
        character=character(question.profile),
        parts="\n".join(_PARTS[letter] for letter in _letters(question, material)),
        guidance=BY_TYPE[type] + (RECKONED if material.timed else ""),
        looking=_MAY_LOOK.format(most=MOST_QUESTIONS, left=left, rounds=rounds) if left else _NO_LOOK,
        judgement=_JUDGES if question.judges else _NO_JUDGEMENT,
        today=asked_on(question.asked),
        question=quote([unmarked(question.text)]),
        memory="\n\n".join(_sections(question, material, looked)),
    )


def _letters(question: Question, material: Material) -> Iterator[str]:
    """The kinds of marks that there are."""
    yield "F"
    yield from (letter for letter in ("S", "O") if material.has(letter))
    if question.profile.background:
        yield "B"


def _sections(question: Question, material: Material, looked: Sequence[MemoryLookup]) -> Iterator[str]:
    if question.profile.background:
        yield f"Your background (mark B):\n{quote([unmarked(question.profile.background)])}"
    for letter, head in _HEADS.items():
        if letter == "F" or material.has(letter):
            yield f"{head}:\n{material.shown(letter)}"
    if times := material.times():
        yield "Times, already computed:\n" + "\n".join(times)
    if looked:
        lines = [f"{each.query} | {each.found or 'nothing'} new" for each in looked]
        yield "Memory was asked before, and what it brought stands above:\n" + quote(lines)


def engine_label(model: str) -> str:
    """Return what an opinion records as its engine: the model and the prompt's version."""
    return f"{model}/{load_prompt(PROMPTS, STEP).label}"
