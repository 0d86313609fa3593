"""Fakes for testing code that uses vmemo: language models, a scripted LLM server and embedders."""

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
from vmemo.testing.llm_server import ScriptedServer

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
    "ScriptedServer",
    "StatusResponse",
    "ToolCall",
]
