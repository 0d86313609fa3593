"""What you need to test code that uses vmemo, and stores and embedders of your own."""

from vmemo.testing.embedders import FailingEmbedder, HashEmbedder
from vmemo.testing.llm import (
    CutOff,
    Drip,
    EmptyBody,
    FakeLLM,
    Fault,
    Hang,
    Html,
    NoUsage,
    Raw,
    Received,
    Refusal,
    Reset,
    Script,
    Status,
    Torn,
)
from vmemo.testing.llm_server import ScriptedServer

__all__ = [
    "CutOff",
    "Drip",
    "EmptyBody",
    "FailingEmbedder",
    "FakeLLM",
    "Fault",
    "Hang",
    "HashEmbedder",
    "Html",
    "NoUsage",
    "Raw",
    "Received",
    "Refusal",
    "Reset",
    "Script",
    "ScriptedServer",
    "Status",
    "Torn",
]
