"""The tense of queries and the reading of documents, with the embedder that ships with vmemo."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import numpy as np
import pytest

from vmemo.embedding.packaged import PackagedEmbedder
from vmemo.models.search import READING_TAGS, Encoding, Reading
from vmemo.ports import TextKind
from vmemo_models import DEEP, ENCODER, EmbeddingModel

SHARED = PackagedEmbedder()
TEXTS = [
    "",
    "Oscar",
    "I moved to Hamburg in May. Please call me Sam from now on.",
    "  several   spaces,\ttabs \n\n and lines ",
    "😀 party 👩‍👩‍👧‍👦 at nine ☕️",
    "東京に引っ越しました。",
    "e\u0301te\u0301 cafe\u0301 か\u3099",
    "ＦＵＬＬ ｗｉｄｔｈ ﬁne ½ Ⅷ ㍿",
    "zero\u200bwidth \ufeffmark \ud800 surrogate",
    "word " * 700,
]


def encode(
    texts: Sequence[str], kind: TextKind = "document", embedder: PackagedEmbedder = SHARED
) -> Sequence[Encoding]:
    return asyncio.run(embedder.encode(texts, kind))


def read(text: str, embedder: PackagedEmbedder = SHARED) -> Reading:
    reading = encode([text], embedder=embedder)[0].reading
    assert reading is not None
    return reading


def words_of(text: str) -> list[str]:
    return [text[start:end] for start, end in read(text).spans.tolist() if end > start]


@pytest.mark.parametrize("model", [ENCODER, DEEP], ids=lambda model: model.name)
def test_a_query_has_a_tense_and_a_document_a_reading(model: EmbeddingModel) -> None:
    embedder = PackagedEmbedder(model)
    question, document = encode(["Where does Maya live?"], "query", embedder)[0], encode(["Hi."], embedder=embedder)[0]
    assert question.reading is None
    assert question.tense is not None
    assert -1 <= question.tense <= 1
    assert document.tense is None
    assert document.reading is not None


@pytest.mark.parametrize("text", TEXTS, ids=lambda text: ascii(text)[:30])
def test_each_token_has_probabilities_and_characters_of_the_text(text: str) -> None:
    reading = read(text)
    assert 0 <= reading.noise <= 1
    assert reading.tags.shape == (len(reading.spans), len(READING_TAGS))
    assert len(reading.spans) <= ENCODER.max_tokens
    assert ((reading.tags >= 0) & (reading.tags <= 1)).all()
    starts, ends = reading.spans.T
    assert (starts <= ends).all()
    assert (np.diff(starts) >= 0).all()
    assert (np.diff(ends) >= 0).all()
    assert ends[-1] <= len(text)


@pytest.mark.parametrize("text", TEXTS[:-1], ids=lambda text: ascii(text)[:30])
def test_the_tokens_cover_all_of_the_text_but_spaces(text: str) -> None:
    covered = {place for start, end in read(text).spans.tolist() for place in range(start, end)}
    left = "".join(character for place, character in enumerate(text) if place not in covered)
    assert not left.strip()


def test_the_markers_and_a_space_alone_have_no_characters() -> None:
    assert read("").spans.tolist() == [[0, 0], [0, 0]]
    spans = read("東京").spans.tolist()
    assert (spans[0], spans[-1]) == ([0, 0], [2, 2])


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("I live in Hamburg.", "Hamburg"),
        ("I  live \t in \n Hamburg", "Hamburg"),
        ("😀😀 Hamburg 👩‍👩‍👧‍👦", "Hamburg"),
        ("Ich wohne in Ｈａｍｂｕｒｇ.", "Ｈａｍｂｕｒｇ"),
        ("a cafe\u0301 here", "cafe\u0301"),
        ("昨日、東京に着いた。", "東京"),
        ("㍿ ½ ﬁne Hamburg", "Hamburg"),
    ],
)
def test_a_words_characters_are_those_of_the_given_text(text: str, word: str) -> None:
    start = text.index(word)
    inside = [(a, b) for a, b in read(text).spans.tolist() if a < start + len(word) and b > start]
    assert inside[0][0] == start
    assert inside[-1][1] == start + len(word)
    assert word in "".join(words_of(text))


def test_a_batch_gives_each_text_its_own_reading() -> None:
    for text, encoding in zip(TEXTS, encode(TEXTS), strict=True):
        alone, together = read(text), encoding.reading
        assert together is not None
        np.testing.assert_array_equal(together.spans, alone.spans)
        np.testing.assert_allclose(together.tags, alone.tags, atol=0.05)
        assert together.noise == pytest.approx(alone.noise, abs=0.05)


@pytest.mark.parametrize("unit", ["x", " ", "日", "\u0301", "a, "])
def test_a_text_of_a_million_characters_is_read_to_the_token_limit(unit: str) -> None:
    reading = read(unit * (1_000_000 // len(unit)) + " end")
    assert len(reading.spans) <= ENCODER.max_tokens


def test_words_after_a_hundred_thousand_spaces_are_read() -> None:
    assert words_of(" " * 100_000 + "Hamburg") == ["Hamburg"]
