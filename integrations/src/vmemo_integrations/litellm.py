"""Language models through LiteLLM, for services that the other adapters do not support."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Generator
from contextlib import contextmanager
from dataclasses import replace
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from vmemo.errors import InvalidInput, LLMDenied, LLMFailed, LLMRefused, LLMUnavailable, MissingExtra
from vmemo.llm.connections import stream_whole
from vmemo.llm.openai import (
    ModelAdapter,
    Prices,
    error_for_status,
    response_schema,
    retry_after_seconds,
    schema_name,
    system_with_schema,
)
from vmemo.ports import Completion, LLMRequest

_IMPORT_ENVIRONMENT = {
    # Without these, importing litellm downloads a price list and loads an .env file into this process.
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "LITELLM_MODE": "PRODUCTION",
}


class LiteLLM(ModelAdapter):
    """A model by its LiteLLM name, such as `bedrock/amazon.nova-lite-v1:0`; LiteLLM reads its own key variables.

    Without `prices`, the cost is LiteLLM's estimate.
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
        super().__init__(name or model, timeout, prices)
        self._litellm = _import_litellm()
        self._openai_error: type[Exception] = import_module("openai").OpenAIError
        self._model = model
        options = {"api_key": api_key, "base_url": base_url, "temperature": temperature}
        self._options = {key: value for key, value in options.items() if value is not None}
        try:
            self._litellm.get_llm_provider(model=model, api_base=base_url)
            self._supports_schemas: bool = self._litellm.supports_response_schema(model=model)
        except self._openai_error as error:
            raise InvalidInput(
                f"LiteLLM does not know the model {model!r}; use a name such as openai/gpt-5-mini"
            ) from error

    async def complete(self, request: LLMRequest) -> Completion:
        with self._errors(request):
            async with asyncio.timeout(self._timeout):
                response = await self._litellm.acompletion(**self._arguments(request))
        completion = self._parser(request).parse_body(response.model_dump_json(warnings=False).encode())
        cost = getattr(response, "_hidden_params", {}).get("response_cost")
        if self._prices or not isinstance(cost, float):
            return completion
        return replace(completion, usage=completion.usage.model_copy(update={"cost": cost}))

    @contextmanager
    def _errors(self, request: LLMRequest) -> Generator[None]:
        with super()._errors(request):
            try:
                yield
            except self._litellm.Timeout as error:
                raise TimeoutError from error
            except (self._openai_error, self._litellm.BudgetExceededError) as error:
                # The message may quote the request.
                raise self._error(error) from None

    def _deltas(self, request: LLMRequest) -> AsyncGenerator[str | Completion]:
        # LiteLLM's streams drop refusals and report aborted answers as whole.
        return stream_whole(self, request)

    async def close(self) -> None:
        """Close LiteLLM's connections, which all its users in this process share."""
        await self._litellm.close_litellm_async_clients()

    def _arguments(self, request: LLMRequest) -> dict[str, object]:
        system = request.system if self._supports_schemas else system_with_schema(request)
        arguments: dict[str, object] = {
            "model": self._model,
            "messages": [{"role": "system", "content": system}, {"role": "user", "content": request.user}],
            "max_tokens": request.max_tokens,
            "timeout": self._timeout,
            "num_retries": 0,
            "max_retries": 0,
            "drop_params": True,
            "extra_headers": {"X-Vmemo-Step": schema_name(request.step)},
            **self._options,
        }
        if self._supports_schemas:
            arguments["response_format"] = {"type": "json_schema", "json_schema": response_schema(request)}
        return arguments

    def _error(self, error: Exception) -> LLMFailed:
        status = getattr(error, "status_code", None)
        headers = getattr(error, "litellm_response_headers", None)
        retry_after = retry_after_seconds(headers) if headers else None
        if isinstance(error, self._litellm.BudgetExceededError):
            return LLMDenied(self._describe("has exceeded the budget configured in LiteLLM"))
        if isinstance(error, self._litellm.ContentPolicyViolationError):
            return LLMRefused(self._describe("declined to answer"))
        if not isinstance(status, int) or status >= 500:
            # LiteLLM uses 500 for unknown errors, so the status is not shown.
            problem = f"failed or can't be reached ({type(error).__name__})"
            return LLMUnavailable(self._describe(problem), retry_after=retry_after)
        return error_for_status(status, self._describe("answered with status"), retry_after=retry_after)


def _import_litellm() -> Any:
    if find_spec("litellm") is None:
        raise MissingExtra("LiteLLM is required for this model and not installed. Run: pip install 'vmemo[litellm]'")
    for name, value in _IMPORT_ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    litellm: Any = import_module("litellm")
    litellm.suppress_debug_info = True
    litellm.telemetry = False
    return litellm
