"""What a server that speaks OpenAI's chat protocol answers: a whole body, or chunks that become one."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TypeVar

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError

from vmemo.errors import LLMDenied, LLMFailed, LLMRefused, LLMUnusable
from vmemo.llm.resilient import Busy, Garbled
from vmemo.models.results import Usage
from vmemo.ports.providers import Completion

E = TypeVar("E", bound="_Envelope")

Prices = tuple[float, float]
"""Dollars for a million tokens of input and of output."""

_DONE = "[DONE]"
_STATUS = re.compile(r"[45]\d\d")
_REFUSED = re.compile(r"content_?filter|content_policy|moderation|safety", re.IGNORECASE)
_DENIED = re.compile(
    r"invalid|unsupported|not_?found|context_length|quota|billing|authentication|permission", re.IGNORECASE
)


class _Envelope(BaseModel):
    # A message that repeats the input would carry texts into logs.
    model_config = ConfigDict(hide_input_in_errors=True, allow_inf_nan=False)


class _Part(_Envelope):
    text: str = ""


class _Message(_Envelope):
    content: str | list[_Part] | None = None
    refusal: str | None = None

    @property
    def text(self) -> str:
        parts = self.content or ""
        return parts if isinstance(parts, str) else "".join(part.text for part in parts)


class _Choice(_Envelope):
    message: _Message
    finish_reason: str | None = None


class _Spent(_Envelope):
    prompt_tokens: int = Field(default=0, ge=0)
    completion_tokens: int = Field(default=0, ge=0)
    cost: float | None = Field(default=None, ge=0)


class _Body(_Envelope):
    choices: list[_Choice] = Field(min_length=1)
    usage: JsonValue = None


class _Step(_Envelope):
    delta: _Message | None = None
    finish_reason: str | None = None


class _Chunk(_Envelope):
    choices: list[_Step] | None = None
    usage: JsonValue = None
    error: JsonValue = None
    object: JsonValue = None
    code: JsonValue = None
    type: JsonValue = None

    @property
    def trouble(self) -> JsonValue:
        """The error that stands in place of text; some servers wrap it and some do not."""
        return {"code": self.code, "type": self.type} if self.object == "error" else self.error


@dataclass(frozen=True, kw_only=True)
class Reading:
    """How answers are read: `says` begins an error's message, `tokens` was the limit, `prices` are the model's."""

    says: Callable[[str], str]
    tokens: int
    prices: Prices | None = None

    def whole(self, body: bytes) -> Completion:
        """A body as an answer."""
        answer = self.parsed(_Body, body)
        choice = answer.choices[0]
        self.check(choice.message.refusal, choice.finish_reason)
        return self.completion(choice.message.text, answer.usage)

    def parsed(self, kind: type[E], data: bytes | str) -> E:
        """An envelope, or an error that names the wrong place and repeats nothing."""
        try:
            return kind.model_validate_json(data)
        except ValidationError as error:
            problem = error.errors(include_url=False, include_input=False, include_context=False)[0]
            place = ".".join(map(str, problem["loc"])) or "the body"
            raise Garbled(self.says(f"gave something else than a chat completion: {place} is wrong")) from None

    def check(self, refusal: str | None, finish: str | None) -> None:
        """Raise where the model declined or was stopped."""
        if refusal or finish == "content_filter":
            raise LLMRefused(self.says("declined to answer"))
        if finish == "length":
            raise LLMUnusable(self.says(f"gave an answer that was cut off at {self.tokens} tokens"))

    def completion(self, text: str, usage: JsonValue) -> Completion:
        """A text with what it cost; an error where there is no text."""
        if not text.strip():
            raise Garbled(self.says("gave an empty answer"))
        try:
            spent = _Spent.model_validate(usage)
        except ValidationError:
            spent = _Spent()
        asked, said = spent.prompt_tokens, spent.completion_tokens
        cost = spent.cost if spent.cost is not None else price(asked, said, self.prices)
        return Completion(text=text, usage=Usage(calls=1, input_tokens=asked, output_tokens=said, cost=cost))

    def trouble(self, error: JsonValue) -> LLMFailed:
        """The error for one that arrived in place of the answer's next words."""
        code, kind = (str(error.get("code")), str(error.get("type"))) if isinstance(error, dict) else ("", "")
        if _STATUS.fullmatch(code):
            return failure(int(code), self.says("broke off its answer with status"))
        if _REFUSED.search(f"{code} {kind}"):
            return LLMRefused(self.says("declined to answer"))
        if _DENIED.search(f"{code} {kind}"):
            return LLMDenied(self.says("broke off its answer: it does not accept the request"))
        return Busy(self.says("broke off its answer with an error"))


class Draft:
    """An answer that is still being written: chunks go in, and what they add to the text comes out."""

    def __init__(self, reading: Reading) -> None:
        self._reading = reading
        self._texts: list[str] = []
        self._begun = False
        self._finish: str | None = None
        self._usage: JsonValue = None
        self.done = False
        """Whether the server has said that nothing more will come."""

    def add(self, data: str) -> str:
        """What an event's data adds; blanks before the first word wait for it, as they may be all that comes."""
        if data.strip() == _DONE:
            self.done = True
            return ""
        chunk = self._reading.parsed(_Chunk, data)
        if chunk.trouble is not None:
            raise self._reading.trouble(chunk.trouble)
        if chunk.usage is not None:
            self._usage = chunk.usage
        return self._write(chunk.choices[0]) if chunk.choices else ""

    def completion(self) -> Completion:
        """The whole answer; an error where the stream ended before the answer did."""
        if self._finish == "error" or not (self._finish or self.done):
            raise Busy(self._reading.says("broke off in the middle of its answer"))
        return self._reading.completion("".join(self._texts), self._usage)

    def _write(self, step: _Step) -> str:
        delta = step.delta or _Message()
        self._finish = step.finish_reason or self._finish
        self._reading.check(delta.refusal, self._finish)
        self._texts.append(delta.text)
        if self._begun:
            return delta.text
        text = "".join(self._texts)
        self._begun = bool(text.strip())
        return text if self._begun else ""


def price(asked: int, said: int, prices: Prices | None) -> float:
    """Dollars for so many tokens of input and output; nothing where prices are unknown."""
    return (asked * prices[0] + said * prices[1]) / 1_000_000 if prices else 0.0


def failure(status: int, start: str, *, retry_after: float | None = None) -> LLMFailed:
    """The error for an HTTP status, whose message begins with `start`."""
    if status in (408, 429) or status >= 500:
        return Busy(f"{start} {status}", retry_after=retry_after)
    if 200 <= status < 300:
        return Garbled(f"{start} {status}")
    if status < 400:
        return LLMDenied(f"{start} {status}, a redirect, which is not followed: give the final URL")
    advice = {401: "check the API key", 402: "check the account", 403: "check the API key and its rights"}
    advice |= {404: "check the base URL and the model's name", 413: "the request is too long for it"}
    return LLMDenied(f"{start} {status}: {advice.get(status, 'it does not accept the request')}")


def wish(headers: Mapping[str, str]) -> float | None:
    """The seconds that a Retry-After header asks to wait, given as a number or as a date."""
    text = headers.get("retry-after", "").strip()
    if re.fullmatch(r"\d{1,9}(\.\d{1,9})?", text, re.ASCII):
        return float(text)
    try:
        moment = parsedate_to_datetime(text)
    except ValueError:
        return None
    return max(0.0, (moment.replace(tzinfo=moment.tzinfo or UTC) - datetime.now(UTC)).total_seconds())
