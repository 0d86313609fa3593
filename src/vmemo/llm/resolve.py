"""Creation of language models from names such as `openai:gpt-5-mini`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypedDict

from vmemo.errors import InvalidInput
from vmemo.llm.connections import SERVICES, find_api_key, missing_key, parse_url
from vmemo.llm.litellm_adapter import LiteLLM
from vmemo.llm.openai import OpenAICompatible, Prices
from vmemo.llm.pydantic_ai import PydanticAI
from vmemo.llm.resilient import ResilientLLM
from vmemo.ports.providers import LLM


class _CommonOptions(TypedDict):
    name: str
    timeout: float
    prices: Prices | None
    temperature: float | None


@dataclass(frozen=True, kw_only=True)
class LLMOptions:
    """Options of a named model; `prices` are dollars per million input and output tokens, by model."""

    timeout: float = 60.0
    tries: int = 4
    requests_per_minute: float | None = None
    prices: Mapping[str, Prices] = field(default_factory=dict[str, Prices])
    base_url: str | None = None
    api_key: str | None = field(default=None, repr=False)
    temperature: float | None = 0.0

    def common(self, name: str, model: str) -> _CommonOptions:
        """Return what all adapters take; prices are found by the name, or else by the model."""
        prices = self.prices.get(name) or self.prices.get(model)
        return {"name": name, "timeout": self.timeout, "prices": prices, "temperature": self.temperature}


_FORMS = (
    *(f"{prefix}:MODEL" for prefix in SERVICES),
    "anthropic:MODEL",
    "pydantic-ai:PROVIDER:MODEL",
    "litellm:PROVIDER/MODEL",
    "http://HOST:PORT/v1#MODEL",
)


def resolve_llm(name: str, *, keys: Mapping[str, str], options: LLMOptions) -> LLM:
    """Return the named model wrapped in `ResilientLLM`; `keys` holds variables such as OPENAI_API_KEY."""
    model = _create(name, keys, options)
    return ResilientLLM(model, tries=options.tries, requests_per_minute=options.requests_per_minute)


def _create(text: str, keys: Mapping[str, str], options: LLMOptions) -> LLM:
    if text.startswith(("http://", "https://")):
        url, _, model = text.partition("#")
        host = parse_url(url, "The model's base URL").netloc
        if not model:
            raise InvalidInput(f"The URL of {host} has no model; append it after a #, such as http://{host}/v1#qwen3")
        common = options.common(f"{host}#{model}", model)
        return OpenAICompatible(model, base_url=url, api_key=options.api_key, **common)
    prefix, _, model = text.partition(":")
    if not model.strip() or model != model.strip():
        raise _unknown(text)
    common = options.common(text, model)
    if (service := SERVICES.get(prefix)) is not None:
        base_url = options.base_url or (keys.get(service.base_variable) if service.base_variable else None)
        # A self-hosted server behind a known prefix may need no key.
        optional = bool(base_url) or not service.key_variables
        key = _key(text, service.key_variables, keys, options, optional=optional)
        return OpenAICompatible(model, base_url=base_url or service.base_url, api_key=key, **common)
    match prefix:
        case "anthropic":
            return PydanticAI(text, api_key=_key(text, ("ANTHROPIC_API_KEY",), keys, options), **common)
        case "pydantic-ai":
            return PydanticAI(model, api_key=options.api_key, **common)
        case "litellm":
            return LiteLLM(model, api_key=options.api_key, base_url=options.base_url, **common)
        case _:
            raise _unknown(text)


def _key(
    text: str, variables: tuple[str, ...], keys: Mapping[str, str], options: LLMOptions, *, optional: bool = False
) -> str | None:
    found = find_api_key(variables, keys, options.api_key)
    if found is None and not optional:
        raise missing_key(f"The model {text!r}", variables[0], setting="llm_key")
    return found


def _unknown(text: str) -> InvalidInput:
    # Only the prefix is shown: the text may be a key that was pasted into the wrong setting.
    shown = f"{text.partition(':')[0]}:…" if ":" in text else "This text"
    return InvalidInput(f"{shown} is not a language model. Use one of: {', '.join(_FORMS)}")
