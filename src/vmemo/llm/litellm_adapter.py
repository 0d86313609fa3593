"""Language models through LiteLLM, for services that nothing else reaches."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Protocol, cast

from pydantic import JsonValue

from vmemo.errors import InvalidInput, LLMDenied, LLMFailed, LLMRefused, LLMUnusable, MissingExtra
from vmemo.llm.openai_request import in_words, label, strict
from vmemo.llm.openai_response import Prices, failure, price, wish
from vmemo.llm.resilient import Busy, Garbled
from vmemo.llm.sse import in_one_piece
from vmemo.models.results import Usage
from vmemo.ports.providers import Completion, LLMRequest

_QUIET = {
    # Without these, importing it asks a website for prices and reads an .env file into this process.
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "LITELLM_MODE": "PRODUCTION",
}


class _Message(Protocol):
    content: str | None


class _Choice(Protocol):
    message: _Message
    finish_reason: str | None


class _Spent(Protocol):
    prompt_tokens: int
    completion_tokens: int


class _Response(Protocol):
    choices: Sequence[_Choice]


class _Package(Protocol):
    suppress_debug_info: bool
    telemetry: bool
    acompletion: Callable[..., Awaitable[_Response]]
    get_llm_provider: Callable[..., object]
    supports_response_schema: Callable[..., bool]
    close_litellm_async_clients: Callable[[], Awaitable[None]]
    ContentPolicyViolationError: type[Exception]
    BudgetExceededError: type[Exception]
    APIConnectionError: type[Exception]
    APIResponseValidationError: type[Exception]
    Timeout: type[Exception]


class _Base(Protocol):
    OpenAIError: type[Exception]


class LiteLLM:
    """A model by LiteLLM's name for it, such as `bedrock/amazon.nova-lite-v1:0`; keys are those that LiteLLM reads.

    One `complete` is one request within `timeout` seconds, without retries. What it cost is LiteLLM's own estimate
    where `prices` are not given.
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
        self._litellm = _package()
        self._openai = cast("_Base", import_module("openai"))
        self._model = model
        self._name = name or model
        self._where = {key: value for key, value in {"api_key": api_key, "base_url": base_url}.items() if value}
        self._timeout = timeout
        self._prices = prices
        self._temperature = temperature
        try:
            self._litellm.get_llm_provider(model=model, api_base=base_url)
            self._knows_schemas = self._litellm.supports_response_schema(model=model)
        except self._openai.OpenAIError as error:
            raise InvalidInput(f"LiteLLM does not know the model {model}") from error

    @property
    def name(self) -> str:
        """The model's name, or the one it was given."""
        return self._name

    def __repr__(self) -> str:
        return f"LiteLLM({self._name!r})"

    async def complete(self, request: LLMRequest) -> Completion:
        """The model's answer."""
        try:
            async with asyncio.timeout(self._timeout):
                response = await self._litellm.acompletion(**self._request(request))
        except (TimeoutError, self._litellm.Timeout) as error:
            raise Busy(self._says(f"gave no whole answer within {self._timeout:g} seconds")) from error
        except (self._openai.OpenAIError, self._litellm.BudgetExceededError) as error:
            # Its message may repeat the texts.
            raise self._failure(error) from None
        return self._completion(response, request)

    def stream(self, request: LLMRequest) -> AsyncGenerator[str | Completion]:
        """The model's answer in one piece: LiteLLM's streams lose refusals, and call finished what was broken off."""
        return in_one_piece(self, request)

    async def close(self) -> None:
        """Close LiteLLM's connections, which are shared by all that use it in this process."""
        await self._litellm.close_litellm_async_clients()

    def _request(self, ask: LLMRequest) -> dict[str, object]:
        system = ask.system if self._knows_schemas else in_words(ask)
        request: dict[str, object] = {
            "model": self._model,
            "messages": [{"role": "system", "content": system}, {"role": "user", "content": ask.user}],
            "max_tokens": ask.max_tokens,
            "timeout": self._timeout,
            "num_retries": 0,
            "max_retries": 0,
            "drop_params": True,
            "extra_headers": {"X-Vmemo-Step": label(ask.step)},
            **self._where,
        }
        if self._temperature is not None:
            request["temperature"] = self._temperature
        if self._knows_schemas:
            named: dict[str, JsonValue] = {"name": label(ask.step), "schema": strict(ask.schema), "strict": True}
            request["response_format"] = {"type": "json_schema", "json_schema": named}
        return request

    def _completion(self, response: _Response, request: LLMRequest) -> Completion:
        if not response.choices:
            raise Garbled(self._says("gave no answer"))
        choice = response.choices[0]
        if getattr(choice.message, "refusal", None) or choice.finish_reason == "content_filter":
            raise LLMRefused(self._says("declined to answer"))
        if choice.finish_reason == "length":
            raise LLMUnusable(self._says(f"gave an answer that was cut off at {request.max_tokens} tokens"))
        if not (text := choice.message.content or "").strip():
            raise Garbled(self._says("gave an empty answer"))
        return Completion(text=text, usage=self._usage(response))

    def _usage(self, response: _Response) -> Usage:
        spent = cast("_Spent | None", getattr(response, "usage", None))
        asked, said = (spent.prompt_tokens or 0, spent.completion_tokens or 0) if spent else (0, 0)
        hidden = cast("Mapping[str, object]", getattr(response, "_hidden_params", {}))
        known = hidden.get("response_cost")
        cost = price(asked, said, self._prices) if self._prices or not isinstance(known, float) else known
        return Usage(calls=1, input_tokens=asked, output_tokens=said, cost=cost)

    def _failure(self, error: Exception) -> LLMFailed:
        package, status = self._litellm, cast("object", getattr(error, "status_code", None))
        if isinstance(error, package.BudgetExceededError):
            return LLMDenied(self._says("has used up the budget that LiteLLM was given"))
        if isinstance(error, package.ContentPolicyViolationError):
            return LLMRefused(self._says("declined to answer"))
        if isinstance(error, package.APIResponseValidationError):
            return Garbled(self._says("gave something else than an answer"))
        if isinstance(error, package.APIConnectionError) or not isinstance(status, int):
            return Busy(self._says(f"can't be reached ({type(error).__name__})"))
        if status >= 500:
            # LiteLLM gives 500 to whatever it can't explain, so no number is repeated here.
            return Busy(self._says(f"failed or can't be reached ({type(error).__name__})"), retry_after=_wish(error))
        return failure(status, self._says("answered with status"), retry_after=_wish(error))

    def _says(self, what: str) -> str:
        return f"The model {self._name} {what}"


def _package() -> _Package:
    if find_spec("litellm") is None:
        raise MissingExtra(
            "This model is reached through LiteLLM, which is not installed. Run: pip install 'vmemo[litellm]'"
        )
    for name, value in _QUIET.items():
        os.environ.setdefault(name, value)
    package = cast("_Package", import_module("litellm"))
    package.suppress_debug_info = True
    package.telemetry = False
    return package


def _wish(error: Exception) -> float | None:
    headers = cast("Mapping[str, str] | None", getattr(error, "litellm_response_headers", None))
    return wish(headers) if headers else None
