"""Recall and reflect, as Hindsight's client asks for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, Literal

from fastapi import APIRouter, Response
from pydantic import BaseModel, Field, JsonValue

from vmemo.errors import InvalidInput
from vmemo.memory.reflect import ReflectOptions
from vmemo.models.base import Name
from vmemo.models.results import Answer
from vmemo.recall.query import RecallOptions
from vmemo.server.dependencies import Visit
from vmemo.server.hindsight.dependencies import BANK, Arriving
from vmemo.server.hindsight.includes import Include, Included, included
from vmemo.server.hindsight.schemas import Tokens, Type
from vmemo.server.hindsight.serializers import Result, Scores, cut, moment, said_by
from vmemo.server.hindsight.tags import Match, wanted
from vmemo.server.hindsight.unsupported import Wish
from vmemo.server.paths import ExactRoute
from vmemo.server.requests import Question
from vmemo.server.responses import record

router = APIRouter(route_class=ExactRoute)
DEFAULT_TYPES: Sequence[Type] = ("world", "experience", "observation")
Budget = Literal["low", "mid", "high"]


class Recall(Wish):
    """A question for facts."""

    harmless: ClassVar[Mapping[str, Sequence[object]]] = {"prefer_observations": (False,)}

    query: Question
    types: list[Type] | None = None
    budget: Budget | None = None
    max_tokens: int | None = Field(default=None, ge=1)
    trace: bool | None = None
    query_timestamp: str | None = None
    include: Include | None = None
    tags: list[Name] | None = Field(default=None, max_length=100)
    tags_match: Match | None = None


class Recalled(Included):
    """Facts by relevance."""

    results: list[Result]
    trace: dict[str, JsonValue] | None = None


@router.post(f"{BANK}/memories/recall")
async def recall(visit: Arriving, body: Recall) -> Response:
    """Facts by relevance whose tokens sum to at most `max_tokens`."""
    options: RecallOptions = {
        "networks": body.types or DEFAULT_TYPES,
        "now": moment("query_timestamp", body.query_timestamp),
        "explain": bool(body.trace),
        **wanted(body.tags, body.tags_match),
    }
    most = _affordable(visit, body.max_tokens or 4096)
    found = await visit.memory.recall(body.query, most, body.budget or "mid", **options)
    said = await said_by(found.facts, visit.memory.lookup)
    results = [Result.of(hit.fact, said, Scores.of(hit)) for hit in found.hits]
    trace = found.model_dump(mode="json", include={"query", "tokens", "timings", "explanation"}) if body.trace else None
    beside = await included(found.facts, said, body.include or Include(), visit.memory, scoped=bool(body.tags))
    return record(Recalled(results=results, trace=trace, **dict(beside)))


class Facts(Wish):
    """Whether an answer tells what it rests on; it has no options."""


class ReflectInclude(Wish):
    """What is told beside an answer."""

    facts: Facts | None = None


class Reflect(Wish):
    """A question to answer. There are no mental models and no directives, so that none are left out."""

    harmless: ClassVar[Mapping[str, Sequence[object]]] = {
        "apply_all_directives": (True, False),
        "exclude_mental_models": (True, False),
    }

    query: Question
    budget: Budget | None = None
    context: str | None = Field(default=None, max_length=100_000)
    max_tokens: int | None = Field(default=None, ge=1)
    include: ReflectInclude | None = None
    response_schema: dict[str, JsonValue] | None = None
    tags: list[Name] | None = Field(default=None, max_length=100)
    tags_match: Match | None = None
    fact_types: list[Type] | None = None
    exclude_mental_model_ids: list[str] | None = None

    @property
    def question(self) -> str:
        """The question with its context."""
        return f"{self.query}\n\nContext: {self.context}" if self.context else self.query


class BasedOn(BaseModel):
    """What an answer rests on."""

    memories: list[Result]
    mental_models: tuple[str, ...] = ()
    directives: tuple[str, ...] = ()


class Reflected(BaseModel):
    """An answer."""

    text: str
    based_on: BasedOn | None = None
    structured_output: dict[str, JsonValue] | None = None
    structured_output_error: str | None = None
    usage: Tokens
    trace: None = None


@router.post(f"{BANK}/reflect")
async def reflect(visit: Arriving, body: Reflect) -> Response:
    """Answer from memory. A guest who may not write gets an answer that forms no opinion."""
    options: ReflectOptions = {
        "budget": body.budget or "low",
        "schema": body.response_schema or None,
        "opinions": visit.guest.may("write", visit.bank),
        "networks": body.fact_types or (),
        **wanted(body.tags, body.tags_match),
    }
    answer = await visit.memory.reflect(body.question, **options)
    shown = body.include is not None and body.include.facts is not None
    text = answer.plain if body.max_tokens is None else cut(answer.plain, body.max_tokens, visit.memory.lookup.tokens)
    return record(
        Reflected(
            text=text,
            based_on=await _based_on(visit, answer) if shown else None,
            structured_output=answer.data if isinstance(answer.data, dict) else None,
            structured_output_error=_unshaped(answer) if body.response_schema else None,
            usage=Tokens.of(answer.usage),
        )
    )


async def _based_on(visit: Visit, answer: Answer) -> BasedOn:
    facts = [*answer.facts, *answer.observations, *answer.opinions]
    said = await said_by(facts, visit.memory.lookup)
    return BasedOn(memories=[Result.of(fact, said) for fact in facts])


def _unshaped(answer: Answer) -> str | None:
    if isinstance(answer.data, dict):
        return None
    return "; ".join(answer.flaws) or "There is no answer in this shape."


def _affordable(visit: Visit, tokens: int) -> int:
    most = visit.guest.house.limits.max_tokens
    if tokens > most:
        raise InvalidInput(f"max_tokens may be {most:,} here, not {tokens:,}.")
    return tokens
