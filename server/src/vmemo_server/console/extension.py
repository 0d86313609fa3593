"""Pages that other distributions add to the console, by the entry point group `vmemo.console`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import entry_points

from fastapi import APIRouter

from vmemo_server.dependencies import AppState

GROUP = "vmemo.console"


@dataclass(frozen=True, kw_only=True)
class ConsoleExtension:
    """Pages of another distribution; they are shown only if it is installed."""

    package: str
    """A package with the folders `templates` and `static`."""
    router: APIRouter
    links: Sequence[tuple[str, str]]
    """Pages of a bank, below its address, and their names."""
    server_links: Sequence[tuple[str, str]] = ()
    """Pages for administrators, below the console's address."""
    start: Callable[[AppState], None] = lambda state: None
    """Called once for each server."""


def packages() -> tuple[str, ...]:
    """Return the packages with the templates and static files of the console."""
    return ("vmemo_server.console", *(each.package for each in extensions()))


@cache
def extensions() -> tuple[ConsoleExtension, ...]:
    """Return the installed extensions."""
    return tuple(point.load() for point in entry_points(group=GROUP))
