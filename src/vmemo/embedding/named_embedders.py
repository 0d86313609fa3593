"""Embedders that are given by name: OpenAI-compatible services, and those of `vmemo-integrations`."""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from pydantic import BaseModel, ConfigDict, JsonValue, ValidationError

from vmemo.embedding.service import JsonService
from vmemo.embedding.token_counter import count_tokens
from vmemo.errors import EmbeddingFailed, InvalidInput
from vmemo.extras import load_integration
from vmemo.llm import connections
from vmemo.models.search import Vector, Vectors
from vmemo.ports import Embedder, TextKind
from vmemo.sync import PerEventLoop

Prefixes = Mapping[TextKind, str]
NO_PREFIXES: Prefixes = {}
_E5: Prefixes = {"query": "query: ", "document": "passage: "}
_ARCTIC_2: Prefixes = {"query": "query: "}
_SEARCH: Prefixes = {"query": "Represent this sentence for searching relevant passages: "}
_FAMILIES: Mapping[str, Prefixes] = {
    "nomic-embed-text": {"query": "search_query: ", "document": "search_document: "},
    # The large E5 models with "instruct" in their names take a task description.
    "instruct": NO_PREFIXES,
    **dict.fromkeys(("e5-small", "e5-base", "e5-large"), _E5),
    **dict.fromkeys(("bge-small-en", "bge-base-en", "bge-large-en", "mxbai-embed-large"), _SEARCH),
    **dict.fromkeys(("arctic-embed2", "arctic-embed-m-v2", "arctic-embed-l-v2"), _ARCTIC_2),
    "arctic-embed": _SEARCH,
}
"""The first family whose name a model's name contains applies."""


def prefixes_of(model: str) -> Prefixes:
    """Return the prefixes of a model's queries and documents; empty for a model of an unknown family."""
    folded = model.casefold()
    return next((prefixes for family, prefixes in _FAMILIES.items() if family in folded), NO_PREFIXES)


_MAX_RETRY_AFTER = {"query": 5.0, "document": 60.0}
"""Seconds that a request waits if the service asks it to: a recall waits for its query, a retain can resume later."""


@dataclass(frozen=True, kw_only=True)
class RequestLimits:
    """Limits and features of a service's requests; tokens are those of cl100k."""

    texts: int = 100
    tokens: int = 100_000
    text_tokens: int = 8_000
    """Tokens of one text; the rest of a longer one is ignored."""
    input_type: bool = False
    """The service has a parameter that distinguishes queries from documents."""
    base64: bool = False
    """The service is known to return packed numbers on request, a quarter of the size of decimal ones."""


_DEFAULT_LIMITS = RequestLimits()


@dataclass(frozen=True, kw_only=True)
class EmbedderOptions:
    """Options of a named embedder."""

    timeout: float = 30.0
    tries: int = 4
    concurrency: int = 8
    base_url: str | None = None
    api_key: str | None = field(default=None, repr=False)


class _Row(BaseModel):
    model_config = ConfigDict(allow_inf_nan=False, hide_input_in_errors=True)
    index: int | None = None
    embedding: list[float] | str


class _EmbeddingResponse(BaseModel):
    # An error message with the input would write vectors and texts to logs.
    model_config = ConfigDict(hide_input_in_errors=True)
    data: list[_Row]


class ServiceEmbedder:
    """An embedder on an OpenAI-compatible server; requests go to `base_url` + "/embeddings".

    The first answer states the dimension, and later answers must have the same. Threads and event loops may share it.
    """

    def __init__(
        self,
        model: str,
        *,
        name: str,
        base_url: str,
        options: EmbedderOptions,
        limits: RequestLimits = _DEFAULT_LIMITS,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        if options.concurrency < 1:
            raise InvalidInput("An embedder's concurrency must be at least 1.")
        parts = connections.parse_url(base_url, "The embedder's base URL")
        self._service = JsonService(
            parts._replace(path=parts.path.rstrip("/") + "/embeddings").geturl(),
            label=f"The embedder {name!r}",
            error=EmbeddingFailed,
            api_key=options.api_key,
            timeout=options.timeout,
            tries=options.tries,
            sleep=sleep,
        )
        self._model, self._name = model, name
        self._limits, self._concurrency = limits, options.concurrency
        self._prefixes = NO_PREFIXES if limits.input_type else prefixes_of(model)
        self._dimension = 0
        self._clients = PerEventLoop(connections.http_client)
        self._slots = PerEventLoop(lambda: asyncio.Semaphore(options.concurrency))

    @property
    def name(self) -> str:
        return self._name

    @property
    def dimension(self) -> int:
        """The dimension, or 0 before the first answer."""
        return self._dimension

    @property
    def concurrency(self) -> int:
        return self._concurrency

    def __repr__(self) -> str:
        return f"ServiceEmbedder(name={self._name!r}, url={self._service.shown_url!r})"

    def expect_dimension(self, dimension: int) -> None:
        """Require the dimension of a bank that this embedder wrote earlier."""
        self._dimension = self._dimension or dimension

    async def embed(self, texts: Sequence[str], kind: TextKind) -> Vectors:
        """Return one vector per text, of the length that the service gives it."""
        batches = list(self._batches(texts, kind))
        if not batches:
            return np.zeros((0, self._dimension), np.float32)
        answers = await asyncio.gather(*(self._embed(batch, kind) for batch in batches), return_exceptions=True)
        for answer in answers:
            if isinstance(answer, BaseException):
                raise answer
        return np.concatenate([answer for answer in answers if not isinstance(answer, BaseException)])

    async def close(self) -> None:
        """Close the connections; the next use opens new ones."""
        await self._clients.close(lambda client: client.aclose())

    def _batches(self, texts: Sequence[str], kind: TextKind) -> Iterator[list[str]]:
        """Yield the texts with their prefix, in requests within the limits of the service."""
        batch, total = list[str](), 0
        for text in texts:
            # Services reject an empty text.
            whole = self._prefixes.get(kind, "") + (text if text.strip() else ".")
            prepared, tokens = _within(whole, self._limits.text_tokens)
            if batch and (len(batch) == self._limits.texts or total + tokens > self._limits.tokens):
                yield batch
                batch, total = [], 0
            batch.append(prepared)
            total += tokens
        if batch:
            yield batch

    async def _embed(self, texts: Sequence[str], kind: TextKind) -> Vectors:
        body: dict[str, JsonValue] = {"model": self._model, "input": list[JsonValue](texts)}
        if self._limits.input_type:
            body["input_type"] = kind
        if self._limits.base64:
            body["encoding_format"] = "base64"
        async with self._slots.get():
            return await self._service.post(
                self._clients.get(),
                body,
                lambda answer: self._parse(answer, len(texts)),
                max_pause=_MAX_RETRY_AFTER[kind],
            )

    def _parse(self, body: bytes, count: int) -> Vectors:
        try:
            rows = _EmbeddingResponse.model_validate_json(body).data
            order = [number if row.index is None else row.index for number, row in enumerate(rows)]
            by_index = dict(zip(order, (_numbers(row.embedding) for row in rows), strict=True))
            vectors = np.stack([by_index[number] for number in range(count)])
        except (ValidationError, ValueError, KeyError):
            raise ValueError(f"{count} vectors of equal length") from None
        if self._dimension not in (0, vectors.shape[1]):
            raise EmbeddingFailed(
                self._service.describe(
                    f"returned vectors of {vectors.shape[1]} dimensions, but {self._dimension} before. If another "
                    "model has this name now, run `vmemo reembed` in a new process"
                )
            )
        self._dimension = vectors.shape[1]
        return vectors


def _numbers(embedding: list[float] | str) -> Vector:
    if isinstance(embedding, list):
        return np.asarray(embedding, np.float32)
    try:
        packed = base64.b64decode(embedding, validate=True)
    except binascii.Error as error:
        raise ValueError("not base64") from error
    return np.frombuffer(packed, "<f4")


def _within(text: str, max_tokens: int) -> tuple[str, int]:
    """Return the text, cut to about `max_tokens`, and the number of its tokens."""
    # A token has at least one character, and rarely more than a hundred.
    text = text[: max_tokens * 100]
    while (tokens := count_tokens(text)) > max_tokens:
        text = text[: int(len(text) * max_tokens / tokens * 0.98)]
    return text, tokens


EMBEDDING_SERVICES: Mapping[str, connections.ServiceEndpoint] = {
    **{prefix: connections.SERVICES[prefix] for prefix in ("openai", "gemini", "mistral", "together", "openrouter")},
    "voyage": connections.ServiceEndpoint("https://api.voyageai.com/v1", ("VOYAGE_API_KEY",)),
    **{prefix: connections.SERVICES[prefix] for prefix in ("ollama", "vllm", "llamacpp", "lmstudio")},
}
"""Services with OpenAI's embeddings protocol, by the prefix of a name."""
_LIMITS: Mapping[str, RequestLimits] = {
    "openai": RequestLimits(tokens=250_000, base64=True),
    "voyage": RequestLimits(text_tokens=30_000, input_type=True, base64=True),
}
_FORMS = ("deep", *(f"{prefix}:MODEL" for prefix in EMBEDDING_SERVICES), "fastembed:MODEL", "http://HOST:PORT/v1#MODEL")


def resolve_embedder(text: str, *, keys: Mapping[str, str], options: EmbedderOptions) -> Embedder:
    """Return the named embedder; `keys` holds variables such as OPENAI_API_KEY. Opens and loads nothing."""
    if text.startswith(("http://", "https://")):
        url, host, model = connections.split_model_url(text, "The embedder's base URL", "bge-m3")
        return ServiceEmbedder(model, name=f"{host}#{model}", base_url=url, options=options)
    prefix, _, model = text.partition(":")
    named = bool(model.strip()) and model == model.strip()
    if named and prefix == "fastembed":
        return load_integration("fastembed", f"The embedder {text!r}").FastEmbedEmbedder(model)
    if not named or (service := EMBEDDING_SERVICES.get(prefix)) is None:
        raise connections.unknown_name(text, "an embedder", _FORMS)
    what, given = f"The embedder {text!r}", {"url": options.base_url, "key": options.api_key}
    url, key = connections.find_access(service, what, keys, setting="embedder_key", **given)
    limits = _LIMITS.get(prefix, RequestLimits())
    # It is not known if another server packs numbers.
    limits = replace(limits, base64=limits.base64 and url == service.base_url)
    return ServiceEmbedder(model, name=text, base_url=url, options=replace(options, api_key=key), limits=limits)
