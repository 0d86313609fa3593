"""Answer schemas of the retain prompts. Docstrings and field descriptions are part of the prompts."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field
from pydantic.json_schema import SkipJsonSchema

from vmemo.llm.answer_parsing import AnswerSchema
from vmemo.models import CauseKind, Verdict


def _as_list(value: object) -> object:
    """Accept a single text for a list of one."""
    return [value] if isinstance(value, str) else value


def _line_number(value: object) -> object:
    """Accept `L3`, `[3]` and `3` as line 3."""
    digits = "".join(c for c in value if c.isdigit()) if isinstance(value, str) else ""
    return int(digits) if digits else value


def _fraction(value: object) -> object:
    """Accept percentages, and cap larger numbers at 1."""
    if isinstance(value, int | float) and not isinstance(value, bool) and value > 1:
        return value / 100 if value <= 100 else 1.0
    return value


LineNumber = Annotated[int, BeforeValidator(_line_number)]
Fraction = Annotated[float, BeforeValidator(_fraction), Field(ge=0.0, le=1.0)]
ShortText = Annotated[str, Field(max_length=4000)]
Rest = Annotated[list[ShortText], BeforeValidator(_as_list)]
EntityName = Annotated[str, Field(max_length=200)]
Categories = SkipJsonSchema[Annotated[list[str], BeforeValidator(_as_list)]]
"""Categories of the caller, which are in the schema of a request only if there are some."""


class LineGroup(AnswerSchema):
    """Lines of one topic."""

    topic: ShortText = Field(description="the topic in a few words")
    lines: list[LineNumber] = Field(description="line numbers")


class LineGroups(AnswerSchema):
    """A conversation grouped by topic."""

    groups: list[LineGroup]


class Prediction(AnswerSchema):
    """Expected statements."""

    statements: list[ShortText] = Field(max_length=20)


class CausalRelation(AnswerSchema):
    """A causal relation to another fact of this answer."""

    fact: LineNumber = Field(description="number of the other fact in this answer, from 1")
    relation: CauseKind = Field(description="what this fact does to the other")
    strength: Fraction = 0.5


class SupersededFact(AnswerSchema):
    """A known fact that is not true any more."""

    id: str = Field(description="K number of the known fact")
    keep: Rest = Field(default_factory=list[str], description="sentences of it that still hold")
    mistaken: bool = Field(default=False, description="it was never true")


class ExtractedFact(AnswerSchema):
    """One fact to remember. Fields without content are left out."""

    what: Annotated[str, Field(min_length=1, max_length=4000)] = Field(description="self-contained sentence")
    when: ShortText = Field(default="", description="time, if `what` lacks it")
    where: ShortText = Field(default="", description="place, if `what` lacks it")
    who: ShortText = Field(default="", description="participants and their relations that `what` lacks")
    why: ShortText = Field(default="", description="stated reason, if `what` lacks it")
    kind: Literal["world", "experience", "opinion", "instruction"] = "world"
    confidence: Fraction | None = Field(default=None, description="for opinion: certainty")
    start: str = Field(default="", description="first day or time of an event, ISO 8601")
    end: str = Field(default="", description="last day or time of an event, ISO 8601")
    since: str = Field(default="", description="first day of a lasting state, ISO 8601")
    until: str = Field(default="", description="last day of a lasting state, ISO 8601")
    causes: list[CausalRelation] = Field(default_factory=list[CausalRelation])
    lines: list[LineNumber] = Field(description="numbers of the lines that state it")
    supersedes: list[SupersededFact] = Field(default_factory=list[SupersededFact])
    categories: Categories = Field(default_factory=list[str])


class RepeatedFact(AnswerSchema):
    """A known fact that is repeated without news."""

    id: str = Field(description="K number of the known fact")
    lines: list[LineNumber]


class ExtractedTopic(AnswerSchema):
    """Lines of one topic."""

    title: ShortText = Field(description="at most six words")
    lines: list[LineNumber] = Field(description="line numbers")


class ExtractedNames(AnswerSchema):
    """Names in the facts, by type."""

    person: list[EntityName] = Field(default_factory=list[str])
    organization: list[EntityName] = Field(default_factory=list[str])
    location: list[EntityName] = Field(default_factory=list[str])
    product: list[EntityName] = Field(default_factory=list[str])
    event: list[EntityName] = Field(default_factory=list[str])
    concept: list[EntityName] = Field(default_factory=list[str])
    other: list[EntityName] = Field(default_factory=list[str])


class Extraction(AnswerSchema):
    """Everything worth remembering."""

    topics: list[ExtractedTopic] = Field(default_factory=list[ExtractedTopic], max_length=25)
    facts: list[ExtractedFact] = Field(max_length=60)
    names: ExtractedNames = Field(default_factory=ExtractedNames)
    repeated: list[RepeatedFact] = Field(default_factory=list[RepeatedFact])


class SmallFact(AnswerSchema):
    """One fact to remember."""

    text: Annotated[str, Field(min_length=1, max_length=4000)]
    date: str = ""
    lines: list[LineNumber]
    categories: Categories = Field(default_factory=list[str])


class SmallExtraction(AnswerSchema):
    """Everything worth remembering."""

    facts: list[SmallFact] = Field(max_length=60)


class PairVerdict(AnswerSchema):
    """The verdict on one pair of facts."""

    new: str = Field(description="N number of the new fact")
    known: str = Field(description="K number of the known fact")
    verdict: Verdict
    keep: Rest = Field(default_factory=list[str], description="for supersede: sentences of it that still hold")
    mistaken: bool = Field(default=False, description="for supersede: the known fact was never true")
    text: ShortText = Field(default="", description="for merge: one text with the content of both")


class PairVerdicts(AnswerSchema):
    """Verdicts on all pairs."""

    verdicts: list[PairVerdict]


class NameIdentity(AnswerSchema):
    """The entity of one name."""

    name: str = Field(description="Q number of the question")
    same_as: str = Field(description="E number of the entity, or new")


class NameIdentities(AnswerSchema):
    """The entities of all names."""

    answers: list[NameIdentity]
