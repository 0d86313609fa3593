"""Model passes that concurrent queries share."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from max_wait import MAX_WAIT
from vmemo.embedding import packaged
from vmemo.embedding.packaged import EncoderRow, PassFunctions, SharedPasses
from vmemo.errors import EmbeddingFailed
from vmemo.models.search import Encoding


class Encoder:
    """An encoder whose passes wait for `go`; a text that contains "bad" breaks its pass."""

    def __init__(self, width: int = 1) -> None:
        self.go = threading.Event()
        self.started = threading.Semaphore(0)
        self.passes: list[list[str]] = []
        self.executor = ThreadPoolExecutor(width + 1)
        functions = PassFunctions(tokenize=self._tokenize, fits=lambda rows: len(rows) <= 4, run=self._run)
        self.shared = SharedPasses(self.executor, width, functions)

    def _tokenize(self, texts: Sequence[str]) -> list[EncoderRow]:
        if "no tokens" in texts:
            raise ValueError("no tokens")
        return [EncoderRow(list(text.encode()), "query") for text in texts]

    def _run(self, rows: Sequence[EncoderRow]) -> list[Encoding]:
        texts = [bytes(row.ids).decode() for row in rows]
        self.passes.append(texts)
        self.started.release()
        assert self.go.wait(MAX_WAIT)
        if any("bad" in text for text in texts):
            raise RuntimeError("bad text")
        return [Encoding(np.array([len(text)], np.float32)) for text in texts]

    def start_one(self) -> None:
        self.shared.submit(["first"])
        assert self.started.acquire(timeout=MAX_WAIT)


def test_a_query_runs_at_once_when_no_other_runs() -> None:
    encoder = Encoder()
    encoder.go.set()
    (answer,) = encoder.shared.submit(["one"]).result(MAX_WAIT)
    assert answer.vector.tolist() == [3]
    assert encoder.passes == [["one"]]


def test_queries_that_arrive_during_a_pass_share_the_next_ones() -> None:
    encoder = Encoder()
    encoder.start_one()
    waiting = [encoder.shared.submit(["x" * n]) for n in range(1, 7)]
    encoder.go.set()
    assert [future.result(MAX_WAIT)[0].vector.tolist() for future in waiting] == [[n] for n in range(1, 7)]
    assert [len(texts) for texts in encoder.passes] == [1, 4, 2]


def test_a_second_thread_takes_a_query_while_the_first_is_busy() -> None:
    encoder = Encoder(width=2)
    encoder.start_one()
    second = encoder.shared.submit(["second"])
    assert encoder.started.acquire(timeout=MAX_WAIT)
    encoder.go.set()
    second.result(MAX_WAIT)
    assert encoder.passes == [["first"], ["second"]]


def test_an_error_reaches_only_the_query_that_causes_it() -> None:
    encoder = Encoder()
    encoder.start_one()
    futures = [encoder.shared.submit([text]) for text in ("good", "bad", "fine", "no tokens")]
    encoder.go.set()
    assert [futures[n].result(MAX_WAIT)[0].vector.tolist() for n in (0, 2)] == [[4], [4]]
    with pytest.raises(RuntimeError, match="bad text"):
        futures[1].result(MAX_WAIT)
    with pytest.raises(ValueError, match="no tokens"):
        futures[3].result(MAX_WAIT)
    encoder.shared.submit(["later"]).result(MAX_WAIT)


def test_a_query_that_is_cancelled_while_it_waits_is_not_run() -> None:
    encoder = Encoder()

    async def work() -> list[Encoding]:
        encoder.start_one()
        cancelled = asyncio.ensure_future(asyncio.wrap_future(encoder.shared.submit(["cancelled"])))
        kept = asyncio.wrap_future(encoder.shared.submit(["kept"]))
        cancelled.cancel()
        await asyncio.sleep(0)
        encoder.go.set()
        return await kept

    assert asyncio.run(work())[0].vector.tolist() == [4]
    assert encoder.passes == [["first"], ["kept"]]


def test_too_many_waiting_queries_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packaged, "MAX_WAITING", 2)
    encoder = Encoder()
    encoder.start_one()
    waiting = [encoder.shared.submit([text]) for text in ("a", "b")]
    with pytest.raises(EmbeddingFailed, match="2 queries wait"):
        encoder.shared.submit(["c"])
    encoder.go.set()
    assert all(future.result(MAX_WAIT) for future in waiting)
