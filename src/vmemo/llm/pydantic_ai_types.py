"""Protocols of the PydanticAI objects that the adapter uses, so that types check without the package."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from decimal import Decimal
from types import TracebackType
from typing import Protocol


class PydanticAIModel(Protocol):
    """A model and its capabilities."""

    @property
    def profile(self) -> Mapping[str, object]: ...
    async def __aenter__(self) -> object: ...
    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> object: ...


class ModelsModule(Protocol):
    """The module `pydantic_ai.models`."""

    infer_model: Callable[..., PydanticAIModel]
    ModelRequestParameters: Callable[..., object]


class ProvidersModule(Protocol):
    """The module `pydantic_ai.providers`."""

    def infer_provider(self, provider: str) -> object: ...
    def infer_provider_class(self, provider: str) -> Callable[..., object]: ...


class ResponsePart(Protocol):
    """A part of a response: text or a tool call."""

    part_kind: str
    content: str
    args: object

    def args_as_json_str(self) -> str: ...


class ResponseUsage(Protocol):
    """Token counts of a response."""

    input_tokens: int
    output_tokens: int


class ResponseCost(Protocol):
    """The price of a response by the package's price list."""

    total_price: Decimal


class ModelResponse(Protocol):
    """A model's response."""

    parts: Sequence[ResponsePart]
    usage: ResponseUsage
    finish_reason: str | None
    model_name: str | None
    provider_details: Mapping[str, object] | None

    def cost(self) -> ResponseCost: ...


class PartDelta(Protocol):
    """An addition to a part."""

    part_delta_kind: str
    content_delta: str
    args_delta: object


class StreamEvent(Protocol):
    """A stream event: the start of a part or a delta."""

    event_kind: str
    index: int
    part: ResponsePart
    delta: PartDelta


class ModelStream(Protocol):
    """A streamed response."""

    def __aiter__(self) -> AsyncIterator[StreamEvent]: ...
    def get(self) -> ModelResponse: ...
    def get_stream_cancel_errors(self) -> tuple[type[BaseException], ...]: ...


class DirectModule(Protocol):
    """The module `pydantic_ai.direct`."""

    model_request: Callable[..., Awaitable[ModelResponse]]
    model_request_stream: Callable[..., AbstractAsyncContextManager[ModelStream]]


class PydanticAIModule(Protocol):
    """The message and output classes of `pydantic_ai` and `pydantic_ai.output`."""

    ModelRequest: Callable[..., object]
    UserPromptPart: Callable[..., object]
    OutputObjectDefinition: Callable[..., object]
    ToolDefinition: Callable[..., object]


class ServiceError(Protocol):
    """Attributes of a service's error."""

    body: object
    retry_after: float | None
    status_code: int


class ErrorsModule(Protocol):
    """The module `pydantic_ai.exceptions`."""

    UserError: type[Exception]
    AgentRunError: type[Exception]
    ContentFilterError: type[Exception]
    ModelAPIError: type[Exception]
    ModelHTTPError: type[Exception]
    ModelQuotaExceededError: type[Exception]
    ModelRequestRejectedError: type[Exception]
