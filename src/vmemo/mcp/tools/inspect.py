"""Tools that look into a bank without searching it: why and browse."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol

from pydantic import Field

from vmemo.errors import NotFound
from vmemo.mcp.serializers import FromMemory, Remembered, Said
from vmemo.mcp.tool import InBank, Room, Told, tool
from vmemo.memory.reads import LARGEST_PAGE
from vmemo.models import Entity, EntityId, Fact, FactId, MessageId
from vmemo.models.base import Name

Kind = Literal["messages", "facts", "opinions", "observations", "entities"]


class Why(InBank):
    """What why takes."""

    id: Name = Field(description="The id of a fact, opinion or observation, as recall, reflect and browse tell it.")


class Moved(Told):
    """A step of an opinion's confidence."""

    stance: str
    before: float
    after: float
    reason: str


class Traced(FromMemory):
    """Where a fact comes from, and what it became."""

    fact: Remembered
    messages: list[Said] = Field(description="The messages that told it, word for word.")
    basis: list[Remembered] = Field(default=[], description="The facts behind an opinion or observation.")
    moves: list[Moved] = Field(default=[], description="How an opinion's confidence came about.")
    replaced_by: list[Remembered] = Field(default=[], description="What took its place.")

    def as_text(self) -> str:
        """All of it as JSON."""
        return self.quoted(self.model_dump_json(exclude={"notice"}, exclude_none=True, indent=2))


@tool("Trace a memory", "read")
async def why(room: Room, asked: Why) -> Traced:
    """Tell where one remembered fact comes from: the original messages, the facts behind it, and what replaced it.

    Use it when the user asks how you know something, when a fact looks wrong or out of date, and to get the ids of
    the messages before `forget`. It needs the id of a fact; `recall` brings those.

    Do not use it to search.
    """
    found = await room.memory.why(asked.id)
    told = {message.id: message for each in (found, *found.basis) for message in each.messages}
    return Traced(
        fact=Remembered.of(found.fact),
        messages=[Said.of(message) for message in told.values()],
        basis=[Remembered.of(each.fact) for each in found.basis],
        moves=[Moved(stance=m.stance, before=m.before, after=m.after, reason=m.reason) for m in found.moves],
        replaced_by=[Remembered.of(fact) for fact in found.superseded_by],
    )


class Browse(InBank):
    """What browse takes."""

    kind: Kind = Field(
        description="messages (what was said, word for word), facts (also closed ones), opinions (held now), "
        "observations (what is known of each entity, summed up) or entities (people and things)."
    )
    document: Name | None = Field(default=None, description="With messages: only those of this document.")
    entity: Name | None = Field(default=None, description="With observations: only those of this entity.")
    cursor: Name | None = Field(default=None, description="`next` of the page before; the first page without it.")
    limit: int = Field(default=20, ge=1, lt=LARGEST_PAGE, description="How many records a page holds.")


class Known(Told):
    """A person, place or thing that memory knows."""

    id: str
    name: str
    type: str
    aliases: list[str] = Field(default=[], description="Other names that it goes by.")
    mentions: int

    @staticmethod
    def of(entity: Entity) -> Known:
        """An entity without what only the store needs."""
        return Known(
            id=entity.id, name=entity.name, type=entity.type, aliases=list(entity.aliases), mentions=entity.mentions
        )


class Browsed(FromMemory):
    """A page of records; only the list that was asked for is filled."""

    messages: list[Said] = Field(default=[], description="Messages, word for word.")
    facts: list[Remembered] = Field(default=[], description="Facts, opinions or observations.")
    entities: list[Known] = Field(default=[], description="People and things.")
    next: str | None = Field(default=None, description="The cursor of the next page; left out on the last.")

    def as_text(self) -> str:
        """All of it as JSON."""
        return self.quoted(self.model_dump_json(exclude={"notice"}, exclude_none=True, indent=2))


@tool("Browse a bank", "read")
async def browse(room: Room, asked: Browse) -> Browsed:
    """List what a bank holds, page by page in the order it was stored: messages, facts, opinions, observations, people.

    Use it when the user wants to see or review what is remembered, which people and things are known, what was said
    in one document, or what you think and have observed, and to find the ids of messages before `forget`.

    Do not use it to answer a question: `recall` finds what bears on it.
    """
    more, cursor = asked.limit + 1, asked.cursor
    match asked.kind:
        case "messages":
            after = None if cursor is None else MessageId(cursor)
            said = await room.memory.messages(document=asked.document, after=after, limit=more)
            return Browsed(messages=[Said.of(each) for each in said[: asked.limit]], next=_next(said, asked.limit))
        case "entities":
            seen = await room.memory.entities(after=None if cursor is None else EntityId(cursor), limit=more)
            return Browsed(entities=[Known.of(each) for each in seen[: asked.limit]], next=_next(seen, asked.limit))
        case "facts":
            facts = await room.memory.facts(after=None if cursor is None else FactId(cursor), limit=more)
        case "opinions":
            facts = _from(await room.memory.opinions(), cursor)
        case "observations":
            facts = _from(await room.memory.observations(asked.entity), cursor)
    return Browsed(facts=[Remembered.of(fact) for fact in facts[: asked.limit]], next=_next(facts, asked.limit))


class _Stored(Protocol):
    @property
    def id(self) -> str: ...


def _next(found: Sequence[_Stored], limit: int) -> str | None:
    """The cursor of the next page, if one record more was found than a page holds."""
    return found[limit - 1].id if len(found) > limit else None


def _from(facts: list[Fact], cursor: str | None) -> list[Fact]:
    """The facts behind the one that a cursor names."""
    if cursor is None:
        return facts
    places = [place for place, fact in enumerate(facts) if fact.id == cursor]
    if not places:
        raise NotFound(f"There is no such page any more: {cursor!r:.80}. Begin anew without a cursor.")
    return facts[places[0] + 1 :]
