"""Options shared by several commands, and parsers of their values."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Annotated, Any, get_args, get_origin

import typer
from annotated_types import Le
from pydantic import AwareDatetime, BaseModel, JsonValue
from pydantic.fields import FieldInfo

from vmemo.cli.target import Target
from vmemo.errors import InvalidInput
from vmemo.models import Budget, Interval, Network, records
from vmemo.models.requests import RecallFilters, RecallOptions
from vmemo.settings import Settings

_FILTER_PANEL = "Filters and time travel"


def parse_time(text: str) -> datetime:
    """Parse a date, which is its midnight in UTC, or a time with a time zone in ISO 8601."""
    try:
        time = records.parse_time(text)
    except ValueError as error:
        raise typer.BadParameter(f"{error}.") from error
    if time.utcoffset() is None:
        raise typer.BadParameter(f"{text!r} has no time zone. Write {text}Z for UTC, or add an offset such as +02:00.")
    return time


def time_option(help: str, *flags: str) -> Any:
    return typer.Option(*flags, parser=parse_time, metavar="TIME", help=help)


def parse_metadata(given: Sequence[str]) -> dict[str, JsonValue]:
    """Parse metadata from KEY=VALUE; a value that is not valid JSON is taken as text."""
    read: dict[str, JsonValue] = {}
    for pair in given:
        key, found, value = pair.partition("=")
        if not (key and found):
            raise typer.BadParameter(f"{pair!r} is not of the form KEY=VALUE.", param_hint="--meta")
        try:
            read[key] = json.loads(value)
        except ValueError:
            read[key] = value
    return read


def parse_budget(text: str) -> Budget:
    """Parse a budget: its name or a number of nodes."""
    if text in ("low", "mid", "high"):
        return text
    if not text.isdecimal():
        raise typer.BadParameter(f"{text!r} is not low, mid, high or a number of nodes.", param_hint="--budget")
    return int(text)


_DB = "The database: a URL such as sqlite:///memory.db, or a file path."
_LLM = "The language model, such as openai:gpt-5-mini or http://host:8000/v1#name. Default: the local engine."
_EMBEDDER = (
    "The embedder, such as deep, openai:text-embedding-3-small, ollama:nomic-embed-text or http://host:8000/v1#name. "
    "Default: the packaged one."
)


def _common(flag: str, help: str, metavar: str | None = None, variable: str | None = None) -> Any:
    return typer.Option(flag, help=help, metavar=metavar, envvar=variable, rich_help_panel="Common options")


BankName = Annotated[str, _common("--bank", "The bank.", "NAME")]
BankNames = Annotated[
    list[str] | None,
    _common("--bank", "The bank. Repeatable: several are searched together. Default: default.", "NAME"),
]
EmbedderName = Annotated[str | None, _common("--embedder", _EMBEDDER, "NAME", "VMEMO_EMBEDDER")]
Model = Annotated[str | None, _common("--llm", _LLM, "MODEL", "VMEMO_LLM")]
AsJson = Annotated[bool, _common("--json", "Print only JSON on stdout.")]
Budgeted = Annotated[str, typer.Option("--budget", metavar="low|mid|high|N", help="How many candidates to explore.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]
SomeBanks = Annotated[list[str] | None, typer.Option("--bank", metavar="NAME", help="Only this bank; repeatable.")]
MaintainEvery = Annotated[
    float, typer.Option(min=0.0, metavar="HOURS", help="Hours between maintenance runs; 0 disables them.")
]


@dataclass(frozen=True)
class OptionGroup:
    """Options that a command receives as one value, which `build` makes of them."""

    options: Mapping[str, inspect.Parameter]
    build: Callable[..., object]


def option_group(annotation: object) -> OptionGroup | None:
    named: tuple[object, ...] = getattr(annotation, "__metadata__", ())
    return next((each for each in named if isinstance(each, OptionGroup)), None)


def option(name: str, annotation: object, default: object = None) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


_TARGET_OPTIONS = {
    "db": option(
        "db", Annotated[str, _common("--db", _DB, "URL|FILE", "VMEMO_URL")], str(Settings.model_fields["url"].default)
    ),
    "bank": option("bank", BankName, "default"),
    "banks": option("banks", BankNames),
    "llm": option("llm", Model),
    "embedder": option("embedder", EmbedderName),
    "as_json": option("as_json", AsJson, default=False),
}


def _target_options(*names: str) -> OptionGroup:
    """Return the options of a target, and --json, which every command with a target has."""

    def build(as_json: bool, banks: Sequence[str] | None = None, **options: Any) -> Target:
        if banks:
            options |= {"bank": banks[0], "more_banks": tuple(dict.fromkeys(banks))[1:]}
        return Target(**options)

    return OptionGroup({name: _TARGET_OPTIONS[name] for name in (*names, "as_json")}, build)


OnDatabase = Annotated[Target, _target_options("db")]
OnBank = Annotated[Target, _target_options("db", "bank")]
OnBanks = Annotated[Target, _target_options("db", "banks")]
BanksWithEmbedder = Annotated[Target, _target_options("db", "banks", "embedder")]
WithModel = Annotated[Target, _target_options("db", "bank", "llm")]
WithEmbedder = Annotated[Target, _target_options("db", "bank", "embedder")]
WithModels = Annotated[Target, _target_options("db", "bank", "llm", "embedder")]
DatabaseWithModel = Annotated[Target, _target_options("db", "llm")]
DatabaseWithEmbedder = Annotated[Target, _target_options("db", "embedder")]
DatabaseWithModels = Annotated[Target, _target_options("db", "llm", "embedder")]

_REPEATED = {
    "networks": ("--network", "|".join(get_args(Network))),
    "tags": ("--tag", "TAG"),
    "entities": ("--entity", "NAME"),
    "metadata": ("--meta", "KEY=VALUE"),
}
"""Filters that can be given several times, by field, with the form of their values; other lists are of names."""


def request_options(
    model: type[BaseModel], *names: str, panel: str | None = None, optional: bool = False
) -> dict[str, inspect.Parameter]:
    """Return options for fields of a request, by name, with their help and limits; `optional` ones have no default."""
    fields = ((name, model.model_fields[name]) for name in names)
    found = {each.name: each for name, field in fields for each in _options(name, field, panel)}
    return {name: each.replace(default=None) for name, each in found.items()} if optional else found


def _options(name: str, field: FieldInfo, panel: str | None) -> list[inspect.Parameter]:
    if name == "occurred":
        return [
            _option("after", datetime, "--after", panel, help="Occurred at this time or later.", parser=parse_time),
            _option("before", datetime, "--before", panel, help="Occurred before this time.", parser=parse_time),
        ]
    flag, kinds, about = f"--{name.replace('_', '-')}", _types(field.annotation), field.description or ""
    help = about if about.endswith(".") else f"{about[:1].upper()}{about[1:]}."
    if name in _REPEATED or get_origin(field.annotation) is tuple:
        flag, metavar = _REPEATED.get(name, (flag.removesuffix("s"), "NAME"))
        return [_option(name, list[str], flag, panel, help=f"{help} Repeatable.", metavar=metavar)]
    if bool in kinds:
        return [_option(name, bool, flag, panel, default=field.default, help=help)]
    if datetime in kinds:
        return [_option(name, datetime, flag, panel, help=help, parser=parse_time)]
    if timedelta in kinds:
        return [_option(name, str, flag, panel, help=help, metavar="DURATION")]
    if float in kinds:
        return [_option(name, float, flag, panel, help=help, min=0, max=1)]
    if int in kinds:
        most = next((each.le for each in field.metadata if isinstance(each, Le)), None)
        return [_option(name, int, flag, panel, default=field.default, help=help, min=1, max=most)]
    if str in kinds:
        return [_option(name, str, flag, panel, help=help, metavar="TEXT" if name == "background" else "NAME")]
    return [_option(name, field.annotation, flag, panel, help=help)]


def _types(annotation: object) -> set[object]:
    inner = get_args(annotation)
    own = {AwareDatetime: datetime}.get(annotation, annotation) if isinstance(annotation, type) else annotation
    return {own}.union(*map(_types, inner[:1] if get_origin(annotation) is Annotated else inner))


def _option(
    name: str, kind: Any, flag: str, panel: str | None, *, default: object = None, **settings: Any
) -> inspect.Parameter:
    if settings.get("parser") is parse_time:
        settings["metavar"] = "TIME"
    declared = typer.Option(flag, rich_help_panel=panel, **settings)
    optional = kind if default is not None else kind | None
    return option(name, Annotated[optional, declared], default)


def _read_filters(**values: Any) -> RecallOptions:
    """Return the given filter options as keyword arguments of the verbs, validated."""
    given: dict[str, object] = {name: value for name, value in values.items() if value is not None and value != []}
    after, before = given.pop("after", None), given.pop("before", None)
    try:
        if after is not None or before is not None:
            given["occurred"] = Interval.of({"start": after, "end": before})
        if metadata := values.get("metadata"):
            given["metadata"] = parse_metadata(metadata)
        filters = RecallFilters.of(given)
    except InvalidInput as error:
        raise typer.BadParameter(str(error)) from error
    validated: Any = {name: getattr(filters, name) for name in given}
    return validated


# Only `recall` explains.
_FILTERS = request_options(
    RecallFilters, *(name for name in RecallFilters.model_fields if name != "explain"), panel=_FILTER_PANEL
)
Filters = Annotated[RecallOptions, OptionGroup(_FILTERS, _read_filters)]
"""The filters of recall and reflect.

A field that is added to `RecallFilters` becomes an option without a change here, unless it has a type of its own.
"""
