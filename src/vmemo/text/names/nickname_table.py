"""Short and full forms of given names, from the table that the package `nicknames` carries.

Only its table is used: the package itself reads its own metadata when imported, and importing vmemo reads nothing.
"""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from vmemo.errors import MissingExtra

Names = Mapping[str, frozenset[str]]


@cache
def _pairs() -> tuple[tuple[str, str], ...]:
    """Full names with each of their short forms."""
    found = find_spec("nicknames")
    if found is None or not found.submodule_search_locations:
        raise MissingExtra("The package `nicknames` is missing. Install it with: pip install nicknames")
    with (Path(found.submodule_search_locations[0]) / "names.csv").open(encoding="utf-8", newline="") as file:
        return tuple((row["name1"], row["name2"]) for row in csv.DictReader(file))


@cache
def _short_forms() -> Names:
    return _grouped([(full, short) for full, short in _pairs()])


@cache
def _full_forms() -> Names:
    return _grouped([(short, full) for full, short in _pairs()])


def _grouped(pairs: list[tuple[str, str]]) -> Names:
    groups: dict[str, set[str]] = defaultdict(set)
    for key, value in pairs:
        groups[key].add(value)
    return {key: frozenset(values) for key, values in groups.items()}


def short_forms(name: str) -> frozenset[str]:
    """What a given name is shortened to."""
    return _short_forms().get(name, frozenset())


def full_forms(name: str) -> frozenset[str]:
    """What a given name is short for."""
    return _full_forms().get(name, frozenset())


@cache
def all_names() -> frozenset[str]:
    """Every given name of the table, short and full."""
    return frozenset(name for pair in _pairs() for name in pair)
