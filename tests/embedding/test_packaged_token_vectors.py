"""The token vectors of the embedder that ships with vmemo, by which recall reranks."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import cache

import numpy as np
import pytest
from numpy.typing import NDArray
from sentencepiece import SentencePieceProcessor

from recall_runs import late_interaction
from vmemo.embedding.packaged import PackagedEmbedder
from vmemo.models.search import Encoding, TokenVectors
from vmemo.ports import TextKind, TokenEmbedder
from vmemo_models import ENCODER

WIDTH = 48
UNKNOWN = 0
SAME = 0.9999
"""The lowest cosine of a text alone with itself in company, where floats are added in another order."""
SHARED = PackagedEmbedder()
ANSWERS = {
    "Which pet does Caroline have?": "Caroline adopted a grey cat named Oscar.",
    "When does the train to Lisbon leave?": "The train leaves at nine in the morning, from platform two.",
    "What does Melanie do to relax?": "Melanie paints sunsets after work; it calms her.",
    "Where did the user move last year?": "user: I moved to Bergen in March of last year.",
    "Who repaired the roof?": "Old Mr. Hanley fixed the roof before the storm came.",
}
OTHERS = [
    "Bread needs yeast and patience.",
    "The committee put the vote off until Thursday.",
    "She has been learning the cello since she was six.",
    "My sister's dog is called Biscuit and hates the rain.",
    "Sales fell by four percent in the third quarter.",
    "We hiked along the ridge, and the fog lifted at noon.",
    "The recipe asks for two cups of flour, an egg and some salt.",
    "Priya got the job at the observatory, starting in August.",
    "He forgot his umbrella at the dentist's.",
    "The library closes early on Sundays.",
]
ODD = [
    "",
    "Oscar",
    "a",
    "!!! ... ?",
    "1 2 3 4 5",
    "x" * 100,
    "Война и мир",
    "日本語のテキスト 中文测试 한국어",
    "עברית العربيّة हिन्दी ไทย",
    "😀👩‍👩‍👧‍👦 ☕️",
    "$5 €6, «qué» — ½",
    "<s> </s> <pad>",
    "control\x00\x1b[31m \ud800 surrogate",
    "Melanie paints sunsets to relax after work. " * 40,
]
TEXTS = [*ANSWERS, *ANSWERS.values(), *OTHERS, *ODD]


def encode(texts: list[str], kind: TextKind = "document", embedder: TokenEmbedder = SHARED) -> list[Encoding]:
    return list(asyncio.run(embedder.encode(texts, kind)))


def tokens_of(encoding: Encoding) -> TokenVectors:
    assert encoding.tokens is not None
    return encoding.tokens


def lengths(encoding: Encoding) -> NDArray[np.float32]:
    return np.linalg.norm(tokens_of(encoding), axis=1)


@cache
def tokenizer() -> SentencePieceProcessor:
    return SentencePieceProcessor(model_proto=ENCODER.read("tokens.spm"))


def pieces(text: str) -> list[str]:
    ids: list[int] = tokenizer().encode_as_ids(text.replace("\ud800", "\ufffd"))[: ENCODER.max_tokens - 2]
    return ["<s>", *("" if id == UNKNOWN else tokenizer().id_to_piece(id) for id in ids), "</s>"]


def content_tokens(text: str) -> int:
    """The pieces with a letter or a digit; of a text without any, the start marker."""
    return sum(any(map(str.isalnum, piece)) for piece in pieces(text)[1:-1]) or 1


def test_it_is_an_embedder_of_tokens() -> None:
    embedder: TokenEmbedder = SHARED
    assert isinstance(embedder, TokenEmbedder)


def test_no_texts_give_no_encodings() -> None:
    assert encode([]) == []


@pytest.mark.parametrize("kind", ["query", "document"])
def test_an_encodings_vector_is_the_one_that_embed_gives(kind: TextKind) -> None:
    vectors = asyncio.run(SHARED.embed(TEXTS, kind))
    np.testing.assert_array_equal(vectors, np.stack([encoding.vector for encoding in encode(TEXTS, kind)]))


@pytest.mark.parametrize("text", TEXTS, ids=lambda text: ascii(text)[:30])
def test_a_documents_content_tokens_have_unit_vectors(text: str) -> None:
    encoding = encode([text])[0]
    assert tokens_of(encoding).dtype == np.float32
    assert tokens_of(encoding).shape == (content_tokens(text), WIDTH)
    np.testing.assert_allclose(lengths(encoding), 1, atol=1e-5)


@pytest.mark.parametrize("text", TEXTS, ids=lambda text: ascii(text)[:30])
def test_the_lengths_of_a_querys_token_vectors_are_shares_of_one(text: str) -> None:
    encoding = encode([text], "query")[0]
    assert tokens_of(encoding).dtype == np.float32
    assert tokens_of(encoding).shape == (len(pieces(text)), WIDTH)
    assert lengths(encoding).min() > 0
    assert lengths(encoding).sum() == pytest.approx(1, abs=1e-5)


def test_a_batch_gives_each_text_as_many_tokens_as_it_has_alone() -> None:
    assert [tokens_of(encoding).shape for encoding in encode(TEXTS)] == [
        (content_tokens(text), WIDTH) for text in TEXTS
    ]


@pytest.mark.parametrize("kind", ["query", "document"])
def test_company_does_not_move_vectors(kind: TextKind) -> None:
    together = np.stack([encoding.vector for encoding in encode(TEXTS, kind)])
    alone = np.stack([encode([text], kind)[0].vector for text in TEXTS])
    assert (together * alone).sum(axis=1).min() > SAME


def test_company_does_not_change_what_late_interaction_prefers() -> None:
    together = [encoding.tokens for encoding in encode(list(ANSWERS.values()))]
    for number, question in enumerate(encode(list(ANSWERS), "query")):
        scores = late_interaction(tokens_of(question), together)
        assert int(np.nanargmax(scores)) == number


@pytest.mark.parametrize("question", ANSWERS)
def test_late_interaction_prefers_the_answer_to_every_unrelated_text(question: str) -> None:
    asked = tokens_of(encode([question], "query")[0])
    answer, *others = late_interaction(asked, [encode([text])[0].tokens for text in [ANSWERS[question], *OTHERS]])
    assert answer is not None
    assert all(other is not None and answer > other for other in others)


@pytest.mark.parametrize("text", ["", "?!", "… — «»", "\u200b\u0301"])
def test_a_text_without_words_keeps_its_start_marker_and_can_be_reranked(text: str) -> None:
    document = encode([text])[0]
    assert tokens_of(document).shape == (1, WIDTH)
    asked = tokens_of(encode([text], "query")[0])
    scores = late_interaction(asked, [document.tokens, encode(["Oscar"])[0].tokens])
    assert all(score is not None and -1.001 <= score <= 1.001 for score in scores)


@pytest.mark.parametrize("kind", ["query", "document"])
@pytest.mark.parametrize("unit", ["memory ", "x", "日", "?!", "\u0301"])
def test_a_text_of_a_hundred_thousand_characters_is_encoded(unit: str, kind: TextKind) -> None:
    encoding = encode([unit * (100_000 // len(unit))], kind)[0]
    assert 1 <= len(tokens_of(encoding)) <= ENCODER.max_tokens
    assert np.isfinite(tokens_of(encoding)).all()


def test_threads_with_event_loops_of_their_own_share_one_embedder() -> None:
    embedder = PackagedEmbedder()
    start = threading.Barrier(8)

    def work(number: int) -> Encoding:
        start.wait()
        return encode([TEXTS[number]], "document", embedder)[0]

    with ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(work, range(8)))
    for number, answer in enumerate(answers):
        expected = encode([TEXTS[number]])[0]
        np.testing.assert_allclose(answer.vector, expected.vector, atol=1e-6)
        np.testing.assert_allclose(tokens_of(answer), tokens_of(expected), atol=1e-6)
