"""Commands about banks and their profiles: `bank` and `profile`."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated

import typer
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from vmemo import Memory, Profile
from vmemo.cli.command import CommandGroup, Output, command
from vmemo.cli.options import (
    DatabaseWithEmbedder,
    DatabaseWithModel,
    OnDatabase,
    OptionGroup,
    WithModel,
    Yes,
    request_options,
)
from vmemo.cli.output import fields, one_line, page, status_table, table, timestamp, with_id
from vmemo.cli.retain import confirm_deletion, deleted
from vmemo.cli.target import require_banks, run
from vmemo.errors import InvalidInput
from vmemo.models import Disposition, FormerProfile
from vmemo.models.requests import CreateBankRequest
from vmemo.models.results import Status

BankArgument = Annotated[str, typer.Argument(metavar="BANK", help="The bank's name.")]
_WHOLE = 2000
"""Maximum characters of a background or reason in the output."""


def _given(**values: object) -> dict[str, object]:
    return {name: value for name, value in values.items() if value is not None}


_FIELDS = {
    **request_options(Profile, "name", "bias", "background", optional=True),
    **request_options(Disposition, *Disposition.model_fields, optional=True),
}
ProfileChanges = Annotated[dict[str, object], OptionGroup(_FIELDS, _given)]
"""New values of profile fields, by name; a field that is not given stays."""


@command(
    "vmemo bank list",
    "vmemo bank list --prefix support- --limit 1000 --json",
    "vmemo bank list --after alice   the page after this bank",
    name="bank list",
)
def list_banks(
    prefix: Annotated[str, typer.Option(metavar="TEXT", help="Only banks whose names start with this.")] = "",
    limit: Annotated[int, typer.Option(min=1, max=1000, help="Banks on a page.")] = 100,
    after: Annotated[str | None, typer.Option(metavar="BANK", help="Start after this bank.")] = None,
    *,
    target: OnDatabase,
) -> Output:
    """List the banks of a database with their profiles, in the order of their names."""
    every = asyncio.run(require_banks(target))
    found = [bank for bank in every if bank.id.startswith(prefix) and (after is None or bank.id > after)]
    more = found[limit - 1].id if len(found) > limit else None
    rows = table("bank", "agent", "disposition, bias", "embedder", "created")
    for bank in found[:limit]:
        names = Text(one_line(bank.id)), Text(one_line(bank.profile.name))
        rows.add_row(*names, _character(bank.profile), Text(one_line(bank.embedder)), timestamp(bank.created_at))
    return Output({"banks": found[:limit], "next": more}, page(rows if found else "There are no banks.", more))


def _traits(disposition: Disposition) -> str:
    return ", ".join(f"{name} {value}" for name, value in disposition.model_dump().items())


def _character(profile: Profile) -> str:
    return f"{_traits(profile.disposition)}, {profile.bias:.2f}"


def _profile_table(profile: Profile) -> Table:
    return fields(
        ("name", one_line(profile.name)),
        ("disposition", _traits(profile.disposition)),
        ("bias", f"{profile.bias:.2f}"),
        ("background", one_line(profile.background, _WHOLE) or "(none)"),
    )


@command("vmemo bank create alice", "vmemo bank create tutor --name Ada --skepticism 5 --json", name="bank create")
def create_bank(bank: BankArgument, *, changes: ProfileChanges, target: DatabaseWithEmbedder) -> Output:
    """Create an empty bank, and the database if it is missing; options left out have their defaults."""
    given = Profile().changed(changes) if changes else None

    async def create(memory: Memory) -> Status:
        if await memory.exists():
            raise InvalidInput(f"Bank {bank!r} exists already. `vmemo bank set` changes its profile.")
        return await memory.run(CreateBankRequest(profile=given))

    run(replace(target, bank=bank), create, requires="nothing")
    return _bank_profile(bank, given or Profile(), f"Bank {one_line(bank)!r} created.")


def _bank_profile(bank: str, profile: Profile, heading: str) -> Output:
    return Output({"bank": bank, "profile": profile}, Group(Text(heading), _profile_table(profile)))


@command("vmemo bank show alice", "vmemo bank show alice --db team.db --json", name="bank show")
def show_bank(bank: BankArgument, *, target: DatabaseWithModel) -> Output:
    """Show a bank's profile, counts, queued jobs and processing errors."""

    async def read(memory: Memory) -> tuple[Profile, Status]:
        return await memory.profile(), await memory.status()

    profile, status = run(replace(target, bank=bank), read, embeds=False)
    value = {"bank": bank, "profile": profile, "status": status}
    return Output(value, Group(_profile_table(profile), "", status_table(status)))


@command(
    "vmemo bank set alice --skepticism 5 --literalism 2 --empathy 4 --bias 0.8",
    'vmemo bank set alice --name Ada --background "I teach history." --json',
    name="bank set",
)
def set_profile(bank: BankArgument, *, changes: ProfileChanges, target: OnDatabase) -> Output:
    """Change fields of a bank's profile; the former profile stays in its history (`vmemo profile --history`)."""
    if not changes:
        raise typer.BadParameter("Give at least one field of the profile to change, such as --skepticism 5.")
    profile = run(replace(target, bank=bank), lambda memory: _change(memory, changes), embeds=False)
    return _bank_profile(bank, profile, f"Profile of bank {one_line(bank)!r}:")


async def _change(memory: Memory, changes: Mapping[str, object], more_background: str | None = None) -> Profile:
    """Apply the changes and return the new profile. If the model fails, nothing changes."""
    stored = await memory.profile()
    stored.changed(changes)
    if more_background is not None:
        stored = await memory.add_background(more_background)
    new = stored.changed(changes)
    return stored if new == stored else await memory.profile(new)


@command("vmemo bank delete alice", "vmemo bank delete alice --yes --json", name="bank delete")
def delete_bank(bank: BankArgument, yes: Yes = False, *, target: OnDatabase) -> Output:
    """Delete a bank with all its messages, facts and profiles, permanently, from the database file too."""
    confirm_deletion(f"bank {one_line(bank)!r} and everything in it", yes=yes)
    return deleted(run(replace(target, bank=bank), lambda memory: memory.forget(bank=True), embeds=False))


@command(
    "vmemo profile",
    'vmemo profile --name Ada --skepticism 5 --bias 0.8 --background "I teach history."',
    'vmemo profile --add-background "You moved to Lisbon." --llm openai:gpt-5-mini',
    "vmemo profile --bank alice --history --json",
    resume="",
)
def profile(
    *,
    changes: ProfileChanges,
    add_background: Annotated[
        str | None,
        typer.Option("--add-background", metavar="TEXT", help="Merge this into the background; requires --llm."),
    ] = None,
    history: Annotated[bool, typer.Option("--history", help="Show former profiles too.")] = False,
    target: WithModel,
) -> Output:
    """Show the bank's name, disposition, bias and background, or change them."""
    if "background" in changes and add_background is not None:
        raise typer.BadParameter("Give either --background (replaces) or --add-background (merges), not both.")

    async def change(memory: Memory) -> tuple[Profile, list[FormerProfile]]:
        return await _change(memory, changes, add_background), await memory.former_profiles()

    # Only merging calls the model; everything else works without a key.
    now, former = run(target if add_background is not None else replace(target, llm=None), change, embeds=False)
    if history:
        return Output({"profile": now, "history": former}, _with_history(now, former))
    return Output({"profile": now}, _profile_table(now))


def _with_history(now: Profile, former: Sequence[FormerProfile]) -> RenderableType:
    rows = table("until", "name", "disposition, bias", "background and reason of the change")
    for each in former:
        background = with_id(one_line(each.profile.background, _WHOLE) or "(none)", one_line(each.reason, _WHOLE))
        rows.add_row(timestamp(each.until), Text(one_line(each.profile.name)), _character(each.profile), background)
    return Group(_profile_table(now), rows if former else "There are no former profiles.")


bank = CommandGroup(
    "bank",
    "List, create, show, configure and delete banks.",
    (list_banks, create_bank, show_bank, set_profile, delete_bank),
)
