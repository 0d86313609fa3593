"""What a recall tells beside its results: entities, the messages that they come from, and facts behind observations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pydantic import BaseModel, Field

from vmemo import Memory
from vmemo.models import Fact, Message, MessageId
from vmemo.server.hindsight.serializers import Result, chunk_id, cut, first, said_by, when
from vmemo.server.hindsight.unsupported import Wish

UNLIMITED = -1


class EntityInclude(Wish):
    """How much is told of entities."""

    max_tokens: int | None = Field(default=None, ge=UNLIMITED)


class ChunkInclude(Wish):
    """How much is told of messages."""

    max_tokens: int | None = Field(default=None, ge=UNLIMITED)


class SourceInclude(Wish):
    """How much is told of the facts behind observations."""

    max_tokens: int | None = Field(default=None, ge=UNLIMITED)
    max_tokens_per_observation: int | None = Field(default=None, ge=UNLIMITED)


class Include(Wish):
    """What to tell; entities are told unless the client says null."""

    entities: EntityInclude | None = Field(default_factory=EntityInclude)
    chunks: ChunkInclude | None = None
    source_facts: SourceInclude | None = None


class Observed(BaseModel):
    """An observation of an entity."""

    text: str
    mentioned_at: str | None


class EntityState(BaseModel):
    """An entity with what is observed of it."""

    entity_id: str
    canonical_name: str
    observations: list[Observed]


class ChunkText(BaseModel):
    """A message that results come from."""

    id: str
    text: str
    chunk_index: int
    truncated: bool


class Included(BaseModel):
    """What was asked for; null where it was not."""

    entities: dict[str, EntityState] | None = None
    chunks: dict[str, ChunkText] | None = None
    source_facts: dict[str, Result] | None = None
    source_facts_truncated: bool | None = None


class Purse:
    """Tokens that are left to spend."""

    def __init__(self, tokens: int) -> None:
        self._left = tokens
        self._endless = tokens == UNLIMITED

    @property
    def left(self) -> int:
        """What is left."""
        return self._left

    def take(self, tokens: int) -> bool:
        """Spend some, if there are as many."""
        if not self._endless and tokens > self._left:
            return False
        self._left -= 0 if self._endless else tokens
        return True


def _limit(given: int | None, default: int) -> int:
    return default if given is None else given


async def included(
    facts: Sequence[Fact], said: Mapping[MessageId, Message], wanted: Include, memory: Memory, *, scoped: bool
) -> Included:
    """What stands beside these results. Observations may rest on facts of any tags, so none is told in their scope."""
    found = Included()
    if wanted.entities is not None:
        observed = [] if scoped else await memory.observations()
        found.entities = entities(facts, observed, _limit(wanted.entities.max_tokens, 500))
    if wanted.chunks is not None:
        found.chunks = await chunks(facts, said, memory, _limit(wanted.chunks.max_tokens, 8192))
    if wanted.source_facts is not None:
        found.source_facts, found.source_facts_truncated = await sources(facts, wanted.source_facts, memory)
    return found


def entities(facts: Sequence[Fact], observed: Sequence[Fact], most: int) -> dict[str, EntityState]:
    """The entities of facts in their order, with observations as far as they fit."""
    purse = Purse(most)
    mentions = {mention.id: mention for fact in facts for mention in fact.entities}
    return {
        mention.name: EntityState(
            entity_id=mention.id,
            canonical_name=mention.name,
            observations=[
                Observed(text=fact.text, mentioned_at=when(fact.mentioned_at))
                for fact in observed
                if any(about.id == mention.id for about in fact.entities) and purse.take(fact.tokens)
            ],
        )
        for mention in mentions.values()
    }


async def chunks(
    facts: Sequence[Fact], said: Mapping[MessageId, Message], memory: Memory, most: int
) -> dict[str, ChunkText]:
    """The messages of facts in their order; the last one that fits in part is cut."""
    lookup, purse = memory.lookup, Purse(most)
    told = {message.id: (fact.bank, message) for fact in facts if (message := first(fact, said)) is not None}
    places = await positions({message.document for _, message in told.values() if message.document}, memory)
    found: dict[str, ChunkText] = {}
    for bank, message in told.values():
        text, id = message.content, chunk_id(bank, message.id)
        whole = purse.take(lookup.tokens(text))
        text = text if whole else cut(text, purse.left, lookup.tokens)
        if text:
            found[id] = ChunkText(id=id, text=text, chunk_index=places.get(message.id, 0), truncated=not whole)
        if not whole:
            break
    return found


async def positions(documents: set[str], memory: Memory) -> dict[MessageId, int]:
    """Where messages stand in their documents."""
    found: dict[MessageId, int] = {}
    for document in sorted(documents):
        lines = [message.id async for message in memory.lookup.every_message(document)]
        found |= {id: place for place, id in enumerate(lines)}
    return found


async def sources(facts: Sequence[Fact], wanted: SourceInclude, memory: Memory) -> tuple[dict[str, Result], bool]:
    """The facts behind beliefs, as far as they fit, and whether some did not."""
    purse, each = Purse(_limit(wanted.max_tokens, 4096)), _limit(wanted.max_tokens_per_observation, UNLIMITED)
    behind = {fact.id: fact for fact in await memory.lookup.facts([id for fact in facts for id in fact.basis])}
    taken, truncated = dict[str, Fact](), False
    for belief in facts:
        own = Purse(each)
        for fact in (behind[id] for id in belief.basis if id in behind and id not in taken):
            if own.take(fact.tokens) and purse.take(fact.tokens):
                taken[fact.id] = fact
            else:
                truncated = True
    said = await said_by(taken.values(), memory.lookup)
    return {id: Result.of(fact, said) for id, fact in taken.items()}, truncated
