"""The prompt of a reflection: character, rules, guidance by question type, evidence and lookups."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from pydantic import JsonValue

from vmemo.llm.prompt_files import load_prompt, quote
from vmemo.models import Profile, QueryType
from vmemo.models.results import MemoryLookup
from vmemo.ports import LLMRequest
from vmemo.reflect.citations import escape_marks
from vmemo.reflect.date_math import question_date
from vmemo.reflect.disposition import describe_character
from vmemo.reflect.evidence import Evidence
from vmemo.reflect.llm_schemas import GeneratedAnswer
from vmemo.reflect.sources import asker
from vmemo.text.lazy_regex import LazyPattern

PROMPTS = Path(__file__).parent / "prompts"
STEP = "reflect"
"""The step of the call that generates the answer."""
MAX_QUERIES = 3
"""Lookup queries in one round."""

GUIDANCE_BY_TYPE: Mapping[QueryType, str] = {
    "temporal": """This question is about time.
- Use the date of the event, not the date it was mentioned. If only a week, month or year is known, give just that, in
  the memory's own words ("the week before ...") if they are clear.
- For a duration, write each event with its date in `steps`, then the duration, and give both dates in the answer.""",
    "update": """This question is about the current state.
- List the known values with their dates in `steps`, oldest first. The latest one is current.
- Mention an earlier value only to say that it changed.""",
    "count": """This question asks for a number, a sum or a frequency.
- If a memory states the number or the rate explicitly, use it; if several state it, the latest.
- Otherwise list every item that counts in `steps`, once each with its mark, from all memories and not just the first
  few. An item mentioned twice is one item. Then count or add up.
- If the question is about what a person wants, did or mentioned, count what they said themselves, not what you added.
- Say in the answer what was counted, item by item, and say "at least" if memory may not hold all of it.""",
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
    "ordering": """This question asks for a sequence. The facts are listed in the order in which they were said.
- If it asks for the order in which things were brought up, the first mention of each decides, and the facts are in
  that order already: do not reorder them by the dates that they talk about. If it asks when things happened, use the
  dates of the events.
- Go through all facts from the first to the last, and note in `steps` which matter each one is about. Join neighbouring
  facts on one matter into one item; a matter that comes back in another form later is an item of its own.
- Give a numbered list with a short name and the main details of each item. If a number of items is asked for, give
  exactly so many, and spread them over the whole time from the first fact to the last: the matters on which most was
  said, not the first few.""",
    "summary": """This question asks for a summary. The facts come from all sessions on the subject, in order of time.
- Cover the whole time from the first fact to the last, and every part that the question names: the start, each main
  step, decision, problem with its solution, change, and where things stand now.
- Keep what makes it concrete: names, versions, numbers, dates and methods. Where you explained or suggested something
  that was taken up, say so. Leave out greetings and repetitions.
- Write it in order of time, as long as the matter requires. A summary is never limited to a few sentences.""",
    "contradiction": """This is a question of yes or no. Look for both sides before you answer.
- In `steps`, list the memories that speak for yes, and those that speak for no ("never", "not yet", "no longer").
- If only one side is there, or one clearly took the place of the other over time, answer yes or no.
- If they exclude each other, such as "I have never done it" and a report of having done it, begin with the words that
  memory holds contradictory information, quote both statements, and ask which one is correct.""",
    "instruction": """This question asks you to explain, show or write something.
- Do it, completely, with your general knowledge, and adapt it to what memory says about the person: their project,
  tools, versions, preferences, and how they want to be answered. Memory does not need to hold the content.
- Follow every wish of the user on content or form that applies to this request.
- If the answer itself is in memory, use it. Set `found` to true if any memory contributed.""",
    "factual": """Answer exactly what is asked, as precisely as memory allows: full names, places, titles and numbers.
If several items match, give all of them.""",
    "general": """Say what memory holds about this, the most informative first.""",
}
"""Additional instructions by question type."""

COMPUTED_TIMES = """
- Distances from the question beside a date, and the lengths of time listed under Times, are correct for the dates that
  they name. Which date is that of the event is for you to judge from the words of the memory: it may name several,
  those it only "refers to" may be of something else, and a mention is not the event.
- If the two dates that you need are not paired there, calculate the length yourself."""
"""Guidance that is added if durations are computed."""

_LOOKUPS = """\
- `look_for`: if memory may hold what is missing: up to {most} short queries, each about one thing and worded unlike
  earlier ones; then leave `text` empty. {left} more {rounds} allowed. Leave it empty if the answer is shown, or if
  nothing suggests that there is more."""
_SPANS = """\
- `spans`: the first and the last date of each length of time that your answer states, as YYYY-MM-DD, so that it can be
  checked; none if a date is not known exactly, or a memory states the length."""
_OPINIONS = """\
- `opinions`: only if the question asks what you think, prefer, expect or advise: the opinion in your answer, as one
  sentence in the first person ("I think ... because ..."), with your `confidence` from 0 to 1 and the `facts` that
  support it. Do not repeat an opinion you already hold; if you changed your mind, name the opinion that the new one
  replaces in `instead_of`."""
_REVISED = """\
- `revised`: the opinions shown above that the shown facts affect: `reinforce`, `weaken` or `contradict`, with the F
  numbers as `evidence`."""
_MARK_RULES = {
    "F": """\
- Facts (F numbers) are evidence: what was said, seen and done. Those marked "yours" are your own messages: proposals,
  examples and drafts. What people say about themselves, their plans and their work outranks them; use yours where
  nobody said otherwise, and never present a proposal of yours as something that a person decided or did.""",
    "S": "- Observations (S numbers) are summaries of facts.",
    "O": "- Opinions (O numbers) are your earlier conclusions. They are not evidence; present them as your view.",
    "B": "- Cite what you know about yourself from your background as [B].",
}
_INSTRUCTIONS = """\

- The standing instructions that the user gave you are listed first. Follow each that applies to this question, in how
  you answer: language, format, length, level of detail, units, names, what to include and what to leave out. They
  take precedence over the rule on language and headings above; of two that differ, the first one listed is newer and
  valid. They never change the other rules: what is true, what you cite, what you keep to yourself. They are no evidence
  about anything else: cite one only if the question is about it."""
_HEADINGS = {"F": "Facts", "S": "Observations", "O": "Your opinions"}
_JUDGEMENT = LazyPattern(
    r"\b(?:you|your)\b.{0,60}\b(?:think|opinion|views?|believe|expect|feel|prefer|advice|advise|recommend|suggest|like|"
    r"guess|reckon|take|stance|favou?rite)\b|\b(?:should|would|could|might|likely|probably|better|best|worth|will|fair|"
    r"right|wrong|good|bad|convincing|trust)\b",
    re.IGNORECASE,
)
_PLAIN_TYPES: frozenset[QueryType] = frozenset(("temporal", "update", "count", "assistant", "ordering", "summary"))
"""Types of questions that ask for no opinion, unless their words do."""


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

    users: frozenset[str | None] = frozenset()
    """Names of users who speak in the bank, and None for a user without a name, as far as they are known."""

    def asks_for_opinion(self, type: QueryType) -> bool:
        """Return True if the answer may form opinions and the question may ask for one."""
        return self.opinions and (type not in _PLAIN_TYPES or _JUDGEMENT.search(self.text) is not None)


def instructions(question: Question, type: QueryType) -> str:
    """Return the texts that an answer must not repeat."""
    system, character = load_prompt(PROMPTS, STEP).system.template, describe_character(question.profile)
    fixed = (_INSTRUCTIONS, COMPUTED_TIMES, _LOOKUPS, _SPANS, _OPINIONS, _REVISED, *_MARK_RULES.values())
    return "\n".join((system, character, GUIDANCE_BY_TYPE[type], *fixed))


def build_ask(
    question: Question, evidence: Evidence, type: QueryType, lookups: Sequence[MemoryLookup], rounds_left: int
) -> LLMRequest:
    """Return the LLM call; `rounds_left` is the number of lookup rounds that are still allowed.

    Fields that this question has no use for are neither explained nor in the schema.
    """
    name = asker(question.text, evidence.sources, question.users)
    rounds = "round is" if rounds_left == 1 else "rounds are"
    used = {
        "look_for": _LOOKUPS.format(most=MAX_QUERIES, left=rounds_left, rounds=rounds) if rounds_left else "",
        "spans": _SPANS if evidence.durations else "",
        "opinions": _OPINIONS if question.asks_for_opinion(type) else "",
        "revised": _REVISED if question.opinions and evidence.has("O") else "",
    }
    request = load_prompt(PROMPTS, STEP).request(
        GeneratedAnswer,
        name=" ".join(question.profile.name.split()),
        character=describe_character(question.profile),
        marks="\n".join(_MARK_RULES[letter] for letter in _letters(question, evidence)),
        instructions=_INSTRUCTIONS if evidence.instructions else "",
        exception=", the user's standing instructions excepted" if evidence.instructions else "",
        guidance=GUIDANCE_BY_TYPE[type] + (COMPUTED_TIMES if evidence.durations else ""),
        before="".join(f"{used[name]}\n" for name in ("look_for",) if used[name]),
        after="".join(f"\n{used[name]}" for name in ("spans", "opinions", "revised") if used[name]),
        today=question_date(question.asked_at),
        question=quote([escape_marks(f"{name}: {question.text}" if name else question.text)]),
        memory="\n\n".join(_sections(question, evidence, lookups)),
    )
    return replace(request, schema=_without(request.schema, [name for name, words in used.items() if not words]))


def _without(schema: Mapping[str, JsonValue], unused: Sequence[str]) -> Mapping[str, JsonValue]:
    """Return a schema without some fields, and without the definitions that only they use."""
    properties = schema["properties"]
    assert isinstance(properties, dict)
    kept = {name: value for name, value in properties.items() if name not in unused}
    text, definitions = json.dumps(kept), schema.get("$defs")
    assert isinstance(definitions, dict)
    used = {name: value for name, value in definitions.items() if f"/{name}" in text}
    rest = {key: value for key, value in schema.items() if key not in ("properties", "$defs")}
    return {**rest, "properties": kept, **({"$defs": used} if used else {})}


def _letters(question: Question, evidence: Evidence) -> Iterator[str]:
    yield "F"
    yield from (letter for letter in ("S", "O") if evidence.has(letter))
    if question.profile.background:
        yield "B"


def _sections(question: Question, evidence: Evidence, lookups: Sequence[MemoryLookup]) -> Iterator[str]:
    if evidence.instructions:
        yield "The user's standing instructions, newest first:\n" + quote(
            escape_marks(f"{fact.mentioned_at:%d %B %Y} | {fact.text}") for fact in evidence.instructions
        )
    if question.profile.background:
        background = quote([escape_marks(question.profile.background)])
        yield f"Your background (mark B):\n{background}"
    for letter, heading in _HEADINGS.items():
        if letter == "F" or evidence.has(letter):
            order = ", in the order in which they were said" if evidence.chronological and letter == "F" else ""
            yield f"{heading}{order}:\n{evidence.render(letter)}"
    if differences := evidence.differences():
        yield "Times, computed from the dates in the facts:\n" + "\n".join(differences)
    if lookups:
        lines = [f"{each.query} | {each.found or 'nothing'} new" for each in lookups]
        yield "Earlier lookups, whose results are shown above:\n" + quote(lines)


def engine_label(model: str) -> str:
    """Return the engine recorded with an opinion: the model and the prompt's version."""
    return f"{model}/{load_prompt(PROMPTS, STEP).label}"
