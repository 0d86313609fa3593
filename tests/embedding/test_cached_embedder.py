"""Caches around an embedder, and the contract they hold it to."""

from __future__ import annotations

import asyncio
import multiprocessing
import sqlite3
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import TypeAlias, cast

import numpy as np
import pytest

from max_wait import MAX_WAIT
from vmemo.embedding.cache import CachedEmbedder, EmbeddingCache, cache_key
from vmemo.errors import EmbeddingFailed, StoreError, Unsupported
from vmemo.models.search import Encoding, Vector, Vectors
from vmemo.ports import Embedder, TextKind

DIMENSION = 8
ROUNDS = 20
Answer: TypeAlias = Callable[[Vectors], object]


class Counting:
    """A deterministic embedder that notes what it is asked; `answer` may replace what it gives."""

    name = "counting"
    dimension = DIMENSION

    def __init__(self, answer: Answer | None = None) -> None:
        self.requests: list[tuple[TextKind, list[str]]] = []
        self._answer = answer

    async def embed(self, texts: Sequence[str], kind: TextKind) -> Vectors:
        self.requests.append((kind, list(texts)))
        vectors = np.array([direction(text, kind) for text in texts], dtype=np.float32)
        return cast("Vectors", self._answer(vectors)) if self._answer else vectors


class Failing(Counting):
    """Raises the given errors, one a request, and then works."""

    def __init__(self, *errors: BaseException) -> None:
        super().__init__()
        self._errors = list(errors)

    async def embed(self, texts: Sequence[str], kind: TextKind) -> Vectors:
        if self._errors:
            self.requests.append((kind, list(texts)))
            raise self._errors.pop(0)
        return await super().embed(texts, kind)


class FailingAfter(Counting):
    """Answers as many requests as are `left`, then refuses."""

    def __init__(self, left: int) -> None:
        super().__init__()
        self.left = left

    async def embed(self, texts: Sequence[str], kind: TextKind) -> Vectors:
        if self.left == 0:
            raise Unsupported("no more")
        self.left -= 1
        return await super().embed(texts, kind)


class Pauses(list[float]):
    """A clock that notes how long it was asked to wait, and does not."""

    async def sleep(self, seconds: float) -> None:
        self.append(seconds)


def direction(text: str, kind: TextKind) -> Vector:
    seed = int.from_bytes(cache_key("seed", kind, text)[:4], "big")
    vector = np.random.default_rng(seed).normal(size=DIMENSION)
    return (vector / np.linalg.norm(vector)).astype(np.float32)


def embed(embedder: Embedder, *texts: str, kind: TextKind = "document") -> Vectors:
    return asyncio.run(embedder.embed(texts, kind))


def test_it_has_the_inner_name_and_dimension() -> None:
    embedder: Embedder = CachedEmbedder(Counting())
    assert (embedder.name, embedder.dimension) == ("counting", DIMENSION)


def test_no_texts_give_no_vectors_and_no_request() -> None:
    inner = Counting()
    assert embed(CachedEmbedder(inner)).shape == (0, DIMENSION)
    assert inner.requests == []


def test_a_text_is_computed_once() -> None:
    inner = Counting()
    embedder = CachedEmbedder(inner)
    np.testing.assert_array_equal(embed(embedder, "one"), embed(embedder, "one"))
    assert inner.requests == [("document", ["one"])]


def test_a_query_and_a_document_of_the_same_text_are_two_things() -> None:
    inner = Counting()
    embedder = CachedEmbedder(inner)
    assert not np.allclose(embed(embedder, "one", kind="query"), embed(embedder, "one", kind="document"))
    assert len(inner.requests) == 2


def test_duplicates_keep_their_places_and_are_asked_for_once() -> None:
    inner = Counting()
    vectors = embed(CachedEmbedder(inner), "b", "a", "b", "c", "a")
    assert inner.requests == [("document", ["b", "a", "c"])]
    for row, text in enumerate("babca"):
        np.testing.assert_allclose(vectors[row], direction(text, "document"), atol=1e-6)


def test_only_unknown_texts_are_asked_for() -> None:
    inner = Counting()
    embedder = CachedEmbedder(inner)
    embed(embedder, "a", "b")
    embed(embedder, "c", "b", "d")
    assert inner.requests[1] == ("document", ["c", "d"])


def test_a_request_holds_a_hundred_texts_at_most() -> None:
    inner = Counting()
    embed(CachedEmbedder(inner), *(f"text {n}" for n in range(250)))
    assert [len(texts) for _, texts in inner.requests] == [100, 100, 50]


@pytest.mark.parametrize(
    ("capacity", "asked_again"), [(2, ["b"]), (3, []), (0, ["a", "b"])], ids=["two", "three", "none"]
)
def test_the_least_recently_used_text_leaves_first(capacity: int, asked_again: list[str]) -> None:
    inner = Counting()
    embedder = CachedEmbedder(inner, capacity=capacity)
    for text in ("a", "b", "a", "c"):
        embed(embedder, text)
    inner.requests.clear()
    embed(embedder, "a", "b")
    assert [text for _, texts in inner.requests for text in texts] == asked_again


def test_a_caller_can_not_change_what_is_cached() -> None:
    embedder = CachedEmbedder(Counting())
    embed(embedder, "a")[:] = 0
    embed(embedder, "a")[:] = 0
    np.testing.assert_allclose(embed(embedder, "a")[0], direction("a", "document"), atol=1e-6)


def test_a_cleared_cache_computes_again() -> None:
    inner = Counting()
    embedder = CachedEmbedder(inner)
    embed(embedder, "a")
    embedder.clear()
    embed(embedder, "a")
    assert len(inner.requests) == 2


def test_threads_with_event_loops_of_their_own_share_one_cache(tmp_path: Path) -> None:
    disk = EmbeddingCache(tmp_path / "cache.db")
    embedder = CachedEmbedder(Counting(), capacity=20, disk=disk)
    start = threading.Barrier(4)

    def work(worker: int) -> None:
        start.wait()
        for turn in range(20):
            texts = [f"text {(worker + turn + n) % 40}" for n in range(10)]
            for text, vector in zip(texts, embed(embedder, *texts), strict=True):
                np.testing.assert_allclose(vector, direction(text, "document"), atol=1e-3)

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(work, range(4)))
    disk.close()


def test_a_transient_failure_is_retried_after_growing_pauses() -> None:
    inner, pauses = Failing(TimeoutError("slow"), OSError("gone")), Pauses()
    embed(CachedEmbedder(inner, sleep=pauses.sleep), "a")
    assert len(inner.requests) == 3
    assert pauses == sorted(pauses)
    assert len(pauses) == 2


def test_a_lasting_failure_is_raised_from_the_original() -> None:
    errors = [ConnectionError(f"refused {n}") for n in range(3)]
    inner, pauses = Failing(*errors), Pauses()
    with pytest.raises(EmbeddingFailed, match=r"'counting' failed 3 times.*refused 2") as caught:
        embed(CachedEmbedder(inner, sleep=pauses.sleep), "a")
    assert caught.value.__cause__ is errors[2]
    assert len(inner.requests) == 3


def test_an_error_of_our_own_is_raised_at_once() -> None:
    inner, pauses = Failing(Unsupported("no")), Pauses()
    with pytest.raises(Unsupported):
        embed(CachedEmbedder(inner, sleep=pauses.sleep), "a")
    assert (len(inner.requests), pauses) == (1, [])


def test_texts_computed_before_a_failure_are_not_computed_again() -> None:
    inner = FailingAfter(1)
    embedder = CachedEmbedder(inner)
    texts = [f"text {n}" for n in range(150)]
    with pytest.raises(Unsupported):
        embed(embedder, *texts)
    inner.left = 1
    embed(embedder, *texts)
    assert [len(asked) for _, asked in inner.requests] == [100, 50]


def _with(value: float) -> Answer:
    def changed(vectors: Vectors) -> Vectors:
        vectors[-1, 3] = value
        return vectors

    return changed


BROKEN: list[tuple[Answer, str]] = [
    (lambda vectors: vectors[1:], r"shape \(1, 8\), but \(2, 8\) was expected"),
    (lambda vectors: vectors[:, 1:], r"shape \(2, 7\)"),
    (lambda vectors: vectors[0], r"shape \(8,\)"),
    (lambda vectors: None, "shape"),
    (lambda vectors: [[1.0], [1.0, 2.0]], "rows of numbers"),
    (lambda vectors: [["x"] * 8] * 2, "rows of numbers"),
    (_with(float("nan")), "not finite"),
    (_with(float("-inf")), "not finite"),
    (lambda vectors: vectors * 0, "zeros"),
]


@pytest.mark.parametrize(
    ("answer", "reason"),
    BROKEN,
    ids=["too few", "too narrow", "flat", "nothing", "ragged", "words", "nan", "infinite", "zeros"],
)
def test_an_answer_that_breaks_the_contract_is_refused(answer: Answer, reason: str) -> None:
    embedder = CachedEmbedder(Counting(answer))
    with pytest.raises(EmbeddingFailed, match=f"'counting'.*{reason}"):
        embed(embedder, "a", "b")


UNUSUAL: list[Answer] = [
    lambda vectors: vectors * 1e-30,
    lambda vectors: np.float64(1e300) * vectors,
    lambda vectors: vectors.tolist(),
]


@pytest.mark.parametrize(
    "answer",
    UNUSUAL,
    ids=["tiny", "huge", "plain lists"],
)
def test_an_answer_of_any_length_is_made_unit_float32(answer: Answer) -> None:
    vectors = embed(CachedEmbedder(Counting(answer)), "a", "b")
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(vectors[1], direction("b", "document"), atol=1e-5)


def test_the_disk_cache_serves_a_later_embedder(tmp_path: Path) -> None:
    disk = EmbeddingCache(tmp_path / "deep" / "cache.db")
    first, second = Counting(), Counting()
    fresh = embed(CachedEmbedder(first, disk=disk), "a", "b")
    disk.close()
    stored = embed(CachedEmbedder(second, disk=disk), "b", "a")[::-1]
    disk.close()
    assert second.requests == []
    np.testing.assert_allclose(np.linalg.norm(stored, axis=1), 1, atol=1e-6)
    np.testing.assert_allclose((stored * fresh).sum(axis=1), 1, atol=1e-3)


def test_the_disk_cache_holds_thousands_of_keys(tmp_path: Path) -> None:
    disk = EmbeddingCache(tmp_path / "cache.db")
    stored = {cache_key("e", "document", str(n)): Encoding(direction(str(n), "document")) for n in range(1500)}
    disk.put(stored)
    found = disk.get([*stored, cache_key("e", "document", "unknown")])
    disk.close()
    assert found.keys() == stored.keys()


def test_a_vector_of_another_dimension_or_a_damaged_one_counts_as_missing(tmp_path: Path) -> None:
    path = tmp_path / "cache.db"
    disk, inner = EmbeddingCache(path), Counting()
    disk.put({cache_key("counting", "document", "a"): Encoding(np.ones(3, dtype=np.float32))})
    disk.close()
    raw = sqlite3.connect(path)
    for text, damage in (("b", b"\x00" * 16), ("c", b"\xff" * 16), ("d", b"odd"), ("e", b"")):
        row = cache_key("counting", "document", text), damage
        raw.execute("INSERT INTO encodings (key, vector) VALUES (?, ?)", row)
    raw.commit()
    raw.close()
    embed(CachedEmbedder(inner, disk=disk), *"abcde")
    disk.close()
    assert inner.requests == [("document", list("abcde"))]


def test_a_file_that_is_no_cache_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("not a database, but somebody's notes " * 50)
    before = path.read_bytes()
    with pytest.raises(StoreError, match=r"notes\.txt can't be used"):
        EmbeddingCache(path).get([b"key"])
    assert path.read_bytes() == before


def test_making_a_disk_cache_creates_nothing(tmp_path: Path) -> None:
    EmbeddingCache(tmp_path / "cache.db").close()
    assert list(tmp_path.iterdir()) == []


def create_caches(folder: Path, side: int, start: Barrier) -> None:
    for turn in range(ROUNDS):
        start.wait()
        disk = EmbeddingCache(folder / f"{turn}.db")
        disk.put({bytes([side]): Encoding(np.ones(DIMENSION, dtype=np.float32))})
        disk.close()


def test_processes_may_create_and_share_a_cache_at_the_same_moment(tmp_path: Path) -> None:
    context, sides = multiprocessing.get_context("spawn"), range(2)
    start = context.Barrier(len(sides), timeout=MAX_WAIT)
    workers = [context.Process(target=create_caches, args=(tmp_path, side, start)) for side in sides]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [worker.exitcode for worker in workers] == [0] * len(sides)
    for turn in range(ROUNDS):
        disk = EmbeddingCache(tmp_path / f"{turn}.db")
        assert len(disk.get([bytes([side]) for side in sides])) == len(sides)
        disk.close()
