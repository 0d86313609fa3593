"""Routes of recall and reflect."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, Literal

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, Field, JsonValue

from vmemo.models.base import Name
from vmemo.models.request_fields import QueryText
from vmemo.models.requests import RecallRequest, ReflectRequest
from vmemo.models.results import Answer
from vmemo_hindsight.dependencies import BANK, ReadOrCreateBank
from vmemo_hindsight.filters import HindsightTagsMatch, tag_options
from vmemo_hindsight.includes import IncludedParts, IncludeOptions, included
from vmemo_hindsight.requests import HindsightRequest
from vmemo_hindsight.schemas import FactType, TokenUsage
from vmemo_hindsight.serializers import MemoryResult, ResultScores, parse_time, source_messages, truncate
from vmemo_server.dependencies import RequestSession, begin_write
from vmemo_server.paths import ExactRoute
from vmemo_server.responses import record

router = APIRouter(include_in_schema=False, route_class=ExactRoute)
DEFAULT_TYPES: Sequence[FactType] = ("world", "experience", "observation")
HindsightBudget = Literal["low", "mid", "high"]


class HindsightRecall(HindsightRequest):
    """A question to recall facts for."""

    harmless: ClassVar[Mapping[str, Sequence[object]]] = {"prefer_observations": (False,)}

    query: QueryText
    types: list[FactType] | None = None
    budget: HindsightBudget | None = None
    max_tokens: int | None = Field(default=None, ge=1)
    trace: bool | None = None
    query_timestamp: str | None = None
    include: IncludeOptions | None = None
    tags: list[Name] | None = Field(default=None, max_length=100)
    tags_match: HindsightTagsMatch | None = None


class HindsightRecallResponse(IncludedParts):
    """Facts by relevance."""

    results: list[MemoryResult]
    trace: dict[str, JsonValue] | None = None


@router.post(f"{BANK}/memories/recall")
async def recall(session: ReadOrCreateBank, body: HindsightRecall) -> Response:
    """Return facts by relevance whose tokens sum to at most `max_tokens`."""
    request = RecallRequest.of(
        {
            "query": body.query,
            "max_tokens": body.max_tokens or 4096,
            "budget": body.budget or "mid",
            "networks": body.types or DEFAULT_TYPES,
            "now": parse_time("query_timestamp", body.query_timestamp),
            "explain": bool(body.trace),
            **tag_options(body.tags, body.tags_match),
        }
    )
    session.principal.check_max_tokens(request.max_tokens)
    found = await session.memory.run(request)
    messages = await source_messages(found.facts, session.memory.lookup)
    results = [MemoryResult.of(hit.fact, messages, ResultScores.of(hit)) for hit in found.hits]
    trace = found.model_dump(mode="json", include={"query", "tokens", "timings", "explanation"}) if body.trace else None
    include = body.include or IncludeOptions()
    parts = await included(found.facts, messages, include, session.memory, tagged=bool(body.tags))
    return record(HindsightRecallResponse(results=results, trace=trace, **dict(parts)))


class IncludeFacts(HindsightRequest):
    """Request the facts that an answer is based on; it has no options."""


class ReflectInclude(HindsightRequest):
    """Parts to include in a reflect response."""

    facts: IncludeFacts | None = None


class HindsightReflect(HindsightRequest):
    """A question to answer. vmemo has no directives and no mental models, so options that exclude them are harmless."""

    harmless: ClassVar[Mapping[str, Sequence[object]]] = {
        "apply_all_directives": (True, False),
        "exclude_mental_models": (True, False),
    }

    query: QueryText
    budget: HindsightBudget | None = None
    context: str | None = Field(default=None, max_length=100_000)
    max_tokens: int | None = Field(default=None, ge=1)
    include: ReflectInclude | None = None
    response_schema: dict[str, JsonValue] | None = None
    tags: list[Name] | None = Field(default=None, max_length=100)
    tags_match: HindsightTagsMatch | None = None
    fact_types: list[FactType] | None = None
    exclude_mental_model_ids: list[str] | None = None

    @property
    def question(self) -> str:
        """The question with its context."""
        return f"{self.query}\n\nContext: {self.context}" if self.context else self.query


class BasedOn(BaseModel):
    """The facts that an answer is based on."""

    memories: list[MemoryResult]
    mental_models: tuple[str, ...] = ()
    directives: tuple[str, ...] = ()


class HindsightReflectResponse(BaseModel):
    """An answer."""

    text: str
    based_on: BasedOn | None = None
    structured_output: dict[str, JsonValue] | None = None
    structured_output_error: str | None = None
    usage: TokenUsage
    trace: None = None


@router.post(f"{BANK}/reflect")
async def reflect(request: Request, session: ReadOrCreateBank, body: HindsightReflect) -> Response:
    """Answer a question from memory. A key without write permission gets an answer that stores no opinion."""
    opinions = session.principal.allows("write", session.bank)
    if opinions and session.memory.forms_opinions:
        await begin_write(request, "hindsight", session.bank)
    asked = ReflectRequest.of(
        {
            "query": body.question,
            "budget": body.budget or "low",
            "schema": body.response_schema or None,
            "opinions": opinions,
            "networks": body.fact_types or (),
            **tag_options(body.tags, body.tags_match),
        }
    )
    answer = await session.memory.run(asked)
    show_facts = body.include is not None and body.include.facts is not None
    text = answer.plain
    if body.max_tokens is not None:
        text = truncate(text, body.max_tokens, session.memory.lookup.tokens)
    return record(
        HindsightReflectResponse(
            text=text,
            based_on=await _based_on(session, answer) if show_facts else None,
            structured_output=answer.data if isinstance(answer.data, dict) else None,
            structured_output_error=_structured_output_error(answer) if body.response_schema else None,
            usage=TokenUsage.of(answer.usage),
        )
    )


async def _based_on(session: RequestSession, answer: Answer) -> BasedOn:
    facts = [*answer.facts, *answer.observations, *answer.opinions]
    messages = await source_messages(facts, session.memory.lookup)
    return BasedOn(memories=[MemoryResult.of(fact, messages) for fact in facts])


def _structured_output_error(answer: Answer) -> str | None:
    if isinstance(answer.data, dict):
        return None
    return "; ".join(answer.flaws) or "The answer does not fit the schema."
