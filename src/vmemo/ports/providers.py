"""The protocols of models and extraction, and the context that holds those of a memory with its store and settings."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, Protocol, TypeGuard, runtime_checkable

from pydantic import JsonValue

from vmemo.models import Interval, Message
from vmemo.models.changes import ExtractionResult
from vmemo.models.results import Usage
from vmemo.models.search import ClaimPair, Encoding, StatementPair, Vectors
from vmemo.models.settings import Redactor, Settings
from vmemo.ports.store import Store

TextKind = Literal["query", "document"]


@runtime_checkable
class Embedder(Protocol):
    """Turns texts into vectors. `name` identifies the vector space: a change of it is a change of space.

    `dimension` is 0 while a `LearningEmbedder` does not know it.
    """

    @property
    def name(self) -> str: ...
    @property
    def dimension(self) -> int: ...
    async def embed(self, texts: Sequence[str], kind: TextKind) -> Vectors: ...


@runtime_checkable
class LearningEmbedder(Embedder, Protocol):
    """An embedder that learns its dimension from its first answer, or from a bank that it wrote earlier."""

    def expect_dimension(self, dimension: int) -> None: ...


async def dimension_of(embedder: Embedder) -> int:
    """Return the dimension; an embedder that does not know it yet embeds a word."""
    return embedder.dimension or (await embedder.embed(["dimension"], "document")).shape[1]


@runtime_checkable
class TokenEmbedder(Embedder, Protocol):
    """An embedder whose one pass also gives a short vector for each token, by which recall reranks."""

    async def encode(self, texts: Sequence[str], kind: TextKind) -> Sequence[Encoding]: ...


def gives_tokens(embedder: Embedder) -> TypeGuard[TokenEmbedder]:
    """Return True for a `TokenEmbedder`. `isinstance` reads all properties of an embedder, which takes longer."""
    return hasattr(embedder, "encode")


async def encodings(embedder: Embedder, texts: Sequence[str], kind: TextKind) -> Sequence[Encoding]:
    """Embed texts, with token vectors if the embedder returns them."""
    if gives_tokens(embedder):
        return await embedder.encode(texts, kind)
    return [Encoding(vector) for vector in await embedder.embed(texts, kind)]


@runtime_checkable
class Closable(Protocol):
    """A model that holds connections."""

    async def close(self) -> None: ...


@runtime_checkable
class Reranker(Protocol):
    """Says how well each text answers a query: the higher, the better, on any scale."""

    @property
    def name(self) -> str: ...
    async def rerank(self, query: str, texts: Sequence[str]) -> Sequence[float]: ...


@runtime_checkable
class RevisionModel(Protocol):
    """Estimates the probability that a later statement makes an earlier one outdated.

    `encoder` names the embedder whose cosines it takes: with another embedder the model is not used. `score` returns
    one probability for each pair, and `score_claims` one for each claim of an earlier statement that has several; both
    run off the event loop.
    """

    @property
    def name(self) -> str: ...
    @property
    def encoder(self) -> str: ...
    async def score(self, pairs: Sequence[StatementPair]) -> Sequence[float]: ...
    async def score_claims(self, claims: Sequence[ClaimPair]) -> Sequence[float]: ...


class TokenCounter(Protocol):
    """Counts a text's cl100k tokens."""

    def __call__(self, text: str, /) -> int: ...


@dataclass(frozen=True, kw_only=True)
class LLMRequest:
    """One request to a language model, whose answer must be JSON that matches `schema`.

    `step` names the purpose (extract, judge, ...); servers that require a schema name receive it. With `omit_empty` the
    answer may leave out optional fields; otherwise servers may require all of them.
    """

    step: str
    system: str
    user: str
    schema: Mapping[str, JsonValue]
    max_tokens: int = 4096
    omit_empty: bool = False


@dataclass(frozen=True, kw_only=True)
class Completion:
    """The unmodified text that the model returned, and its usage."""

    text: str
    usage: Usage


@runtime_checkable
class LLM(Protocol):
    """A language model. `name` is recorded with every fact that it extracts.

    `complete` returns an answer or raises an `LLMFailed` error; it retries transient failures itself.
    """

    @property
    def name(self) -> str: ...
    async def complete(self, request: LLMRequest) -> Completion: ...


@runtime_checkable
class StreamingLLM(LLM, Protocol):
    """A language model that can stream its answer.

    `stream` yields text deltas and finally the whole `Completion`; it raises the same errors as `complete`.
    """

    def stream(self, request: LLMRequest) -> AsyncGenerator[str | Completion]: ...


class TimeReader(Protocol):
    """Finds the times in a text, relative to the time of its message. Called from any thread."""

    def __call__(self, text: str, reference: datetime, /) -> Sequence[Interval]: ...


@runtime_checkable
class Extractor(Protocol):
    """Extracts drafts of facts from messages. `keeps_words` is True if drafts repeat the messages' own words."""

    @property
    def name(self) -> str: ...
    @property
    def keeps_words(self) -> bool: ...
    async def read(self, messages: Sequence[Message], before: Message | None) -> ExtractionResult: ...


@dataclass(frozen=True, kw_only=True, eq=False)
class Context:
    """One memory's store, models and settings, shared by its banks."""

    store: Store
    embedder: Embedder
    owns_embedder: bool = False
    """True if the memory made the embedder itself and closes it."""
    extractor: Extractor
    """Extracts facts when there is no language model."""
    llm: LLM | None
    owns_llm: bool = False
    """True if the memory made the model itself and closes it."""
    counter: TokenCounter
    reranker: Reranker | Literal["late", "none"] = "late"
    revision_model: RevisionModel | None = None
    """Decides which known facts new ones make outdated when there is no language model; None leaves it to rules."""
    time_reader: TimeReader | None = None
    """Finds times in other languages than English."""
    redactor: Redactor | None = None
    """Removes from messages what must not be stored."""
    settings: Settings

    @property
    def engine(self) -> str:
        """The name of the engine that extracts facts."""
        return self.extractor.name if self.llm is None else self.llm.name
