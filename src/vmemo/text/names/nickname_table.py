"""Short and full forms of given names, from the table of the package `nicknames`.

The package itself is not imported, because it reads its own metadata at import.
"""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from vmemo.errors import MissingExtra

NameTable = Mapping[str, frozenset[str]]


@cache
def _pairs() -> tuple[tuple[str, str], ...]:
    """Return pairs of a full name and one of its short forms."""
    found = find_spec("nicknames")
    if found is None or not found.submodule_search_locations:
        raise MissingExtra("The package `nicknames` is not installed. Run: pip install nicknames")
    with (Path(found.submodule_search_locations[0]) / "names.csv").open(encoding="utf-8", newline="") as file:
        return tuple((row["name1"], row["name2"]) for row in csv.DictReader(file))


@cache
def _short_forms() -> NameTable:
    return _grouped([(full, short) for full, short in _pairs()])


@cache
def _full_forms() -> NameTable:
    return _grouped([(short, full) for full, short in _pairs()])


def _grouped(pairs: list[tuple[str, str]]) -> NameTable:
    groups: dict[str, set[str]] = defaultdict(set)
    for key, value in pairs:
        groups[key].add(value)
    return {key: frozenset(values) for key, values in groups.items()}


def short_forms(name: str) -> frozenset[str]:
    """Return the short forms of a given name."""
    return _short_forms().get(name, frozenset())


def full_forms(name: str) -> frozenset[str]:
    """Return the full forms of a given name."""
    return _full_forms().get(name, frozenset())


@cache
def all_names() -> frozenset[str]:
    """Return every given name of the table, short or full."""
    return frozenset(name for pair in _pairs() for name in pair)
