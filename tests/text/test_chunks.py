"""Long text is split at its structure, and no two chunks hold the same words."""

from __future__ import annotations

from random import Random

import pytest

from vmemo.text.split import split_text

WORDS = "the quick brown fox jumps over a lazy dog near some river".split()


def prose(words: int, seed: int = 0) -> str:
    """Return sentences of random words."""
    random = Random(seed)
    return " ".join(
        " ".join(random.choice(WORDS) for _ in range(12)).capitalize() + "." for _ in range(max(1, words // 12))
    )


def test_a_short_text_is_one_chunk() -> None:
    assert split_text(" One.\n\n- two\n- three ") == ["One.\n\n- two\n- three"]
    assert split_text("  \n ") == []


def test_paragraphs_stay_whole() -> None:
    paragraphs = [prose(60, n) for n in range(8)]
    chunks = split_text("\n\n".join(paragraphs), size=700)
    assert len(chunks) > 2
    assert [part for chunk in chunks for part in chunk.split("\n\n")] == paragraphs


@pytest.mark.parametrize("mark", ["- ", "* ", "1. ", "2) ", "• ", "(a) "])
def test_list_items_stay_whole(mark: str) -> None:
    items = [mark + prose(40, n) for n in range(9)]
    chunks = split_text("\n".join(items), size=600)
    assert len(chunks) > 2
    assert [item for chunk in chunks for item in chunk.split("\n")] == items


def test_an_item_of_several_lines_stays_whole() -> None:
    items = [f"- {prose(24, n)}\n  {prose(24, n + 50)}" for n in range(9)]
    chunks = split_text("\n".join(items), size=600)
    assert all(chunk.startswith("- ") for chunk in chunks)
    assert all(chunk.count("\n  ") == chunk.count("- ") for chunk in chunks)


def test_code_stays_whole() -> None:
    code = "```python\n" + "\n\n".join(f"value_{n} = {n}" for n in range(20)) + "\n```"
    chunks = split_text(f"{prose(60)}\n\n{code}\n\n{prose(60, 1)}", size=500)
    assert sum(code in chunk for chunk in chunks) == 1


@pytest.mark.parametrize("heading", ["## Hotels", "**Hotels**", "Here are some hotels:"])
def test_a_heading_stays_with_what_follows(heading: str) -> None:
    text = f"{prose(80)}\n\n{heading}\n\n- {prose(20, 1)}\n- {prose(20, 2)}"
    for size in range(480, 700, 20):
        chunks = split_text(text, size=size)
        assert not any(chunk.endswith(heading) for chunk in chunks)


def test_no_words_are_lost_or_repeated() -> None:
    random = Random(5)
    for seed in range(40):
        marks = random.choices(("- ", "", "\n", "# ", "```\n", "1. "), k=12)
        parts = [mark + prose(random.randint(1, 200), n) for n, mark in enumerate(marks)]
        text = random.choice(("\n", "\n\n")).join(parts)
        size = random.randint(40, 900)
        chunks = split_text(text, size=size)
        assert "".join("".join(chunks).split()) == "".join(text.split()), seed
        assert all(0 < len(chunk) <= size for chunk in chunks)
