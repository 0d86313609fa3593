"""Fakes for testing code that uses vmemo: language models and embedders."""

from vmemo.testing.embedders import FailingEmbedder, HashEmbedder
from vmemo.testing.llm import (
    ConnectionDropped,
    ConnectionReset,
    CutOff,
    Drip,
    EmptyBody,
    FakeLLM,
    Fault,
    Hang,
    HtmlPage,
    NoUsage,
    RawText,
    ReceivedRequest,
    Refusal,
    Script,
    StatusResponse,
    ToolCall,
)

__all__ = [
    "ConnectionDropped",
    "ConnectionReset",
    "CutOff",
    "Drip",
    "EmptyBody",
    "FailingEmbedder",
    "FakeLLM",
    "Fault",
    "Hang",
    "HashEmbedder",
    "HtmlPage",
    "NoUsage",
    "RawText",
    "ReceivedRequest",
    "Refusal",
    "Script",
    "StatusResponse",
    "ToolCall",
]
