"""The protocols that stores and providers fulfil. A class of your own works without inheriting any of them."""

from vmemo.ports.engine import Extractor, NameReader, TimeReader
from vmemo.ports.gate import Admissions
from vmemo.ports.providers import (
    LLM,
    Ask,
    Completion,
    Embedder,
    Reranker,
    StreamingLLM,
    TextKind,
    TokenCounter,
    TokenEmbedder,
    encodings,
)
from vmemo.ports.store import Arrival, Arrivals, Library, Loaded, MessageLog, Search, Store
from vmemo.ports.upkeep import Housekeeping, Trace
from vmemo.ports.work import Identities, Queue, Shadows, Wakeful

__all__ = [
    "LLM",
    "Admissions",
    "Arrival",
    "Arrivals",
    "Ask",
    "Completion",
    "Embedder",
    "Extractor",
    "Housekeeping",
    "Identities",
    "Library",
    "Loaded",
    "MessageLog",
    "NameReader",
    "Queue",
    "Reranker",
    "Search",
    "Shadows",
    "Store",
    "StreamingLLM",
    "TextKind",
    "TimeReader",
    "TokenCounter",
    "TokenEmbedder",
    "Trace",
    "Wakeful",
    "encodings",
]
