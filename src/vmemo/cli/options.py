"""Options shared by several commands, and parsers of their values."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Annotated

import typer
from pydantic import JsonValue

from vmemo.models import Budget

DEFAULT_DB = "sqlite:///memory.db"
DEFAULT_BANK = "default"
_COMMON = "Common options"


def parse_time(text: str) -> datetime:
    """Parse a time in ISO 8601 with a time zone."""
    try:
        time = datetime.fromisoformat(text)
    except ValueError as error:
        raise typer.BadParameter(f"{text!r} is not a time in ISO 8601, such as 2024-05-01T09:30Z.") from error
    if time.utcoffset() is None:
        zoned = f"{text}Z" if "T" in text or " " in text else f"{text}T00:00Z"
        raise typer.BadParameter(f"{text!r} has no time zone. Write {zoned} for UTC, or add an offset such as +02:00.")
    return time


def parse_metadata(given: Sequence[str]) -> dict[str, JsonValue]:
    """Parse metadata from KEY=VALUE; a value that is not valid JSON is taken as text."""
    read: dict[str, JsonValue] = {}
    for pair in given:
        key, found, value = pair.partition("=")
        if not (key and found):
            raise typer.BadParameter(f"{pair!r} is not of the form KEY=VALUE.", param_hint="--meta")
        read[key] = _value(value)
    return read


def _value(text: str) -> JsonValue:
    try:
        value: JsonValue = json.loads(text)
    except ValueError:
        return text
    return value


Db = Annotated[
    str,
    typer.Option(
        "--db",
        envvar="VMEMO_URL",
        metavar="URL|FILE",
        help="The database: a URL such as sqlite:///memory.db, or a file path.",
        rich_help_panel=_COMMON,
    ),
]
BankName = Annotated[str, typer.Option("--bank", metavar="NAME", help="The bank.", rich_help_panel=_COMMON)]
Model = Annotated[
    str | None,
    typer.Option(
        "--llm",
        envvar="VMEMO_LLM",
        metavar="MODEL",
        help="The language model, such as openai:gpt-5-mini or http://host:8000/v1#name. Default: the local engine.",
        rich_help_panel=_COMMON,
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print only JSON on stdout.", rich_help_panel=_COMMON)]
Budgeted = Annotated[str, typer.Option("--budget", metavar="low|mid|high|N", help="How many candidates to explore.")]


def parse_budget(text: str) -> Budget:
    """Parse a budget: its name or a number of nodes."""
    if text in ("low", "mid", "high"):
        return text
    if not text.isdecimal():
        raise typer.BadParameter(f"{text!r} is not low, mid, high or a number of nodes.", param_hint="--budget")
    return int(text)
