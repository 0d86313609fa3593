"""Model passes that concurrent queries share."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field
from typing import NamedTuple

from vmemo.errors import EmbeddingFailed
from vmemo.models.search import Encoding
from vmemo.ports import TextKind

MAX_WAITING = 1000
"""Queries that may wait for a pass; more are refused, because they would wait for seconds."""


class EncoderRow(NamedTuple):
    """The token ids of one text, and its kind."""

    ids: Sequence[int]
    kind: TextKind


@dataclass(eq=False)
class _Query:
    texts: Sequence[str]
    rows: list[EncoderRow] = field(default_factory=list[EncoderRow])
    future: Future[list[Encoding]] = field(default_factory=Future[list[Encoding]])


@dataclass(frozen=True)
class PassFunctions:
    """The parts of an encoder that passes are made of."""

    tokenize: Callable[[Sequence[str]], list[EncoderRow]]
    fits: Callable[[Sequence[EncoderRow]], bool]
    """Returns True if one pass can take all these rows."""
    run: Callable[[Sequence[EncoderRow]], list[Encoding]]


class SharedPasses:
    """Runs queries on up to `width` threads. Those that arrive while all of them are busy share the next pass.

    A query never waits for others to arrive. If a shared pass fails, each of its queries is run alone, so that an error
    reaches only the caller whose query causes it. A query that is cancelled before its pass starts is not run.
    """

    def __init__(self, executor: Executor, width: int, functions: PassFunctions) -> None:
        self._executor = executor
        self._width = width
        self._functions = functions
        self._lock = threading.Lock()
        self._waiting: deque[_Query] = deque()
        self._active = 0

    def submit(self, texts: Sequence[str]) -> Future[list[Encoding]]:
        """Return the future encodings of a query's texts, or raise EmbeddingFailed if too many queries wait."""
        query = _Query(texts)
        with self._lock:
            if len(self._waiting) >= MAX_WAITING:
                raise EmbeddingFailed(
                    f"{MAX_WAITING} queries wait for the packaged encoder already. Send fewer at a time, or run more "
                    "processes."
                )
            self._waiting.append(query)
            start = self._active < self._width
            self._active += start
        if start:
            self._executor.submit(self._work)
        return query.future

    def _work(self) -> None:
        while queries := self._take():
            self._answer(queries)

    def _take(self) -> list[_Query]:
        """Return the queries of the next pass. Without any, this thread's work ends."""
        taken: list[_Query] = []
        rows: list[EncoderRow] = []
        while (query := self._next(ends=not taken)) is not None:
            try:
                query.rows = query.rows or self._functions.tokenize(query.texts)
            # A failure to load the model is the caller's to see.
            except Exception as error:
                query.future.set_exception(error)
                continue
            if taken and not self._functions.fits([*rows, *query.rows]):
                with self._lock:
                    self._waiting.appendleft(query)
                break
            taken.append(query)
            rows += query.rows
        return taken

    def _next(self, *, ends: bool) -> _Query | None:
        with self._lock:
            while self._waiting:
                query = self._waiting.popleft()
                if query.future.running() or query.future.set_running_or_notify_cancel():
                    return query
            self._active -= ends
            return None

    def _answer(self, queries: Sequence[_Query]) -> None:
        try:
            encodings = self._functions.run([row for query in queries for row in query.rows])
        # The runtime may raise anything, and the error belongs to one of the callers.
        except Exception as error:
            if len(queries) == 1:
                queries[0].future.set_exception(error)
                return
            for query in queries:
                self._answer([query])
            return
        start = 0
        for query in queries:
            end = start + len(query.rows)
            query.future.set_result(encodings[start:end])
            start = end
