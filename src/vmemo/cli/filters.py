"""Options for the filters of recall and reflect, derived from their request model.

A field that is added to `RecallFilters` becomes an option without a change here, unless it has a type of its own.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from functools import wraps
from typing import Annotated, Any, TypeVar, get_args, get_origin

import typer
from pydantic import AwareDatetime
from pydantic.fields import FieldInfo

from vmemo.cli.options import parse_metadata, parse_time
from vmemo.errors import InvalidInput
from vmemo.models import Interval, Network
from vmemo.models.requests import RecallFilters, RecallOptions

R = TypeVar("R")
_PANEL = "Filters and time travel"
_REPEATED = {
    "networks": ("--network", "|".join(get_args(Network))),
    "tags": ("--tag", "TAG"),
    "entities": ("--entity", "NAME"),
    "metadata": ("--meta", "KEY=VALUE"),
}
"""Options that can be given several times, by field, with the form of their values."""
_OWN_OPTION = frozenset({"explain", "now"})
"""Fields that commands declare themselves, because not every command has them or their help differs."""


def takes_filters(run: Callable[..., R]) -> Callable[..., R]:
    """Give a command an option for every field of `RecallFilters`; it receives them as its parameter `filters`."""
    signature = inspect.signature(run, eval_str=True)
    options = [option for name in filter_fields() for option in _options(name, RecallFilters.model_fields[name])]
    added = {option.name for option in options}

    @wraps(run)
    def with_filters(**given: Any) -> R:
        values = {name: value for name, value in given.items() if name in added}
        rest = {name: value for name, value in given.items() if name not in added}
        return run(**rest, filters=_filters(values))

    kept = [each for each in signature.parameters.values() if each.name != "filters"]
    parameters = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in (*kept, *options)]
    with_filters.__dict__["__signature__"] = signature.replace(parameters=parameters)
    with_filters.__annotations__ = {each.name: each.annotation for each in parameters}
    return with_filters


def filter_fields() -> list[str]:
    """Return the fields of `RecallFilters` that become options."""
    return [name for name in RecallFilters.model_fields if name not in _OWN_OPTION]


def _options(name: str, field: FieldInfo) -> list[inspect.Parameter]:
    if name == "occurred":
        return [
            _parameter("after", datetime, "--after", help="Occurred at this time or later.", parser=parse_time),
            _parameter("before", datetime, "--before", help="Occurred before this time.", parser=parse_time),
        ]
    help = field.description or ""
    if name in _REPEATED:
        flag, metavar = _REPEATED[name]
        return [_parameter(name, list[str], flag, help=f"{help} Repeatable.", metavar=metavar)]
    return [_single(name, field.annotation, f"--{name.replace('_', '-')}", help)]


def _single(name: str, annotation: object, flag: str, help: str) -> inspect.Parameter:
    kinds = _types(annotation)
    if bool in kinds:
        return _parameter(name, bool, flag, default=False, help=help)
    if datetime in kinds:
        return _parameter(name, datetime, flag, help=help, parser=parse_time)
    if timedelta in kinds:
        return _parameter(name, str, flag, help=help, metavar="DURATION")
    if float in kinds:
        return _parameter(name, float, flag, help=help, min=0, max=1)
    return _parameter(name, annotation, flag, help=help)


def _types(annotation: object) -> set[object]:
    """Return the plain types within an annotation."""
    inner = get_args(annotation)
    own = {AwareDatetime: datetime}.get(annotation, annotation) if isinstance(annotation, type) else annotation
    return {own}.union(*map(_types, inner[:1] if get_origin(annotation) is Annotated else inner))


def _parameter(name: str, kind: Any, flag: str, *, default: object = None, **settings: Any) -> inspect.Parameter:
    if settings.get("parser") is parse_time:
        settings["metavar"] = "TIME"
    option = typer.Option(flag, rich_help_panel=_PANEL, **settings)
    optional = kind if default is not None else kind | None
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[optional, option]
    )


def _filters(values: Mapping[str, Any]) -> RecallOptions:
    """Return the given options as keyword arguments of the verbs, validated."""
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
