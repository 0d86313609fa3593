"""Shipped implementations of the ports, for programs that compose their own.

`Memory` chooses these by itself. Import them from here to wrap one, to replay or cache around it, or to measure it.
"""

from __future__ import annotations

from vmemo.embedding.cache import CachedEmbedder, CachedTokenEmbedder, EmbeddingCache, cache_embedder, cache_key
from vmemo.embedding.packaged import PackagedEmbedder
from vmemo.embedding.token_counter import count_tokens
from vmemo.errors import InvalidInput
from vmemo.ports import LLM
from vmemo.retain.local_extraction import LocalExtractor
from vmemo.settings import Settings, build

__all__ = [
    "CachedEmbedder",
    "CachedTokenEmbedder",
    "EmbeddingCache",
    "LocalExtractor",
    "PackagedEmbedder",
    "cache_embedder",
    "cache_key",
    "count_tokens",
    "resolve_llm",
]


def resolve_llm(model: object, settings: Settings) -> LLM:
    """Return the language model that `Memory(llm=model)` would use: an object as it is, a name as its adapter."""
    if isinstance(model, LLM):
        return model
    unset = settings.model_copy(update={"llm": None})
    llm = build("sqlite:///:memory:", llm=model, embedder=None, reranker=None, settings=unset).llm
    if llm is None:
        raise InvalidInput(
            f"{model!r:.60} can neither answer nor judge: pass a language model, such as openai:gpt-5-mini or an "
            "object with name and complete()."
        )
    return llm
