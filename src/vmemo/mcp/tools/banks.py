"""Tools for banks themselves: which there are, what they hold, and their character."""

from __future__ import annotations

from pydantic import Field, model_validator

from vmemo.mcp.principal import Visitor
from vmemo.mcp.serializers import FromMemory
from vmemo.mcp.tool import Arguments, Hints, InBank, Room, Told, at_the_door, tool
from vmemo.models import Disposition, Profile
from vmemo.models.base import Background, Name, Share
from vmemo.models.results import Status


class ListBanks(Arguments):
    """What list_banks takes."""

    prefix: str = Field(default="", max_length=512, description="Only banks whose names begin so.")
    limit: int = Field(default=100, ge=1, le=1000, description="How many names to return.")


class Banks(Told):
    """Names of banks."""

    banks: list[str]
    more: bool = Field(default=False, description="True where there are more than were asked for.")
    home: str | None = Field(default=None, description="The bank that is meant where a tool is given none.")


@at_the_door("List banks")
async def list_banks(visitor: Visitor, asked: ListBanks) -> Banks:
    """List the memory banks that this connection may read, and which one is used where none is named.

    Use it when a tool asks you to name a bank, or when the user speaks of another person's, project's or agent's
    memory. A bank is one isolated memory: nothing in it is seen from another.

    Do not use it before every call: leave `bank` out, and the bank of this connection is used.
    """
    names = [name for name in await visitor.banks() if name.startswith(asked.prefix)]
    return Banks(banks=names[: asked.limit], more=len(names) > asked.limit, home=visitor.home)


class OfBank(InBank):
    """What tools take that need nothing but the bank."""


class BankNamed(InBank):
    """What tools take that must be told which bank they mean."""

    bank: Name = Field(description="The bank's name, in full.")


class State(Told):
    """What a bank holds, and what is left to do."""

    bank: str
    engine: str = Field(description="What reads messages: the local engine, or a language model.")
    messages: int
    unread: int = Field(description="Messages from which facts are still to be derived.")
    facts: int
    closed_facts: int = Field(description="Facts that are no longer true or believed.")
    episodes: int
    entities: int
    troubles: list[str] = Field(default=[], description="Errors that keep messages from being read.")

    @staticmethod
    def of(found: Status) -> State:
        """A status without what only operators need."""
        return State(
            bank=found.bank,
            engine=found.engine,
            messages=found.messages,
            unread=found.pending,
            facts=found.facts,
            closed_facts=found.closed_facts,
            episodes=found.episodes,
            entities=found.entities,
            troubles=[f"{each.error} ({each.messages} messages, {each.attempts} tries)" for each in found.troubles],
        )


@tool("Status of a bank", "read")
async def status(room: Room, asked: OfBank) -> State:
    """Tell how much a bank holds, how many messages are still unread, and which errors keep them so.

    Use it when the user asks how much is remembered, or when something that was just retained can't be recalled.

    Do not use it to see the memories themselves: there are `recall` and `browse`.
    """
    return State.of(await room.memory.status())


@tool("Make a bank", "write", hints=Hints(repeats=True), creates=True)
async def create_bank(room: Room, asked: BankNamed) -> State:
    """Make an empty memory bank; one that is there already stays as it is.

    Use it when the user wants a separate memory, for another person, project or agent, that shares nothing with the
    others. `set_profile` gives it a character.

    Do not use it before `retain`: that makes the bank if need be.
    """
    await room.memory.open()
    return State.of(await room.memory.status())


class Deleted(Told):
    """A bank that is gone."""

    bank: str
    messages: int
    facts: int


@tool("Delete a bank", "admin", hints=Hints(destroys=True, repeats=True))
async def delete_bank(room: Room, asked: BankNamed) -> Deleted:
    """Delete a whole memory bank with every message and fact in it, for good.

    Use it only when the user explicitly asks to delete this bank by its name, and has confirmed it: nothing brings it
    back. It takes the right to administer the bank.

    Do not use it to delete part of a bank: there is `forget`.
    """
    gone = await room.memory.forget(bank=True)
    return Deleted(bank=room.bank, messages=gone.messages, facts=gone.facts)


class Character(FromMemory):
    """Who a bank is: the name, traits and background that `reflect` answers with."""

    bank: str
    name: str
    skepticism: int = Field(description="From 1, trusting, to 5, doubting.")
    literalism: int = Field(description="From 1, reading between the lines, to 5, exact.")
    empathy: int = Field(description="From 1, detached, to 5, caring.")
    bias: float = Field(description="How far character shapes answers; 0 is facts only, 1 is most.")
    background: str

    @staticmethod
    def of(bank: str, found: Profile) -> Character:
        """A bank's profile."""
        own = {"name": found.name, "bias": found.bias, "background": found.background}
        return Character.model_validate({"bank": bank, **found.disposition.model_dump(), **own})


@tool("Profile of a bank", "read")
async def profile(room: Room, asked: OfBank) -> Character:
    """Show a bank's character: its name, its traits, how strongly they shape answers, and its background.

    Use it when the user asks who you are in this memory or why `reflect` answers as it does, and before `set_profile`.

    Do not use it for facts about the user: there is `recall`.
    """
    return Character.of(room.bank, await room.memory.profile())


class SetProfile(InBank):
    """What set_profile takes; what is left out stays."""

    name: Name | None = Field(default=None, description="What the agent is called.")
    skepticism: int | None = Field(default=None, ge=1, le=5, description="From 1, trusting, to 5, doubting.")
    literalism: int | None = Field(default=None, ge=1, le=5, description="From 1, between the lines, to 5, exact.")
    empathy: int | None = Field(default=None, ge=1, le=5, description="From 1, detached, to 5, caring.")
    bias: Share | None = Field(default=None, description="How far character shapes answers, from 0 to 1.")
    background: Background | None = Field(
        default=None, description="A background in the first person, in place of the present one; 600 characters."
    )
    add_background: str | None = Field(
        default=None,
        min_length=1,
        max_length=10_000,
        description="A piece to work into the background; what it contradicts gives way. Needs a language model.",
    )

    @model_validator(mode="after")
    def _one_background(self) -> SetProfile:
        if self.background is not None and self.add_background is not None:
            raise ValueError("give either background, which replaces, or add_background, which merges")
        return self

    def applied(self, to: Profile) -> Profile:
        """The profile with these changes."""
        given = self.model_dump(exclude_none=True, exclude={"bank", "add_background"})
        traits = {name: given.pop(name) for name in Disposition.model_fields if name in given}
        disposition = Disposition.of({**to.disposition.model_dump(), **traits})
        return Profile.of({**to.model_dump(), **given, "disposition": disposition})


@tool("Change a profile", "write", hints=Hints(repeats=True))
async def set_profile(room: Room, asked: SetProfile) -> Character:
    """Change a bank's character: its name, traits, bias or background. What you leave out stays; the old one is kept.

    Use it when the user tells you who you are or how you should judge and sound from now on. `background` replaces
    the whole text, `add_background` works a new piece into it.

    Do not use it for facts about the user or the world: `retain` those.
    """
    before = await room.memory.profile()
    asked.applied(before)
    if asked.add_background is not None:
        before = await room.memory.add_background(asked.add_background)
    after = asked.applied(before)
    if after != before:
        after = await room.memory.profile(after)
    return Character.of(room.bank, after)
