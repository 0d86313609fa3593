"""Tools that list, create and delete banks, and read and change their profiles."""

from __future__ import annotations

from pydantic import Field, model_validator

from vmemo.mcp.caller import ToolCaller
from vmemo.mcp.serializers import QuotedResult
from vmemo.mcp.tool import BankArguments, ToolArguments, ToolContext, ToolEffects, ToolResult, bankless_tool, tool
from vmemo.models import Disposition, Profile
from vmemo.models.base import Background, Name, Share
from vmemo.models.results import Status


class ListBanksArguments(ToolArguments):
    """Arguments of list_banks."""

    prefix: str = Field(default="", max_length=512, description="Only banks whose names start with this.")
    limit: int = Field(default=100, ge=1, le=1000, description="How many names to return.")


class BankListResult(ToolResult):
    """Names of banks."""

    banks: list[str]
    more: bool = Field(default=False, description="True if there are more banks than `limit`.")
    default_bank: str | None = Field(default=None, description="The bank that tools use if none is named.")


@bankless_tool("List banks")
async def list_banks(caller: ToolCaller, arguments: ListBanksArguments) -> BankListResult:
    """List the memory banks that this connection may read, and the one that is used if none is named.

    Use it when a tool asks you to name a bank, or when the user speaks of another person's, project's or agent's
    memory. A bank is one isolated memory: nothing in it is visible from another.

    Do not use it before every call: leave `bank` out to use the default bank.
    """
    names = [name for name in await caller.banks() if name.startswith(arguments.prefix)]
    return BankListResult(
        banks=names[: arguments.limit],
        more=len(names) > arguments.limit,
        default_bank=caller.principal.default_bank,
    )


class BankOnlyArguments(BankArguments):
    """Arguments of tools that need nothing but the bank."""


class NamedBankArguments(BankArguments):
    """Arguments of tools that must be given a bank."""

    bank: Name = Field(description="The bank's full name.")


class StatusResult(ToolResult):
    """Counts of a bank, and its pending messages."""

    bank: str
    engine: str = Field(description="Extracts facts from messages: the local engine or a language model.")
    messages: int
    pending: int = Field(description="Messages that facts are still to be derived from.")
    facts: int
    closed_facts: int = Field(description="Facts that are no longer true or believed.")
    episodes: int
    entities: int
    problems: list[str] = Field(default=[], description="Errors that keep messages from being processed.")

    @staticmethod
    def of(status: Status) -> StatusResult:
        """Return a status without the fields that only operators need."""
        return StatusResult(
            bank=status.bank,
            engine=status.engine,
            messages=status.messages,
            pending=status.pending,
            facts=status.facts,
            closed_facts=status.closed_facts,
            episodes=status.episodes,
            entities=status.entities,
            problems=[f"{each.error} ({each.messages} messages, {each.attempts} tries)" for each in status.problems],
        )


@tool("Status of a bank", "read")
async def status(context: ToolContext, arguments: BankOnlyArguments) -> StatusResult:
    """Show how much a bank holds, how many messages are still pending, and which errors keep them pending.

    Use it when the user asks how much is remembered, or when something that was just retained can't be recalled.

    Do not use it to see the memories themselves: use `recall` or `browse`.
    """
    return StatusResult.of(await context.memory.status())


@tool("Create a bank", "write", effects=ToolEffects(idempotent=True), create=True)
async def create_bank(context: ToolContext, arguments: NamedBankArguments) -> StatusResult:
    """Create an empty memory bank; an existing bank stays as it is.

    Use it when the user wants a separate memory, for another person, project or agent, that shares nothing with the
    others. `set_profile` gives it a character.

    Do not use it before `retain`, which creates the bank if necessary.
    """
    await context.memory.open()
    return StatusResult.of(await context.memory.status())


class DeleteBankResult(ToolResult):
    """A deleted bank."""

    bank: str
    messages: int
    facts: int
    scrub_pending: bool = Field(description="True if bytes of the deleted text may be left in the database file.")


@tool("Delete a bank", "admin", effects=ToolEffects(destructive=True, idempotent=True))
async def delete_bank(context: ToolContext, arguments: NamedBankArguments) -> DeleteBankResult:
    """Delete a whole memory bank with every message and fact in it, for good.

    Use it only when the user explicitly asks to delete this bank by its name, and has confirmed it: nothing brings it
    back. It needs admin permission for the bank.

    Do not use it to delete part of a bank: use `forget`.
    """
    deleted = await context.memory.forget(bank=True)
    counts = deleted.model_dump(include={"messages", "facts", "scrub_pending"})
    return DeleteBankResult.model_validate({"bank": context.bank, **counts})


class ProfileResult(QuotedResult):
    """A bank's profile: the name, traits and background that `reflect` answers with."""

    bank: str
    name: str
    skepticism: int = Field(description="From 1, trusting, to 5, doubting.")
    literalism: int = Field(description="From 1, reading between the lines, to 5, exact.")
    empathy: int = Field(description="From 1, detached, to 5, caring.")
    bias: float = Field(description="How far the profile shapes answers; 0 is facts only, 1 is most.")
    background: str

    @staticmethod
    def of(bank: str, profile: Profile) -> ProfileResult:
        """Return the profile of a bank."""
        own = {"name": profile.name, "bias": profile.bias, "background": profile.background}
        return ProfileResult.model_validate({"bank": bank, **profile.disposition.model_dump(), **own})


@tool("Profile of a bank", "read")
async def profile(context: ToolContext, arguments: BankOnlyArguments) -> ProfileResult:
    """Show a bank's profile: its name, its traits, how strongly they shape answers, and its background.

    Use it when the user asks who you are in this memory or why `reflect` answers as it does, and before `set_profile`.

    Do not use it for facts about the user: use `recall`.
    """
    return ProfileResult.of(context.bank, await context.memory.profile())


class SetProfileArguments(BankArguments):
    """Arguments of set_profile; omitted fields stay as they are."""

    name: Name | None = Field(default=None, description="The name that the agent answers to.")
    skepticism: int | None = Field(default=None, ge=1, le=5, description="From 1, trusting, to 5, doubting.")
    literalism: int | None = Field(default=None, ge=1, le=5, description="From 1, between the lines, to 5, exact.")
    empathy: int | None = Field(default=None, ge=1, le=5, description="From 1, detached, to 5, caring.")
    bias: Share | None = Field(default=None, description="How far the profile shapes answers, from 0 to 1.")
    background: Background | None = Field(
        default=None, description="A background in the first person that replaces the current one; 600 characters."
    )
    add_background: str | None = Field(
        default=None,
        min_length=1,
        max_length=10_000,
        description="A text to merge into the background, replacing what it contradicts. Needs a language model.",
    )

    @model_validator(mode="after")
    def _one_background(self) -> SetProfileArguments:
        if self.background is not None and self.add_background is not None:
            raise ValueError("give either background, which replaces, or add_background, which merges")
        return self

    def applied(self, to: Profile) -> Profile:
        """Return the profile with these changes."""
        given = self.model_dump(exclude_none=True, exclude={"bank", "add_background"})
        traits = {name: given.pop(name) for name in Disposition.model_fields if name in given}
        disposition = Disposition.of({**to.disposition.model_dump(), **traits})
        return Profile.of({**to.model_dump(), **given, "disposition": disposition})


@tool("Change a profile", "write", effects=ToolEffects(idempotent=True))
async def set_profile(context: ToolContext, arguments: SetProfileArguments) -> ProfileResult:
    """Change a bank's profile: its name, traits, bias or background. Omitted fields stay; the old profile is kept.

    Use it when the user says who you are or how you should judge and sound from now on. `background` replaces
    the whole text, `add_background` merges a new text into it.

    Do not use it for facts about the user or the world: `retain` those.
    """
    before = await context.memory.profile()
    # Invalid values must not leave a half-made change.
    arguments.applied(before)
    if arguments.add_background is not None:
        before = await context.memory.add_background(arguments.add_background)
    after = arguments.applied(before)
    if after != before:
        after = await context.memory.profile(after)
    return ProfileResult.of(context.bank, after)
