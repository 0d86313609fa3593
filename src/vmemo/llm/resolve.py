"""Where a text such as `openai:gpt-5-mini` becomes a language model, and the only place where it does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from vmemo.errors import InvalidInput
from vmemo.llm.endpoints import address
from vmemo.llm.litellm_adapter import LiteLLM
from vmemo.llm.openai import OpenAICompatible, Prices
from vmemo.llm.pydantic_ai import PydanticAI
from vmemo.llm.resilient import PatientLLM
from vmemo.ports.providers import LLM


@dataclass(frozen=True, kw_only=True)
class LLMOptions:
    """How a named model is asked; `prices` are dollars for a million tokens of input and output, by model."""

    timeout: float = 60.0
    tries: int = 4
    requests_per_minute: float | None = None
    prices: Mapping[str, Prices] = field(default_factory=dict[str, Prices])
    base_url: str | None = None
    api_key: str | None = field(default=None, repr=False)
    temperature: float | None = 0.0

    def price(self, *names: str) -> Prices | None:
        """The prices of the first name that has some."""
        return next((self.prices[name] for name in names if name in self.prices), None)


@dataclass(frozen=True)
class _Service:
    """A service with OpenAI's protocol; one without key variables runs on this machine and needs no key."""

    base_url: str
    key_variables: tuple[str, ...] = ()
    base_variable: str | None = None


SERVICES: Mapping[str, _Service] = {
    "openai": _Service("https://api.openai.com/v1", ("OPENAI_API_KEY",), "OPENAI_BASE_URL"),
    "gemini": _Service("https://generativelanguage.googleapis.com/v1beta/openai", ("GEMINI_API_KEY", "GOOGLE_API_KEY")),
    "groq": _Service("https://api.groq.com/openai/v1", ("GROQ_API_KEY",)),
    "mistral": _Service("https://api.mistral.ai/v1", ("MISTRAL_API_KEY",)),
    "deepseek": _Service("https://api.deepseek.com/v1", ("DEEPSEEK_API_KEY",)),
    "openrouter": _Service("https://openrouter.ai/api/v1", ("OPENROUTER_API_KEY",)),
    "together": _Service("https://api.together.xyz/v1", ("TOGETHER_API_KEY",)),
    "xai": _Service("https://api.x.ai/v1", ("XAI_API_KEY",)),
    "ollama": _Service("http://localhost:11434/v1"),
    "vllm": _Service("http://localhost:8000/v1"),
    "llamacpp": _Service("http://localhost:8080/v1"),
    "lmstudio": _Service("http://localhost:1234/v1"),
}
"""What stands before the colon, for services that speak OpenAI's protocol."""
_FORMS = (
    *(f"{prefix}:MODEL" for prefix in SERVICES),
    "anthropic:MODEL",
    "pydantic-ai:PROVIDER:MODEL",
    "litellm:PROVIDER/MODEL",
    "http://HOST:PORT/v1#MODEL",
)


def resolve(text: str, *, keys: Mapping[str, str], options: LLMOptions) -> LLM:
    """The model that a text names, with patience around it; `keys` holds variables such as OPENAI_API_KEY."""
    model = _named(text, keys, options)
    return PatientLLM(model, tries=options.tries, requests_per_minute=options.requests_per_minute)


def wrap(llm: LLM) -> LLM:
    """A model object of the caller's own, as it is: its retries and its pace are its owner's."""
    # Callers without a type checker get a sentence in place of an AttributeError much later.
    if not isinstance(llm, LLM):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidInput(f"A model needs a name and an async complete(request), which {type(llm).__name__} has not")
    return llm


def _named(text: str, keys: Mapping[str, str], options: LLMOptions) -> LLM:
    if text.startswith(("http://", "https://")):
        return _at_url(text, options)
    prefix, _, model = text.partition(":")
    if not model.strip() or model != model.strip():
        raise _unknown(text)
    if prefix in SERVICES:
        return _served(text, model, SERVICES[prefix], keys, options)
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
    host = address(url, "The model's base URL").netloc
    if not model:
        raise InvalidInput(f"The URL at {host} names no model; write it behind a #, such as http://{host}/v1#qwen3")
    return OpenAICompatible(
        model,
        base_url=url,
        api_key=options.api_key,
        name=f"{host}#{model}",
        timeout=options.timeout,
        prices=options.price(f"{host}#{model}", model),
        temperature=options.temperature,
    )


def _served(text: str, model: str, service: _Service, keys: Mapping[str, str], options: LLMOptions) -> LLM:
    base_url = options.base_url or (keys.get(service.base_variable) if service.base_variable else None)
    # A server of one's own behind a known prefix may need no key.
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
    key = options.api_key or next((keys[variable] for variable in variables if keys.get(variable)), None)
    if key is None and not optional:
        raise InvalidInput(f"The model {text} needs a key: set {variables[0]}, or pass api_key")
    return key


def _unknown(text: str) -> InvalidInput:
    # What stands before the colon is shown; a key pasted in the wrong place has none.
    shown = f"{text.partition(':')[0]}:…" if ":" in text else "This"
    return InvalidInput(f"{shown} names no language model. There are: {', '.join(_FORMS)}")
