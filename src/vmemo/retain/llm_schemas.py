"""Answer schemas of the retain prompts. Docstrings and field descriptions are part of the prompts."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from vmemo.llm.answer_parsing import AnswerSchema
from vmemo.models import CauseKind, EntityType, Verdict

_TYPES = frozenset(("PERSON", "ORGANIZATION", "LOCATION", "PRODUCT", "CONCEPT", "EVENT", "OTHER"))


def _entity_type(value: object) -> object:
    """Map unknown entity types, which models invent, to OTHER."""
    name = value.upper() if isinstance(value, str) else "OTHER"
    return name if name in _TYPES else "OTHER"


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


class NamedEntity(AnswerSchema):
    """A person, place, thing or idea in a fact."""

    name: Annotated[str, Field(min_length=1, max_length=200)]
    type: Annotated[EntityType, BeforeValidator(_entity_type)] = "OTHER"


class CausalRelation(AnswerSchema):
    """A causal relation to another fact of this answer."""

    fact: LineNumber = Field(description="number of the other fact in this answer, from 1")
    relation: CauseKind = Field(description="what this fact does to the other")
    strength: Fraction = 0.5


class KnownFactRelation(AnswerSchema):
    """Relation of a fact to a known fact."""

    id: str = Field(description="K number of the known fact")
    relation: Literal["merge", "supersede", "duplicate"]
    mistaken: bool = Field(default=False, description="for supersede: the known fact was never true")
    text: ShortText = Field(default="", description="for merge: one text with the content of both")


class ExtractedFact(AnswerSchema):
    """One fact to remember."""

    what: Annotated[str, Field(min_length=1, max_length=4000)] = Field(
        description="what happened or is true, in self-contained sentences with names instead of pronouns"
    )
    when: ShortText = Field(default="", description="date in words with weekday, or empty")
    where: ShortText = Field(default="", description="place, or empty")
    who: ShortText = Field(default="", description="participants and their relations, or empty")
    why: ShortText = Field(default="", description="stated reason or motive, or empty")
    kind: Literal["world", "experience", "opinion"] = "world"
    confidence: Fraction | None = Field(default=None, description="for opinion only: certainty")
    start: str = Field(default="", description="first day or time, ISO 8601, or empty")
    end: str = Field(default="", description="last day or time, ISO 8601, or empty")
    since: str = Field(default="", description="for a lasting state: first day on which it is true, or empty")
    entities: list[NamedEntity] = Field(default_factory=list[NamedEntity])
    causes: list[CausalRelation] = Field(default_factory=list[CausalRelation])
    lines: list[LineNumber] = Field(description="numbers of the lines that state it")
    surprise: Fraction = Field(default=0.5, description="0 if fully expected, 1 if completely unexpected")
    known: list[KnownFactRelation] = Field(default_factory=list[KnownFactRelation])


class RepeatedFact(AnswerSchema):
    """A known fact that is repeated without news."""

    id: str = Field(description="K number of the known fact")
    lines: list[LineNumber]


class ExtractedTopic(AnswerSchema):
    """Lines of one topic, and their content."""

    title: ShortText = Field(description="at most ten words")
    narrative: ShortText = Field(default="", description="two to four sentences that summarize the lines")
    lines: list[LineNumber] = Field(description="line numbers")


class Extraction(AnswerSchema):
    """Everything worth remembering."""

    topics: list[ExtractedTopic] = Field(default_factory=list[ExtractedTopic], max_length=25)
    facts: list[ExtractedFact] = Field(max_length=60)
    repeated: list[RepeatedFact] = Field(default_factory=list[RepeatedFact])


class SmallFact(AnswerSchema):
    """One fact to remember."""

    text: Annotated[str, Field(min_length=1, max_length=4000)]
    date: str = ""
    lines: list[LineNumber]


class SmallExtraction(AnswerSchema):
    """Everything worth remembering."""

    facts: list[SmallFact] = Field(max_length=60)


class PairVerdict(AnswerSchema):
    """The verdict on one pair of facts."""

    new: str = Field(description="N number of the new fact")
    known: str = Field(description="K number of the known fact")
    verdict: Verdict
    mistaken: bool = False
    text: ShortText = ""


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
