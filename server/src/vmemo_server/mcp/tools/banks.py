"""Tools that list and delete banks, show their state, and change their profiles."""

from __future__ import annotations

import json

from pydantic import Field, model_validator

from vmemo.models import Disposition, Profile
from vmemo.models.base import Background, Name, Share
from vmemo_server.mcp.caller import ToolCaller
from vmemo_server.mcp.render import deleted_lines, profile_line, quote, status_lines
from vmemo_server.mcp.tool import BankArguments, Tool, ToolArguments, ToolContext, ToolEffects, description_of, tool

_TRAIT = "1 to 5"


class BankOnlyArguments(BankArguments):
    """Arguments of tools that need nothing but the bank."""


class ListBanksArguments(ToolArguments):
    """Arguments of list_banks."""

    prefix: str = Field(default="", max_length=512)
    limit: int = Field(default=100, ge=1, le=1000)


async def _list_banks(caller: ToolCaller, arguments: ListBanksArguments) -> str:
    """List the memory banks of this connection, isolated from one another. Without a bank, tools use the default."""
    names = [name for name in await caller.banks() if name.startswith(arguments.prefix)]
    shown = {"banks": names[: arguments.limit], "default": caller.principal.default_bank}
    return json.dumps({**shown, "more": True} if len(names) > arguments.limit else shown, ensure_ascii=False)


list_banks = Tool(
    name="list_banks",
    title="List banks",
    description=description_of(_list_banks),
    permission="read",
    effects=ToolEffects(),
    arguments=ListBanksArguments,
    run=_list_banks,
    names_bank=True,
)


@tool("Status", "read")
async def status(context: ToolContext, arguments: BankOnlyArguments) -> str:
    """Show a bank's counts, pending messages and errors, and its profile."""
    memory = context.memory
    return quote(*status_lines(await memory.status()), profile_line(await memory.profile()))


class DeleteBankArguments(BankArguments):
    """Arguments of delete_bank."""

    bank: Name = Field()  # pyright: ignore[reportGeneralTypeIssues] - it is required here


@tool("Delete a bank", "admin", effects=ToolEffects(destructive=True, idempotent=True), names_bank=True)
async def delete_bank(context: ToolContext, arguments: DeleteBankArguments) -> str:
    """Delete a whole bank for good. Only if the user names it and confirms."""
    async with context.erasing():
        deleted = await context.memory.forget(bank=True)
    return "\n".join(deleted_lines(f"bank {context.bank!r}", deleted))


class SetProfileArguments(BankArguments):
    """Arguments of set_profile; omitted fields stay as they are."""

    name: Name | None = None
    skepticism: int | None = Field(default=None, ge=1, le=5, description=_TRAIT)
    literalism: int | None = Field(default=None, ge=1, le=5, description=_TRAIT)
    empathy: int | None = Field(default=None, ge=1, le=5, description=_TRAIT)
    bias: Share | None = Field(default=None, description="Weight of the profile in answers, 0 to 1")
    background: Background | None = Field(default=None, description="Replaces the text, first person")
    add_background: str | None = Field(default=None, min_length=1, max_length=10_000, description="Merged into it")

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
async def set_profile(context: ToolContext, arguments: SetProfileArguments) -> str:
    """Change who you are in reflect: name, traits, background. Omitted fields stay. For facts, use retain."""
    before = await context.memory.profile()
    # Invalid values must not leave a half-made change.
    arguments.applied(before)
    if arguments.add_background is not None:
        before = await context.memory.add_background(arguments.add_background)
    after = arguments.applied(before)
    if after != before:
        after = await context.memory.profile(after)
    return quote(profile_line(after))
