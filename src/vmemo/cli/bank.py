"""`vmemo bank`: list, create, show, configure and delete banks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer
from rich.console import Group
from rich.table import Table
from rich.text import Text

from vmemo import Memory, Profile
from vmemo.cli.command import command
from vmemo.cli.forget import confirm_deletion, show_deleted
from vmemo.cli.options import DEFAULT_DB, AsJson, Db, EmbedderName, Model
from vmemo.cli.output import one_line, plain, print_json, stdout, table, timestamp
from vmemo.cli.profile_options import (
    AgentName,
    Bias,
    Empathy,
    Literalism,
    NewBackground,
    ProfileOptions,
    Skepticism,
    profile_table,
    traits,
)
from vmemo.cli.tables import status_table
from vmemo.cli.target import Target, run
from vmemo.errors import InvalidInput
from vmemo.models import Bank
from vmemo.models.requests import CreateBankRequest
from vmemo.models.results import Status

BankArgument = Annotated[str, typer.Argument(metavar="BANK", help="The bank's name.")]
_UNCHANGED = ProfileOptions(name=None, skepticism=None, literalism=None, empathy=None, bias=None, background=None)


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
    db: Db = DEFAULT_DB,
    as_json: AsJson = False,
) -> None:
    """List the banks of a database with their profiles, in the order of their names."""
    every = run(Target(db, "default"), lambda memory: memory.lookup.banks(), requires="database")
    found = [bank for bank in every if bank.id.startswith(prefix) and (after is None or bank.id > after)]
    page = found[:limit]
    more = page[-1].id if len(found) > limit else None
    if as_json:
        print_json({"banks": [bank.model_dump(mode="json") for bank in page], "next": more})
        return
    stdout().print(_bank_table(page) if page else "There are no banks.")
    if more:
        stdout().print(Text(f"For the next page add --after {plain(more)}", style="dim"))


def _bank_table(banks: Sequence[Bank]) -> Table:
    rows = table("bank", "agent", "disposition, bias", "embedder", "created")
    for bank in banks:
        profile = bank.profile
        character = f"{traits(profile.disposition)}, {profile.bias:.2f}"
        embedder = Text(one_line(bank.embedder))
        names = Text(one_line(bank.id)), Text(one_line(profile.name))
        rows.add_row(*names, character, embedder, timestamp(bank.created_at))
    return rows


@command("vmemo bank create alice", "vmemo bank create tutor --name Ada --skepticism 5 --json", name="bank create")
def create(  # noqa: PLR0913 - each is an option of the command line
    bank: BankArgument,
    name: AgentName = None,
    skepticism: Skepticism = None,
    literalism: Literalism = None,
    empathy: Empathy = None,
    bias: Bias = None,
    background: NewBackground = None,
    db: Db = DEFAULT_DB,
    embedder: EmbedderName = None,
    as_json: AsJson = False,
) -> None:
    """Create an empty bank, and the database if it is missing; options left out have their defaults."""
    options = ProfileOptions(
        name=name, skepticism=skepticism, literalism=literalism, empathy=empathy, bias=bias, background=background
    )
    given = None if options == _UNCHANGED else options.applied(Profile())
    run(Target(db, bank, embedder=embedder), lambda memory: _create(memory, bank, given), requires="nothing")
    _show_profile(bank, given or Profile(), f"Bank {one_line(bank)!r} created.", as_json=as_json)


async def _create(memory: Memory, bank: str, profile: Profile | None) -> Status:
    if await memory.exists():
        raise InvalidInput(f"Bank {bank!r} exists already. `vmemo bank set` changes its profile.")
    return await memory.run(CreateBankRequest(profile=profile))


@command("vmemo bank show alice", "vmemo bank show alice --db team.db --json", name="bank show")
def show(bank: BankArgument, db: Db = DEFAULT_DB, llm: Model = None, as_json: AsJson = False) -> None:
    """Show a bank's profile, counts, queued jobs and processing errors."""
    profile, status = run(Target(db, bank, llm), _read, embeds=False)
    if as_json:
        shown = {"profile": profile.model_dump(mode="json"), "status": status.model_dump(mode="json")}
        print_json({"bank": bank, **shown})
    else:
        stdout().print(Group(profile_table(profile), "", status_table(status)))


async def _read(memory: Memory) -> tuple[Profile, Status]:
    return await memory.profile(), await memory.status()


@command(
    "vmemo bank set alice --skepticism 5 --literalism 2 --empathy 4 --bias 0.8",
    'vmemo bank set alice --name Ada --background "I teach history." --json',
    name="bank set",
)
def set_profile(  # noqa: PLR0913 - each is an option of the command line
    bank: BankArgument,
    name: AgentName = None,
    skepticism: Skepticism = None,
    literalism: Literalism = None,
    empathy: Empathy = None,
    bias: Bias = None,
    background: NewBackground = None,
    db: Db = DEFAULT_DB,
    as_json: AsJson = False,
) -> None:
    """Change fields of a bank's profile; the former profile stays in its history (`vmemo profile --history`)."""
    changes = ProfileOptions(
        name=name, skepticism=skepticism, literalism=literalism, empathy=empathy, bias=bias, background=background
    )
    if changes == _UNCHANGED:
        raise typer.BadParameter("Give at least one field of the profile to change, such as --skepticism 5.")
    profile = run(Target(db, bank), lambda memory: _change(memory, changes), embeds=False)
    _show_profile(bank, profile, f"Profile of bank {one_line(bank)!r}:", as_json=as_json)


async def _change(memory: Memory, changes: ProfileOptions) -> Profile:
    stored = await memory.profile()
    new = changes.applied(stored)
    return stored if new == stored else await memory.profile(new)


@command("vmemo bank delete alice", "vmemo bank delete alice --yes --json", name="bank delete")
def delete(
    bank: BankArgument,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
    db: Db = DEFAULT_DB,
    as_json: AsJson = False,
) -> None:
    """Delete a bank with all its messages, facts and profiles, permanently, from the database file too."""
    confirm_deletion(f"bank {one_line(bank)!r} and everything in it", yes=yes)
    show_deleted(run(Target(db, bank), lambda memory: memory.forget(bank=True), embeds=False), as_json=as_json)


def _show_profile(bank: str, profile: Profile, heading: str, *, as_json: bool) -> None:
    if as_json:
        print_json({"bank": bank, "profile": profile.model_dump(mode="json")})
    else:
        stdout().print(Group(Text(heading), profile_table(profile)))
