"""The embedder that ships with vmemo: a small model on the CPU, without network, key or download."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Protocol, TypeVar, cast

import numpy as np
import onnxruntime as ort
from numpy.typing import NDArray

from vmemo.errors import InvalidInput, ModelCorrupt
from vmemo.ports import TextKind, Vectors
from vmemo.providers.wordpiece import WordPiece
from vmemo_models import ARCTIC_EMBED_S_INT8, EmbeddingModel, ModelFileError

_MAX_PADDED_TOKENS = 1024
"""Beyond this a pass gains no speed, and its attention matrices leave the processor's cache."""
_MAX_PASSES = 4
"""Passes of one call that run at once, where there are as many processors; more would take too much memory."""
_SILENT = 4
_In = TypeVar("_In")
_Out = TypeVar("_Out")


class _Options(Protocol):
    """What is used of `onnxruntime.SessionOptions`, which carries no types."""

    intra_op_num_threads: int
    inter_op_num_threads: int
    log_severity_level: int


class _Session(Protocol):
    """What is used of `onnxruntime.InferenceSession`, which carries no types."""

    def run(
        self, output_names: Sequence[str], input_feed: Mapping[str, NDArray[np.int64]], /
    ) -> list[NDArray[np.float32]]: ...


@dataclass(frozen=True)
class _Loaded:
    tokenizer: WordPiece
    session: _Session


class PackagedEmbedder:
    """Embeds with a packaged model. Loads at first use; may be shared by threads and event loops.

    `threads` are those of one model pass. Passes over documents run side by side, so one thread each is the
    fastest for them; on an idle machine two make a query a fifth faster, on a busy one they double its time.
    `batch` is the most texts in one pass. The int8 model scales its numbers per pass, so a text's vector
    moves a little with its company (cosine 0.99 or more); a batch of 1 ends that, at up to twice the time.
    """

    def __init__(self, model: EmbeddingModel = ARCTIC_EMBED_S_INT8, *, threads: int = 1, batch: int = 32) -> None:
        if batch < 1:
            raise InvalidInput(f"batch is {batch}, but a pass holds one text at least")
        self._model = model
        self._batch = batch
        self._threads = threads
        self._passes = min(_processors(), _MAX_PASSES)
        # One more than a call takes: a query overtakes a long run of documents.
        self._executor = ThreadPoolExecutor(self._passes + 1, thread_name_prefix="vmemo-embed")
        self._loading = threading.Lock()
        self._loaded: _Loaded | None = None

    @property
    def name(self) -> str:
        """The model's name, which is also the vector space's."""
        return self._model.name

    @property
    def dimension(self) -> int:
        """Numbers in a vector."""
        return self._model.dimension

    @property
    def query_prefix(self) -> str:
        """What is put before a query, and before no document."""
        return self._model.query_prefix

    async def embed(self, texts: Sequence[str], kind: TextKind) -> Vectors:
        """Unit vectors in the order of the texts, whose words beyond the model's 512 tokens are not seen."""
        if not texts:
            return np.empty((0, self.dimension), dtype=np.float32)
        prefix = self.query_prefix if kind == "query" else ""
        if len(texts) == 1:
            return await self._in_thread(self._embed_one, prefix + texts[0])
        encoded = await self._in_thread(self._encode, [prefix + text for text in texts])
        vectors = np.empty((len(texts), self.dimension), dtype=np.float32)
        batches = list(_batches(encoded, self._batch))
        for start in range(0, len(batches), self._passes):
            group = batches[start : start + self._passes]
            rows = [[encoded[index] for index in indexes] for indexes in group]
            answers = await asyncio.gather(*(self._in_thread(self._run, batch) for batch in rows))
            for indexes, answer in zip(group, answers, strict=True):
                vectors[indexes] = answer
        return vectors

    def _in_thread(self, work: Callable[[_In], _Out], given: _In) -> asyncio.Future[_Out]:
        return asyncio.get_running_loop().run_in_executor(self._executor, work, given)

    def _embed_one(self, text: str) -> Vectors:
        return self._run(self._encode([text]))

    def _encode(self, texts: Sequence[str]) -> list[list[int]]:
        encode = self._load().tokenizer.encode
        return [encode(text) for text in texts]

    def _run(self, rows: Sequence[Sequence[int]]) -> Vectors:
        """One model pass: the first token's last state, as unit vectors."""
        (states,) = self._load().session.run(["last_hidden_state"], _inputs(rows))
        first = states[:, 0]
        return first / np.linalg.norm(first, axis=1, keepdims=True)

    def _load(self) -> _Loaded:
        if self._loaded is None:
            with self._loading:
                self._loaded = self._loaded or _open(self._model, self._threads)
        return self._loaded


def _open(model: EmbeddingModel, threads: int) -> _Loaded:
    try:
        network, vocabulary = model.read("model.onnx"), model.read("vocab.txt")
    except ModelFileError as error:
        raise ModelCorrupt(
            f"The embedding model {model.name} can't be used: {error}. Nothing was loaded. "
            "Reinstall vmemo: pip install --force-reinstall --no-deps vmemo"
        ) from error
    tokens = vocabulary.decode("utf-8").removesuffix("\n").split("\n")
    tokenizer = WordPiece(tokens, max_tokens=model.max_tokens)
    return _Loaded(tokenizer, _session(network, threads))


def _session(network: bytes, threads: int) -> _Session:
    options = cast("_Options", ort.SessionOptions())  # pyright: ignore[reportUnknownMemberType]
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = _SILENT
    return cast("_Session", ort.InferenceSession(network, options, providers=["CPUExecutionProvider"]))


def _processors() -> int:
    """Processors this process may use, which can be fewer than the machine has."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _batches(encoded: Sequence[Sequence[int]], most: int) -> Iterator[list[int]]:
    """Indexes of texts to run together: of like length, so that little is padded."""
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
