"""Tools that retain and forget."""

from __future__ import annotations

from datetime import datetime

from pydantic import Field, model_validator

from vmemo.errors import EmbeddingFailed, LLMFailed, named
from vmemo.mcp.tool import (
    BankArguments,
    StringList,
    Timestamp,
    ToolArguments,
    ToolContext,
    ToolEffects,
    ToolResult,
    tool,
)
from vmemo.models import Message, MessageId, Role
from vmemo.models.base import Content, Name
from vmemo.models.results import Retained


class MessageArguments(ToolArguments):
    """A message to retain."""

    content: Content = Field(description="What was said, word for word.")
    role: Role = Field(default="user", description="The role of the speaker: user, assistant, system or tool.")
    speaker: Name | None = Field(default=None, description="The speaker's name, if known.")
    timestamp: Timestamp | None = Field(default=None, description="When it was said, ISO 8601; the default is now.")


class RetainArguments(BankArguments):
    """Arguments of retain."""

    content: str = Field(
        default="",
        description="What to remember, as whole sentences that make sense on their own, with names and dates.",
        examples=["Ana moved from Porto to Lisbon in March 2026 and works at the city library."],
    )
    messages: list[MessageArguments] = Field(
        default=[], description="Instead of content: part of a conversation, message by message, in order."
    )
    speaker: Name | None = Field(default=None, description="The speaker of the content, if known.")
    timestamp: Timestamp | None = Field(
        default=None, description="When the content was said, ISO 8601; the default is now."
    )
    document: Name | None = Field(
        default=None,
        description="A name for the source, such as a conversation's id. The same words under the same document again "
        "change nothing, and `forget` can delete a document as a whole.",
    )
    tags: StringList = Field(default=[], description="Labels that `recall` can filter by.")
    wait: bool = Field(
        default=True,
        description="False returns as soon as it is stored, if a language model derives facts: they follow a little "
        "later.",
    )

    @model_validator(mode="after")
    def _content_or_messages(self) -> RetainArguments:
        if bool(self.content.strip()) == bool(self.messages):
            raise ValueError("give either content or messages")
        return self

    def stored_messages(self) -> list[Message]:
        """Return the messages to store."""
        bare = MessageArguments(content=self.content, speaker=self.speaker) if not self.messages else None
        return [self._message(new) for new in ([bare] if bare else self.messages)]

    def _message(self, new: MessageArguments) -> Message:
        when: datetime | None = new.timestamp or self.timestamp
        values = {"content": new.content, "role": new.role, "speaker": new.speaker, "document": self.document}
        return Message.of({**values, "tags": tuple(self.tags), **({} if when is None else {"timestamp": when})})


class RetainResult(ToolResult):
    """The result of retain."""

    stored: list[str] = Field(description="Ids of the stored messages; empty if all were known already.")
    derived: list[str] = Field(default=[], description="Ids of new facts.")
    revised: list[str] = Field(default=[], description="Ids of facts that were replaced or confirmed.")
    skipped: list[str] = Field(default=[], description="What was not stored, and why.")
    pending: int = Field(default=0, description="Stored messages that facts are still to be derived from.")
    problem: str | None = Field(default=None, description="Why facts could not be derived yet. Nothing is lost.")

    @staticmethod
    def of(stored: Retained, derived: Retained, problem: str | None = None) -> RetainResult:
        """Return the result of storing and deriving."""
        return RetainResult(
            stored=list(stored.stored),
            derived=list(derived.derived),
            revised=list(derived.revised),
            skipped=[f"{each.what}: {each.reason}" for each in (*stored.skipped, *derived.skipped)],
            pending=derived.pending,
            problem=problem,
        )


@tool("Retain in memory", "write", create=True)
async def retain(context: ToolContext, arguments: RetainArguments) -> RetainResult:
    """Store something in long-term memory; facts, people, dates and changes are derived from it.

    Use it when the user asks you to remember something, and, without being asked, for what will matter in later
    conversations: who people are, preferences, decisions, plans, commitments, corrections and results. Give
    self-contained sentences, or the conversation itself as `messages`. New facts replace the ones they contradict, so
    retain a correction instead of forgetting the old fact.

    Do not use it for passwords and other secrets, for small talk, for what `recall` just returned, or for what can be
    looked up elsewhere. The bank is created if it does not exist.
    """
    context.principal.check_batch(len(arguments.messages))
    stored = await context.memory.add_messages(arguments.stored_messages())
    if not arguments.wait and context.caller.worker:
        return RetainResult.of(stored, stored)
    try:
        return RetainResult.of(stored, await context.memory.process())
    except (LLMFailed, EmbeddingFailed) as error:
        pending = (await context.memory.status()).pending
        problem = f"{named(error)} It is stored, and facts are derived later."
        return RetainResult.of(stored, stored.model_copy(update={"pending": pending}), problem)


class ForgetArguments(BankArguments):
    """Arguments of forget."""

    messages: StringList = Field(default=[], description="Ids of messages, as `why` and `browse` return them.")
    document: Name | None = Field(default=None, description="The name of a document: all its messages.")
    entity: Name | None = Field(
        default=None, description="The name or id of a person or thing: every message that mentions it."
    )


class ForgetResult(ToolResult):
    """Counts of deleted records."""

    messages: int
    facts: int
    episodes: int
    entities: int
    requeued: int = Field(
        description="Kept messages that are processed again, because they were processed together with deleted ones."
    )


@tool("Forget for good", "write", effects=ToolEffects(destructive=True, idempotent=True))
async def forget(context: ToolContext, arguments: ForgetArguments) -> ForgetResult:
    """Delete messages, a whole document, or everything about a person or thing, for good and with all derived facts.

    Use it only when the user asks that something be forgotten or deleted. Name exactly one thing, say first what will
    be deleted (`browse` and `why` show it), and let the user confirm: nothing brings it back.

    Do not use it to correct a fact: `retain` the correction, and the old fact is closed automatically. To delete a
    whole bank use `delete_bank`.
    """
    ids = [MessageId(id) for id in arguments.messages]
    deleted = await context.memory.forget(messages=ids, document=arguments.document, entity=arguments.entity)
    return ForgetResult(
        messages=deleted.messages,
        facts=deleted.facts,
        episodes=deleted.episodes,
        entities=deleted.entities,
        requeued=deleted.requeued,
    )
