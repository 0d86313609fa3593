"""The parts of PydanticAI that its adapter uses, described so that it need not be installed to check types."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from decimal import Decimal
from types import TracebackType
from typing import Protocol


class Model(Protocol):
    """A model, with what it can do."""

    @property
    def profile(self) -> Mapping[str, object]: ...
    async def __aenter__(self) -> object: ...
    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> object: ...


class Models(Protocol):
    """The package's module of models."""

    infer_model: Callable[..., Model]
    ModelRequestParameters: Callable[..., object]


class Providers(Protocol):
    """The package's module of services."""

    def infer_provider(self, provider: str) -> object: ...
    def infer_provider_class(self, provider: str) -> Callable[..., object]: ...


class Part(Protocol):
    """A part of an answer: words, or a call of a tool."""

    part_kind: str
    content: str
    args: object

    def args_as_json_str(self) -> str: ...


class Spent(Protocol):
    """The tokens that an answer took."""

    input_tokens: int
    output_tokens: int


class Cost(Protocol):
    """What an answer cost, by the package's own price list."""

    total_price: Decimal


class Response(Protocol):
    """An answer."""

    parts: Sequence[Part]
    usage: Spent
    finish_reason: str | None
    model_name: str | None
    provider_details: Mapping[str, object] | None

    def cost(self) -> Cost: ...


class Delta(Protocol):
    """What is added to a part."""

    part_delta_kind: str
    content_delta: str
    args_delta: object


class Event(Protocol):
    """One step of a stream: the start of a part, or what is added to it."""

    event_kind: str
    index: int
    part: Part
    delta: Delta


class Stream(Protocol):
    """An answer that is still being written."""

    def __aiter__(self) -> AsyncIterator[Event]: ...
    def get(self) -> Response: ...
    def get_stream_cancel_errors(self) -> tuple[type[BaseException], ...]: ...


class Direct(Protocol):
    """The package's module for single requests."""

    model_request: Callable[..., Awaitable[Response]]
    model_request_stream: Callable[..., AbstractAsyncContextManager[Stream]]


class Makers(Protocol):
    """The package's makers of messages and definitions."""

    ModelRequest: Callable[..., object]
    UserPromptPart: Callable[..., object]
    OutputObjectDefinition: Callable[..., object]
    ToolDefinition: Callable[..., object]


class ApiError(Protocol):
    """What an error of a service tells."""

    body: object
    retry_after: float | None
    status_code: int


class Errors(Protocol):
    """The package's module of errors."""

    UserError: type[Exception]
    AgentRunError: type[Exception]
    ContentFilterError: type[Exception]
    ModelAPIError: type[Exception]
    ModelHTTPError: type[Exception]
    ModelQuotaExceededError: type[Exception]
    ModelRequestRejectedError: type[Exception]
