"""Fakes for testing code that uses vmemo: language models and embedders."""

from vmemo.testing.embedders import (
    FailingEmbedder as FailingEmbedder,
    HashEmbedder as HashEmbedder,
)
from vmemo.testing.llm import (
    ConnectionDropped as ConnectionDropped,
    ConnectionReset as ConnectionReset,
    CutOff as CutOff,
    Drip as Drip,
    EmptyBody as EmptyBody,
    FakeLLM as FakeLLM,
    Fault as Fault,
    Hang as Hang,
    HtmlPage as HtmlPage,
    NoUsage as NoUsage,
    RawText as RawText,
    ReceivedRequest as ReceivedRequest,
    Refusal as Refusal,
    Script as Script,
    StatusResponse as StatusResponse,
    ToolCall as ToolCall,
)
