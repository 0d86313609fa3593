"""Creation of embedders from names such as `openai:text-embedding-3-small`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from vmemo.embedding.fastembed_embedder import FastEmbedEmbedder
from vmemo.embedding.service_embedder import EmbedderOptions, RequestLimits, ServiceEmbedder
from vmemo.errors import InvalidInput
from vmemo.llm.endpoints import SERVICES, ServiceEndpoint, find_api_key, missing_key, parse_url
from vmemo.ports import Embedder

EMBEDDING_SERVICES: Mapping[str, ServiceEndpoint] = {
    **{prefix: SERVICES[prefix] for prefix in ("openai", "gemini", "mistral", "together", "openrouter")},
    "voyage": ServiceEndpoint("https://api.voyageai.com/v1", ("VOYAGE_API_KEY",)),
    **{prefix: SERVICES[prefix] for prefix in ("ollama", "vllm", "llamacpp", "lmstudio")},
}
"""Services with OpenAI's embeddings protocol, by the prefix of a name."""
_LIMITS: Mapping[str, RequestLimits] = {
    "openai": RequestLimits(tokens=250_000, base64=True),
    "voyage": RequestLimits(text_tokens=30_000, input_type=True, base64=True),
}
_FORMS = (
    "small",
    *(f"{prefix}:MODEL" for prefix in EMBEDDING_SERVICES),
    "fastembed:MODEL",
    "http://HOST:PORT/v1#MODEL",
)


def resolve_embedder(text: str, *, keys: Mapping[str, str], options: EmbedderOptions) -> Embedder:
    """Return the named embedder; `keys` holds variables such as OPENAI_API_KEY. Opens and loads nothing."""
    if text.startswith(("http://", "https://")):
        return _at_url(text, options)
    prefix, _, model = text.partition(":")
    if not model.strip() or model != model.strip():
        raise _unknown(text)
    if prefix == "fastembed":
        return FastEmbedEmbedder(model)
    if prefix not in EMBEDDING_SERVICES:
        raise _unknown(text)
    return _at_service(text, prefix, keys, options)


def _at_url(text: str, options: EmbedderOptions) -> Embedder:
    url, _, model = text.partition("#")
    host = parse_url(url, "The embedder's base URL").netloc
    if not model:
        raise InvalidInput(f"The URL of {host} has no model; append it after a #, such as http://{host}/v1#bge-m3")
    return ServiceEmbedder(model, name=f"{host}#{model}", base_url=url, options=options)


def _at_service(text: str, prefix: str, keys: Mapping[str, str], options: EmbedderOptions) -> Embedder:
    service, model = EMBEDDING_SERVICES[prefix], text.partition(":")[2]
    other_url = options.base_url or (keys.get(service.base_variable) if service.base_variable else None)
    key = find_api_key(service.key_variables, keys, options.api_key)
    # A self-hosted server behind a known prefix may need no key.
    if key is None and service.key_variables and not other_url:
        raise missing_key(f"The embedder {text!r}", service.key_variables[0], setting="embedder_key")
    limits = _LIMITS.get(prefix, RequestLimits())
    # Whether such a server packs numbers is unknown.
    limits = replace(limits, base64=limits.base64 and not other_url)
    return ServiceEmbedder(
        model, name=text, base_url=other_url or service.base_url, options=replace(options, api_key=key), limits=limits
    )


def _unknown(text: str) -> InvalidInput:
    # Only the prefix is shown: the text may be a key that was pasted into the wrong setting.
    shown = f"{text.partition(':')[0]}:…" if ":" in text else "This text"
    return InvalidInput(f"{shown} is not an embedder. Use one of: {', '.join(_FORMS)}")
