"""Options shared by several commands, and parsers of their values."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Annotated

import typer
from pydantic import JsonValue

from vmemo.models import Budget, base
from vmemo.settings import Settings

DEFAULT_DB = str(Settings.model_fields["url"].default)
DEFAULT_BANK = "default"
_COMMON = "Common options"


def parse_time(text: str) -> datetime:
    """Parse a date, which is its midnight in UTC, or a time with a time zone in ISO 8601."""
    try:
        time = base.parse_time(text)
    except ValueError as error:
        raise typer.BadParameter(f"{error}.") from error
    if time.utcoffset() is None:
        raise typer.BadParameter(f"{text!r} has no time zone. Write {text}Z for UTC, or add an offset such as +02:00.")
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
EmbedderName = Annotated[
    str | None,
    typer.Option(
        "--embedder",
        envvar="VMEMO_EMBEDDER",
        metavar="NAME",
        help="The embedder, such as small, openai:text-embedding-3-small, ollama:nomic-embed-text or "
        "http://host:8000/v1#name. Default: the packaged one.",
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
