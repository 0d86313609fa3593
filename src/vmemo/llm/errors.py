"""Transient LLM errors that `ResilientLLM` retries."""

from __future__ import annotations

from vmemo.errors import LLMUnavailable


class LLMBusy(LLMUnavailable):
    """The service is overloaded or unreachable; `retry_after` is the delay in seconds that it requested."""

    def __init__(self, message: str, *, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class LLMInvalidResponse(LLMUnavailable):
    """The response is not a chat completion: an empty body, a web page or malformed JSON."""
