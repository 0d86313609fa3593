"""`vmemo profile`: show and change the bank's profile."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer
from pydantic import JsonValue
from rich.console import Group, RenderableType
from rich.text import Text

from vmemo import Memory, Profile
from vmemo.cli.command import command
from vmemo.cli.options import DEFAULT_BANK, DEFAULT_DB, AsJson, BankName, Db, Model
from vmemo.cli.output import one_line, print_json, stdout, table, timestamp, with_id
from vmemo.cli.profile_options import (
    WHOLE,
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
from vmemo.cli.target import Target, run
from vmemo.models import FormerProfile


@command(
    "vmemo profile",
    'vmemo profile --name Ada --skepticism 5 --bias 0.8 --background "I teach history."',
    'vmemo profile --add-background "You moved to Lisbon." --llm openai:gpt-5-mini',
    "vmemo profile --bank alice --history --json",
    resume="",
)
def profile(  # noqa: PLR0913 - each is an option of the command line
    name: AgentName = None,
    skepticism: Skepticism = None,
    literalism: Literalism = None,
    empathy: Empathy = None,
    bias: Bias = None,
    background: NewBackground = None,
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
    now, former = run(target, lambda memory: _changed(memory, changes, add_background), embeds=False)
    if as_json:
        value: dict[str, JsonValue] = {"profile": now.model_dump(mode="json")}
        if history:
            value["history"] = [each.model_dump(mode="json") for each in former]
        print_json(value)
    else:
        stdout().print(_shown(now, former) if history else profile_table(now))


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


def _shown(now: Profile, former: Sequence[FormerProfile]) -> RenderableType:
    if not former:
        return Group(profile_table(now), "There are no former profiles.")
    rows = table("until", "name", "disposition, bias", "background and reason of the change")
    for each in former:
        was = each.profile
        character = Text(f"{traits(was.disposition)}, {was.bias:.2f}")
        background = with_id(one_line(was.background, WHOLE) or "(none)", one_line(each.reason, WHOLE))
        rows.add_row(timestamp(each.until), Text(one_line(was.name)), character, background)
    return Group(profile_table(now), rows)
