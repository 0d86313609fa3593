"""Telling an answer while it is written: the words of the answer are picked out of the JSON that they come in."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Protocol, cast, runtime_checkable

from pydantic_core import from_json

from vmemo.errors import LLMUnusable
from vmemo.models.results import Event, Retracted, TextDelta
from vmemo.ports import LLM, Completion, LLMRequest, StreamingLLM
from vmemo.reflect.citations import resolved, unfinished

Tell = Callable[[Event], None]
Name = Callable[[str], str | None]
_THINKING = re.compile(r"\s*<think", re.IGNORECASE)
_THOUGHT = re.compile(r"\s*<think.*?</think\w*>", re.DOTALL | re.IGNORECASE)
_ANEW = "It could not be used as it was, and is written anew."


def silent(event: Event) -> None:
    """Tell nobody."""


@dataclass
class Teller:
    """Passes on what is written of an answer, with marks as ids; what was told and does not hold is withdrawn."""

    tell: Tell
    step: str
    name: Name = lambda mark: None
    may_look: bool = False
    _written: str = field(init=False, default="")
    _said: str = field(init=False, default="")

    def begin(self) -> None:
        """An answer is written from its first word."""
        self._written = ""
        if self._said:
            self._withdraw(_ANEW)

    def hear(self, piece: str) -> None:
        """The next piece of JSON."""
        self._written += piece
        given = _so_far(self._written)
        text = given.get("text")
        # Whether memory is to be asked first stands before the text; until it is known, nothing is told.
        before = dict(takewhile(lambda item: item[0] != "text", given.items()))
        settled = not self.may_look or ("look_for" in before and not before["look_for"])
        if isinstance(text, str) and settled:
            self._say(resolved(unfinished(text), self.name))

    def end(self, text: str) -> None:
        """The answer as it is in the end."""
        if not text.startswith(self._said):
            self._withdraw("It was corrected.")
        self._say(text)

    def _say(self, text: str) -> None:
        if len(text) > len(self._said) and text.startswith(self._said):
            self.tell(TextDelta(text=text[len(self._said) :]))
            self._said = text

    def _withdraw(self, reason: str) -> None:
        self._said = ""
        self.tell(Retracted(reason=reason))


@runtime_checkable
class _Remembering(Protocol):
    def forget(self, request: LLMRequest) -> None: ...


@dataclass(frozen=True)
class Overheard:
    """A model whose answers to one step are told while it writes them; otherwise it is just that model."""

    llm: LLM
    teller: Teller

    @property
    def name(self) -> str:
        """The model's name."""
        return self.llm.name

    async def complete(self, request: LLMRequest) -> Completion:
        """The whole answer; a model that can't stream tells it in one piece."""
        if request.step != self.teller.step:
            return await self.llm.complete(request)
        self.teller.begin()
        if not isinstance(self.llm, StreamingLLM):
            done = await self.llm.complete(request)
            self.teller.hear(done.text)
            return done
        whole: Completion | None = None
        async with aclosing(self.llm.stream(request)) as pieces:
            async for piece in pieces:
                if isinstance(piece, Completion):
                    whole = piece
                else:
                    self.teller.hear(piece)
        if whole is None:
            raise LLMUnusable(f"{self.name} broke off its answer for {request.step}.")
        return whole

    def forget(self, request: LLMRequest) -> None:
        """Keep an answer no longer."""
        if isinstance(self.llm, _Remembering):
            self.llm.forget(request)


def _so_far(written: str) -> dict[str, object]:
    """What stands in JSON that is not whole yet."""
    thought = _THOUGHT.match(written)
    start = written.find("{", thought.end() if thought else 0)
    if start < 0 or (_THINKING.match(written) and not thought):
        return {}
    try:
        value: object = from_json(written[start:], allow_partial="trailing-strings")
    except ValueError:
        return {}
    return cast("dict[str, object]", value) if isinstance(value, dict) else {}
