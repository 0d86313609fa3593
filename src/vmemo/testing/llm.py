"""Language models for tests: what they say and how they fail stands in a script, and they remember what was asked."""

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
from vmemo.llm.resilient import Busy, Garbled
from vmemo.models.results import Usage
from vmemo.ports.providers import Completion, LLMRequest

_PIECE = 5


@dataclass(frozen=True)
class Hang:
    """Says nothing for some seconds, then hangs up."""

    seconds: float


@dataclass(frozen=True)
class Reset:
    """The connection breaks at once."""


@dataclass(frozen=True)
class Status:
    """An answer with another HTTP status than 200."""

    code: int
    body: str = ""
    retry_after: float | str | None = None


@dataclass(frozen=True)
class Refusal:
    """The model declines to answer."""

    text: str = "I can't help with that."


@dataclass(frozen=True)
class EmptyBody:
    """Status 200 and not a byte more."""


@dataclass(frozen=True)
class Raw:
    """The model writes exactly this: broken JSON, another schema, prose."""

    text: str


@dataclass(frozen=True)
class Html:
    """Status 200 with a web page, as gateways and login walls send it."""


@dataclass(frozen=True)
class Drip:
    """An answer that never ends and comes byte by byte."""

    seconds_per_byte: float


@dataclass(frozen=True)
class CutOff:
    """The model stops in the middle, because its tokens are used up."""

    text: str = '{"cut": "o'


@dataclass(frozen=True)
class NoUsage:
    """A good answer from a server that does not say what it cost."""

    value: JsonValue


@dataclass(frozen=True)
class Torn:
    """The connection breaks in the middle of an answer, of which only the share `keep` arrives."""

    text: str
    keep: float = 0.5

    @property
    def kept(self) -> str:
        """The part of the text that arrives."""
        return self.text[: int(len(self.text) * self.keep)]


Fault: TypeAlias = Hang | Reset | Status | Refusal | EmptyBody | Raw | Html | Drip | CutOff | NoUsage | Torn


@dataclass(frozen=True, kw_only=True)
class Received:
    """One question as it arrived; `headers` are without keys, `schema` is None where it only stands in the prompt."""

    step: str
    system: str
    user: str
    schema: Mapping[str, JsonValue] | None
    model: str
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    body: Mapping[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    at: datetime


Reply: TypeAlias = JsonValue | Fault
Answering: TypeAlias = Callable[[Received], Reply]
Part: TypeAlias = Answering | Sequence[Reply] | Reply
Script: TypeAlias = Answering | Mapping[str, Part]
"""What answers: a function, or for each step a function, a list used up in order, or always the same value."""


class Prompter:
    """Finds the next reply: queued faults first, then the script's own. May be shared by threads."""

    def __init__(self, script: Script) -> None:
        self._lock = threading.Lock()
        self._faults: defaultdict[str, deque[Fault]] = defaultdict(deque)
        self._any: Answering | None = script if callable(script) else None
        steps: Mapping[str, Part] = {} if callable(script) else script
        self._steps = {step: _answering(step, part) for step, part in steps.items()}

    def faults(self, step: str, faults: Iterable[Fault]) -> None:
        """Queue faults that are played before the script's own answers to a step."""
        with self._lock:
            self._faults[step].extend(faults)

    def reply(self, received: Received) -> Reply:
        """What comes next; an AssertionError where the script has nothing for this step."""
        with self._lock:
            if queued := self._faults[received.step]:
                return queued.popleft()
        answering = self._any or self._steps.get(received.step)
        if answering is None:
            raise AssertionError(f"The script has no answer for {received.step!r}, only for {sorted(self._steps)}")
        return answering(received)


def _answering(step: str, part: Part) -> Answering:
    if callable(part):
        return part
    if not isinstance(part, list | tuple):
        return lambda _: cast("Reply", part)
    left = deque(cast("Sequence[Reply]", part))

    def next_one(_: Received) -> Reply:
        try:
            return left.popleft()
        except IndexError:
            raise AssertionError(f"The script's answers for {step!r} are used up") from None

    return next_one


def written(value: JsonValue) -> str:
    """The text that a model sends for a value: strings as they are, everything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def tokens(text: str) -> int:
    """About as many tokens as a text has."""
    return max(1, len(text) // 4)


def pieces(text: str) -> list[str]:
    """A text in pieces of a few characters, as a stream tells it."""
    return [text[start : start + _PIECE] for start in range(0, len(text), _PIECE)]


class FakeLLM:
    """A language model in memory that follows a script; faults become the errors that a real one would raise."""

    def __init__(self, script: Script, *, name: str = "fake") -> None:
        self._name = name
        self._prompter = Prompter(script)
        self.received: list[Received] = []

    @property
    def name(self) -> str:
        """The name it was given."""
        return self._name

    def faults(self, step: str, faults: Iterable[Fault]) -> None:
        """Queue faults that are played before the script's own answers to a step."""
        self._prompter.faults(step, faults)

    async def complete(self, request: LLMRequest) -> Completion:
        """The script's next answer to this step, or its error."""
        _, end = self._answer(request)
        if isinstance(end, LLMFailed):
            raise end
        return end

    async def stream(self, request: LLMRequest) -> AsyncGenerator[str | Completion]:
        """The script's next answer in small pieces; what breaks in the middle gives its first pieces before."""
        text, end = self._answer(request)
        for piece in pieces(text):
            yield piece
        if isinstance(end, LLMFailed):
            raise end
        yield end

    def _answer(self, request: LLMRequest) -> tuple[str, Completion | LLMFailed]:
        received = Received(
            step=request.step,
            system=request.system,
            user=request.user,
            schema=request.schema,
            model=self._name,
            at=datetime.now(UTC),
        )
        self.received.append(received)
        match self._prompter.reply(received):
            case NoUsage(value):
                return written(value), Completion(text=written(value), usage=Usage(calls=1))
            case CutOff(text) as fault:
                return text, _error(fault)
            case Torn() as fault:
                return fault.kept, _error(fault)
            case Hang() | Reset() | Status() | Refusal() | EmptyBody() | Html() | Drip() as fault:
                return "", _error(fault)
            case Raw(text):
                return text, _completion(request, text)
            case value:
                return written(value), _completion(request, written(value))


def _completion(request: LLMRequest, text: str) -> Completion:
    asked = tokens(request.system) + tokens(request.user)
    return Completion(text=text, usage=Usage(calls=1, input_tokens=asked, output_tokens=tokens(text)))


def _error(fault: Hang | Reset | Status | Refusal | EmptyBody | Html | Drip | CutOff | Torn) -> LLMFailed:
    text = "The fake model fails on purpose"
    match fault:
        case Status(code) if code not in (408, 429) and code < 500:
            return LLMDenied(f"{text}: status {code}")
        case Status(code, _, retry_after):
            return Busy(f"{text}: status {code}", retry_after=None if isinstance(retry_after, str) else retry_after)
        case Refusal():
            return LLMRefused(f"{text}: it refuses")
        case EmptyBody() | Html():
            return Garbled(f"{text}: its answer is no JSON")
        case CutOff():
            return LLMUnusable(f"{text}: its answer is cut off")
        case Hang() | Reset() | Drip() | Torn():
            return LLMUnavailable(f"{text}: it is not there")
