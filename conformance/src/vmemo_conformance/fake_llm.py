"""Scripted language models for tests: answers and faults come from a script, and requests are recorded."""

from __future__ import annotations

import json
import threading
from collections import defaultdict, deque
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TypeAlias, cast

from pydantic import JsonValue

from vmemo.errors import LLMDenied, LLMFailed, LLMRefused, LLMUnavailable, LLMUnusable
from vmemo.models.results import Usage
from vmemo.ports import Completion, LLMRequest

EMBED_STEP = "embed"
"""The step of requests for embeddings, which a scripted server answers by itself unless its script does."""
_DELTA_CHARACTERS = 5


@dataclass(frozen=True)
class Hang:
    """The server stays silent for some seconds, then closes the connection."""

    seconds: float


@dataclass(frozen=True)
class ConnectionReset:
    """The connection is reset before any response."""


@dataclass(frozen=True)
class StatusResponse:
    """A response with this HTTP status, body and Retry-After header."""

    code: int
    body: str = ""
    retry_after: float | str | None = None


@dataclass(frozen=True)
class Refusal:
    """The model declines to answer."""

    text: str = "I can't help with that."


@dataclass(frozen=True)
class EmptyBody:
    """Status 200 with an empty body."""


@dataclass(frozen=True)
class RawText:
    """The model answers exactly this text, such as broken JSON or prose."""

    text: str


@dataclass(frozen=True)
class HtmlPage:
    """Status 200 with a web page, as gateways and login pages send it."""


@dataclass(frozen=True)
class Drip:
    """An endless response that arrives byte by byte."""

    seconds_per_byte: float


@dataclass(frozen=True)
class CutOff:
    """The model stops at its token limit."""

    text: str = '{"cut": "o'


@dataclass(frozen=True)
class NoUsage:
    """A valid answer from a server that reports no usage."""

    value: JsonValue


@dataclass(frozen=True)
class ConnectionDropped:
    """The connection breaks in the middle of the answer; only the fraction `keep` of it arrives."""

    text: str
    keep: float = 0.5

    @property
    def kept(self) -> str:
        """The part of the text that arrives."""
        return self.text[: int(len(self.text) * self.keep)]


@dataclass(frozen=True)
class ToolCall:
    """The model of an agent calls a tool; only the server can send it, since vmemo's own calls offer no tools."""

    name: str
    arguments: Mapping[str, JsonValue] = field(default_factory=dict[str, JsonValue])


Fault: TypeAlias = (
    Hang
    | ConnectionReset
    | StatusResponse
    | Refusal
    | EmptyBody
    | RawText
    | HtmlPage
    | Drip
    | CutOff
    | NoUsage
    | ConnectionDropped
)


@dataclass(frozen=True, kw_only=True)
class ReceivedRequest:
    """A recorded request. `headers` omit credentials; `schema` is None if it was sent only in the prompt."""

    step: str
    system: str
    user: str
    schema: Mapping[str, JsonValue] | None
    model: str
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    body: Mapping[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    at: datetime


Reply: TypeAlias = JsonValue | Fault | ToolCall
Responder: TypeAlias = Callable[[ReceivedRequest], Reply]
StepScript: TypeAlias = Responder | Sequence[Reply] | Reply
Script: TypeAlias = Responder | Mapping[str, StepScript]
"""A function of the request, or for each step a function, a list of replies used in order, or a constant reply."""


class ScriptPlayer:
    """Selects the next reply: queued faults first, then the script. Thread-safe."""

    def __init__(self, script: Script) -> None:
        self._lock = threading.Lock()
        self._faults: defaultdict[str, deque[Fault]] = defaultdict(deque)
        self._any: Responder | None = script if callable(script) else None
        steps: Mapping[str, StepScript] = {} if callable(script) else script
        self._steps = {step: _responder(step, part) for step, part in steps.items()}

    def faults(self, step: str, faults: Iterable[Fault]) -> None:
        """Queue faults that precede the script's replies to a step."""
        with self._lock:
            self._faults[step].extend(faults)

    def reply(self, received: ReceivedRequest) -> Reply:
        """Return the next reply; raise AssertionError if the script has none for this step."""
        with self._lock:
            if queued := self._faults[received.step]:
                return queued.popleft()
        if received.step == EMBED_STEP and received.step not in self._steps:
            return None
        responder = self._any or self._steps.get(received.step)
        if responder is None:
            raise AssertionError(f"The script has no reply for step {received.step!r}, only for {sorted(self._steps)}")
        return responder(received)


def _responder(step: str, part: StepScript) -> Responder:
    if callable(part):
        return part
    if not isinstance(part, list | tuple):
        return lambda _: cast("Reply", part)
    left = deque(cast("Sequence[Reply]", part))

    def next_reply(_: ReceivedRequest) -> Reply:
        try:
            return left.popleft()
        except IndexError:
            raise AssertionError(f"The script's replies for step {step!r} are used up") from None

    return next_reply


def answer_text(value: JsonValue) -> str:
    """Return the text of a reply: a string unchanged, any other value as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def estimate_tokens(text: str) -> int:
    return max(1, len(text) // 4)


def text_deltas(text: str) -> list[str]:
    """Split a text into deltas of a few characters."""
    return [text[start : start + _DELTA_CHARACTERS] for start in range(0, len(text), _DELTA_CHARACTERS)]


class FakeLLM:
    """An in-memory language model that follows a script; faults become the errors that a real adapter raises."""

    def __init__(self, script: Script, *, name: str = "fake") -> None:
        self._name = name
        self._player = ScriptPlayer(script)
        self.received: list[ReceivedRequest] = []

    @property
    def name(self) -> str:
        return self._name

    def faults(self, step: str, faults: Iterable[Fault]) -> None:
        """Queue faults that precede the script's replies to a step."""
        self._player.faults(step, faults)

    async def complete(self, request: LLMRequest) -> Completion:
        """Return the script's next reply to this step, or raise its error."""
        _, end = self._answer(request)
        if isinstance(end, LLMFailed):
            raise end
        return end

    async def stream(self, request: LLMRequest) -> AsyncGenerator[str | Completion]:
        """Stream the script's next reply; a fault in mid-answer is raised after the first deltas."""
        text, end = self._answer(request)
        for delta in text_deltas(text):
            yield delta
        if isinstance(end, LLMFailed):
            raise end
        yield end

    def _answer(self, request: LLMRequest) -> tuple[str, Completion | LLMFailed]:
        received = ReceivedRequest(
            step=request.step,
            system=request.system,
            user=request.user,
            schema=request.schema,
            model=self._name,
            at=datetime.now(UTC),
        )
        self.received.append(received)
        match self._player.reply(received):
            case NoUsage(value):
                return answer_text(value), Completion(text=answer_text(value), usage=Usage(calls=1))
            case CutOff(text) as fault:
                return text, _error(fault)
            case ConnectionDropped() as fault:
                return fault.kept, _error(fault)
            case Hang() | ConnectionReset() | StatusResponse() | Refusal() | EmptyBody() | HtmlPage() | Drip() as fault:
                return "", _error(fault)
            case ToolCall(name):
                return "", LLMUnavailable(f"FakeLLM fails on purpose: it calls the tool {name!r}")
            case RawText(text):
                return text, _completion(request, text)
            case value:
                return answer_text(value), _completion(request, answer_text(value))


def _completion(request: LLMRequest, text: str) -> Completion:
    input_tokens = estimate_tokens(request.system) + estimate_tokens(request.user)
    return Completion(text=text, usage=Usage(calls=1, input_tokens=input_tokens, output_tokens=estimate_tokens(text)))


def _error(
    fault: Hang | ConnectionReset | StatusResponse | Refusal | EmptyBody | HtmlPage | Drip | CutOff | ConnectionDropped,
) -> LLMFailed:
    text = "FakeLLM fails on purpose"
    match fault:
        case StatusResponse(code) if code not in (408, 429) and code < 500:
            return LLMDenied(f"{text}: status {code}")
        case StatusResponse(code, _, retry_after):
            return LLMUnavailable(
                f"{text}: status {code}", retry_after=None if isinstance(retry_after, str) else retry_after
            )
        case Refusal():
            return LLMRefused(f"{text}: refusal")
        case EmptyBody() | HtmlPage():
            return LLMUnavailable(f"{text}: the response is not a chat completion")
        case CutOff():
            return LLMUnusable(f"{text}: the answer is cut off")
        case Hang() | ConnectionReset() | Drip() | ConnectionDropped():
            return LLMUnavailable(f"{text}: it is unreachable")
