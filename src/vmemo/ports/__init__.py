"""The protocols that stores and providers fulfil. A class of your own works without inheriting any of them."""

from vmemo.ports.context import Context
from vmemo.ports.engine import Extractor, NameReader, TimeReader
from vmemo.ports.providers import (
    LLM,
    Completion,
    Embedder,
    LearningEmbedder,
    LLMRequest,
    Reranker,
    RevisionModel,
    StreamingLLM,
    TextKind,
    TokenCounter,
    TokenEmbedder,
    dimension_of,
    encodings,
    gives_tokens,
)
from vmemo.ports.store import (
    HIDDEN,
    BankNotFound,
    BankReader,
    HiddenBank,
    Loaded,
    MessageLog,
    Reads,
    ReplicatedStore,
    Search,
    Store,
)
from vmemo.ports.webhooks import WebhookStore
from vmemo.ports.work import Queue, Scrubber, WorkNotifier

__all__ = [
    "HIDDEN",
    "LLM",
    "BankNotFound",
    "BankReader",
    "Completion",
    "Context",
    "Embedder",
    "Extractor",
    "HiddenBank",
    "LLMRequest",
    "LearningEmbedder",
    "Loaded",
    "MessageLog",
    "NameReader",
    "Queue",
    "Reads",
    "ReplicatedStore",
    "Reranker",
    "RevisionModel",
    "Scrubber",
    "Search",
    "Store",
    "StreamingLLM",
    "TextKind",
    "TimeReader",
    "TokenCounter",
    "TokenEmbedder",
    "WebhookStore",
    "WorkNotifier",
    "dimension_of",
    "encodings",
    "gives_tokens",
]
