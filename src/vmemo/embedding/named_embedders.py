"""Embedders that are given by name: OpenAI-compatible services, and models that fastembed runs on this machine."""

from __future__ import annotations

import asyncio
import base64
import binascii
import json
import random
import threading
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import NoReturn, Protocol, cast

import httpx2
import numpy as np
from pydantic import BaseModel, ConfigDict, JsonValue, ValidationError

from vmemo.embedding.token_counter import count_tokens
from vmemo.errors import EmbeddingFailed, InvalidInput, LLMUnavailable, MissingExtra
from vmemo.llm.connections import (
    SERVICES,
    ServiceEndpoint,
    check_api_key,
    default_certificates,
    find_api_key,
    missing_key,
    parse_url,
)
from vmemo.llm.openai import error_for_status, retry_after_seconds
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


_MAX_BYTES = 32 * 1024 * 1024
"""Size of a response; a hundred vectors of 4,096 numbers as text take about 10 MB."""
_INITIAL_DELAY, _MAX_DELAY = 0.5, 20.0
_MAX_RETRY_AFTER = {"query": 5.0, "document": 60.0}
"""Seconds that a request waits if the service asks it to: a recall waits for its query, a retain can resume later."""


@dataclass(frozen=True, kw_only=True)
class RequestLimits:
    """Limits and features of a service's requests; tokens are those of cl100k."""

    texts: int = 100
    tokens: int = 100_000
    """Tokens of all texts of a request."""
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


class _TransientFailure(Exception):
    """The same request may succeed later, after `retry_after` seconds if the service says so."""

    def __init__(self, problem: str, retry_after: float | None = None) -> None:
        super().__init__(problem)
        self.retry_after = retry_after


class ServiceEmbedder:
    """An embedder on an OpenAI-compatible server; requests go to `base_url` + "/embeddings".

    The first answer states the dimension, and later answers must have the same. Status 408, 429 and 5xx, lost
    connections, timeouts and malformed answers are tried again with backoff; a rejected request is not. Errors name
    the embedder, the URL and what to do, and never the key or the texts. Threads and event loops may share it.
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
        if not 0 < options.timeout < float("inf") or options.tries < 1 or options.concurrency < 1:
            raise InvalidInput(
                "An embedder's timeout must be positive and finite, attempts and concurrency at least 1."
            )
        parts = parse_url(base_url, "The embedder's base URL")
        parts = parts._replace(path=parts.path.rstrip("/") + "/embeddings")
        self._url = parts.geturl()
        # The query of a URL may hold a key.
        self._shown_url = parts._replace(query="", fragment="").geturl()
        self._model, self._name = model, name
        self._headers = {"User-Agent": "vmemo", "Content-Type": "application/json", "Accept": "application/json"}
        if options.api_key:
            key = check_api_key(options.api_key, "The embedder's API key")
            self._headers["Authorization"] = f"Bearer {key}"
        self._options, self._limits, self._sleep = options, limits, sleep
        self._prefixes = NO_PREFIXES if limits.input_type else prefixes_of(model)
        self._dimension = 0
        self._clients = PerEventLoop(_create_client)
        self._slots = PerEventLoop(lambda: asyncio.Semaphore(options.concurrency))

    @property
    def name(self) -> str:
        """The given name, which identifies the vector space."""
        return self._name

    @property
    def dimension(self) -> int:
        """The dimension, or 0 before the first answer."""
        return self._dimension

    @property
    def concurrency(self) -> int:
        """Requests that are sent at a time, at most."""
        return self._options.concurrency

    def __repr__(self) -> str:
        return f"ServiceEmbedder(name={self._name!r}, url={self._shown_url!r})"

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
        # Lone surrogates cannot be encoded; replacing them is better than failing.
        content = json.dumps(body, ensure_ascii=False).encode("utf-8", "replace")
        async with self._slots.get():
            return await self._with_retries(content, texts, kind)

    async def _with_retries(self, content: bytes, texts: Sequence[str], kind: TextKind) -> Vectors:
        for attempt in range(1, self._options.tries + 1):
            try:
                return self._parse(await self._post(content, texts), len(texts))
            except _TransientFailure as failure:
                pause = failure.retry_after
                if pause is None:
                    pause = random.random() * min(_INITIAL_DELAY * 2.0**attempt, _MAX_DELAY)
                elif pause > _MAX_RETRY_AFTER[kind]:
                    problem = f"{failure} and asks not to be called for {pause:.0f} seconds"
                    raise EmbeddingFailed(f"{problem}. Try again then") from failure
                if attempt == self._options.tries:
                    tried = f", in {attempt} attempts" if attempt > 1 else ""
                    raise EmbeddingFailed(f"{failure}{tried}. Try again later") from failure
            await self._sleep(pause)
        raise AssertionError("unreachable")

    async def _post(self, content: bytes, texts: Sequence[str]) -> bytes:
        """Return the body of a successful response."""
        try:
            async with (
                asyncio.timeout(self._options.timeout),
                self._clients.get().stream("POST", self._url, content=content, headers=self._headers) as response,
            ):
                body = bytearray()
                async for packet in response.aiter_bytes():
                    body += packet
                    if len(body) > _MAX_BYTES:
                        raise EmbeddingFailed(self._describe(f"returned an answer of more than {_MAX_BYTES} bytes"))
        except TimeoutError:
            raise _TransientFailure(
                self._describe(f"did not answer within {self._options.timeout:g} seconds")
            ) from None
        except httpx2.ConnectError as error:
            raise _TransientFailure(self._describe(f"can't be reached: {error}")) from error
        except httpx2.HTTPError as error:
            # The message may quote the answer, and the answer may quote the request.
            raise _TransientFailure(self._describe(f"broke the connection ({type(error).__name__})")) from None
        if response.status_code != 200:
            self._refuse(response, texts)
        return bytes(body)

    def _refuse(self, response: httpx2.Response, texts: Sequence[str]) -> NoReturn:
        status = response.status_code
        after = retry_after_seconds(response.headers)
        error = error_for_status(status, self._describe("answered with status"), retry_after=after)
        if isinstance(error, LLMUnavailable):
            raise _TransientFailure(str(error), after)
        longest = max(map(count_tokens, texts))
        hint = f" (its longest text has {longest} tokens; the model's context must hold it)"
        raise EmbeddingFailed(f"{error}{hint if status in (400, 413, 422) else ''}. The request is not repeated")

    def _parse(self, body: bytes, count: int) -> Vectors:
        try:
            rows = _EmbeddingResponse.model_validate_json(body).data
            order = [number if row.index is None else row.index for number, row in enumerate(rows)]
            by_index = dict(zip(order, (_numbers(row.embedding) for row in rows), strict=True))
            vectors = np.stack([by_index[number] for number in range(count)])
        except (ValidationError, ValueError, KeyError):
            problem = f"returned something other than {count} vectors of equal length"
            raise _TransientFailure(self._describe(problem)) from None
        if self._dimension not in (0, vectors.shape[1]):
            raise EmbeddingFailed(
                self._describe(
                    f"returned vectors of {vectors.shape[1]} dimensions, but {self._dimension} before. If another "
                    "model has this name now, run `vmemo reembed` in a new process"
                )
            )
        self._dimension = vectors.shape[1]
        return vectors

    def _describe(self, event: str) -> str:
        return f"The embedder {self._name!r} at {self._shown_url} {event}"


def _create_client() -> httpx2.AsyncClient:
    # The options' timeout covers the whole exchange, and a semaphore limits the concurrency.
    limits = httpx2.Limits(max_connections=None, max_keepalive_connections=100)
    return httpx2.AsyncClient(timeout=None, limits=limits, verify=default_certificates(trust_env=True))


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


class _Model(Protocol):
    def embed(self, documents: Sequence[str]) -> Iterable[Vector]: ...


class _ModelClass(Protocol):
    def __call__(self, model_name: str, **options: object) -> _Model: ...
    def list_supported_models(self) -> list[dict[str, object]]: ...


class FastEmbedEmbedder:
    """A model that fastembed supports, by its name or as a folder; loaded at first use. Threads may share it.

    A named model is downloaded at first use unless fastembed's cache has it. A folder, whose name must be that of the
    model, is used as it is: nothing is downloaded.
    """

    def __init__(self, model: str) -> None:
        if find_spec("fastembed") is None:
            raise MissingExtra(f"The embedder 'fastembed:{model}' needs the extra: pip install 'vmemo[fastembed]'")
        path = Path(model).expanduser()
        self._folder = path if path.is_absolute() or model.startswith(".") else None
        if self._folder is not None and not self._folder.is_dir():
            raise InvalidInput(f"There is no folder {self._folder} with a model for fastembed.")
        self._model = model
        self._prefixes: Mapping[TextKind, str] = {}
        self._dimension = 0
        self._lock = threading.Lock()
        self._loaded: _Model | None = None

    @property
    def name(self) -> str:
        """The name of the vector space; that of a folder does not depend on where the folder is."""
        return f"fastembed:{self._model if self._folder is None else self._folder.name}"

    @property
    def dimension(self) -> int:
        """The dimension, or 0 before the first use."""
        return self._dimension

    def expect_dimension(self, dimension: int) -> None:
        """Require the dimension of a bank that this embedder wrote earlier."""
        self._dimension = self._dimension or dimension

    async def embed(self, texts: Sequence[str], kind: TextKind) -> Vectors:
        """Return one vector per text."""
        return await asyncio.to_thread(self._embed, texts, kind)

    def _embed(self, texts: Sequence[str], kind: TextKind) -> Vectors:
        with self._lock:
            if self._loaded is None:
                self._loaded = self._load()
        prefix = self._prefixes.get(kind, "")
        vectors = np.asarray(list(self._loaded.embed([prefix + text for text in texts])), np.float32)
        if len(texts):
            self._dimension = self._dimension or vectors.shape[1]
        return vectors.reshape(len(texts), -1) if len(texts) else np.zeros((0, self._dimension), np.float32)

    def _load(self) -> _Model:
        model_class = cast("_ModelClass", import_module("fastembed").TextEmbedding)
        known = {str(model["model"]): _repository(model) for model in model_class.list_supported_models()}
        model = self._model if self._folder is None else _model_of(self._folder, known)
        by_name = {name.casefold(): name for name in known}
        if model is None or model.casefold() not in by_name:
            raise InvalidInput(
                f"fastembed has no model {self._model!r}. Use one of its names, or a folder with such a name: "
                f"{', '.join(sorted(known))}"
            )
        self._prefixes = prefixes_of(model)
        local = {} if self._folder is None else {"specific_model_path": str(self._folder), "local_files_only": True}
        try:
            return model_class(by_name[model.casefold()], **local)
        # fastembed raises many kinds of errors, of its own, of the download and of onnxruntime.
        except Exception as error:
            raise EmbeddingFailed(
                f"The embedder {self.name!r} was not loaded: {error}. Without a network, give the folder of its files: "
                "fastembed:/path/to/bge-small-en-v1.5"
            ) from error


def _repository(model: Mapping[str, object]) -> str:
    """Return the repository that a supported model is downloaded from."""
    sources = model.get("sources")
    return str(cast("Mapping[str, object]", sources).get("hf") or "") if isinstance(sources, Mapping) else ""


def _model_of(folder: Path, known: Mapping[str, str]) -> str | None:
    """Return the supported model whose name, or whose repository's, is that of the folder."""
    names = {folder.name.casefold()}
    return next(
        (
            model
            for model, repository in known.items()
            if names & {model.rpartition("/")[2].casefold(), repository.rpartition("/")[2].casefold()}
        ),
        None,
    )


EMBEDDING_SERVICES: Mapping[str, ServiceEndpoint] = {
    **{prefix: SERVICES[prefix] for prefix in ("openai", "gemini", "mistral", "together", "openrouter")},
    "voyage": ServiceEndpoint("https://api.voyageai.com/v1", ("VOYAGE_API_KEY",)),
    **{prefix: SERVICES[prefix] for prefix in ("ollama", "vllm", "llamacpp", "lmstudio")},
}
"""Services with OpenAI's embeddings protocol, by the prefix of a name."""
_LIMITS: Mapping[str, RequestLimits] = {
    "openai": RequestLimits(tokens=250_000, base64=True),
    "voyage": RequestLimits(text_tokens=30_000, input_type=True, base64=True),
}
_FORMS = (
    "small",
    *(f"{prefix}:MODEL" for prefix in EMBEDDING_SERVICES),
    "fastembed:MODEL",
    "http://HOST:PORT/v1#MODEL",
)


def resolve_embedder(text: str, *, keys: Mapping[str, str], options: EmbedderOptions) -> Embedder:
    """Return the named embedder; `keys` holds variables such as OPENAI_API_KEY. Opens and loads nothing."""
    if text.startswith(("http://", "https://")):
        return _at_url(text, options)
    prefix, _, model = text.partition(":")
    if not model.strip() or model != model.strip():
        raise _unknown(text)
    if prefix == "fastembed":
        return FastEmbedEmbedder(model)
    if prefix not in EMBEDDING_SERVICES:
        raise _unknown(text)
    return _at_service(text, prefix, keys, options)


def _at_url(text: str, options: EmbedderOptions) -> Embedder:
    url, _, model = text.partition("#")
    host = parse_url(url, "The embedder's base URL").netloc
    if not model:
        raise InvalidInput(f"The URL of {host} has no model; append it after a #, such as http://{host}/v1#bge-m3")
    return ServiceEmbedder(model, name=f"{host}#{model}", base_url=url, options=options)


def _at_service(text: str, prefix: str, keys: Mapping[str, str], options: EmbedderOptions) -> Embedder:
    service, model = EMBEDDING_SERVICES[prefix], text.partition(":")[2]
    other_url = options.base_url or (keys.get(service.base_variable) if service.base_variable else None)
    key = find_api_key(service.key_variables, keys, options.api_key)
    # A self-hosted server behind a known prefix may need no key.
    if key is None and service.key_variables and not other_url:
        raise missing_key(f"The embedder {text!r}", service.key_variables[0], setting="embedder_key")
    limits = _LIMITS.get(prefix, RequestLimits())
    # Whether such a server packs numbers is unknown.
    limits = replace(limits, base64=limits.base64 and not other_url)
    return ServiceEmbedder(
        model, name=text, base_url=other_url or service.base_url, options=replace(options, api_key=key), limits=limits
    )


def _unknown(text: str) -> InvalidInput:
    # Only the prefix is shown: the text may be a key that was pasted into the wrong setting.
    shown = f"{text.partition(':')[0]}:…" if ":" in text else "This text"
    return InvalidInput(f"{shown} is not an embedder. Use one of: {', '.join(_FORMS)}")
