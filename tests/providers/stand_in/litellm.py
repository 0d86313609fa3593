"""A stand-in for LiteLLM where it is not installed: the part of its interface that the adapter uses.

Like LiteLLM for models of OpenAI, it sends requests with OpenAI's client and raises subclasses of its errors, which
also have the headers of the response. Written after LiteLLM 1.100.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, cast

import httpx2
import openai
from openai.types.chat import ChatCompletion

suppress_debug_info = False
telemetry = True
_SUPPORTED_SCHEMAS = ("gpt-4o", "gpt-5-mini")
_COSTS = (2.5e-6, 1e-5)
_clients: list[openai.AsyncOpenAI] = []


class APIConnectionError(openai.APIConnectionError):
    """The service can't be reached. LiteLLM also uses it for errors that it does not know."""

    status_code = 500


class Timeout(openai.APITimeoutError):
    """The response took too long."""


class APIResponseValidationError(openai.APIResponseValidationError):
    """The response is no chat completion."""


class ContentPolicyViolationError(openai.BadRequestError):
    """The service declined to answer."""


class BudgetExceededError(Exception):
    """The budget is spent."""


class ServiceError(openai.APIStatusError):
    """An error that the service reports by its status."""

    def __init__(self, error: openai.APIStatusError) -> None:
        super().__init__(error.message, response=error.response, body=error.body)
        self.litellm_response_headers = error.response.headers


def get_llm_provider(*, model: str, api_base: str | None = None) -> tuple[str, str]:
    provider, found, name = model.partition("/")
    if not found or provider != "openai":
        raise openai.OpenAIError("LLM Provider NOT provided.")
    return name, provider


def supports_response_schema(*, model: str) -> bool:
    return model.partition("/")[2] in _SUPPORTED_SCHEMAS


async def acompletion(
    *, model: str, messages: Sequence[Mapping[str, str]], api_key: str, base_url: str, timeout: float, **options: Any
) -> ChatCompletion:
    assert (options.pop("num_retries"), options.pop("max_retries"), options.pop("drop_params")) == (0, 0, True)
    client = openai.AsyncOpenAI(api_key=api_key, base_url=base_url, timeout=timeout, max_retries=0)
    _clients.append(client)
    send = cast("Callable[..., Awaitable[object]]", client.chat.completions.create)
    try:
        response = await send(model=model.partition("/")[2], messages=messages, **options)
    except openai.APITimeoutError as error:
        raise Timeout(request=error.request) from error
    except openai.APIStatusError as error:
        raise ServiceError(error) from error
    except (openai.APIConnectionError, ValueError) as error:
        raise APIConnectionError(request=httpx2.Request("POST", base_url)) from error
    if not isinstance(response, ChatCompletion):
        raise openai.OpenAIError("Invalid response object")
    usage = response.usage
    cost = usage.prompt_tokens * _COSTS[0] + usage.completion_tokens * _COSTS[1] if usage else None
    object.__setattr__(response, "_hidden_params", {"response_cost": cost})
    return response


async def close_litellm_async_clients() -> None:
    while _clients:
        await _clients.pop().close()
