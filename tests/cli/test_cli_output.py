"""Output of the command line: text from memory controls no terminal."""

from __future__ import annotations

import json

import pytest

from vmemo.cli.output import one_line, plain, print_json

HOSTILE = [
    "\x1b[2J\x1b[31m",
    "\x9b8m",
    "a\u2028b",
    "a\x85b",
    "\u202etxt.exe",
    "\x1b]0;title\x07",
    "\x7f\b\r",
    "tab\tend",
]


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_json_is_printable_and_unchanged(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    print_json({"text": text, text: [text]})
    printed = capsys.readouterr().out
    assert all(line.isprintable() for line in printed.removesuffix("\n").split("\n"))
    assert json.loads(printed) == {"text": text, text: [text]}


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_text_for_people_is_printable(text: str) -> None:
    assert plain(text).isprintable()
    assert one_line(f"{text}\n{text}").isprintable()
