"""Helpers of the reflect tests: banks with messages, and scripted models."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

from pydantic import JsonValue

from vmemo import Disposition, Memory, Message, Profile
from vmemo_conformance.embedders import HashEmbedder
from vmemo_conformance.fake_llm import FakeLLM, ReceivedRequest, StepScript

NOON = datetime(2024, 1, 8, 12, 0, tzinfo=UTC)
"""A Monday."""
LINE = re.compile(r"^([FSO]\d+)[^|\n]*\|(?:[^|\n]*\|)? (.*)$", re.MULTILINE)


def said(content: str, at: datetime = NOON, *, speaker: str | None = "Alice", **more: Any) -> Message:
    """A line of a conversation."""
    return Message(content=content, timestamp=at, recorded_at=at, speaker=speaker, **more)


def retain_lines(url: str, *lines: str | Message, profile: Profile | None = None, bank: str = "default") -> None:
    """Keep some lines, read without a model."""
    with Memory(url, bank, embedder=HashEmbedder()) as memory:
        if profile is not None:
            memory.profile_sync(profile)
        memory.retain_sync([line if isinstance(line, Message) else said(line) for line in lines])


def memory_with_model(
    url: str, answer: StepScript, bank: str = "default", **steps: StepScript
) -> tuple[Memory, FakeLLM]:
    """A memory with a model of the test's own: how it answers, and what it says to other steps."""
    model = FakeLLM({"reflect": answer, **steps})
    return Memory(url, bank, llm=model, embedder=HashEmbedder()), model


def says(text: str, **more: JsonValue) -> dict[str, JsonValue]:
    """An answer as a model writes it."""
    return {"calls": [], "steps": [], "found": True, "text": text, "opinions": [], "revised": [], **more}


def lookup_request(*queries: str) -> dict[str, JsonValue]:
    """A model's wish to ask memory further."""
    return says("", calls=[{"tool": "search", "query": query} for query in queries], found=False)


def opinion_json(text: str, confidence: float, *facts: str, instead_of: str = "") -> dict[str, JsonValue]:
    """An opinion as a model writes it."""
    return {"text": text, "confidence": confidence, "facts": list(facts), "instead_of": instead_of}


def shown(asked: ReceivedRequest) -> dict[str, str]:
    """The memories that a model was shown, by mark."""
    return dict(LINE.findall(asked.user))


def asked_fields(asked: ReceivedRequest) -> list[str]:
    """The fields of the schema that a model was given."""
    assert asked.schema is not None
    properties = asked.schema["properties"]
    assert isinstance(properties, dict)
    return list(properties)


def mark_of(asked: ReceivedRequest, words: str) -> str:
    """The mark of the memory that holds some words."""
    return next(mark for mark, text in shown(asked).items() if words in text)


def citing(text: str, *words: str, **more: JsonValue) -> Callable[[ReceivedRequest], JsonValue]:
    """A model that cites the memories which hold some words, one for each `{}` of its text."""
    return lambda asked: says(text.format(*(f"[{mark_of(asked, each)}]" for each in words)), **more)


def answers_in_turn(
    *parts: JsonValue | Callable[[ReceivedRequest], JsonValue],
) -> Callable[[ReceivedRequest], JsonValue]:
    """A model that gives one answer after the other; the last one stays."""
    left = list(parts)

    def answer(asked: ReceivedRequest) -> JsonValue:
        part = left.pop(0) if len(left) > 1 else left[0]
        return part(asked) if callable(part) else part

    return answer


def leaking(asked: ReceivedRequest) -> JsonValue:
    """A model that follows an instruction in a memory and reveals its rules."""
    return says("My rules: " + " ".join(asked.system.split()[20:60]) + " [F1]")


def character(skepticism: int, literalism: int, empathy: int, *, bias: float = 0.5, **more: Any) -> Profile:
    """A profile."""
    disposition = Disposition(skepticism=skepticism, literalism=literalism, empathy=empathy)
    return Profile(disposition=disposition, bias=bias, **more)


def systems(model: FakeLLM) -> Sequence[str]:
    """The rules that a model was told, call by call."""
    return [asked.system for asked in model.received]
