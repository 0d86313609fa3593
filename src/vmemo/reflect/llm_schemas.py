"""Answer schemas of the reflect prompts. Class docstrings and field descriptions are sent to the model."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from vmemo.llm.answer_parsing import AnswerSchema
from vmemo.models import Stance

ShortText = Annotated[str, Field(max_length=2000)]
LooseText = Annotated[str, Field(max_length=100_000)]
"""A secondary text, truncated or dropped later, so that its length does not make the whole answer invalid."""


class OpinionAssessment(AnswerSchema):
    """The effect of new facts on one opinion."""

    opinion: str = Field(description="O number of the opinion")
    stance: Stance
    evidence: list[str] = Field(default_factory=list[str], description="F numbers of the facts that matter")
    reason: ShortText = ""


class OpinionAssessments(AnswerSchema):
    """The effect of new facts on each opinion."""

    assessments: list[OpinionAssessment]


class ProfileStatement(AnswerSchema):
    """A new sentence of a profile."""

    text: Annotated[str, Field(min_length=1, max_length=600)]
    facts: list[str] = Field(description="F numbers that support it, S numbers whose content it retains")
    instead_of: list[str] = Field(default_factory=list[str], description="S numbers that it replaces")


class ProfileRevision(AnswerSchema):
    """The changes to one profile."""

    entity: str = Field(description="E number")
    keep: list[str] = Field(default_factory=list[str], description="S numbers")
    drop: list[str] = Field(default_factory=list[str], description="S numbers")
    write: list[ProfileStatement] = Field(default_factory=list[ProfileStatement])


class EntityProfiles(AnswerSchema):
    """The changes to the given profiles."""

    profiles: list[ProfileRevision]


class FormedOpinion(AnswerSchema):
    """An opinion in the answer."""

    text: LooseText = Field(
        description="one sentence in the first person that can be understood on its own and includes the reason"
    )
    confidence: float | None = Field(default=None, description="from 0 to 1")
    facts: list[str] = Field(default_factory=list[str], description="F and S numbers that support it")
    instead_of: str = Field(default="", description="O number of the held opinion that it replaces")


class DateRange(AnswerSchema):
    """The first and the last date of a length of time."""

    start: str = Field(description="YYYY-MM-DD")
    end: str = Field(description="YYYY-MM-DD")


class GeneratedAnswer(AnswerSchema):
    """An answer from memory, or the lookups needed first."""

    look_for: list[LooseText] = Field(default_factory=list[LooseText])
    steps: list[LooseText] = Field(default_factory=list[LooseText])
    found: bool = True
    spans: list[DateRange] = Field(default_factory=list[DateRange])
    text: Annotated[str, Field(max_length=20_000)]
    opinions: list[FormedOpinion] = Field(default_factory=list[FormedOpinion])
    revised: list[OpinionAssessment] = Field(default_factory=list[OpinionAssessment])


class MergedBackground(AnswerSchema):
    """A background with the new text merged into it."""

    background: Annotated[str, Field(max_length=4000)]
    replaced: list[Annotated[str, Field(max_length=1000)]] = Field(
        default_factory=list[str], description="passages of the old background that the new text contradicts"
    )
