"""Language models through LiteLLM, for services that the other adapters do not support."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Protocol, cast

from vmemo.errors import InvalidInput, LLMDenied, LLMFailed, LLMRefused, LLMUnavailable, LLMUnusable, MissingExtra
from vmemo.llm.connections import stream_whole
from vmemo.llm.openai import (
    Prices,
    error_for_status,
    response_schema,
    retry_after_seconds,
    schema_name,
    system_with_schema,
    token_cost,
)
from vmemo.models.results import Usage
from vmemo.ports.providers import Completion, LLMRequest

_IMPORT_ENVIRONMENT = {
    # Without these, importing litellm downloads a price list and loads an .env file into this process.
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "LITELLM_MODE": "PRODUCTION",
}


class _LiteLLMMessage(Protocol):
    content: str | None


class _LiteLLMChoice(Protocol):
    message: _LiteLLMMessage
    finish_reason: str | None


class _LiteLLMUsage(Protocol):
    prompt_tokens: int
    completion_tokens: int


class _LiteLLMResponse(Protocol):
    choices: Sequence[_LiteLLMChoice]


class _LiteLLMModule(Protocol):
    suppress_debug_info: bool
    telemetry: bool
    acompletion: Callable[..., Awaitable[_LiteLLMResponse]]
    get_llm_provider: Callable[..., object]
    supports_response_schema: Callable[..., bool]
    close_litellm_async_clients: Callable[[], Awaitable[None]]
    ContentPolicyViolationError: type[Exception]
    BudgetExceededError: type[Exception]
    APIConnectionError: type[Exception]
    APIResponseValidationError: type[Exception]
    Timeout: type[Exception]


class _OpenAIModule(Protocol):
    OpenAIError: type[Exception]


class LiteLLM:
    """A model by its LiteLLM name, such as `bedrock/amazon.nova-lite-v1:0`; LiteLLM reads its own key variables.

    One `complete` is one request without retries, within `timeout` seconds. Without `prices`, the cost is LiteLLM's
    estimate.
    """

    def __init__(
        self,
        model: str,
        *,
        name: str | None = None,
        api_key: str | None = None,
        base_url: str | None = None,
        timeout: float = 60.0,
        prices: Prices | None = None,
        temperature: float | None = 0.0,
    ) -> None:
        self._litellm = _import_litellm()
        self._openai = cast("_OpenAIModule", import_module("openai"))
        self._model = model
        self._name = name or model
        self._connection = {key: value for key, value in {"api_key": api_key, "base_url": base_url}.items() if value}
        self._timeout = timeout
        self._prices = prices
        self._temperature = temperature
        try:
            self._litellm.get_llm_provider(model=model, api_base=base_url)
            self._supports_schemas = self._litellm.supports_response_schema(model=model)
        except self._openai.OpenAIError as error:
            raise InvalidInput(
                f"LiteLLM does not know the model {model!r}; use a name such as openai/gpt-5-mini"
            ) from error

    @property
    def name(self) -> str:
        """The given name, or else the model's."""
        return self._name

    def __repr__(self) -> str:
        return f"LiteLLM({self._name!r})"

    async def complete(self, request: LLMRequest) -> Completion:
        """Return the model's answer."""
        try:
            async with asyncio.timeout(self._timeout):
                response = await self._litellm.acompletion(**self._request(request))
        except (TimeoutError, self._litellm.Timeout) as error:
            raise LLMUnavailable(
                self._describe(f"did not finish its answer within {self._timeout:g} seconds")
            ) from error
        except (self._openai.OpenAIError, self._litellm.BudgetExceededError) as error:
            # The message may quote the request.
            raise self._error(error) from None
        return self._completion(response, request)

    def stream(self, request: LLMRequest) -> AsyncGenerator[str | Completion]:
        """Yield the whole answer as one delta: LiteLLM's streams drop refusals and report aborted answers as whole."""
        return stream_whole(self, request)

    async def close(self) -> None:
        """Close LiteLLM's connections, which all its users in this process share."""
        await self._litellm.close_litellm_async_clients()

    def _request(self, ask: LLMRequest) -> dict[str, object]:
        system = ask.system if self._supports_schemas else system_with_schema(ask)
        request: dict[str, object] = {
            "model": self._model,
            "messages": [{"role": "system", "content": system}, {"role": "user", "content": ask.user}],
            "max_tokens": ask.max_tokens,
            "timeout": self._timeout,
            "num_retries": 0,
            "max_retries": 0,
            "drop_params": True,
            "extra_headers": {"X-Vmemo-Step": schema_name(ask.step)},
            **self._connection,
        }
        if self._temperature is not None:
            request["temperature"] = self._temperature
        if self._supports_schemas:
            request["response_format"] = {"type": "json_schema", "json_schema": response_schema(ask)}
        return request

    def _completion(self, response: _LiteLLMResponse, request: LLMRequest) -> Completion:
        if not response.choices:
            raise LLMUnavailable(self._describe("returned no answer"))
        choice = response.choices[0]
        if getattr(choice.message, "refusal", None) or choice.finish_reason == "content_filter":
            raise LLMRefused(self._describe("declined to answer"))
        if choice.finish_reason == "length":
            raise LLMUnusable(self._describe(f"returned an answer that was cut off at {request.max_tokens} tokens"))
        if not (text := choice.message.content or "").strip():
            raise LLMUnavailable(self._describe("returned an empty answer"))
        return Completion(text=text, usage=self._usage(response))

    def _usage(self, response: _LiteLLMResponse) -> Usage:
        usage = cast("_LiteLLMUsage | None", getattr(response, "usage", None))
        input_tokens, output_tokens = (usage.prompt_tokens or 0, usage.completion_tokens or 0) if usage else (0, 0)
        hidden = cast("Mapping[str, object]", getattr(response, "_hidden_params", {}))
        estimate = hidden.get("response_cost")
        if self._prices or not isinstance(estimate, float):
            estimate = token_cost(input_tokens, output_tokens, self._prices)
        return Usage(calls=1, input_tokens=input_tokens, output_tokens=output_tokens, cost=estimate)

    def _error(self, error: Exception) -> LLMFailed:
        litellm, status = self._litellm, cast("object", getattr(error, "status_code", None))
        if isinstance(error, litellm.BudgetExceededError):
            return LLMDenied(self._describe("has exceeded the budget configured in LiteLLM"))
        if isinstance(error, litellm.ContentPolicyViolationError):
            return LLMRefused(self._describe("declined to answer"))
        if isinstance(error, litellm.APIResponseValidationError):
            return LLMUnavailable(self._describe("returned something other than an answer"))
        if isinstance(error, litellm.APIConnectionError) or not isinstance(status, int):
            return LLMUnavailable(self._describe(f"can't be reached ({type(error).__name__})"))
        if status >= 500:
            # LiteLLM uses 500 for unknown errors, so the status is not shown.
            return LLMUnavailable(
                self._describe(f"failed or can't be reached ({type(error).__name__})"), retry_after=_retry_after(error)
            )
        return error_for_status(status, self._describe("answered with status"), retry_after=_retry_after(error))

    def _describe(self, event: str) -> str:
        return f"The model {self._name} {event}"


def _import_litellm() -> _LiteLLMModule:
    if find_spec("litellm") is None:
        raise MissingExtra("LiteLLM is required for this model and not installed. Run: pip install 'vmemo[litellm]'")
    for name, value in _IMPORT_ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    litellm = cast("_LiteLLMModule", import_module("litellm"))
    litellm.suppress_debug_info = True
    litellm.telemetry = False
    return litellm


def _retry_after(error: Exception) -> float | None:
    headers = cast("Mapping[str, str] | None", getattr(error, "litellm_response_headers", None))
    return retry_after_seconds(headers) if headers else None
