"""`vmemo doctor`."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Annotated

import typer
from pydantic import JsonValue
from rich.text import Text

from vmemo.cli.checks import Check, database, embedder_answers, installation, model_answers, models
from vmemo.cli.command import command
from vmemo.cli.options import DEFAULT_DB, AsJson, Db, EmbedderName, Model
from vmemo.cli.output import one_line, print_json, stdout
from vmemo.cli.target import Target

_STYLES = {"ok": "green", "warn": "yellow", "fail": "bold red"}


@command(
    "vmemo doctor",
    "vmemo doctor --db team.db --json",
    "vmemo doctor --llm openai:gpt-5-mini --llm-check",
    "vmemo doctor --embedder ollama:nomic-embed-text --embedder-check",
    "VMEMO_URL=sqlite:///team.db vmemo doctor",
)
def doctor(
    llm_check: Annotated[bool, typer.Option("--llm-check", help="Send one small request to the model.")] = False,
    embedder_check: Annotated[
        bool, typer.Option("--embedder-check", help="Send one short text to a named embedder.")
    ] = False,
    db: Db = DEFAULT_DB,
    llm: Model = None,
    embedder: EmbedderName = None,
    as_json: AsJson = False,
) -> None:
    """Check the installation, the engine and the database; complete an interrupted forget."""
    checks = asyncio.run(_all(Target(db, "", llm, embedder), llm_check, embedder_check))
    if as_json:
        print_json({"ok": _sound(checks), "checks": [_line(check) for check in checks]})
    else:
        for check in checks:
            state = (f"{check.state:>4}", _STYLES[check.state])
            stdout().print(Text.assemble(state, f"  {check.name:<12} {one_line(check.detail)}"), soft_wrap=True)
    if not _sound(checks):
        raise typer.Exit(1)


async def _all(target: Target, llm_check: bool, embedder_check: bool) -> list[Check]:
    configured, context = models(target)
    answering = [await model_answers(context.llm)] if llm_check and context.llm is not None else []
    if embedder_check and context.owns_embedder:
        answering.append(await embedder_answers(context.embedder))
    return [*await installation(context), *configured, *answering, *await database(target, context)]


def _line(check: Check) -> JsonValue:
    return {"check": check.name, "state": check.state, "detail": check.detail}


def _sound(checks: Sequence[Check]) -> bool:
    return all(check.state != "fail" for check in checks)
