"""Creation of language models from names such as `openai:gpt-5-mini`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from vmemo.errors import InvalidInput
from vmemo.llm.connections import SERVICES, ServiceEndpoint, find_api_key, missing_key, parse_url
from vmemo.llm.litellm_adapter import LiteLLM
from vmemo.llm.openai import OpenAICompatible, Prices
from vmemo.llm.pydantic_ai import PydanticAI
from vmemo.llm.resilient import ResilientLLM
from vmemo.ports.providers import LLM


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

    def price(self, *names: str) -> Prices | None:
        """Return the prices of the first name that has any."""
        return next((self.prices[name] for name in names if name in self.prices), None)


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
        return _at_url(text, options)
    prefix, _, model = text.partition(":")
    if not model.strip() or model != model.strip():
        raise _unknown(text)
    if prefix in SERVICES:
        return _at_service(text, model, SERVICES[prefix], keys, options)
    prices = options.price(text, model)
    timeout, temperature = options.timeout, options.temperature
    match prefix:
        case "anthropic":
            key = _key(text, ("ANTHROPIC_API_KEY",), keys, options)
            return PydanticAI(text, name=text, api_key=key, timeout=timeout, prices=prices, temperature=temperature)
        case "pydantic-ai":
            key = options.api_key
            return PydanticAI(model, name=text, api_key=key, timeout=timeout, prices=prices, temperature=temperature)
        case "litellm":
            return LiteLLM(
                model,
                name=text,
                api_key=options.api_key,
                base_url=options.base_url,
                timeout=timeout,
                prices=prices,
                temperature=temperature,
            )
        case _:
            raise _unknown(text)


def _at_url(text: str, options: LLMOptions) -> LLM:
    url, _, model = text.partition("#")
    host = parse_url(url, "The model's base URL").netloc
    if not model:
        raise InvalidInput(f"The URL of {host} has no model; append it after a #, such as http://{host}/v1#qwen3")
    return OpenAICompatible(
        model,
        base_url=url,
        api_key=options.api_key,
        name=f"{host}#{model}",
        timeout=options.timeout,
        prices=options.price(f"{host}#{model}", model),
        temperature=options.temperature,
    )


def _at_service(text: str, model: str, service: ServiceEndpoint, keys: Mapping[str, str], options: LLMOptions) -> LLM:
    base_url = options.base_url or (keys.get(service.base_variable) if service.base_variable else None)
    # A self-hosted server behind a known prefix may need no key.
    optional = bool(base_url) or not service.key_variables
    return OpenAICompatible(
        model,
        base_url=base_url or service.base_url,
        api_key=_key(text, service.key_variables, keys, options, optional=optional),
        name=text,
        timeout=options.timeout,
        prices=options.price(text, model),
        temperature=options.temperature,
    )


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
