"""Tools that list what a bank holds and trace where a fact comes from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol

from pydantic import Field

from vmemo.errors import NotFound
from vmemo.mcp.serializers import FactItem, MessageItem, QuotedResult
from vmemo.mcp.tool import BankArguments, ToolContext, ToolResult, tool
from vmemo.models import Entity, EntityId, Fact, FactId, MessageId
from vmemo.models.base import Name
from vmemo.models.request_fields import LARGEST_PAGE
from vmemo.models.requests import WhyRequest

RecordKind = Literal["messages", "facts", "instructions", "opinions", "observations", "entities"]


class WhyArguments(WhyRequest, BankArguments):
    """Arguments of why."""

    fact: Name = Field(description="The id of a fact, opinion or observation, as recall, reflect and browse return it.")


class ConfidenceItem(ToolResult):
    """A change of an opinion's confidence."""

    stance: str
    before: float
    after: float
    reason: str


class WhyResult(QuotedResult):
    """The sources of a fact, and what replaced it."""

    fact: FactItem
    messages: list[MessageItem] = Field(description="The messages it was derived from, word for word.")
    basis: list[FactItem] = Field(default=[], description="The facts behind an opinion or observation.")
    confidence_changes: list[ConfidenceItem] = Field(
        default=[], description="How the confidence of an opinion changed."
    )
    replaced_by: list[FactItem] = Field(default=[], description="The facts that replaced it.")


@tool("Trace a memory", "read")
async def why(context: ToolContext, arguments: WhyArguments) -> WhyResult:
    """Show where one remembered fact comes from: the original messages, the facts behind it, and what replaced it.

    Use it when the user asks how you know something, when a fact looks wrong or out of date, and to get the ids of
    the messages before `forget`. It needs the id of a fact, which `recall` returns.

    Do not use it to search.
    """
    found = await context.memory.why(arguments.fact)
    messages = {message.id: message for each in (found, *found.basis) for message in each.messages}
    return WhyResult(
        fact=FactItem.of(found.fact),
        messages=[MessageItem.of(message) for message in messages.values()],
        basis=[FactItem.of(each.fact) for each in found.basis],
        confidence_changes=[
            ConfidenceItem(stance=each.stance, before=each.before, after=each.after, reason=each.reason)
            for each in found.confidence_changes
        ],
        replaced_by=[FactItem.of(fact) for fact in found.superseded_by],
    )


class BrowseArguments(BankArguments):
    """Arguments of browse."""

    kind: RecordKind = Field(
        description="messages (what was said, word for word), facts (closed ones included), instructions (those facts "
        "that are standing instructions of the user), opinions (current ones), observations (summaries of what is "
        "known about each entity) or entities (people and things)."
    )
    document: Name | None = Field(default=None, description="With messages: only those of this document.")
    entity: Name | None = Field(default=None, description="With observations: only those about this entity.")
    cursor: Name | None = Field(default=None, description="`next` of the previous page; omit it for the first page.")
    limit: int = Field(default=20, ge=1, lt=LARGEST_PAGE, description="How many records a page holds.")


class EntityItem(ToolResult):
    """A person, place or thing."""

    id: str
    name: str
    type: str
    aliases: list[str] = Field(default=[], description="Its other names.")
    mentions: int

    @staticmethod
    def of(entity: Entity) -> EntityItem:
        """Return an entity without the fields that only the store needs."""
        return EntityItem(
            id=entity.id, name=entity.name, type=entity.type, aliases=list(entity.aliases), mentions=entity.mentions
        )


class BrowseResult(QuotedResult):
    """A page of records; only the list of the requested kind is filled."""

    messages: list[MessageItem] = Field(default=[], description="Messages, word for word.")
    facts: list[FactItem] = Field(default=[], description="Facts, opinions or observations.")
    entities: list[EntityItem] = Field(default=[], description="People and things.")
    next: str | None = Field(default=None, description="The cursor of the next page; left out on the last page.")


@tool("Browse a bank", "read")
async def browse(context: ToolContext, arguments: BrowseArguments) -> BrowseResult:
    """List what a bank holds, page by page in the order it was stored: messages, facts, opinions, observations, people.

    Use it when the user wants to see or review what is remembered, which people and things are known, what was said
    in one document, or what you think and have observed, and to find the ids of messages before `forget`.

    Do not use it to answer a question: `recall` finds the relevant facts.
    """
    memory, limit, cursor = context.memory, arguments.limit, arguments.cursor
    match arguments.kind:
        case "messages":
            after = None if cursor is None else MessageId(cursor)
            messages = await memory.messages(document=arguments.document, after=after, limit=limit + 1)
            items = [MessageItem.of(each) for each in messages[:limit]]
            return BrowseResult(messages=items, next=_next(messages, limit))
        case "entities":
            entities = await memory.entities(after=None if cursor is None else EntityId(cursor), limit=limit + 1)
            return BrowseResult(
                entities=[EntityItem.of(each) for each in entities[:limit]], next=_next(entities, limit)
            )
        case "facts" | "instructions":
            after = None if cursor is None else FactId(cursor)
            listed = arguments.kind == "instructions"
            facts = await memory.facts(after=after, limit=limit + 1, instructions=listed)
        case "opinions":
            facts = _after(await memory.opinions(), cursor)
        case "observations":
            facts = _after(await memory.observations(arguments.entity), cursor)
    return BrowseResult(facts=[FactItem.of(fact) for fact in facts[:limit]], next=_next(facts, limit))


class _HasId(Protocol):
    @property
    def id(self) -> str: ...


def _next(found: Sequence[_HasId], limit: int) -> str | None:
    """Return the cursor of the next page if more records were found than a page holds."""
    return found[limit - 1].id if len(found) > limit else None


def _after(facts: list[Fact], cursor: str | None) -> list[Fact]:
    """Return the facts after the one that a cursor names."""
    if cursor is None:
        return facts
    places = [place for place, fact in enumerate(facts) if fact.id == cursor]
    if not places:
        raise NotFound(f"The page {cursor!r:.80} no longer exists. Start again without a cursor.")
    return facts[places[0] + 1 :]
