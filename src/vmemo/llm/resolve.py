"""Creation of language models from names such as `openai:gpt-5-mini`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypedDict

from vmemo.extras import load_integration
from vmemo.llm.connections import SERVICES, ServiceEndpoint, find_access, split_model_url, unknown_name
from vmemo.llm.openai import OpenAICompatible, Prices
from vmemo.llm.resilient import ResilientLLM
from vmemo.models.settings import Settings
from vmemo.ports import LLM

_ANTHROPIC = ServiceEndpoint("", ("ANTHROPIC_API_KEY",))
_FORMS = (
    *(f"{prefix}:MODEL" for prefix in SERVICES),
    "anthropic:MODEL",
    "pydantic-ai:PROVIDER:MODEL",
    "litellm:PROVIDER/MODEL",
    "http://HOST:PORT/v1#MODEL",
)


def resolve_llm(name: str, *, keys: Mapping[str, str], settings: Settings) -> LLM:
    """Return the named model wrapped in `ResilientLLM`; `keys` holds variables such as OPENAI_API_KEY."""
    model = _create(name, keys, settings)
    return ResilientLLM(model, tries=settings.attempts, requests_per_minute=settings.llm_requests_per_minute)


class _CommonOptions(TypedDict):
    name: str
    timeout: float
    prices: Prices | None


def _common(name: str, model: str, settings: Settings) -> _CommonOptions:
    """Return what all adapters take; prices are found by the name, or else by the model."""
    prices = settings.llm_prices.get(name) or settings.llm_prices.get(model)
    return {"name": name, "timeout": settings.llm_timeout, "prices": prices}


def _create(text: str, keys: Mapping[str, str], settings: Settings) -> LLM:
    key = settings.llm_key
    if text.startswith(("http://", "https://")):
        url, host, model = split_model_url(text, "The model's base URL", "qwen3")
        return OpenAICompatible(model, base_url=url, api_key=key, **_common(f"{host}#{model}", model, settings))
    prefix, _, model = text.partition(":")
    if not model.strip() or model != model.strip():
        raise unknown_name(text, "a language model", _FORMS)
    common, what = _common(text, model, settings), f"The model {text!r}"
    if (service := SERVICES.get(prefix)) is not None:
        base_url, key = find_access(service, what, keys, url=settings.llm_url, key=key, setting="llm_key")
        return OpenAICompatible(model, base_url=base_url, api_key=key, **common)
    match prefix:
        case "anthropic":
            _, key = find_access(_ANTHROPIC, what, keys, url=None, key=key, setting="llm_key")
            return load_integration("pydantic_ai", what).PydanticAI(text, api_key=key, **common)
        case "pydantic-ai":
            return load_integration("pydantic_ai", what).PydanticAI(model, api_key=key, **common)
        case "litellm":
            adapter = load_integration("litellm", what).LiteLLM
            return adapter(model, api_key=key, base_url=settings.llm_url, **common)
        case _:
            raise unknown_name(text, "a language model", _FORMS)
