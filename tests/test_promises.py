"""The list of promises is complete, and every test that it names exists."""

from __future__ import annotations

import ast
import os
import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from vmemo_conformance import StoreConformance

ROOT = Path(__file__).parent.parent
CHAPTERS = {"D": 8, "R": 17, "C": 16, "F": 8, "L": 8, "S": 7, "P": 5, "B": 2, "O": 10, "Y": 6, "E": 5}
"""Number of promises by the letter of their chapter."""
CONDITIONS = {"in_browser"}
"""Decorators that skip a test where something is missing."""
_ROW = re.compile(r"^\| (?P<number>[A-Z]\d+) \| (?P<text>.+?) \| (?P<state>kept|partly|planned) \|(?P<tests>.*)\|$")
_FUNCTION = re.compile(r"^ *(?:async )?def (\w+)\(", re.MULTILINE)
_TEST = re.compile(r"`([^`]+)`")


class Promise(NamedTuple):
    """A row of docs/promises.md."""

    number: str
    text: str
    state: str
    tests: list[str]


def listed_promises() -> list[Promise]:
    lines = (ROOT / "docs" / "promises.md").read_text(encoding="utf-8").splitlines()
    rows = [match for line in lines if (match := _ROW.match(line))]
    return [Promise(row["number"], row["text"], row["state"], _TEST.findall(row["tests"])) for row in rows]


@cache
def names_of(file: Path) -> frozenset[str]:
    """Return the names of all functions of a file, which is read without parsing it."""
    return frozenset(_FUNCTION.findall(file.read_text(encoding="utf-8")))


@cache
def functions(file: Path) -> dict[str, ast.FunctionDef | ast.AsyncFunctionDef]:
    tree = ast.parse(file.read_text(encoding="utf-8"))
    return {node.name: node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


def runs_everywhere(test: str) -> bool:
    """Return True if the test has no condition under which it is skipped."""
    path, _, function = test.partition("::")
    decorators = [ast.unparse(each) for each in functions(ROOT / path)[function].decorator_list]
    return not any("skip" in each or each in CONDITIONS for each in decorators)


def test_every_promise_is_listed_once() -> None:
    expected = [f"{letter}{number}" for letter, last in CHAPTERS.items() for number in range(1, last + 1)]
    assert sorted(promise.number for promise in listed_promises()) == sorted(expected)


def test_the_list_has_the_numbers_of_the_specification() -> None:
    folder = Path(os.environ.get("VMEMO_DATA", ROOT.parent / "shared" / "data")).parent
    if not (folder / "SPEC.md").exists():
        pytest.skip("SPEC.md is not next to this checkout")
    text = (folder / "SPEC.md").read_text(encoding="utf-8")
    numbers = set(re.findall(r"^- \*\*([A-Z]\d+)\*\*", text, re.MULTILINE))
    assert {promise.number for promise in listed_promises()} == numbers


def test_kept_and_partly_kept_promises_name_tests_and_planned_ones_do_not() -> None:
    wrong = [each.number for each in listed_promises() if bool(each.tests) == (each.state == "planned")]
    assert wrong == []


def test_a_promise_names_what_is_missing_if_and_only_if_it_is_partly_kept() -> None:
    wrong = [each.number for each in listed_promises() if ("Missing:" in each.text) != (each.state == "partly")]
    assert wrong == []


def test_every_named_test_exists() -> None:
    missing: list[str] = []
    for promise in listed_promises():
        for name in promise.tests:
            path, _, function = name.partition("::")
            file = ROOT / path
            if not file.exists() or function not in names_of(file):
                missing.append(f"{promise.number}: {name}")
    assert missing == []


def test_every_named_test_is_collected() -> None:
    """A test of the conformance suite runs only as a part of StoreConformance, which both stores are tested with."""
    names = {name for promise in listed_promises() for name in promise.tests}
    for path, _, function in (name.partition("::") for name in names):
        assert function.startswith("test_")
        if path.startswith("conformance/"):
            assert hasattr(StoreConformance, function), function
        else:
            assert Path(path).name.startswith("test_"), path


def test_every_promise_has_a_test_that_is_never_skipped() -> None:
    wrong = [each.number for each in listed_promises() if each.tests and not any(map(runs_everywhere, each.tests))]
    assert wrong == []


def test_promises_are_listed_in_order_and_name_each_test_once() -> None:
    promises = listed_promises()
    for letter in CHAPTERS:
        numbers = [int(each.number[1:]) for each in promises if each.number[0] == letter]
        assert numbers == sorted(numbers)
    assert [each.number for each in promises if len(set(each.tests)) < len(each.tests)] == []
