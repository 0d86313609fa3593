"""The protocols that stores and providers fulfil. A class of your own works without inheriting any of them."""

from vmemo.ports.auth import AuthStore
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
)
from vmemo.ports.store import (
    HIDDEN,
    AppendCompletion,
    BankNotFound,
    BankReader,
    HiddenBank,
    Loaded,
    MessageLog,
    Reads,
    Search,
    Store,
)
from vmemo.ports.webhooks import WebhookStore
from vmemo.ports.work import Queue, Scrubber, WorkNotifier

__all__ = [
    "HIDDEN",
    "LLM",
    "AppendCompletion",
    "AuthStore",
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
]
