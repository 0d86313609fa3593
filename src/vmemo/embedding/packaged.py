"""The packaged embedder: a small ONNX model on the CPU, without network, API key or download."""

from __future__ import annotations

import asyncio
import io
import os
import re
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol, TypedDict, TypeVar, cast

import numpy as np
from numpy.typing import NDArray
from sentencepiece import SentencePieceProcessor

from vmemo.embedding.onnx_session import InputArray, OnnxSession, concurrent_passes, open_session
from vmemo.errors import EmbeddingFailed, InvalidInput, ModelCorrupt
from vmemo.models.search import Encoding, Reading, Vectors
from vmemo.ports import TextKind
from vmemo_models import ENCODER, EmbeddingModel, ModelFileError

FLOOR = 0.1
"""Least cosine of a question and what may answer it; chosen on conversations of authors kept out of training."""
MAX_WAITING = 1000
"""Queries that may wait for a pass; more are refused, because they would wait for seconds."""


class EncoderRow(NamedTuple):
    """The token ids of one text, its kind, and of a document the characters of each token."""

    ids: Sequence[int]
    kind: TextKind
    spans: NDArray[np.int32] | None = None


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
_SHARED_OUTPUTS = ("pooled", "tokens")
_QUERY_OUTPUTS = ("attention", "tense")
_DOCUMENT_OUTPUTS = ("tags", "noise")
_In = TypeVar("_In")
_Out = TypeVar("_Out")


_START, _END = 1, 2
"""Ids of the markers around a text."""
_MAX_CHARACTERS = 16_384
"""Characters of a text that hold its 512 tokens, unless most of them are spaces."""
_SURROGATES = re.compile("[\ud800-\udfff]")


class _Pieces(TypedDict):
    ids: list[int]
    offsets: list[tuple[int, int]]


class _Tokenizer(Protocol):
    def encode_as_ids(self, input: str) -> list[int]: ...
    def encode_as_offset_mapping(self, input: str) -> _Pieces: ...


@dataclass(frozen=True)
class _Loaded:
    tokenizer: _Tokenizer
    session: OnnxSession
    words: NDArray[np.int8]
    """The vectors of tokens, in steps; mapped from the file, which both encoders share."""
    step: NDArray[np.float32]
    has_content: NDArray[np.bool_]
    """By token id: False for markers, unknown tokens, and tokens without a letter or a digit."""


class PackagedEmbedder:
    """Embeds texts with a packaged model, which is loaded at first use. Threads and event loops may share it.

    `threads` is the number of threads per model pass. Passes over documents run concurrently, so one thread each is
    fastest; two make a query faster on an idle machine, and slower on a busy one. `batch` is the maximum number of
    texts per pass; queries that arrive while all threads are busy share the next pass. A text's vector does not depend
    on the other texts of its pass.
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
        return self._model.dimension

    @property
    def floor(self) -> float:
        return FLOOR

    async def embed(self, texts: Sequence[str], kind: TextKind) -> Vectors:
        """Return unit vectors in the order of the texts; text beyond the model's 512 tokens is ignored."""
        if not texts:
            return np.empty((0, self.dimension), dtype=np.float32)
        return np.stack([encoding.vector for encoding in await self.encode(texts, kind)])

    async def encode(self, texts: Sequence[str], kind: TextKind) -> list[Encoding]:
        """Return vectors, token vectors, the tense of queries and the reading of documents."""
        if not texts:
            return []
        if self._process != os.getpid():
            self._start()
        if sum(map(len, texts)) <= _SHORT_CALL:
            if kind == "query":
                return await asyncio.wrap_future(self._shared.submit(texts))
            return await self._in_thread(lambda call: self._run_all(self._rows(call)), (texts, kind))
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

    def _rows(self, call: _Call) -> list[EncoderRow]:
        texts, kind = call
        loaded, most = self._load(), self._model.max_tokens
        return [_row(loaded.tokenizer, _SURROGATES.sub("\ufffd", text), kind, max_tokens=most) for text in texts]

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
        loaded, kind = self._load(), rows[0].kind
        outputs = (*_SHARED_OUTPUTS, *(_QUERY_OUTPUTS if kind == "query" else _DOCUMENT_OUTPUTS))
        found = dict(zip(outputs, loaded.session.run(outputs, _inputs(rows, loaded)), strict=True))
        make = _query if kind == "query" else _document
        return [make(row, {name: values[n] for name, values in found.items()}, loaded) for n, row in enumerate(rows)]

    def _load(self) -> _Loaded:
        if self._loaded is None:
            with self._loading:
                self._loaded = self._loaded or _open(self._model, self._threads)
        return self._loaded


def _open(model: EmbeddingModel, threads: int) -> _Loaded:
    try:
        network, words = model.checked(model.network), model.checked("words.npy")
        pieces, tokens = model.read("tokens.spm"), model.read("tokens.npz")
    except ModelFileError as error:
        raise ModelCorrupt(
            f"The embedding model {model.name} can't be used: {error}. Nothing was loaded. "
            "Reinstall vmemo: pip install --force-reinstall --no-deps vmemo"
        ) from error
    with np.load(io.BytesIO(tokens)) as arrays:
        step, has_content = arrays["step"].astype(np.float32), arrays["content"]
    return _Loaded(
        cast("_Tokenizer", SentencePieceProcessor(model_proto=pieces)),
        open_session(network, threads),
        np.load(words, mmap_mode="r"),
        step,
        has_content,
    )


def _row(tokenizer: _Tokenizer, text: str, kind: TextKind, *, max_tokens: int) -> EncoderRow:
    """Return the row of a text without surrogates."""
    most = max_tokens - 2
    for part in (text[:_MAX_CHARACTERS], text):
        if kind == "query":
            ids, offsets = tokenizer.encode_as_ids(part), None
        else:
            pieces = tokenizer.encode_as_offset_mapping(part)
            ids, offsets = pieces["ids"], pieces["offsets"][:most]
        if len(ids) >= most or len(part) == len(text):
            break
    spans = None if offsets is None else _spans(text, offsets)
    return EncoderRow([_START, *ids[:most], _END], kind, spans)


def _spans(text: str, offsets: Sequence[tuple[int, int]]) -> NDArray[np.int32]:
    """Return the characters of tokens without the spaces before them, and of the markers around them."""
    starts = (end - len(text[start:end].lstrip()) for start, end in offsets)
    found = [(start, end) for start, (_, end) in zip(starts, offsets, strict=True)]
    last = found[-1][1] if found else 0
    return np.array([(0, 0), *found, (last, last)], np.int32)


def _query(row: EncoderRow, outputs: Mapping[str, NDArray[np.float32]], loaded: _Loaded) -> Encoding:
    """Return a query's encoding; its token vectors are scaled by their share of the attention."""
    weights = outputs["attention"][: len(row.ids)]
    shares = np.exp(weights - weights.max())
    tokens = outputs["tokens"][: len(row.ids)] * (shares / shares.sum())[:, None]
    return Encoding(outputs["pooled"], tokens, tense=float(outputs["tense"]))


def _document(row: EncoderRow, outputs: Mapping[str, NDArray[np.float32]], loaded: _Loaded) -> Encoding:
    """Return a document's encoding; a text without words has the token vector of the start marker."""
    length = len(row.ids)
    kept = loaded.has_content[np.array(row.ids)]
    kept[0] = not kept.any()
    spans = np.zeros((length, 2), np.int32) if row.spans is None else row.spans
    reading = Reading(noise=float(outputs["noise"]), tags=outputs["tags"][:length].copy(), spans=spans)
    return Encoding(outputs["pooled"], outputs["tokens"][:length][kept], reading=reading)


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


def _inputs(rows: Sequence[EncoderRow], loaded: _Loaded) -> dict[str, InputArray]:
    ids = np.zeros((len(rows), max(len(row.ids) for row in rows)), dtype=np.int64)
    mask = np.zeros(ids.shape, dtype=np.int32)
    for number, row in enumerate(rows):
        ids[number, : len(row.ids)] = row.ids
        mask[number, : len(row.ids)] = 1
    is_query = rows[0].kind == "query"
    return {
        "words": loaded.words[ids] * loaded.step[ids][..., None],
        "mask": mask,
        "segment": np.full(len(rows), int(is_query)),
        "read": np.array(not is_query),
    }
