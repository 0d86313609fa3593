"""The packaged embedder: a small ONNX model on the CPU, without network, API key or download."""

from __future__ import annotations

import asyncio
import os
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from vmemo.embedding.onnx_session import OnnxSession, concurrent_passes, open_session
from vmemo.embedding.wordpiece import WordPiece
from vmemo.errors import EmbeddingFailed, InvalidInput, ModelCorrupt
from vmemo.models.search import Encoding, TokenVectors, Vectors
from vmemo.ports import TextKind
from vmemo_models import ENCODER, EmbeddingModel, ModelFileError

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

    64 queries at once take a third less processor time than in passes of their own. A query never waits for others to
    arrive. If a shared pass fails, each of its queries is run alone, so that an error reaches only the caller whose
    query causes it. A query that is cancelled before its pass starts is not run.
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


_MAX_PADDED_TOKENS = 256
"""Tokens of a pass. More are no faster per token, and a pass of 1,024 takes 40 MB more memory."""
_SHORT_CALL = 1000
"""Characters of a call that fits into about one pass."""
_Call = tuple[Sequence[str], TextKind]
_In = TypeVar("_In")
_Out = TypeVar("_Out")


@dataclass(frozen=True)
class _Loaded:
    tokenizer: WordPiece
    session: OnnxSession
    has_content: NDArray[np.bool_]
    """By token id: False for punctuation and the end marker."""


class PackagedEmbedder:
    """Embeds texts with a packaged model, which is loaded at first use. Threads and event loops may share it.

    `threads` is the number of threads per model pass. Passes over documents run concurrently, so one thread each is
    fastest; two make a query 20% faster on an idle machine, and take twice as long on a busy one. `batch` is the
    maximum number of texts per pass; queries that arrive while all threads are busy share the next pass. The int8 model
    scales its numbers per pass, so a text's vector depends slightly on its batch (cosine 0.95 or more); a batch of 1
    avoids that, in up to twice the time.
    """

    def __init__(self, model: EmbeddingModel = ENCODER, *, threads: int = 1, batch: int = 32) -> None:
        if batch < 1:
            raise InvalidInput(f"batch is {batch}, but must be at least 1")
        self._model = model
        self._batch = batch
        self._threads = threads
        self._passes = concurrent_passes()
        self._start()

    def _start(self) -> None:
        """Create what a process has for itself: neither threads nor a loaded model survive fork()."""
        self._process = os.getpid()
        # One thread more than a call uses, so that a query does not wait for a long run of documents.
        self._executor = ThreadPoolExecutor(self._passes + 1, thread_name_prefix="vmemo-embed")
        functions = PassFunctions(
            tokenize=lambda texts: self._rows((texts, "query")), fits=self._fits, run=self._run_all
        )
        self._shared = SharedPasses(self._executor, self._passes, functions)
        self._loading = threading.Lock()
        self._loaded: _Loaded | None = None

    @property
    def name(self) -> str:
        """The model's name, which also names the vector space."""
        return self._model.name

    @property
    def dimension(self) -> int:
        """The length of a vector."""
        return self._model.dimension

    @property
    def query_prefix(self) -> str:
        """The prefix of queries; documents have none."""
        return self._model.query_prefix

    async def embed(self, texts: Sequence[str], kind: TextKind) -> Vectors:
        """Return unit vectors in the order of the texts; text beyond the model's 512 tokens is ignored."""
        if not texts:
            return np.empty((0, self.dimension), dtype=np.float32)
        return np.stack([encoding.vector for encoding in await self.encode(texts, kind)])

    async def encode(self, texts: Sequence[str], kind: TextKind) -> list[Encoding]:
        """Return vectors and token vectors.

        The length of a query's token vector is its weight; a document's punctuation has no vector.
        """
        if not texts:
            return []
        if self._process != os.getpid():
            self._start()
        if sum(map(len, texts)) <= _SHORT_CALL:
            if kind == "query":
                return await asyncio.wrap_future(self._shared.submit(texts))
            return await self._in_thread(self._encode, (texts, kind))
        rows = await self._in_thread(self._rows, (texts, kind))
        encoded: dict[int, Encoding] = {}
        batches = list(_batches(rows, self._batch))
        for start in range(0, len(batches), self._passes):
            group = batches[start : start + self._passes]
            work = [[rows[index] for index in indexes] for indexes in group]
            for indexes, answer in zip(
                group, await asyncio.gather(*(self._in_thread(self._run, batch) for batch in work)), strict=True
            ):
                encoded.update(zip(indexes, answer, strict=True))
        return [encoded[index] for index in range(len(texts))]

    def _in_thread(self, function: Callable[[_In], _Out], argument: _In) -> asyncio.Future[_Out]:
        return asyncio.get_running_loop().run_in_executor(self._executor, function, argument)

    def _encode(self, call: _Call) -> list[Encoding]:
        return self._run_all(self._rows(call))

    def _rows(self, call: _Call) -> list[EncoderRow]:
        texts, kind = call
        encode = self._load().tokenizer.encode
        prefix = self.query_prefix if kind == "query" else ""
        return [EncoderRow(encode(prefix + text), kind) for text in texts]

    def _fits(self, rows: Sequence[EncoderRow]) -> bool:
        longest = max(len(row.ids) for row in rows)
        return len(rows) <= self._batch and longest * len(rows) <= _MAX_PADDED_TOKENS

    def _run_all(self, rows: Sequence[EncoderRow]) -> list[Encoding]:
        """Run as many passes as the rows need."""
        encoded: dict[int, Encoding] = {}
        for indexes in _batches(rows, self._batch):
            encoded.update(zip(indexes, self._run([rows[index] for index in indexes]), strict=True))
        return [encoded[index] for index in range(len(rows))]

    def _run(self, rows: Sequence[EncoderRow]) -> list[Encoding]:
        """Run one model pass."""
        loaded = self._load()
        pooled, tokens, attention = loaded.session.run(["pooled", "tokens", "attention"], _inputs(rows))
        pooled = pooled / np.linalg.norm(pooled, axis=1, keepdims=True)
        return [
            Encoding(pooled[n], _token_vectors(row, tokens[n], attention[n], loaded.has_content))
            for n, row in enumerate(rows)
        ]

    def _load(self) -> _Loaded:
        if self._loaded is None:
            with self._loading:
                self._loaded = self._loaded or _open(self._model, self._threads)
        return self._loaded


def _open(model: EmbeddingModel, threads: int) -> _Loaded:
    try:
        network, vocabulary = model.open_network(), model.read("vocab.txt")
    except ModelFileError as error:
        raise ModelCorrupt(
            f"The embedding model {model.name} can't be used: {error}. Nothing was loaded. "
            "Reinstall vmemo: pip install --force-reinstall --no-deps vmemo"
        ) from error
    tokens = vocabulary.decode("utf-8").removesuffix("\n").split("\n")
    tokenizer = WordPiece(tokens, max_tokens=model.max_tokens)
    has_content = np.array([token != "[SEP]" and any(map(str.isalnum, token)) for token in tokens])
    return _Loaded(tokenizer, open_session(network, threads), has_content)


def _token_vectors(
    row: EncoderRow, tokens: NDArray[np.float32], attention: NDArray[np.float32], has_content: NDArray[np.bool_]
) -> TokenVectors:
    """Return a document's vectors without punctuation, or a query's scaled by their share of the attention."""
    own = tokens[: len(row.ids)]
    if row.kind == "document":
        return own[has_content[np.array(row.ids)]]
    weights = attention[: len(row.ids)]
    shares = np.exp(weights - weights.max())
    return own * (shares / shares.sum())[:, None]


def _batches(rows: Sequence[EncoderRow], most: int) -> Iterator[list[int]]:
    """Yield the indexes of texts to run together, of similar length to reduce padding."""
    batch: list[int] = []
    for index in sorted(range(len(rows)), key=lambda index: len(rows[index].ids)):
        full = len(batch) == most or len(rows[index].ids) * (len(batch) + 1) > _MAX_PADDED_TOKENS
        if batch and full:
            yield batch
            batch = []
        batch.append(index)
    yield batch


def _inputs(rows: Sequence[EncoderRow]) -> dict[str, NDArray[np.int64]]:
    ids = np.zeros((len(rows), max(len(row.ids) for row in rows)), dtype=np.int64)
    mask = np.zeros_like(ids)
    for number, row in enumerate(rows):
        ids[number, : len(row.ids)] = row.ids
        mask[number, : len(row.ids)] = 1
    return {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
