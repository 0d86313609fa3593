"""Tools that retain and forget."""

from __future__ import annotations

from typing import Self

from pydantic import Field, model_validator

from vmemo.mcp.tool import BankArguments, StringList, Timestamp, ToolContext, ToolEffects, ToolResult, tool
from vmemo.models import Role
from vmemo.models.base import Name
from vmemo.models.request_fields import Flag
from vmemo.models.requests import ForgetContentRequest, NewMessage, RetainRequest
from vmemo.models.results import Retained


class MessageArguments(NewMessage):
    """A message to retain."""

    content: str = Field(min_length=1, description="What was said, word for word.")
    role: Role = Field(default="user", description="The role of the speaker: user, assistant, system or tool.")
    speaker: Name | None = Field(default=None, description="The speaker's name, if known.")
    timestamp: Timestamp | None = Field(default=None, description="When it was said, ISO 8601; the default is now.")
    tags: StringList = Field(default=(), description="Labels of this message that `recall` can filter by.")


class RetainArguments(BankArguments):
    """Arguments of retain."""

    content: str = Field(
        default="",
        description="What to remember, as whole sentences that make sense on their own, with names and dates.",
        examples=["Ana moved from Porto to Lisbon in March 2026 and works at the city library."],
    )
    messages: tuple[MessageArguments, ...] = Field(
        default=(), description="Instead of content: part of a conversation, message by message, in order."
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
    tags: StringList = Field(default=(), description="Labels that `recall` can filter by.")
    infer: Flag = Field(default=True, description="False stores the words only and derives no facts from them.")
    wait: Flag = Field(
        default=True,
        description="False returns as soon as it is stored, if a language model derives facts: they follow a little "
        "later.",
    )

    @model_validator(mode="after")
    def _content_or_messages(self) -> Self:
        if bool(self.content.strip()) == bool(self.messages):
            raise ValueError("give either content or messages")
        return self

    def request(self, *, worker: bool) -> RetainRequest:
        """Return the request; without a worker it waits, because no other process derives the facts."""
        messages = self.messages or (MessageArguments(content=self.content, speaker=self.speaker),)
        values = [self._with_defaults(message) for message in messages]
        return RetainRequest.of({"messages": values, "infer": self.infer, "wait": self.wait or not worker})

    def _with_defaults(self, message: MessageArguments) -> dict[str, object]:
        values = {name: getattr(message, name) for name in NewMessage.model_fields}
        shared = {"timestamp": self.timestamp, "document": self.document, "tags": self.tags}
        return {**values, **{name: value for name, value in shared.items() if not values[name]}}


class RetainResult(ToolResult):
    """The result of retain."""

    stored: list[str] = Field(description="Ids of the stored messages; empty if all were known already.")
    derived: list[str] = Field(default=[], description="Ids of new facts.")
    revised: list[str] = Field(default=[], description="Ids of facts that were replaced or confirmed.")
    skipped: list[str] = Field(default=[], description="What was not stored, and why.")
    pending: int = Field(default=0, description="Stored messages that facts are still to be derived from.")
    problem: str | None = Field(
        default=None,
        description="Why facts could not be derived yet. The messages are stored: do not retain them again.",
    )

    @staticmethod
    def of(retained: Retained) -> RetainResult:
        """Return the result without the fields that only operators need."""
        problem = retained.problem
        return RetainResult(
            stored=list(retained.stored),
            derived=list(retained.derived),
            revised=list(retained.revised),
            skipped=[f"{each.what}: {each.reason}" for each in retained.skipped],
            pending=retained.pending,
            problem=None if problem is None else f"{problem.error}: {problem.detail}",
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
    return RetainResult.of(await context.memory.run(arguments.request(worker=context.caller.worker)))


class ForgetArguments(BankArguments):
    """Arguments of forget."""

    messages: StringList = Field(default=(), description="Ids of messages, as `why` and `browse` return them.")
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
    scrub_pending: bool = Field(
        default=False, description="Bytes of the deleted text are still to be removed from the database file."
    )


@tool("Forget for good", "write", effects=ToolEffects(destructive=True, idempotent=True))
async def forget(context: ToolContext, arguments: ForgetArguments) -> ForgetResult:
    """Delete messages, a whole document, or everything about a person or thing, for good and with all derived facts.

    Use it only when the user asks that something be forgotten or deleted. Name exactly one thing, say first what will
    be deleted (`browse` and `why` show it), and let the user confirm: nothing brings it back.

    Do not use it to correct a fact: `retain` the correction, and the old fact is closed automatically. To delete a
    whole bank use `delete_bank`.
    """
    deleted = await context.memory.run(ForgetContentRequest.of(arguments.model_dump(exclude={"bank"})))
    return ForgetResult(
        messages=deleted.messages,
        facts=deleted.facts,
        episodes=deleted.episodes,
        entities=deleted.entities,
        requeued=deleted.requeued,
        scrub_pending=deleted.scrub_pending,
    )
