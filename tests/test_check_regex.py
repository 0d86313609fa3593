"""The check that regular expressions take linear time."""

from __future__ import annotations

import re
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

SCRIPTS = Path(__file__).parents[1] / "scripts"


@pytest.fixture
def regex_graph(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(sys, "path", [str(SCRIPTS), *sys.path])
    return import_module("regex_graph")


@pytest.mark.parametrize(
    "pattern",
    [
        r"(a+)+$",
        r"(?:[^.]+|x)+y",
        r"\s*,?\s+x",
        r"^.*?a.*?b",
        r"a.*b",
        r"\w+ing",
        r"(?>\s+)x",
        r"(?=.*x)y",
        r"[.!]+(?=\s)",
        r"x{0,5000}y",
    ],
)
def test_overlapping_repeats_are_reported(pattern: str, regex_graph: Any) -> None:
    assert regex_graph.find_overlaps(pattern, 0, searched=True, must_end=False)


@pytest.mark.parametrize(
    "pattern",
    [
        r"\w+",
        r"\b\w+ing\b",
        r"(?<!\s)\s+x",
        r"^(?:\w+ )*\w+x",
        r"^x*+x*y",
        r"a.{0,40}b",
        r"^(?>.*?a).*b",
        r"^\W*+(?:the\s*+)?(?:in\s*+)?$",
    ],
)
def test_linear_patterns_are_accepted(pattern: str, regex_graph: Any) -> None:
    assert not regex_graph.find_overlaps(pattern, 0, searched=True, must_end=False)


def test_a_pattern_that_is_only_matched_is_not_tried_at_every_start(regex_graph: Any) -> None:
    assert regex_graph.find_overlaps("a.*b", re.DOTALL, searched=True, must_end=False)
    assert not regex_graph.find_overlaps("a.*b", re.DOTALL, searched=False, must_end=False)


def test_a_pattern_that_must_match_all_of_a_text_can_fail_at_its_end(regex_graph: Any) -> None:
    assert not regex_graph.find_overlaps(r"\w+\w*", 0, searched=False, must_end=False)
    assert regex_graph.find_overlaps(r"\w+\w*", 0, searched=False, must_end=True)
