"""Streaming of an answer while the LLM writes it as JSON."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import dataclass, field
from itertools import takewhile
from typing import cast

from pydantic_core import from_json

from vmemo.errors import LLMUnusable
from vmemo.llm.structured import CachingLLM
from vmemo.models.results import Event, Retracted, TextDelta
from vmemo.ports import LLM, Completion, LLMRequest, StreamingLLM
from vmemo.reflect.answer_prompt import STEP
from vmemo.reflect.citations import complete_part, resolve_citations

EventSink = Callable[[Event], None]
_PARSED_SHARE = 64
"""An answer is parsed again after each 64th part of it: with every delta, the work would grow with its square."""
_THINKING_START = re.compile(r"\s*<think", re.IGNORECASE)
_THINKING = re.compile(r"\s*<think.*?</think\w*>", re.DOTALL | re.IGNORECASE)


def ignore_event(event: Event) -> None:
    """Discard an event."""


@dataclass
class AnswerStreamer:
    """Emits the text of an answer as deltas with fact ids, and a retraction if emitted text does not hold."""

    emit: EventSink
    fact_id: Callable[[str], str | None] = lambda mark: None
    may_call: bool = False
    _json: str = field(init=False, default="")
    _unparsed: list[str] = field(init=False, default_factory=list[str])
    _waiting: int = field(init=False, default=0)
    _emitted: str = field(init=False, default="")

    def start(self) -> None:
        """Start a new answer, and retract the text of an earlier one."""
        self._json, self._unparsed, self._waiting = "", [], 0
        if self._emitted:
            self._retract("The answer could not be used and is written again.")

    def feed(self, delta: str) -> None:
        """Add the next part of the JSON, and emit the text in it."""
        self._unparsed.append(delta)
        self._waiting += len(delta)
        if self._waiting * _PARSED_SHARE < len(self._json):
            return
        self._json += "".join(self._unparsed)
        self._unparsed, self._waiting = [], 0
        answer = _partial_object(self._json)
        text = answer.get("text")
        # `calls` precedes `text`; nothing is emitted until it is known to be empty.
        before_text = dict(takewhile(lambda item: item[0] != "text", answer.items()))
        is_answer = not self.may_call or ("calls" in before_text and not before_text["calls"])
        if isinstance(text, str) and is_answer:
            self._extend(resolve_citations(complete_part(text), self.fact_id))

    def finish(self, text: str) -> None:
        """Emit the rest of the final text, retracting what differs from it."""
        if not text.startswith(self._emitted):
            self._retract("The answer was corrected.")
        self._extend(text)

    def _extend(self, text: str) -> None:
        if len(text) > len(self._emitted) and text.startswith(self._emitted):
            self.emit(TextDelta(text=text[len(self._emitted) :]))
            self._emitted = text

    def _retract(self, reason: str) -> None:
        self._emitted = ""
        self.emit(Retracted(reason=reason))


@dataclass(frozen=True)
class StreamTap:
    """An LLM that passes the answers of the reflect step to a streamer while they are written."""

    llm: LLM
    streamer: AnswerStreamer

    @property
    def name(self) -> str:
        return self.llm.name

    async def complete(self, request: LLMRequest) -> Completion:
        """Return the whole answer; an LLM that cannot stream emits it as one delta."""
        if request.step != STEP:
            return await self.llm.complete(request)
        self.streamer.start()
        if not isinstance(self.llm, StreamingLLM):
            completion = await self.llm.complete(request)
            self.streamer.feed(completion.text)
            return completion
        completion = None
        async with aclosing(self.llm.stream(request)) as deltas:
            async for delta in deltas:
                if isinstance(delta, Completion):
                    completion = delta
                else:
                    self.streamer.feed(delta)
        if completion is None:
            raise LLMUnusable(f"{self.name} ended the stream of {request.step!r} before the answer was complete.")
        return completion

    def forget(self, request: LLMRequest) -> None:
        """Remove an answer from the LLM's cache, if it has one."""
        if isinstance(self.llm, CachingLLM):
            self.llm.forget(request)


def _partial_object(written: str) -> dict[str, object]:
    """Parse the JSON object that was written so far; return an empty one if there is none yet."""
    thinking = _THINKING.match(written)
    start = written.find("{", thinking.end() if thinking else 0)
    if start < 0 or (_THINKING_START.match(written) and not thinking):
        return {}
    try:
        value: object = from_json(written[start:], allow_partial="trailing-strings")
    except ValueError:
        return {}
    return cast("dict[str, object]", value) if isinstance(value, dict) else {}
