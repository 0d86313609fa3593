"""`vmemo profile`: show and change the bank's profile."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import typer
from pydantic import JsonValue
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from vmemo import Memory, Profile
from vmemo.cli.command import command
from vmemo.cli.options import DEFAULT_BANK, DEFAULT_DB, AsJson, BankName, Db, Model
from vmemo.cli.output import one_line, print_json, stdout, table, timestamp, with_id
from vmemo.cli.target import Target, run
from vmemo.models import Disposition, FormerProfile

_WHOLE = 2000
"""Maximum characters of a background or reason in the output."""


def _trait(name: str, help: str) -> object:
    return typer.Option(name, min=1, max=5, help=help)


@dataclass(frozen=True, kw_only=True)
class ProfileOptions:
    """New values of profile fields; None keeps a field."""

    name: str | None
    skepticism: int | None
    literalism: int | None
    empathy: int | None
    bias: float | None
    background: str | None

    def applied(self, to: Profile) -> Profile:
        """Return the profile with these values applied."""
        traits = {"skepticism": self.skepticism, "literalism": self.literalism, "empathy": self.empathy}
        own = {"name": self.name, "bias": self.bias, "background": self.background}
        disposition = Disposition.of({**to.disposition.model_dump(), **_given(traits)})
        return Profile.of({**to.model_dump(), **_given(own), "disposition": disposition})


def _given(values: dict[str, int | None] | dict[str, str | float | None]) -> dict[str, str | float]:
    return {name: value for name, value in values.items() if value is not None}


@command(
    "vmemo profile",
    'vmemo profile --name Ada --skepticism 5 --bias 0.8 --background "I teach history."',
    'vmemo profile --add-background "You moved to Lisbon." --llm openai:gpt-5-mini',
    "vmemo profile --bank alice --history --json",
    resume="",
)
def profile(  # noqa: PLR0913 - each is an option of the command line
    name: Annotated[str | None, typer.Option("--name", metavar="NAME", help="The agent's name.")] = None,
    skepticism: Annotated[int | None, _trait("--skepticism", "1 (trusting) to 5 (skeptical).")] = None,
    literalism: Annotated[int | None, _trait("--literalism", "1 (reads between the lines) to 5 (literal).")] = None,
    empathy: Annotated[int | None, _trait("--empathy", "1 (detached) to 5 (empathetic).")] = None,
    bias: Annotated[
        float | None,
        typer.Option("--bias", min=0.0, max=1.0, help="How strongly the profile shapes answers; 0 is facts only."),
    ] = None,
    background: Annotated[
        str | None, typer.Option("--background", metavar="TEXT", help="Replace the background.")
    ] = None,
    add_background: Annotated[
        str | None,
        typer.Option("--add-background", metavar="TEXT", help="Merge this into the background; requires --llm."),
    ] = None,
    history: Annotated[bool, typer.Option("--history", help="Show former profiles too.")] = False,
    db: Db = DEFAULT_DB,
    bank: BankName = DEFAULT_BANK,
    llm: Model = None,
    as_json: AsJson = False,
) -> None:
    """Show the bank's name, disposition, bias and background, or change them."""
    if background is not None and add_background is not None:
        raise typer.BadParameter("Give either --background (replaces) or --add-background (merges), not both.")
    changes = ProfileOptions(
        name=name, skepticism=skepticism, literalism=literalism, empathy=empathy, bias=bias, background=background
    )
    # Only merging calls the model; everything else works without a key.
    target = Target(db, bank, None if add_background is None else llm)
    now, former = run(target, lambda memory: _changed(memory, changes, add_background))
    if as_json:
        value: dict[str, JsonValue] = {"profile": now.model_dump(mode="json")}
        if history:
            value["history"] = [each.model_dump(mode="json") for each in former]
        print_json(value)
    else:
        stdout().print(_shown(now, former) if history else _present(now))


async def _changed(memory: Memory, changes: ProfileOptions, snippet: str | None) -> tuple[Profile, list[FormerProfile]]:
    """Apply the changes; return the new profile and the former ones. If the model fails, nothing changes."""
    stored = await memory.profile()
    changes.applied(stored)
    if snippet is not None:
        stored = await memory.add_background(snippet)
    new = changes.applied(stored)
    if new != stored:
        new = await memory.profile(new)
    return new, await memory.former_profiles()


def _present(profile: Profile) -> Table:
    grid = Table.grid(padding=(0, 2))
    background = one_line(profile.background, _WHOLE) or "(none)"
    for name, value in (
        ("name", one_line(profile.name)),
        ("disposition", _traits(profile.disposition)),
        ("bias", f"{profile.bias:.2f}"),
        ("background", background),
    ):
        grid.add_row(Text(name, style="bold"), Text(value))
    return grid


def _traits(disposition: Disposition) -> str:
    return ", ".join(f"{name} {value}" for name, value in disposition.model_dump().items())


def _shown(now: Profile, former: Sequence[FormerProfile]) -> RenderableType:
    if not former:
        return Group(_present(now), "There are no former profiles.")
    rows = table("until", "name", "disposition, bias", "background and reason of the change")
    for each in former:
        was = each.profile
        character = Text(f"{_traits(was.disposition)}, {was.bias:.2f}")
        background = with_id(one_line(was.background, _WHOLE) or "(none)", one_line(each.reason, _WHOLE))
        rows.add_row(timestamp(each.until), Text(one_line(was.name)), character, background)
    return Group(_present(now), rows)
