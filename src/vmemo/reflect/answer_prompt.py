"""The prompt of a reflection: character, rules, evidence and the results of tools."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cache
from pathlib import Path
from string import Template
from typing import Annotated, Any

from pydantic import Field, JsonValue

from vmemo.llm.prompt_files import load_prompt, quote
from vmemo.llm.structured import AnswerSchema
from vmemo.models import Disposition, Profile, Stance
from vmemo.ports import LLMRequest
from vmemo.reflect.citations import escape_marks
from vmemo.reflect.evidence import Evidence
from vmemo.reflect.tools import MAX_CALLS, LookupCall, LookupResult, LooseText
from vmemo.text.temporal.format import count_noun, format_weekday_date

ShortText = Annotated[str, Field(max_length=2000)]


class OpinionAssessment(AnswerSchema):
    """The effect of new facts on one opinion."""

    opinion: str = Field(description="O number of the opinion")
    stance: Stance
    evidence: list[str] = Field(default_factory=list[str], description="F numbers of the facts that matter")
    reason: ShortText = ""


class FormedOpinion(AnswerSchema):
    """An opinion in the answer."""

    text: LooseText = Field(
        description="one sentence in the first person that can be understood on its own and includes the reason"
    )
    confidence: float | None = Field(default=None, description="from 0 to 1")
    facts: list[str] = Field(default_factory=list[str], description="F and S numbers that support it")
    instead_of: str = Field(default="", description="O number of the held opinion that it replaces")


class GeneratedAnswer(AnswerSchema):
    """An answer from memory."""

    calls: list[LookupCall] = Field(default_factory=list[LookupCall])
    steps: list[LooseText] = Field(default_factory=list[LooseText])
    found: bool = Field(
        default=True, description="false if memory does not hold what is asked, or lacks one side of a comparison"
    )
    text: Annotated[str, Field(max_length=20_000)]
    opinions: list[FormedOpinion] = Field(default_factory=list[FormedOpinion])
    revised: list[OpinionAssessment] = Field(default_factory=list[OpinionAssessment])


@cache
def _character_words() -> dict[str, Any]:
    """Return the sentences for each trait from 1 to 5, and for a bias up to a highest value."""
    return json.loads((Path(__file__).parent / "prompts" / "character.json").read_text("utf-8"))


def describe_disposition(disposition: Disposition) -> str:
    """Return the instructions for a disposition's three traits."""
    words = _character_words()
    return " ".join(words[trait][value - 1] for trait, value in disposition)


def describe_bias(bias: float) -> str:
    """Return the instructions for a bias from 0, facts only, to 1, openly opinionated."""
    words = _character_words()
    return words["facts_only"] if bias <= 0 else next(e["text"] for e in words["bias"] if bias <= e["highest"])


def describe_character(profile: Profile) -> str:
    """Return the instructions for a profile. Without bias, its disposition has no effect and is left out."""
    if profile.bias <= 0:
        return describe_bias(0)
    return f"{describe_disposition(profile.disposition)}\n{describe_bias(profile.bias)} {_character_words()['limit']}"


STEP = "reflect"
"""The step of the call that generates the answer."""
_OPTIONAL_LINE = re.compile(r"^@([A-Z]) ?(.*\n)", re.MULTILINE)
"""A line for one part: S, O and B for what is shown, W for instructions, T for tools, P and R for opinions."""
_FIELDS = {"T": "calls", "P": "opinions", "R": "revised"}
"""Fields of the answer by the part of the prompt that explains them."""
_FIRST_PERSON = re.compile(r"\b(?:I|i(?!\.)|[Mm]e|[Mm]y|[Mm]ine|[Mm]yself|[Ww]e|[Oo]urs?|[Uu]s)\b")
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
    users: frozenset[str | None] = frozenset()
    """Names of users who speak in the bank, and None for a user without a name, as far as they are known."""


def instructions(question: Question) -> str:
    """Return the texts that an answer must not repeat."""
    system = load_prompt("reflect", STEP).system.template
    return f"{_OPTIONAL_LINE.sub(lambda line: line[2], system)}\n{describe_character(question.profile)}"


def build_ask(question: Question, evidence: Evidence, results: Sequence[LookupResult], rounds_left: int) -> LLMRequest:
    """Return the LLM call without the parts that have no use now; `rounds_left` rounds of tool calls are allowed."""
    parts = set(_parts(question, evidence, rounds_left))
    prompt = load_prompt("reflect", STEP)
    system = _OPTIONAL_LINE.sub(lambda line: line[2] if line[1] in parts else "", prompt.system.template)
    request = replace(prompt, system=Template(system)).request(
        GeneratedAnswer,
        name=" ".join(question.profile.name.split()),
        character=describe_character(question.profile),
        most=str(MAX_CALLS),
        rounds=count_noun(question.max_lookups, "round"),
        today=format_weekday_date(question.asked_at.date()),
        question=_asked(question, evidence),
        memory="\n\n".join(_sections(question, evidence, results, rounds_left)),
    )
    unused = [name for part, name in _FIELDS.items() if part not in parts]
    return replace(request, schema=_without(request.schema, unused))


def _asked(question: Question, evidence: Evidence) -> str:
    """Return the question with who asks it; if "I" does not say that the only user asks, with the users' names."""
    users = question.users | {source.speaker for source in evidence.sources.values() if source.role == "user"}
    if len(users) == 1 and _FIRST_PERSON.search(question.text):
        return quote([escape_marks(f"{next(iter(users)) or 'User'}: {question.text}")])
    names = sorted(filter(None, users))[:10]
    heading = "\n\nUsers who speak in the memories, one of whom may ask:\n"
    return quote([escape_marks(question.text)]) + (heading + quote(map(escape_marks, names)) if names else "")


def _parts(question: Question, evidence: Evidence, rounds_left: int) -> Iterator[str]:
    """Yield the letters of the optional parts of the prompt that are in use."""
    yield from (letter for letter in ("S", "O") if evidence.has(letter))
    if question.profile.background:
        yield "B"
    if evidence.instructions:
        yield "W"
    if rounds_left:
        yield "T"
    if question.opinions:
        yield "P"
        if evidence.has("O"):
            yield "R"


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


def _sections(question: Question, evidence: Evidence, results: Sequence[LookupResult], left: int) -> Iterator[str]:
    if evidence.instructions:
        yield "The user's standing instructions, newest first:\n" + quote(
            escape_marks(f"{fact.mentioned_at:%d %B %Y} | {fact.text}") for fact in evidence.instructions
        )
    if question.profile.background:
        background = quote([escape_marks(question.profile.background)])
        yield f"Your background (mark B):\n{background}"
    for letter, heading in _HEADINGS.items():
        if letter == "F" or evidence.has(letter):
            yield f"{heading}:\n{evidence.render(letter, new=False)}"
    if evidence.new:
        # They follow what the call before had, so that a provider's cache of prompts serves both.
        yield f"New facts, which the last tool calls found:\n{evidence.render('F', new=True)}"
    if results:
        lines = [f"{each.lookup.tool}: {escape_marks(each.lookup.query)} | {each.note}" for each in results]
        allowed = f"{count_noun(left, 'more round')} allowed" if left else "answer now"
        yield f"Tool calls so far, with the marks of what they found ({allowed}):\n" + quote(lines)


def engine_label(model: str) -> str:
    """Return the engine recorded with an opinion: the model and the prompt's version."""
    return f"{model}/{load_prompt('reflect', STEP).label}"
