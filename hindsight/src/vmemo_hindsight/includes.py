"""The parts of a recall response besides its results: entities, source messages, and sources of observations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pydantic import BaseModel, Field

from vmemo import Memory
from vmemo.models import Fact, Message, MessageId
from vmemo_hindsight.requests import HindsightRequest
from vmemo_hindsight.serializers import (
    MemoryResult,
    chunk_id,
    first_message,
    format_time,
    source_messages,
    truncate,
)

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
    lookup, budget = memory.lookup, TokenBudget(max_tokens)
    sources = {m.id: (fact.bank, m) for fact in facts if (m := first_message(fact, messages)) is not None}
    places = await positions({message.document for _, message in sources.values() if message.document}, memory)
    found: dict[str, ChunkText] = {}
    for bank, message in sources.values():
        text, id = message.content, chunk_id(bank, message.id)
        whole = budget.take(lookup.tokens(text))
        text = text if whole else truncate(text, budget.left, lookup.tokens)
        if text:
            found[id] = ChunkText(id=id, text=text, chunk_index=places.get(message.id, 0), truncated=not whole)
        if not whole:
            break
    return found


async def positions(documents: set[str], memory: Memory) -> dict[MessageId, int]:
    """Return the position of each message in its document."""
    found: dict[MessageId, int] = {}
    for document in sorted(documents):
        lines = [message.id async for message in memory.lookup.every_message(document)]
        found |= {id: place for place, id in enumerate(lines)}
    return found


async def source_facts(
    facts: Sequence[Fact], options: SourceInclude, memory: Memory
) -> tuple[dict[str, MemoryResult], bool]:
    """Return the source facts that fit into the limits, and True if some did not."""
    total = TokenBudget(_limit(options.max_tokens, 4096))
    per_observation = _limit(options.max_tokens_per_observation, UNLIMITED)
    sources = {fact.id: fact for fact in await memory.lookup.facts([id for fact in facts for id in fact.basis])}
    taken, truncated = dict[str, Fact](), False
    for belief in facts:
        own = TokenBudget(per_observation)
        for fact in (sources[id] for id in belief.basis if id in sources and id not in taken):
            if own.take(fact.tokens) and total.take(fact.tokens):
                taken[fact.id] = fact
            else:
                truncated = True
    messages = await source_messages(taken.values(), memory.lookup)
    return {id: MemoryResult.of(fact, messages) for id, fact in taken.items()}, truncated
