"""The packaged revision model's interface, with a real ONNX model that is written here."""

from __future__ import annotations

import asyncio
import hashlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from onnx_bytes import BOOL, FLOAT, INT64, node, onnx_model, port

from vmemo.embedding.revision_model import MAX_PADDED_TOKENS, PackagedRevisionModel, batches, model_inputs
from vmemo.errors import ModelCorrupt
from vmemo.models.search import TokenVectors
from vmemo.ports import RevisionModel
from vmemo_models import REVISION, RevisionFiles

WIDTH = 4


def sums() -> bytes:
    """Return a model that adds up the tokens' numbers, tenfold in the later statement, and their positions."""
    nodes = [
        node("ReduceSum", ["tokens", "last"], "sums", keepdims=0),
        *(node("Cast", [name], f"{name}_f", to=FLOAT) for name in ("segments", "positions", "mask")),
        node("Mul", ["segments_f", "nine"], "extra"),
        node("Add", ["extra", "one"], "factor"),
        node("Mul", ["sums", "factor"], "weighed"),
        node("Mul", ["positions_f", "hundred"], "places"),
        node("Add", ["weighed", "places"], "all"),
        node("Mul", ["all", "mask_f"], "seen"),
        node("ReduceSum", ["seen", "rows"], "probability", keepdims=0),
    ]
    constants = [
        *((name, np.full(1, value, "<f4")) for name, value in (("one", 1.0), ("nine", 9.0), ("hundred", 100.0))),
        *((name, np.array([axis], "<i8")) for name, axis in (("last", 2), ("rows", 1))),
    ]
    inputs = [port("tokens", FLOAT, 3), port("segments", INT64, 2), port("positions", INT64, 2), port("mask", BOOL, 2)]
    return onnx_model(nodes, constants, inputs, [port("probability", FLOAT, 1)])


@pytest.fixture
def files(tmp_path: Path) -> RevisionFiles:
    content = sums()
    (tmp_path / "model.onnx").write_bytes(content)
    hashes = {"model.onnx": hashlib.sha256(content).hexdigest()}
    return RevisionFiles(name="sums", folder=tmp_path, files=hashes, encoder="some-encoder", width=WIDTH, max_tokens=5)


def tokens(count: int, value: float = 1.0) -> TokenVectors:
    return np.full((count, WIDTH), value, np.float32)


def score(model: RevisionModel, *pairs: tuple[TokenVectors, TokenVectors]) -> list[float]:
    return list(asyncio.run(model.score(pairs)))


def expected(earlier: int, later: int) -> float:
    return WIDTH * earlier + 10 * WIDTH * later + 100 * (sum(range(earlier)) + sum(range(later)))


def test_each_pair_is_scored_by_both_statements_in_their_order(files: RevisionFiles) -> None:
    model = PackagedRevisionModel(files)
    assert isinstance(model, RevisionModel)
    assert (model.name, model.encoder) == ("sums", "some-encoder")
    counts = [(1, 1), (2, 5), (5, 2), (3, 4), (0, 2)]
    assert score(model, *((tokens(a), tokens(b)) for a, b in counts)) == [expected(a, b) for a, b in counts]
    assert score(model) == []


def test_tokens_beyond_the_models_limit_are_ignored(files: RevisionFiles) -> None:
    assert score(PackagedRevisionModel(files), (tokens(9), tokens(7))) == [expected(5, 5)]


def test_a_pair_without_tokens_is_not_scored(files: RevisionFiles) -> None:
    assert score(PackagedRevisionModel(files), (tokens(0), tokens(0)), (tokens(1), tokens(1))) == [0.0, expected(1, 1)]


def test_many_pairs_are_scored_in_bounded_batches(files: RevisionFiles) -> None:
    counts = [(n % 5 + 1, n % 3 + 1) for n in range(900)]
    assert len(batches([a + b for a, b in counts])) > 2
    assert score(PackagedRevisionModel(files), *((tokens(a), tokens(b)) for a, b in counts)) == [
        expected(a, b) for a, b in counts
    ]
    for batch in batches([n % 250 + 1 for n in range(500)]):
        assert len(batch) * max(n % 250 + 1 for n in batch) <= MAX_PADDED_TOKENS


def test_padding_is_masked() -> None:
    inputs = model_inputs([(tokens(1), tokens(2)), (tokens(2), tokens(3))], WIDTH)
    assert inputs["mask"].tolist() == [[True] * 3 + [False] * 2, [True] * 5]
    assert inputs["segments"].tolist() == [[0, 1, 1, 0, 0], [0, 0, 1, 1, 1]]
    assert inputs["positions"].tolist() == [[0, 0, 1, 0, 0], [0, 1, 0, 1, 2]]
    assert inputs["tokens"].shape == (2, 5, WIDTH)


def test_a_changed_file_is_refused(files: RevisionFiles) -> None:
    broken = PackagedRevisionModel(replace(files, files={"model.onnx": "0" * 64}))
    with pytest.raises(ModelCorrupt, match="The revision model sums can't be used"):
        score(broken, (tokens(1), tokens(1)))


@pytest.mark.skipif(REVISION is None, reason="no revision model is packaged")
def test_the_packaged_model_returns_probabilities() -> None:
    assert REVISION is not None
    rows = np.random.default_rng(1).standard_normal((200, REVISION.width)).astype(np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    found = score(PackagedRevisionModel(REVISION), (rows[:9], rows[9:30]), (rows, rows[:3]))
    assert all(0.0 <= probability <= 1.0 for probability in found)
