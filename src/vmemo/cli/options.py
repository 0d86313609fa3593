"""Options shared by several commands, and parsers of their values."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, get_args

import typer
from pydantic import JsonValue

from vmemo.models import Budget, Interval, Network
from vmemo.models.requests import RecallOptions

NETWORKS: tuple[Network, ...] = get_args(Network)
DEFAULT_DB = "sqlite:///memory.db"
DEFAULT_BANK = "default"
_COMMON = "Common options"
_FILTERS = "Filters and time travel"


def parse_time(text: str) -> datetime:
    """Parse a time in ISO 8601 with a time zone."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise typer.BadParameter(f"{text!r} is not a time in ISO 8601, such as 2024-05-01T09:30Z.") from error
    if moment.utcoffset() is None:
        zoned = f"{text}Z" if "T" in text or " " in text else f"{text}T00:00Z"
        raise typer.BadParameter(f"{text!r} has no time zone. Write {zoned} for UTC, or add an offset such as +02:00.")
    return moment


def parse_network(name: str) -> Network:
    """Parse the name of a network."""
    for known in NETWORKS:
        if name == known:
            return known
    raise typer.BadParameter(f"{name!r} is not one of {', '.join(NETWORKS)}.", param_hint="--network")


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


def _moment(name: str, help: str) -> object:
    return typer.Option(name, parser=parse_time, metavar="TIME", help=help, rich_help_panel=_FILTERS)


AtTime = Annotated[
    datetime | None, _moment("--at-time", "Facts that were true at this time, such as 2024-05-01T00:00Z.")
]
KnownAt = Annotated[datetime | None, _moment("--known-at", "Facts that the bank believed at this time.")]
After = Annotated[datetime | None, _moment("--after", "Occurred at this time or later.")]
Before = Annotated[datetime | None, _moment("--before", "Occurred before this time.")]
IncludeExpired = Annotated[
    bool, typer.Option("--include-expired", help="Include closed facts.", rich_help_panel=_FILTERS)
]
Networks = Annotated[
    list[str] | None,
    typer.Option(
        "--network",
        metavar="|".join(NETWORKS),
        help="Only facts of this network; repeatable.",
        rich_help_panel=_FILTERS,
    ),
]
Tags = Annotated[
    list[str] | None,
    typer.Option("--tag", metavar="TAG", help="Only facts with this tag; repeatable.", rich_help_panel=_FILTERS),
]
Entities = Annotated[
    list[str] | None,
    typer.Option(
        "--entity", metavar="NAME", help="Only facts about this entity; repeatable.", rich_help_panel=_FILTERS
    ),
]
Metadata = Annotated[
    list[str] | None,
    typer.Option(
        "--meta", metavar="KEY=VALUE", help="Only facts with this metadata; repeatable.", rich_help_panel=_FILTERS
    ),
]


@dataclass(frozen=True, kw_only=True)
class FilterOptions:
    """The filters of recall and reflect."""

    at_time: datetime | None
    known_at: datetime | None
    after: datetime | None
    before: datetime | None
    include_expired: bool
    network: list[str] | None
    tag: list[str] | None
    entity: list[str] | None
    meta: list[str] | None

    def options(self) -> RecallOptions:
        """Return the filters as keyword arguments of the verbs."""
        options = RecallOptions(
            at_time=self.at_time,
            known_at=self.known_at,
            include_expired=self.include_expired,
            networks=[parse_network(name) for name in self.network or ()],
            tags=self.tag or (),
            entities=self.entity or (),
            metadata=parse_metadata(self.meta or ()),
        )
        if self.after is not None or self.before is not None:
            options["occurred"] = Interval(start=self.after, end=self.before)
        return options


def parse_budget(text: str) -> Budget:
    """Parse a budget: its name or a number of nodes."""
    if text in ("low", "mid", "high"):
        return text
    if not text.isdecimal():
        raise typer.BadParameter(f"{text!r} is not low, mid, high or a number of nodes.", param_hint="--budget")
    return int(text)
