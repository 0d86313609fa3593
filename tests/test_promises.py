"""The list of promises is complete, and every test it names exists."""

from __future__ import annotations

import ast
import os
import re
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parent.parent
CHAPTERS = {"D": 8, "R": 16, "C": 14, "F": 8, "L": 6, "S": 7, "P": 4, "B": 2, "O": 8, "Y": 5, "E": 4}
_ROW = re.compile(r"^\| (?P<number>[A-Z]\d+) \| (?P<words>.+?) \| (?P<state>kept|partly|planned) \|(?P<tests>.*)\|$")
_TEST = re.compile(r"`([^`]+)`")


class Promise(NamedTuple):
    number: str
    state: str
    tests: list[str]


def promises() -> list[Promise]:
    lines = (ROOT / "docs" / "promises.md").read_text(encoding="utf-8").splitlines()
    rows = [match for line in lines if (match := _ROW.match(line))]
    return [Promise(row["number"], row["state"], _TEST.findall(row["tests"])) for row in rows]


def functions(file: Path) -> set[str]:
    tree = ast.parse(file.read_text(encoding="utf-8"))
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return {node.name for node in ast.walk(tree) if isinstance(node, kinds)}


def test_every_promise_of_the_specification_is_listed_once() -> None:
    expected = [f"{letter}{number}" for letter, last in CHAPTERS.items() for number in range(1, last + 1)]
    assert sorted(promise.number for promise in promises()) == sorted(expected)


def test_the_list_has_the_numbers_of_the_specification() -> None:
    folder = Path(os.environ.get("VMEMO_DATA", ROOT.parent / "shared" / "data")).parent
    if not (folder / "SPEC.md").exists():
        pytest.skip("the specification is not beside this checkout")
    text = (folder / "SPEC.md").read_text(encoding="utf-8")
    assert {promise.number for promise in promises()} == set(re.findall(r"^- \*\*([A-Z]\d+)\*\*", text, re.MULTILINE))


def test_a_promise_that_is_kept_names_its_tests_and_a_planned_one_names_none() -> None:
    assert [promise.number for promise in promises() if bool(promise.tests) == (promise.state == "planned")] == []


def test_every_test_that_is_named_exists() -> None:
    missing: list[str] = []
    for promise in promises():
        for name in promise.tests:
            path, _, function = name.partition("::")
            file = ROOT / path
            if not file.exists() or function not in functions(file):
                missing.append(f"{promise.number}: {name}")
    assert missing == []
