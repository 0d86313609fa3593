"""The protocols of models: embedders, rerankers and language models."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable

from pydantic import JsonValue

from vmemo.models.results import Usage
from vmemo.models.search import Encoding, Vectors

TextKind = Literal["query", "document"]


@runtime_checkable
class Embedder(Protocol):
    """Turns texts into unit vectors. `name` identifies the vector space: a change of it is a change of space."""

    @property
    def name(self) -> str: ...
    @property
    def dimension(self) -> int: ...
    async def embed(self, texts: Sequence[str], kind: TextKind) -> Vectors: ...


@runtime_checkable
class TokenEmbedder(Embedder, Protocol):
    """An embedder whose one pass also gives a short vector for each token, by which recall reranks."""

    async def encode(self, texts: Sequence[str], kind: TextKind) -> Sequence[Encoding]: ...


async def encodings(embedder: Embedder, texts: Sequence[str], kind: TextKind) -> Sequence[Encoding]:
    """Texts as vectors, with token vectors where the embedder gives them."""
    if isinstance(embedder, TokenEmbedder):
        return await embedder.encode(texts, kind)
    return [Encoding(vector) for vector in await embedder.embed(texts, kind)]


@runtime_checkable
class Reranker(Protocol):
    """Says how well each text answers a query: the higher, the better, on any scale."""

    @property
    def name(self) -> str: ...
    async def rerank(self, query: str, texts: Sequence[str]) -> Sequence[float]: ...


class TokenCounter(Protocol):
    """Counts a text's cl100k tokens."""

    def __call__(self, text: str, /) -> int: ...


@dataclass(frozen=True, kw_only=True)
class Ask:
    """One question to a language model, whose answer must be JSON that fits a schema.

    `step` names what it is for (extract, judge …); servers that want a name for the schema get it.
    """

    step: str
    system: str
    user: str
    schema: Mapping[str, JsonValue]
    max_tokens: int = 4096


@dataclass(frozen=True, kw_only=True)
class Completion:
    """What the model wrote, as it wrote it, and what that cost."""

    text: str
    usage: Usage


@runtime_checkable
class LLM(Protocol):
    """A language model. `name` is recorded with every fact that it reads.

    `complete` gives an answer or raises one of the `LLMFailed` errors; it retries what may pass by itself.
    """

    @property
    def name(self) -> str: ...
    async def complete(self, ask: Ask) -> Completion: ...


@runtime_checkable
class StreamingLLM(LLM, Protocol):
    """A language model that tells its answer while it writes it.

    `stream` gives the text piece by piece, and last the whole of it with what it cost; it raises what `complete` does.
    """

    def stream(self, ask: Ask) -> AsyncGenerator[str | Completion]: ...
