"""`vmemo doctor`."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Annotated

import typer
from pydantic import JsonValue
from rich.text import Text

from vmemo.cli.checks import Check, answers, database, engine, installation
from vmemo.cli.command import command
from vmemo.cli.options import DEFAULT_DB, AsJson, Db, Model
from vmemo.cli.output import clipped, print_json, stdout
from vmemo.cli.target import Place

_STYLES = {"ok": "green", "warn": "yellow", "fail": "bold red"}


@command(
    "vmemo doctor",
    "vmemo doctor --db team.db --json",
    "vmemo doctor --llm openai:gpt-5-mini --llm-check",
    "VMEMO_URL=sqlite:///team.db vmemo doctor",
)
def doctor(
    llm_check: Annotated[
        bool, typer.Option("--llm-check", help="Ask the model once, which costs a few tokens.")
    ] = False,
    db: Db = DEFAULT_DB,
    llm: Model = None,
    as_json: AsJson = False,
) -> None:
    """Check the installation, the engine and a database with all its banks; finish what a forget left to do."""
    checks = asyncio.run(_all(Place(db, "", llm), llm_check))
    if as_json:
        print_json({"ok": _sound(checks), "checks": [_line(check) for check in checks]})
    else:
        for check in checks:
            state = (f"{check.state:>4}", _STYLES[check.state])
            stdout().print(Text.assemble(state, f"  {check.name:<12} {clipped(check.detail)}"), soft_wrap=True)
    if not _sound(checks):
        raise typer.Exit(1)


async def _all(place: Place, llm_check: bool) -> list[Check]:
    who, parts = engine(place)
    answering = [await answers(parts.llm)] if llm_check and parts.llm is not None else []
    return [*await installation(parts), who, *answering, *await database(place, parts)]


def _line(check: Check) -> JsonValue:
    return {"check": check.name, "state": check.state, "detail": check.detail}


def _sound(checks: Sequence[Check]) -> bool:
    return all(check.state != "fail" for check in checks)
