"""What the answers of the reading model look like. Field descriptions are part of what the model is told."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from vmemo.llm.answer_parsing import AnswerSchema
from vmemo.models import CauseKind, EntityType, Verdict

_TYPES = frozenset(("PERSON", "ORGANIZATION", "LOCATION", "PRODUCT", "CONCEPT", "EVENT", "OTHER"))


def _known_type(value: object) -> object:
    """Models invent types; what is none of ours is OTHER."""
    name = value.upper() if isinstance(value, str) else "OTHER"
    return name if name in _TYPES else "OTHER"


def _number(value: object) -> object:
    """`L3`, `[3]` and `3` are all line 3."""
    digits = "".join(c for c in value if c.isdigit()) if isinstance(value, str) else ""
    return int(digits) if digits else value


def _share(value: object) -> object:
    """Shares outside 0 to 1 are meant as percent or simply too high."""
    if isinstance(value, int | float) and not isinstance(value, bool) and value > 1:
        return value / 100 if value <= 100 else 1.0
    return value


Line = Annotated[int, BeforeValidator(_number)]
Share = Annotated[float, BeforeValidator(_share), Field(ge=0.0, le=1.0)]
Words = Annotated[str, Field(max_length=4000)]


class Group(AnswerSchema):
    """Lines of one topic."""

    topic: Words = Field(description="a few words that name the topic")
    lines: list[Line] = Field(description="numbers of its lines")


class Groups(AnswerSchema):
    """A conversation by topic."""

    groups: list[Group]


class Prediction(AnswerSchema):
    """What was to be expected."""

    statements: list[Words] = Field(max_length=20)


class NamedEntity(AnswerSchema):
    """A person, place or thing that a fact is about."""

    name: Annotated[str, Field(min_length=1, max_length=200)]
    type: Annotated[EntityType, BeforeValidator(_known_type)] = "OTHER"


class Cause(AnswerSchema):
    """A causal relation to another fact of this answer."""

    fact: Line = Field(description="number of the other fact, counted from 1 in the order of this answer")
    relation: CauseKind = Field(description="what this fact does to the other one")
    strength: Share = 0.5


class Known(AnswerSchema):
    """How a fact relates to one that is known already."""

    id: str = Field(description="K number of the known fact")
    relation: Literal["merge", "supersede", "duplicate"]
    mistaken: bool = Field(default=False, description="for supersede: the known fact was wrong from the start")
    text: Words = Field(default="", description="for merge: one text that holds both")


class ReadFact(AnswerSchema):
    """One memory."""

    what: Annotated[str, Field(min_length=1, max_length=4000)] = Field(
        description="what happened or holds, in full sentences that stand alone, with names instead of pronouns"
    )
    when: Words = Field(default="", description="the date in words with its weekday, or empty")
    where: Words = Field(default="", description="the place, or empty")
    who: Words = Field(default="", description="everyone who takes part and how they are related, or empty")
    why: Words = Field(default="", description="reason or motive as it was told, or empty")
    kind: Literal["world", "experience", "opinion"] = "world"
    confidence: Share | None = Field(default=None, description="for opinion only: how sure")
    start: str = Field(default="", description="first day or moment of it, ISO 8601, or empty")
    end: str = Field(default="", description="last day or moment of it, ISO 8601, or empty")
    since: str = Field(default="", description="for a lasting state: the day from which it is true, or empty")
    entities: list[NamedEntity] = Field(default_factory=list[NamedEntity])
    causes: list[Cause] = Field(default_factory=list[Cause])
    lines: list[Line] = Field(description="numbers of the lines that tell it")
    surprise: Share = Field(default=0.5, description="0 if it was to be expected, 1 if nothing hinted at it")
    known: list[Known] = Field(default_factory=list[Known])


class Again(AnswerSchema):
    """A known fact that was told again, with nothing new."""

    id: str = Field(description="K number of the known fact")
    lines: list[Line]


class Topic(AnswerSchema):
    """Lines that belong together, and what they are about."""

    title: Words = Field(description="at most ten words")
    narrative: Words = Field(default="", description="two to four sentences that tell what was said")
    lines: list[Line] = Field(description="numbers of its lines")


class Extraction(AnswerSchema):
    """Everything worth remembering of some lines."""

    topics: list[Topic] = Field(default_factory=list[Topic], max_length=25)
    facts: list[ReadFact] = Field(max_length=60)
    told_again: list[Again] = Field(default_factory=list[Again])


class SmallFact(AnswerSchema):
    """One memory in the least number of words that a model can get wrong."""

    text: Annotated[str, Field(min_length=1, max_length=4000)]
    date: str = ""
    lines: list[Line]


class SmallExtraction(AnswerSchema):
    """The same for models that lose their way in a large schema."""

    facts: list[SmallFact] = Field(max_length=60)


class Judged(AnswerSchema):
    """The verdict on one new fact beside one known fact."""

    new: str = Field(description="N number of the new fact")
    known: str = Field(description="K number of the known fact")
    verdict: Verdict
    mistaken: bool = False
    text: Words = ""


class Judgements(AnswerSchema):
    """Verdicts on new facts."""

    verdicts: list[Judged]


class Identity(AnswerSchema):
    """Who a name is."""

    name: str = Field(description="Q number of the question")
    same_as: str = Field(description="E number of the one it is, or new")


class IdentityAnswers(AnswerSchema):
    """Who some names are."""

    answers: list[Identity]
