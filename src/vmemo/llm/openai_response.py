"""Responses of OpenAI's chat protocol: whole bodies, streamed chunks and error statuses."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TypeVar

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError

from vmemo.errors import LLMDenied, LLMFailed, LLMRefused, LLMUnusable
from vmemo.llm.errors import LLMBusy, LLMInvalidResponse
from vmemo.models.results import Usage
from vmemo.ports.providers import Completion

M = TypeVar("M", bound="_WireModel")

Prices = tuple[float, float]
"""Dollars per million input tokens and per million output tokens."""

_DONE = "[DONE]"
_STATUS = re.compile(r"[45]\d\d")
_REFUSED = re.compile(r"content_?filter|content_policy|moderation|safety", re.IGNORECASE)
_DENIED = re.compile(
    r"invalid|unsupported|not_?found|context_length|quota|billing|authentication|permission", re.IGNORECASE
)


class _WireModel(BaseModel):
    # Validation messages that quote the input would leak texts into logs.
    model_config = ConfigDict(hide_input_in_errors=True, allow_inf_nan=False)


class _ContentPart(_WireModel):
    text: str = ""


class _ChatMessage(_WireModel):
    content: str | list[_ContentPart] | None = None
    refusal: str | None = None

    @property
    def text(self) -> str:
        content = self.content or ""
        return content if isinstance(content, str) else "".join(part.text for part in content)


class _ChatChoice(_WireModel):
    message: _ChatMessage
    finish_reason: str | None = None


class _TokenUsage(_WireModel):
    prompt_tokens: int = Field(default=0, ge=0)
    completion_tokens: int = Field(default=0, ge=0)
    cost: float | None = Field(default=None, ge=0)


class _ChatCompletion(_WireModel):
    choices: list[_ChatChoice] = Field(min_length=1)
    usage: JsonValue = None


class _ChunkChoice(_WireModel):
    delta: _ChatMessage | None = None
    finish_reason: str | None = None


class _ChatChunk(_WireModel):
    choices: list[_ChunkChoice] | None = None
    usage: JsonValue = None
    error: JsonValue = None
    object: JsonValue = None
    code: JsonValue = None
    type: JsonValue = None

    @property
    def error_details(self) -> JsonValue:
        """The error that replaces the next delta; some servers put it at the top level of the chunk."""
        return {"code": self.code, "type": self.type} if self.object == "error" else self.error


@dataclass(frozen=True, kw_only=True)
class ResponseParser:
    """Turns response bodies into completions; `describe` prefixes an error message with the model and host."""

    describe: Callable[[str], str]
    max_tokens: int
    prices: Prices | None = None

    def parse_body(self, body: bytes) -> Completion:
        """Return the completion of an unstreamed response."""
        answer = self.validate(_ChatCompletion, body)
        choice = answer.choices[0]
        self.check_finish(choice.message.refusal, choice.finish_reason)
        return self.completion(choice.message.text, answer.usage)

    def validate(self, model: type[M], data: bytes | str) -> M:
        """Return the parsed data, or raise an error that names the invalid field without quoting the response."""
        try:
            return model.model_validate_json(data)
        except ValidationError as error:
            problem = error.errors(include_url=False, include_input=False, include_context=False)[0]
            field = ".".join(map(str, problem["loc"])) or "the body"
            message = f"returned something other than a chat completion: {field} is invalid"
            raise LLMInvalidResponse(self.describe(message)) from None

    def check_finish(self, refusal: str | None, finish_reason: str | None) -> None:
        """Raise if the model refused to answer or was cut off."""
        if refusal or finish_reason == "content_filter":
            raise LLMRefused(self.describe("declined to answer"))
        if finish_reason == "length":
            raise LLMUnusable(self.describe(f"returned an answer that was cut off at {self.max_tokens} tokens"))

    def completion(self, text: str, usage: JsonValue) -> Completion:
        """Return the completion with its cost; raise if the text is blank."""
        if not text.strip():
            raise LLMInvalidResponse(self.describe("returned an empty answer"))
        try:
            reported = _TokenUsage.model_validate(usage)
        except ValidationError:
            reported = _TokenUsage()
        input_tokens, output_tokens = reported.prompt_tokens, reported.completion_tokens
        cost = reported.cost if reported.cost is not None else token_cost(input_tokens, output_tokens, self.prices)
        usage_record = Usage(calls=1, input_tokens=input_tokens, output_tokens=output_tokens, cost=cost)
        return Completion(text=text, usage=usage_record)

    def stream_error(self, error: JsonValue) -> LLMFailed:
        """Return the exception for an error that arrives inside a stream."""
        code, kind = (str(error.get("code")), str(error.get("type"))) if isinstance(error, dict) else ("", "")
        if _STATUS.fullmatch(code):
            return error_for_status(int(code), self.describe("aborted its answer with status"))
        if _REFUSED.search(f"{code} {kind}"):
            return LLMRefused(self.describe("declined to answer"))
        if _DENIED.search(f"{code} {kind}"):
            return LLMDenied(self.describe("aborted its answer: it does not accept the request"))
        return LLMBusy(self.describe("aborted its answer with an error"))


class StreamParser:
    """Assembles a completion from the chunks of a stream."""

    def __init__(self, parser: ResponseParser) -> None:
        self._parser = parser
        self._texts: list[str] = []
        self._has_text = False
        self._finish_reason: str | None = None
        self._usage: JsonValue = None
        self.done = False
        """True once the server has sent the end marker."""

    def add(self, data: str) -> str:
        """Return the text delta of an event. Leading whitespace is held back, because it may be all that follows."""
        if data.strip() == _DONE:
            self.done = True
            return ""
        chunk = self._parser.validate(_ChatChunk, data)
        if chunk.error_details is not None:
            raise self._parser.stream_error(chunk.error_details)
        if chunk.usage is not None:
            self._usage = chunk.usage
        return self._add_choice(chunk.choices[0]) if chunk.choices else ""

    def completion(self) -> Completion:
        """Return the whole answer; raise if the stream ended early."""
        if self._finish_reason == "error" or not (self._finish_reason or self.done):
            raise LLMBusy(self._parser.describe("broke off in the middle of its answer"))
        return self._parser.completion("".join(self._texts), self._usage)

    def _add_choice(self, choice: _ChunkChoice) -> str:
        delta = choice.delta or _ChatMessage()
        self._finish_reason = choice.finish_reason or self._finish_reason
        self._parser.check_finish(delta.refusal, self._finish_reason)
        self._texts.append(delta.text)
        if self._has_text:
            return delta.text
        text = "".join(self._texts)
        self._has_text = bool(text.strip())
        return text if self._has_text else ""


def token_cost(input_tokens: int, output_tokens: int, prices: Prices | None) -> float:
    """Return the cost in dollars, or 0 if the prices are unknown."""
    return (input_tokens * prices[0] + output_tokens * prices[1]) / 1_000_000 if prices else 0.0


def error_for_status(status: int, start: str, *, retry_after: float | None = None) -> LLMFailed:
    """Return the exception for an HTTP status; its message begins with `start`."""
    if status in (408, 429) or status >= 500:
        return LLMBusy(f"{start} {status}", retry_after=retry_after)
    if 200 <= status < 300:
        return LLMInvalidResponse(f"{start} {status}")
    if status < 400:
        return LLMDenied(f"{start} {status}, a redirect, which is not followed: configure the final URL")
    advice = {401: "check the API key", 402: "check the account", 403: "check the API key and its permissions"}
    advice |= {404: "check the base URL and the model's name", 413: "the request is too long for it"}
    return LLMDenied(f"{start} {status}: {advice.get(status, 'it does not accept the request')}")


def retry_after_seconds(headers: Mapping[str, str]) -> float | None:
    """Return the delay of a Retry-After header, which is a number of seconds or a date; None if it has no delay."""
    text = headers.get("retry-after", "").strip()
    if re.fullmatch(r"\d{1,9}(\.\d{1,9})?", text, re.ASCII):
        return float(text)
    try:
        at = parsedate_to_datetime(text)
    except ValueError:
        return None
    return max(0.0, (at.replace(tzinfo=at.tzinfo or UTC) - datetime.now(UTC)).total_seconds())
