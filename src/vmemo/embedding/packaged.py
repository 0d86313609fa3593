"""The embedder that ships with vmemo: a small model on the CPU, without network, key or download."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from vmemo.embedding.onnx_session import Session, passes, session
from vmemo.embedding.wordpiece import WordPiece
from vmemo.errors import InvalidInput, ModelCorrupt
from vmemo.models.search import Encoding, TokenVectors, Vectors
from vmemo.ports import TextKind
from vmemo_models import ENCODER, EmbeddingModel, ModelFileError

_MAX_PADDED_TOKENS = 1024
"""Beyond this a pass gains no speed, and its attention matrices leave the processor's cache."""
_Work = tuple[Sequence[Sequence[int]], TextKind]
"""Rows of ids for one model pass, and what they are."""
_In = TypeVar("_In")
_Out = TypeVar("_Out")


@dataclass(frozen=True)
class _Loaded:
    tokenizer: WordPiece
    session: Session
    telling: NDArray[np.bool_]
    """Which ids of the vocabulary say something: no punctuation, no end marker."""


class PackagedEmbedder:
    """Embeds with a packaged model. Loads at first use; may be shared by threads and event loops.

    `threads` are those of one model pass. Passes over documents run side by side, so one thread each is the
    fastest for them; on an idle machine two make a query a fifth faster, on a busy one they double its time.
    `batch` is the most texts in one pass. The int8 model scales its numbers per pass, so a text's vector
    moves a little with its company (cosine 0.97 or more); a batch of 1 ends that, at up to twice the time.
    """

    def __init__(self, model: EmbeddingModel = ENCODER, *, threads: int = 1, batch: int = 32) -> None:
        if batch < 1:
            raise InvalidInput(f"batch is {batch}, but a pass holds one text at least")
        self._model = model
        self._batch = batch
        self._threads = threads
        self._passes = passes()
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
        return np.stack([encoding.vector for encoding in await self.encode(texts, kind)])

    async def encode(self, texts: Sequence[str], kind: TextKind) -> list[Encoding]:
        """Vectors and token vectors. A query's tokens are as long as they count; a document's punctuation has none."""
        if not texts:
            return []
        prefix = self.query_prefix if kind == "query" else ""
        if len(texts) == 1:
            return await self._in_thread(self._encode_one, (prefix + texts[0], kind))
        rows = await self._in_thread(self._ids, [prefix + text for text in texts])
        encoded: dict[int, Encoding] = {}
        batches = list(_batches(rows, self._batch))
        for start in range(0, len(batches), self._passes):
            group = batches[start : start + self._passes]
            work: list[_Work] = [([rows[index] for index in indexes], kind) for indexes in group]
            for indexes, answer in zip(
                group, await asyncio.gather(*(self._in_thread(self._run, batch) for batch in work)), strict=True
            ):
                encoded.update(zip(indexes, answer, strict=True))
        return [encoded[index] for index in range(len(texts))]

    def _in_thread(self, work: Callable[[_In], _Out], given: _In) -> asyncio.Future[_Out]:
        return asyncio.get_running_loop().run_in_executor(self._executor, work, given)

    def _encode_one(self, given: tuple[str, TextKind]) -> list[Encoding]:
        text, kind = given
        return self._run((self._ids([text]), kind))

    def _ids(self, texts: Sequence[str]) -> list[list[int]]:
        encode = self._load().tokenizer.encode
        return [encode(text) for text in texts]

    def _run(self, given: _Work) -> list[Encoding]:
        """One model pass."""
        rows, kind = given
        loaded = self._load()
        pooled, tokens, attention = loaded.session.run(["pooled", "tokens", "attention"], _inputs(rows))
        pooled = pooled / np.linalg.norm(pooled, axis=1, keepdims=True)
        if kind == "query":
            return [
                Encoding(vector, _weighed(tokens[n, : len(row)], attention[n, : len(row)]))
                for n, (row, vector) in enumerate(zip(rows, pooled, strict=True))
            ]
        return [
            Encoding(vector, tokens[n, : len(row)][loaded.telling[np.array(row)]])
            for n, (row, vector) in enumerate(zip(rows, pooled, strict=True))
        ]

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
    telling = np.array([token != "[SEP]" and any(map(str.isalnum, token)) for token in tokens])
    return _Loaded(tokenizer, session(network, threads), telling)


def _weighed(tokens: NDArray[np.float32], attention: NDArray[np.float32]) -> TokenVectors:
    """A query's token vectors, each as long as the share of attention that it has."""
    shares = np.exp(attention - attention.max())
    return tokens * (shares / shares.sum())[:, None]


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
