"""What the answers of the reflecting model look like. Field descriptions are part of what the model is told."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from vmemo.llm.answer_parsing import AnswerSchema
from vmemo.models import Stance

Words = Annotated[str, Field(max_length=2000)]
Loose = Annotated[str, Field(max_length=100_000)]
"""What is cut or refused by itself, as it must not cost the answer that it came with."""


class Assessment(AnswerSchema):
    """How new facts bear on one opinion."""

    opinion: str = Field(description="O number of the opinion")
    stance: Stance
    evidence: list[str] = Field(default_factory=list[str], description="F numbers of the facts that count")
    reason: Words = ""


class Assessments(AnswerSchema):
    """How new facts bear on some opinions."""

    assessments: list[Assessment]


class Statement(AnswerSchema):
    """One sentence of a profile."""

    text: Annotated[str, Field(min_length=1, max_length=1000)]
    facts: list[str] = Field(description="F numbers of the facts it rests on")


class ProfileOf(AnswerSchema):
    """The profile of one entity."""

    entity: str = Field(description="E number")
    statements: list[Statement] = Field(max_length=7)


class Profiles(AnswerSchema):
    """Profiles of some entities."""

    profiles: list[ProfileOf]


class FormedOpinion(AnswerSchema):
    """An opinion that the answer comes to."""

    text: Loose = Field(
        description="one sentence in the first person that can be understood on its own, with the reason in it"
    )
    confidence: float | None = Field(default=None, description="from 0 to 1")
    facts: list[str] = Field(default_factory=list[str], description="F and S numbers that it rests on")
    instead_of: str = Field(default="", description="O number of a held opinion that it takes the place of")


class Reflected(AnswerSchema):
    """An answer from memory, or what to ask memory first."""

    look_for: list[Loose] = Field(default_factory=list[Loose])
    steps: list[Loose] = Field(default_factory=list[Loose])
    found: bool = True
    text: Annotated[str, Field(max_length=20_000)]
    opinions: list[FormedOpinion] = Field(default_factory=list[FormedOpinion])
    revised: list[Assessment] = Field(default_factory=list[Assessment])
