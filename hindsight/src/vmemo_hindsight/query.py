"""Routes of recall and reflect, and the parts of a response besides its results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, Literal

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, Field, JsonValue

from vmemo import Memory
from vmemo.models import Fact, Message, MessageId
from vmemo.models.records import Name
from vmemo.models.requests import QueryText, RecallRequest, ReflectRequest
from vmemo.models.results import Answer
from vmemo.models.select import FactSelect
from vmemo.providers import count_tokens
from vmemo_hindsight.dependencies import BANK, ReadOrCreateBank
from vmemo_hindsight.filters import HindsightTagsMatch, tag_options
from vmemo_hindsight.reads import every_message
from vmemo_hindsight.schemas import FactType, HindsightRequest, TokenUsage
from vmemo_hindsight.serializers import (
    MemoryResult,
    ResultScores,
    chunk_id,
    first_message,
    format_time,
    parse_time,
    source_messages,
    truncate,
)
from vmemo_server.dependencies import RequestSession, begin_write
from vmemo_server.paths import ExactRoute
from vmemo_server.responses import record

UNLIMITED = -1


class EntityInclude(HindsightRequest):
    """Token limit of entities."""

    max_tokens: int | None = Field(default=None, ge=UNLIMITED)


class ChunkInclude(HindsightRequest):
    """Token limit of messages."""

    max_tokens: int | None = Field(default=None, ge=UNLIMITED)


class SourceInclude(HindsightRequest):
    """Token limits of the sources of observations."""

    max_tokens: int | None = Field(default=None, ge=UNLIMITED)
    max_tokens_per_observation: int | None = Field(default=None, ge=UNLIMITED)


class IncludeOptions(HindsightRequest):
    """Parts to include; entities are included unless set to null."""

    entities: EntityInclude | None = Field(default_factory=EntityInclude)
    chunks: ChunkInclude | None = None
    source_facts: SourceInclude | None = None


class ObservationText(BaseModel):
    """An observation about an entity."""

    text: str
    mentioned_at: str | None


class EntityState(BaseModel):
    """An entity with its observations."""

    entity_id: str
    canonical_name: str
    observations: list[ObservationText]


class ChunkText(BaseModel):
    """A message that results were derived from."""

    id: str
    text: str
    chunk_index: int
    truncated: bool


class IncludedParts(BaseModel):
    """The included parts; null if not requested."""

    entities: dict[str, EntityState] | None = None
    chunks: dict[str, ChunkText] | None = None
    source_facts: dict[str, MemoryResult] | None = None
    source_facts_truncated: bool | None = None


class TokenBudget:
    """A number of tokens to spend."""

    def __init__(self, tokens: int) -> None:
        self._left = tokens
        self._unlimited = tokens == UNLIMITED

    @property
    def left(self) -> int:
        """The tokens that are left."""
        return self._left

    def take(self, tokens: int) -> bool:
        """Spend tokens; return False if not enough are left."""
        if not self._unlimited and tokens > self._left:
            return False
        self._left -= 0 if self._unlimited else tokens
        return True


def _limit(given: int | None, default: int) -> int:
    return default if given is None else given


async def included(
    facts: Sequence[Fact],
    messages: Mapping[MessageId, Message],
    options: IncludeOptions,
    memory: Memory,
    *,
    tagged: bool,
) -> IncludedParts:
    """Return the requested parts. With a tag filter no observations are included: they may rest on facts of any tag."""
    found = IncludedParts()
    if options.entities is not None:
        observed = [] if tagged else await memory.observations()
        found.entities = entities(facts, observed, _limit(options.entities.max_tokens, 500))
    if options.chunks is not None:
        found.chunks = await chunks(facts, messages, memory, _limit(options.chunks.max_tokens, 8192))
    if options.source_facts is not None:
        found.source_facts, found.source_facts_truncated = await source_facts(facts, options.source_facts, memory)
    return found


def entities(facts: Sequence[Fact], observed: Sequence[Fact], max_tokens: int) -> dict[str, EntityState]:
    """Return the entities of facts in order, with the observations that fit into the limit."""
    budget = TokenBudget(max_tokens)
    mentions = {mention.id: mention for fact in facts for mention in fact.entities}
    return {
        mention.name: EntityState(
            entity_id=mention.id,
            canonical_name=mention.name,
            observations=[
                ObservationText(text=fact.text, mentioned_at=format_time(fact.mentioned_at))
                for fact in observed
                if any(about.id == mention.id for about in fact.entities) and budget.take(fact.tokens)
            ],
        )
        for mention in mentions.values()
    }


async def chunks(
    facts: Sequence[Fact], messages: Mapping[MessageId, Message], memory: Memory, max_tokens: int
) -> dict[str, ChunkText]:
    """Return the messages of facts in order; the last one is truncated if it does not fit."""
    budget = TokenBudget(max_tokens)
    sources = {m.id: (fact.bank, m) for fact in facts if (m := first_message(fact, messages)) is not None}
    places = await positions({message.document for _, message in sources.values() if message.document}, memory)
    found: dict[str, ChunkText] = {}
    for bank, message in sources.values():
        text, id = message.content, chunk_id(bank, message.id)
        whole = budget.take(count_tokens(text))
        text = text if whole else truncate(text, budget.left, count_tokens)
        if text:
            found[id] = ChunkText(id=id, text=text, chunk_index=places.get(message.id, 0), truncated=not whole)
        if not whole:
            break
    return found


async def positions(documents: set[str], memory: Memory) -> dict[MessageId, int]:
    """Return the position of each message in its document."""
    found: dict[MessageId, int] = {}
    for document in sorted(documents):
        lines = [message.id async for message in every_message(memory, document)]
        found |= {id: place for place, id in enumerate(lines)}
    return found


async def source_facts(
    facts: Sequence[Fact], options: SourceInclude, memory: Memory
) -> tuple[dict[str, MemoryResult], bool]:
    """Return the source facts that fit into the limits, and True if some did not."""
    total = TokenBudget(_limit(options.max_tokens, 4096))
    per_observation = _limit(options.max_tokens_per_observation, UNLIMITED)
    basis = [id for fact in facts for id in fact.basis]
    sources = {fact.id: fact for fact in await memory.store.facts(memory.name, FactSelect(ids=basis))}
    taken, truncated = dict[str, Fact](), False
    for belief in facts:
        own = TokenBudget(per_observation)
        for fact in (sources[id] for id in belief.basis if id in sources and id not in taken):
            if own.take(fact.tokens) and total.take(fact.tokens):
                taken[fact.id] = fact
            else:
                truncated = True
    messages = await source_messages(taken.values(), memory)
    return {id: MemoryResult.of(fact, messages) for id, fact in taken.items()}, truncated


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
    messages = await source_messages(found.facts, session.memory)
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
        text = truncate(text, body.max_tokens, count_tokens)
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
    messages = await source_messages(facts, session.memory)
    return BasedOn(memories=[MemoryResult.of(fact, messages) for fact in facts])


def _structured_output_error(answer: Answer) -> str | None:
    if isinstance(answer.data, dict):
        return None
    return "; ".join(answer.flaws) or "The answer does not fit the schema."
