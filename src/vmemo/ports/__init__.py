"""The protocols that stores and providers fulfil. A class of your own works without inheriting any of them."""

from vmemo.ports.auth import AuthStore
from vmemo.ports.context import Context
from vmemo.ports.engine import Extractor, NameReader, TimeReader
from vmemo.ports.providers import (
    LLM,
    Completion,
    Embedder,
    LLMRequest,
    Reranker,
    StreamingLLM,
    TextKind,
    TokenCounter,
    TokenEmbedder,
    encodings,
)
from vmemo.ports.store import HIDDEN, HiddenBank, Library, Loaded, MessageLog, Search, Store
from vmemo.ports.upkeep import Housekeeping, RetentionScore
from vmemo.ports.work import Identities, Queue, WorkNotifier

__all__ = [
    "HIDDEN",
    "LLM",
    "AuthStore",
    "Completion",
    "Context",
    "Embedder",
    "Extractor",
    "HiddenBank",
    "Housekeeping",
    "Identities",
    "LLMRequest",
    "Library",
    "Loaded",
    "MessageLog",
    "NameReader",
    "Queue",
    "Reranker",
    "RetentionScore",
    "Search",
    "Store",
    "StreamingLLM",
    "TextKind",
    "TimeReader",
    "TokenCounter",
    "TokenEmbedder",
    "WorkNotifier",
    "encodings",
]
