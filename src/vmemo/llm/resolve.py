"""Creation of language models from names such as `openai:gpt-5-mini`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypedDict

from vmemo.errors import InvalidInput
from vmemo.extras import load_integration
from vmemo.llm.connections import SERVICES, find_api_key, missing_key, parse_url
from vmemo.llm.openai import OpenAICompatible, Prices
from vmemo.llm.pydantic_ai import PydanticAI
from vmemo.llm.resilient import ResilientLLM
from vmemo.models.settings import Settings
from vmemo.ports import LLM

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
        url, _, model = text.partition("#")
        host = parse_url(url, "The model's base URL").netloc
        if not model:
            raise InvalidInput(f"The URL of {host} has no model; append it after a #, such as http://{host}/v1#qwen3")
        return OpenAICompatible(model, base_url=url, api_key=key, **_common(f"{host}#{model}", model, settings))
    prefix, _, model = text.partition(":")
    if not model.strip() or model != model.strip():
        raise _unknown(text)
    common = _common(text, model, settings)
    if (service := SERVICES.get(prefix)) is not None:
        base_url = settings.llm_url or (keys.get(service.base_variable) if service.base_variable else None)
        key = find_api_key(service.key_variables, keys, key)
        # A self-hosted server behind a known prefix may need no key.
        if key is None and service.key_variables and not base_url:
            raise missing_key(f"The model {text!r}", service.key_variables[0], setting="llm_key")
        return OpenAICompatible(model, base_url=base_url or service.base_url, api_key=key, **common)
    match prefix:
        case "anthropic":
            key = find_api_key(("ANTHROPIC_API_KEY",), keys, key)
            if key is None:
                raise missing_key(f"The model {text!r}", "ANTHROPIC_API_KEY", setting="llm_key")
            return PydanticAI(text, api_key=key, **common)
        case "pydantic-ai":
            return PydanticAI(model, api_key=key, **common)
        case "litellm":
            adapter = load_integration("litellm", f"The model {text!r}").LiteLLM
            return adapter(model, api_key=key, base_url=settings.llm_url, **common)
        case _:
            raise _unknown(text)


def _unknown(text: str) -> InvalidInput:
    # Only the prefix is shown: the text may be a key that was pasted into the wrong setting.
    shown = f"{text.partition(':')[0]}:…" if ":" in text else "This text"
    return InvalidInput(f"{shown} is not a language model. Use one of: {', '.join(_FORMS)}")
