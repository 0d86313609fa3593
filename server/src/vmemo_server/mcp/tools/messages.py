"""Tools that retain and forget."""

from __future__ import annotations

from typing import Self

from pydantic import Field, model_validator

from vmemo.errors import InvalidInput
from vmemo.models import Role
from vmemo.models.base import Name
from vmemo.models.requests import ForgetContentRequest, RetainRequest
from vmemo.models.results import Retained
from vmemo_server.mcp.render import counted, deleted_lines
from vmemo_server.mcp.tool import BankArguments, StringList, Timestamp, ToolArguments, ToolContext, ToolEffects, tool


class MessageArguments(ToolArguments):
    """A message to retain."""

    content: str = Field(min_length=1)
    role: Role | None = None
    speaker: Name | None = None
    timestamp: Timestamp | None = None


class RetainArguments(BankArguments):
    """Arguments of retain."""

    content: str = Field(default="", description="Self-contained sentences with names and dates")
    messages: tuple[MessageArguments, ...] = Field(default=(), description="Instead of content: a conversation")
    speaker: Name | None = None
    timestamp: Timestamp | None = Field(default=None, description="When it was said, ISO; default now")
    document: Name | None = Field(default=None, description="Source name; repeating a document stores nothing twice")
    tags: StringList = ()
    expires_at: Timestamp | None = Field(default=None, description="When to forget it, ISO")

    @model_validator(mode="after")
    def _content_or_messages(self) -> Self:
        if bool(self.content.strip()) == bool(self.messages):
            raise ValueError("give either content or messages")
        return self

    def request(self) -> RetainRequest:
        """Return the request."""
        messages = self.messages or (MessageArguments(content=self.content, speaker=self.speaker),)
        shared = {"document": self.document, "tags": self.tags, "expires_at": self.expires_at}
        values = [
            {**message.model_dump(), "timestamp": message.timestamp or self.timestamp, **shared} for message in messages
        ]
        return RetainRequest.of({"messages": values})


@tool("Retain", "write", create=True)
async def retain(context: ToolContext, arguments: RetainArguments) -> str:
    """Store in long-term memory what will matter later: people, preferences, decisions, plans, corrections, results,
    and whatever the user asks you to remember. A correction replaces the old fact. No secrets, no small talk. Creates
    the bank."""
    context.principal.check_batch(len(arguments.messages))
    return _retained(await context.memory.run(arguments.request()))


def _retained(retained: Retained) -> str:
    if not retained.stored and not retained.derived:
        lines = ["Nothing new: everything was stored before."]
    else:
        stored, derived = counted(len(retained.stored), "message"), counted(len(retained.derived), "fact")
        revised = f", replaced or confirmed {len(retained.revised)} earlier" if retained.revised else ""
        lines = [f"Stored {stored}, derived {derived}{revised}."]
    if retained.problem is not None:
        lines.append(f"{retained.problem.error}: {retained.problem.detail}")
    elif retained.pending:
        lines.append(f"Facts are still to be derived from {counted(retained.pending, 'message')}.")
    lines += [f"Skipped {each.what}: {each.reason}" for each in retained.skipped]
    return "\n".join(lines)


class ForgetArguments(BankArguments):
    """Arguments of forget."""

    fact: Name | None = Field(default=None, description="Id of one fact")
    messages: StringList = Field(default=(), description="Message ids from why or browse")
    document: Name | None = Field(default=None, description="Name of a source")
    entity: Name | None = Field(default=None, description="A person or thing: every message that mentions it")


@tool("Forget", "write", effects=ToolEffects(destructive=True, idempotent=True))
async def forget(context: ToolContext, arguments: ForgetArguments) -> str:
    """Delete a fact, messages, a document or a person or thing, with all that rests on it, for good. Give one of them.
    Only if the user asks and confirms. To correct a fact, use edit_memory."""
    given = arguments.model_dump(exclude={"bank", "fact"})
    if arguments.fact is not None and any(given.values()):
        raise InvalidInput("Name exactly one thing to forget: a fact, messages, a document or an entity.")
    async with context.erasing():
        if arguments.fact is None:
            deleted = await context.memory.run(ForgetContentRequest.of(given))
        else:
            deleted = await context.memory.delete(arguments.fact)
    return "\n".join(deleted_lines("for good", deleted))
