"""Tools that keep and forget."""

from __future__ import annotations

from datetime import datetime

from pydantic import Field, model_validator

from vmemo.errors import EmbeddingFailed, InvalidInput, LLMFailed, named
from vmemo.mcp.tool import Arguments, Hints, InBank, Moment, Room, Several, Told, tool
from vmemo.models import Message, MessageId, Role
from vmemo.models.base import Content, Name
from vmemo.models.results import Retained


class NewMessage(Arguments):
    """A message to keep."""

    content: Content = Field(description="What was said, word for word.")
    role: Role = Field(default="user", description="Who speaks: user, assistant, system or tool.")
    speaker: Name | None = Field(default=None, description="The speaker's name, if known.")
    timestamp: Moment | None = Field(default=None, description="When it was said, ISO 8601; now, if left out.")


class Retain(InBank):
    """What retain takes."""

    content: str = Field(
        default="",
        description="What to remember, as whole sentences that make sense on their own, with names and dates.",
        examples=["Ana moved from Porto to Lisbon in March 2026 and works at the city library."],
    )
    messages: list[NewMessage] = Field(
        default=[], description="Instead of content: a piece of conversation, message by message, in order."
    )
    speaker: Name | None = Field(default=None, description="Who said the content, if known.")
    timestamp: Moment | None = Field(default=None, description="When the content was said, ISO 8601; now, if left out.")
    document: Name | None = Field(
        default=None,
        description="A name for where this comes from, such as a conversation's id. The same words under the same "
        "document again change nothing, and `forget` can delete a document as a whole.",
    )
    tags: Several = Field(default=[], description="Labels that `recall` can be narrowed to.")
    wait: bool = Field(
        default=True,
        description="False returns as soon as it is stored, where a language model reads: facts come a little later.",
    )

    @model_validator(mode="after")
    def _one_of_both(self) -> Retain:
        if bool(self.content.strip()) == bool(self.messages):
            raise ValueError("give either content or messages")
        return self

    def said(self) -> list[Message]:
        """The messages to store."""
        bare = NewMessage(content=self.content, speaker=self.speaker) if not self.messages else None
        return [self._message(new) for new in ([bare] if bare else self.messages)]

    def _message(self, new: NewMessage) -> Message:
        when: datetime | None = new.timestamp or self.timestamp
        values = {"content": new.content, "role": new.role, "speaker": new.speaker, "document": self.document}
        return Message.of({**values, "tags": tuple(self.tags), **({} if when is None else {"timestamp": when})})


class Kept(Told):
    """What became of what was handed in."""

    stored: list[str] = Field(description="Ids of the messages that were stored; none if all were known already.")
    derived: list[str] = Field(default=[], description="Ids of new facts, unless a worker read it meanwhile.")
    revised: list[str] = Field(default=[], description="Ids of facts that were replaced or confirmed.")
    skipped: list[str] = Field(default=[], description="What was not stored, and why.")
    unread: int = Field(default=0, description="Stored messages from which facts are still to be derived.")
    problem: str | None = Field(default=None, description="Why facts could not be derived yet. Nothing is lost.")

    @staticmethod
    def of(stored: Retained, derived: Retained, problem: str | None = None) -> Kept:
        """What storing and deriving did."""
        return Kept(
            stored=list(stored.stored),
            derived=list(derived.derived),
            revised=list(derived.revised),
            skipped=[f"{each.what}: {each.reason}" for each in (*stored.skipped, *derived.skipped)],
            unread=derived.pending,
            problem=problem,
        )


@tool("Retain in memory", "write", creates=True)
async def retain(room: Room, asked: Retain) -> Kept:
    """Keep something in long-term memory; facts, people, dates and changes are derived from it.

    Use it when the user asks you to remember something, and, without being asked, for what will matter in later
    conversations: who people are, preferences, decisions, plans, commitments, corrections and results. Give
    self-contained sentences, or the conversation itself as `messages`. New facts replace the ones they contradict, so
    retain a correction instead of forgetting the old fact.

    Do not use it for passwords and other secrets, for small talk, for what `recall` just brought, or for what can be
    looked up elsewhere. A bank that is not there yet is made.
    """
    if len(asked.messages) > room.visitor.batch:
        raise InvalidInput(
            f"A call may bring {room.visitor.batch:,} messages here, not {len(asked.messages):,}. Nothing was stored."
        )
    stored = await room.memory.add_messages(asked.said())
    if not asked.wait and room.visitor.works:
        return Kept.of(stored, stored)
    try:
        return Kept.of(stored, await room.memory.process())
    except (LLMFailed, EmbeddingFailed) as error:
        waiting = (await room.memory.status()).pending
        problem = f"{named(error)} It is stored, and facts are derived later."
        return Kept.of(stored, stored.model_copy(update={"pending": waiting}), problem)


class Forget(InBank):
    """What forget takes."""

    messages: Several = Field(default=[], description="Ids of messages, as `why` and `browse` tell them.")
    document: Name | None = Field(default=None, description="The name of a document: all its messages.")
    entity: Name | None = Field(
        default=None, description="The name or id of a person or thing: every message that speaks of it."
    )


class Gone(Told):
    """Counts of what was deleted."""

    messages: int
    facts: int
    episodes: int
    entities: int
    read_again: int = Field(description="Messages that stay and are read anew, because they stood beside deleted ones.")


@tool("Forget for good", "write", hints=Hints(destroys=True, repeats=True))
async def forget(room: Room, asked: Forget) -> Gone:
    """Delete messages, a whole document, or everything about a person or thing, for good and with all derived facts.

    Use it only when the user asks that something be forgotten or deleted. Name exactly one thing, say first what will
    go (`browse` and `why` show it), and let the user confirm: nothing brings it back.

    Do not use it to correct a fact: `retain` the correction, and the old fact is closed by itself. To delete a whole
    bank there is `delete_bank`.
    """
    ids = [MessageId(id) for id in asked.messages]
    gone = await room.memory.forget(messages=ids, document=asked.document, entity=asked.entity)
    return Gone(
        messages=gone.messages,
        facts=gone.facts,
        episodes=gone.episodes,
        entities=gone.entities,
        read_again=gone.requeued,
    )
