"""Tools that list what a bank holds, trace where a fact comes from, and edit one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol, Self

from pydantic import Field, model_validator

from vmemo.errors import NotFound
from vmemo.models import EntityId, Fact, FactId, MessageId
from vmemo.models.base import Content, Instant, Name
from vmemo.models.request_fields import LARGEST_PAGE
from vmemo_server.mcp.render import entity_line, fact_line, message_line, quote, version_line
from vmemo_server.mcp.tool import BankArguments, ToolContext, tool

RecordKind = Literal["messages", "facts", "pinned", "instructions", "opinions", "observations", "entities"]


class WhyArguments(BankArguments):
    """Arguments of why."""

    fact: Name = Field(description="Id, as recall shows it")


@tool("Trace a fact", "read")
async def why(context: ToolContext, arguments: WhyArguments) -> str:
    """Show where a fact comes from: its messages with their ids, the facts behind it, and its other versions."""
    found = await context.memory.why(arguments.fact)
    versions = await context.memory.history(found.fact.id)
    messages = {message.id: message for each in (found, *found.basis) for message in each.messages}
    changes = [
        f"- {each.stance}: confidence {each.before:.2f} to {each.after:.2f}: {each.reason}"
        for each in found.confidence_changes
    ]
    sections = {
        "Messages:": [message_line(message) for message in messages.values()],
        "Based on:": [fact_line(each.fact) for each in found.basis],
        "Confidence changes:": changes,
        "Versions, oldest first:": [version_line(fact) for fact in versions if len(versions) > 1],
    }
    shown = [line for heading, lines in sections.items() if lines for line in (heading, *lines)]
    return quote(fact_line(found.fact), *shown)


class EditArguments(BankArguments):
    """Arguments of edit_memory."""

    fact: Name = Field(description="Id, as recall shows it")
    text: Content | None = Field(default=None, description="The corrected fact")
    reason: str = Field(default="", max_length=1000)
    valid_at: Instant | None = Field(default=None, description="Since when the corrected fact is true; default: now")
    pinned: bool | None = Field(default=None, description="True marks it as important, false removes the mark")

    @model_validator(mode="after")
    def _some_change(self) -> Self:
        if self.text is None and self.pinned is None:
            raise ValueError("give text, pinned or both")
        if self.text is None and self.valid_at is not None:
            raise ValueError("give the text that is true since valid_at")
        return self


@tool("Edit a fact", "write")
async def edit_memory(context: ToolContext, arguments: EditArguments) -> str:
    """Correct or pin one fact. The old version stays in its history. Use it if the user names what is wrong with a
    recalled fact; new information belongs into retain."""
    id = arguments.fact
    if arguments.text is not None:
        id = (await context.memory.update(id, arguments.text, arguments.reason, valid_at=arguments.valid_at)).id
    if arguments.pinned is not None:
        id = (await context.memory.pin(id, arguments.pinned)).id
    return quote(fact_line(await context.memory.get(id)))


class BrowseArguments(BankArguments):
    """Arguments of browse."""

    kind: RecordKind
    document: Name | None = Field(default=None, description="Only its messages")
    entity: Name | None = Field(default=None, description="Only its observations")
    cursor: Name | None = None
    limit: int = Field(default=20, ge=1, lt=LARGEST_PAGE)


@tool("Browse", "read")
async def browse(context: ToolContext, arguments: BrowseArguments) -> str:
    """List what a bank holds, in stored order and by pages, to review it or to find ids. To answer a question, use
    recall."""
    lines, cursor = await _page(context, arguments)
    following = [f"More: pass cursor {cursor!r}."] if cursor is not None else []
    return quote(*(lines or ["There are none."]), *following)


async def _page(context: ToolContext, arguments: BrowseArguments) -> tuple[list[str], str | None]:
    """Return the lines of a page and the cursor of the next one."""
    memory, limit, cursor = context.memory, arguments.limit, arguments.cursor
    match arguments.kind:
        case "messages":
            after = None if cursor is None else MessageId(cursor)
            messages = await memory.messages(document=arguments.document, after=after, limit=limit + 1)
            return [message_line(each) for each in messages[:limit]], _next(messages, limit)
        case "entities":
            entities = await memory.entities(after=None if cursor is None else EntityId(cursor), limit=limit + 1)
            return [entity_line(each) for each in entities[:limit]], _next(entities, limit)
        case "facts" | "pinned" | "instructions":
            after = None if cursor is None else FactId(cursor)
            pinned, instructions = arguments.kind == "pinned", arguments.kind == "instructions"
            facts = await memory.facts(after=after, limit=limit + 1, pinned=pinned, instructions=instructions)
        case "opinions":
            facts = _after(await memory.opinions(), cursor)
        case "observations":
            facts = _after(await memory.observations(arguments.entity), cursor)
    return [fact_line(fact) for fact in facts[:limit]], _next(facts, limit)


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
