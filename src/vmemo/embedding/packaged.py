"""The packaged embedder: a small ONNX model on the CPU, without network, API key or download."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from vmemo.embedding.onnx_session import OnnxSession, concurrent_passes, open_session
from vmemo.embedding.wordpiece import WordPiece
from vmemo.errors import InvalidInput, ModelCorrupt
from vmemo.models.search import Encoding, TokenVectors, Vectors
from vmemo.ports import TextKind
from vmemo_models import ENCODER, EmbeddingModel, ModelFileError

_MAX_PADDED_TOKENS = 1024
"""Above this, a pass is not faster, and its attention matrices exceed the processor's cache."""
_Batch = tuple[Sequence[Sequence[int]], TextKind]
"""The token ids of the texts in one model pass, and their kind."""
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
    maximum number of texts per pass. The int8 model scales its numbers per pass, so a text's vector depends slightly on
    its batch (cosine 0.97 or more); a batch of 1 avoids that, in up to twice the time.
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
        prefix = self.query_prefix if kind == "query" else ""
        if len(texts) == 1:
            return await self._in_thread(self._encode_one, (prefix + texts[0], kind))
        rows = await self._in_thread(self._ids, [prefix + text for text in texts])
        encoded: dict[int, Encoding] = {}
        batches = list(_batches(rows, self._batch))
        for start in range(0, len(batches), self._passes):
            group = batches[start : start + self._passes]
            work: list[_Batch] = [([rows[index] for index in indexes], kind) for indexes in group]
            for indexes, answer in zip(
                group, await asyncio.gather(*(self._in_thread(self._run, batch) for batch in work)), strict=True
            ):
                encoded.update(zip(indexes, answer, strict=True))
        return [encoded[index] for index in range(len(texts))]

    def _in_thread(self, function: Callable[[_In], _Out], argument: _In) -> asyncio.Future[_Out]:
        return asyncio.get_running_loop().run_in_executor(self._executor, function, argument)

    def _encode_one(self, query: tuple[str, TextKind]) -> list[Encoding]:
        text, kind = query
        return self._run((self._ids([text]), kind))

    def _ids(self, texts: Sequence[str]) -> list[list[int]]:
        encode = self._load().tokenizer.encode
        return [encode(text) for text in texts]

    def _run(self, batch: _Batch) -> list[Encoding]:
        """Run one model pass."""
        rows, kind = batch
        loaded = self._load()
        pooled, tokens, attention = loaded.session.run(["pooled", "tokens", "attention"], _inputs(rows))
        pooled = pooled / np.linalg.norm(pooled, axis=1, keepdims=True)
        if kind == "query":
            return [
                Encoding(vector, _weighted(tokens[n, : len(row)], attention[n, : len(row)]))
                for n, (row, vector) in enumerate(zip(rows, pooled, strict=True))
            ]
        return [
            Encoding(vector, tokens[n, : len(row)][loaded.has_content[np.array(row)]])
            for n, (row, vector) in enumerate(zip(rows, pooled, strict=True))
        ]

    def _load(self) -> _Loaded:
        if self._loaded is None:
            with self._loading:
                self._loaded = self._loaded or _open(self._model, self._threads)
        return self._loaded


def _open(model: EmbeddingModel, threads: int) -> _Loaded:
    try:
        network, vocabulary = model.read_network(), model.read("vocab.txt")
    except ModelFileError as error:
        raise ModelCorrupt(
            f"The embedding model {model.name} can't be used: {error}. Nothing was loaded. "
            "Reinstall vmemo: pip install --force-reinstall --no-deps vmemo"
        ) from error
    tokens = vocabulary.decode("utf-8").removesuffix("\n").split("\n")
    tokenizer = WordPiece(tokens, max_tokens=model.max_tokens)
    has_content = np.array([token != "[SEP]" and any(map(str.isalnum, token)) for token in tokens])
    return _Loaded(tokenizer, open_session(network, threads), has_content)


def _weighted(tokens: NDArray[np.float32], attention: NDArray[np.float32]) -> TokenVectors:
    """Scale a query's token vectors by their share of the attention."""
    shares = np.exp(attention - attention.max())
    return tokens * (shares / shares.sum())[:, None]


def _batches(encoded: Sequence[Sequence[int]], most: int) -> Iterator[list[int]]:
    """Yield the indexes of texts to run together, of similar length to reduce padding."""
    batch: list[int] = []
    for index in sorted(range(len(encoded)), key=lambda index: len(encoded[index])):
        if len(batch) == most or len(encoded[index]) * (len(batch) + 1) > _MAX_PADDED_TOKENS:
            yield batch
            batch = []
        batch.append(index)
    yield batch


def _inputs(rows: Sequence[Sequence[int]]) -> dict[str, NDArray[np.int64]]:
    ids = np.zeros((len(rows), max(map(len, rows))), dtype=np.int64)
    mask = np.zeros_like(ids)
    for number, row in enumerate(rows):
        ids[number, : len(row)] = row
        mask[number, : len(row)] = 1
    return {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
