"""The prompt of a reflection: character, rules, guidance by question type, evidence and lookups."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from vmemo.llm.prompt_files import load_prompt, quote
from vmemo.models import Profile, QueryType
from vmemo.models.results import MemoryLookup
from vmemo.ports import LLMRequest
from vmemo.reflect.citations import escape_marks
from vmemo.reflect.date_math import question_date
from vmemo.reflect.disposition import describe_character
from vmemo.reflect.evidence import Evidence
from vmemo.reflect.llm_schemas import GeneratedAnswer

PROMPTS = Path(__file__).parent / "prompts"
STEP = "reflect"
"""The step of the call that generates the answer."""
MAX_QUERIES = 3
"""Lookup queries in one round."""

GUIDANCE_BY_TYPE: Mapping[QueryType, str] = {
    "temporal": """This question is about time.
- Use the date of the event, not the date it was mentioned. If only a week, month or year is known, give just that, in
  the memory's own words ("the week before ...") if they are clear.
- For a duration, write each event with its date in `steps`, then the duration.""",
    "update": """This question is about the current state.
- List the known values with their dates in `steps`, oldest first. The latest one is current.
- Mention an earlier value only to say that it changed.""",
    "count": """This question asks for a number, a sum or a frequency.
- If a memory states the number or the rate explicitly, use it.
- Otherwise list every item that counts in `steps`, once each with its mark, from all memories and not just the first
  few. An item mentioned twice is one item. Then count or add up.
- Say in the answer what was counted, and say "at least" if memory may not hold all of it.""",
    "multi-hop": """This question needs several memories: a list or a chain.
- For a list, give every matching item from all memories, once each with its mark.
- For a chain from one person or thing to the next, write it in `steps`. If a link is missing, say which one.""",
    "preference": """This question asks for a preference or a suggestion.
- For a preference, give everything that memory says about it, or say that memory says nothing.
- For a suggestion, use the known likes, dislikes, plans, possessions and habits, and say which. Do not refuse because
  there is no ready answer: the suggestion itself may come from general knowledge. Suggest nothing that contradicts
  what is known.""",
    "assistant": """This question is about what you said or did before.
- Use the memories of your own words and actions. Repeat names, numbers and lists exactly as they were given.""",
    "factual": """Answer exactly what is asked, as precisely as memory allows: full names, places, titles and numbers.
If several items match, give all of them.""",
    "general": """Say what memory holds about this, the most informative first.""",
}
"""Additional instructions by question type."""

COMPUTED_TIMES = """
- The distance of each date from the question is computed beside each memory; the order of the memories and the time
  between them are computed under Times. These numbers are correct: copy them, and do not calculate or count yourself.
- "Refers to" lists dates in a speaker's own words: check that they belong to the event."""
"""Guidance that is added if durations are computed."""

_LOOKUPS = """if memory may hold what is missing: up to {most} short queries, each about one thing and worded unlike
  earlier ones; then leave `text` empty. {left} more {rounds} allowed. Leave it empty if the answer is shown, or if
  nothing suggests that there is more."""
_NO_LOOKUPS = "leave it empty: no more lookups are allowed. Answer with what is shown."
_OPINIONS = """\
- `opinions`: only if the question asks what you think, prefer, expect or advise: the opinion in your answer, as one
  sentence in the first person ("I think ... because ..."), with your `confidence` from 0 to 1 and the `facts` that
  support it. Do not repeat an opinion you already hold; if you changed your mind, name the opinion that the new one
  replaces in `instead_of`.
- `revised`: the opinions shown above that the shown facts affect: `reinforce`, `weaken` or `contradict`, with the F
  numbers as `evidence`."""
_NO_OPINIONS = "- Leave `opinions` and `revised` empty."
_MARK_RULES = {
    "F": "- Facts (F numbers) are evidence: what was said, seen and done.",
    "S": "- Observations (S numbers) are summaries of facts.",
    "O": "- Opinions (O numbers) are your earlier conclusions. They are not evidence; present them as your view.",
    "B": "- Cite what you know about yourself from your background as [B].",
}
_HEADINGS = {"F": "Facts", "S": "Observations", "O": "Your opinions"}


@dataclass(frozen=True, kw_only=True)
class Question:
    """A question, the profile that answers it, and the limits of the reflection."""

    text: str
    asked_at: datetime
    profile: Profile
    max_tokens: int
    max_lookups: int
    opinions: bool
    """True if the answer may form opinions and change the confidence of held ones."""


def instructions(question: Question, type: QueryType) -> str:
    """Return the texts that an answer must not repeat."""
    system, character = load_prompt(PROMPTS, STEP).system.template, describe_character(question.profile)
    fixed = (COMPUTED_TIMES, _LOOKUPS, _OPINIONS, *_MARK_RULES.values())
    return "\n".join((system, character, GUIDANCE_BY_TYPE[type], *fixed))


def build_ask(
    question: Question, evidence: Evidence, type: QueryType, lookups: Sequence[MemoryLookup], rounds_left: int
) -> LLMRequest:
    """Return the LLM call; `rounds_left` is the number of lookup rounds that are still allowed."""
    rounds = "round is" if rounds_left == 1 else "rounds are"
    return load_prompt(PROMPTS, STEP).request(
        GeneratedAnswer,
        name=" ".join(question.profile.name.split()),
        character=describe_character(question.profile),
        marks="\n".join(_MARK_RULES[letter] for letter in _letters(question, evidence)),
        guidance=GUIDANCE_BY_TYPE[type] + (COMPUTED_TIMES if evidence.durations else ""),
        lookups=_LOOKUPS.format(most=MAX_QUERIES, left=rounds_left, rounds=rounds) if rounds_left else _NO_LOOKUPS,
        opinions=_OPINIONS if question.opinions else _NO_OPINIONS,
        today=question_date(question.asked_at),
        question=quote([escape_marks(question.text)]),
        memory="\n\n".join(_sections(question, evidence, lookups)),
    )


def _letters(question: Question, evidence: Evidence) -> Iterator[str]:
    yield "F"
    yield from (letter for letter in ("S", "O") if evidence.has(letter))
    if question.profile.background:
        yield "B"


def _sections(question: Question, evidence: Evidence, lookups: Sequence[MemoryLookup]) -> Iterator[str]:
    if question.profile.background:
        background = quote([escape_marks(question.profile.background)])
        yield f"Your background (mark B):\n{background}"
    for letter, heading in _HEADINGS.items():
        if letter == "F" or evidence.has(letter):
            yield f"{heading}:\n{evidence.render(letter)}"
    if differences := evidence.differences():
        yield "Times, already computed:\n" + "\n".join(differences)
    if lookups:
        lines = [f"{each.query} | {each.found or 'nothing'} new" for each in lookups]
        yield "Earlier lookups, whose results are shown above:\n" + quote(lines)


def engine_label(model: str) -> str:
    """Return the engine recorded with an opinion: the model and the prompt's version."""
    return f"{model}/{load_prompt(PROMPTS, STEP).label}"
