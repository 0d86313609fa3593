"""The embedders that are shipped for tests."""

import asyncio

import numpy as np
import pytest
from hypothesis import given, strategies as st

from vmemo.errors import EmbeddingFailed
from vmemo.ports import Embedder, TextKind
from vmemo_conformance.embedders import FailingEmbedder, HashEmbedder

EMBEDDER = HashEmbedder()
PLACES = [0, 27]
"""The numbers of the vector of a text that are not zero."""
KINDS: tuple[TextKind, ...] = ("query", "document")


@given(st.text())
def test_every_text_has_a_unit_vector(text: str) -> None:
    vector = EMBEDDER.vector(text)
    assert vector.shape == (64,)
    assert vector.dtype == np.float32
    assert np.linalg.norm(vector) == pytest.approx(1.0, abs=1e-5)


def test_queries_and_documents_are_embedded_alike_and_in_order() -> None:
    texts = ["tulips behind the shed", "", "the of"]
    for kind in KINDS:
        vectors = asyncio.run(EMBEDDER.embed(texts, kind))
        assert np.array_equal(vectors, np.stack([EMBEDDER.vector(text) for text in texts]))
    assert asyncio.run(EMBEDDER.embed([], "query")).shape == (0, 64)


def test_texts_that_share_words_are_similar() -> None:
    query, near, far = map(EMBEDDER.vector, ("painting tulips", "she paints a tulip", "quarterly tax report"))
    assert query @ near > 0.6 > query @ far


def test_vectors_do_not_depend_on_the_process() -> None:
    assert np.flatnonzero(EMBEDDER.vector("tulips and roses")).tolist() == PLACES


def test_name_and_dimension_are_chosen() -> None:
    embedder: Embedder = HashEmbedder("other", 7)
    assert (embedder.name, embedder.dimension) == ("other", 7)
    assert asyncio.run(embedder.embed(["x"], "query")).shape == (1, 7)


def test_a_failing_embedder_fails_the_given_number_of_times() -> None:
    embedder: Embedder = FailingEmbedder(EMBEDDER, times=2, error=TimeoutError("too slow"))
    for _ in range(2):
        with pytest.raises(TimeoutError, match="too slow"):
            asyncio.run(embedder.embed(["x"], "query"))
    assert np.array_equal(asyncio.run(embedder.embed(["x"], "query"))[0], EMBEDDER.vector("x"))
    assert (embedder.name, embedder.dimension) == ("hash", 64)


def test_a_failing_embedder_fails_always_by_default() -> None:
    embedder = FailingEmbedder(EMBEDDER)
    for _ in range(5):
        with pytest.raises(EmbeddingFailed):
            asyncio.run(embedder.embed(["x"], "query"))
