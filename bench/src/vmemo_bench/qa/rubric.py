"""Verdicts by a rubric: each criterion is scored 0, 0.5 or 1, and a question by their mean."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Annotated

from pydantic import AfterValidator, BaseModel, Field, JsonValue, create_model

SCORES = (0.0, 0.5, 1.0)


def _allowed(score: float) -> float:
    if score not in SCORES:
        raise ValueError(f"a score is 0, 0.5 or 1, not {score}")
    return score


class CriterionScore(BaseModel):
    """The score of one criterion."""

    reason: str = ""
    score: Annotated[float, AfterValidator(_allowed)]


class RubricScores(BaseModel):
    """The scores of all criteria, in their order."""

    criteria: list[CriterionScore]

    @property
    def scores(self) -> tuple[float, ...]:
        """The scores alone."""
        return tuple(each.score for each in self.criteria)

    @property
    def reason(self) -> str:
        """The reasons with their scores, a line for each criterion."""
        return "\n".join(f"{each.score:g}: {each.reason}" for each in self.criteria)


@cache
def scores_of(criteria: int) -> type[RubricScores]:
    """Return the model of a verdict on a rubric of so many criteria."""
    entries = Annotated[list[CriterionScore], Field(min_length=criteria, max_length=criteria)]
    return create_model("RubricScores", __base__=RubricScores, criteria=(entries, ...))


SCHEMA: Mapping[str, JsonValue] = {
    "type": "object",
    "properties": {
        "criteria": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "reason": {"type": "string", "description": "what the answer has or lacks of this criterion"},
                    "score": {"type": "number", "enum": list(SCORES)},
                },
                "required": ["reason", "score"],
            },
        }
    },
    "required": ["criteria"],
}
