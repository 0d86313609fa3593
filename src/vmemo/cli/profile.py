"""`vmemo profile`: who the bank is, how that is changed, and who it was before."""

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
from vmemo.cli.output import clipped, moment, print_json, stdout, table, with_id
from vmemo.cli.target import Place, run
from vmemo.models import Disposition, FormerProfile

_WHOLE = 2000
"""Characters within which backgrounds and what was told are shown whole."""


def _trait(name: str, help: str) -> object:
    return typer.Option(name, min=1, max=5, help=help)


@dataclass(frozen=True, kw_only=True)
class Changes:
    """What is to be another in a profile; None stays."""

    name: str | None
    skepticism: int | None
    literalism: int | None
    empathy: int | None
    bias: float | None
    background: str | None

    def applied(self, to: Profile) -> Profile:
        """The profile with these changes."""
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
    name: Annotated[str | None, typer.Option("--name", metavar="NAME", help="What the agent is called.")] = None,
    skepticism: Annotated[int | None, _trait("--skepticism", "From 1, trusting, to 5, doubting.")] = None,
    literalism: Annotated[int | None, _trait("--literalism", "From 1, reading between the lines, to 5, exact.")] = None,
    empathy: Annotated[int | None, _trait("--empathy", "From 1, detached, to 5, caring.")] = None,
    bias: Annotated[
        float | None,
        typer.Option("--bias", min=0.0, max=1.0, help="How far character shapes answers; 0 is facts only."),
    ] = None,
    background: Annotated[
        str | None, typer.Option("--background", metavar="TEXT", help="A background in place of the present one.")
    ] = None,
    add_background: Annotated[
        str | None,
        typer.Option("--add-background", metavar="TEXT", help="Merge this into the background; needs --llm."),
    ] = None,
    history: Annotated[bool, typer.Option("--history", help="Show the profiles before, too.")] = False,
    db: Db = DEFAULT_DB,
    bank: BankName = DEFAULT_BANK,
    llm: Model = None,
    as_json: AsJson = False,
) -> None:
    """Show the bank's name, disposition, bias and background, or change them."""
    if background is not None and add_background is not None:
        raise typer.BadParameter("Give either --background, which replaces, or --add-background, which merges.")
    changes = Changes(
        name=name, skepticism=skepticism, literalism=literalism, empathy=empathy, bias=bias, background=background
    )
    # Only merging asks the model; all else needs no key.
    place = Place(db, bank, None if add_background is None else llm)
    now, former = run(place, lambda memory: _changed(memory, changes, add_background))
    if as_json:
        value: dict[str, JsonValue] = {"profile": now.model_dump(mode="json")}
        if history:
            value["history"] = [each.model_dump(mode="json") for each in former]
        print_json(value)
    else:
        stdout().print(_shown(now, former) if history else _present(now))


async def _changed(memory: Memory, changes: Changes, snippet: str | None) -> tuple[Profile, list[FormerProfile]]:
    """The profile after its changes, and those before it. A model that fails leaves all as it was."""
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
    background = clipped(profile.background, _WHOLE) or "(none)"
    for name, value in (
        ("name", clipped(profile.name)),
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
        return Group(_present(now), "It has never been another.")
    rows = table("until", "name", "disposition, bias", "background, and what was told then")
    for each in former:
        was = each.profile
        character = Text(f"{_traits(was.disposition)}, {was.bias:.2f}")
        told = with_id(clipped(was.background, _WHOLE) or "(none)", clipped(each.reason, _WHOLE))
        rows.add_row(moment(each.until), Text(clipped(was.name)), character, told)
    return Group(_present(now), rows)
