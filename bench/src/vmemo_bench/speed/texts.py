"""Generated messages and questions of the speed benchmark.

Words follow Zipf's law, so that keyword search meets long and short posting lists. Equal numbers give equal texts.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from importlib import resources
from itertools import accumulate

from pydantic import BaseModel

from vmemo.models import Message

STARTED = datetime(2023, 1, 2, 8, tzinfo=UTC)
SPAN = timedelta(days=730)
ENDED = STARTED + SPAN
"""Time of the questions, so that "last month" refers to existing messages."""
SESSION_SIZE = 20
"""Messages of one document, a minute apart."""
GOLDEN_RATIO = 0.6180339887498949
PEOPLE, TOWNS, BRANDS = 300, 100, 4_000


class _Words(BaseModel):
    first: list[str]
    place: list[str]
    done: list[str]
    thing: list[str]
    quality: list[str]
    when: list[str]
    during: list[str]
    syllable: list[str]
    said: list[str]
    asked: list[str]

    def coin(self, number: int) -> str:
        """Return a name that is in no dictionary."""
        size = len(self.syllable)
        digits = (number, number // size, number // size // size)
        return "".join(self.syllable[digit % size] for digit in digits).capitalize()


class _ZipfSampler:
    """Draws words by Zipf's law in the given order; `OFFSET` flattens the distribution."""

    OFFSET = 5

    def __init__(self, words: Sequence[str]) -> None:
        self._words = words
        self._weights = list(accumulate(1 / (self.OFFSET + rank) for rank in range(1, len(words) + 1)))

    def draw(self, source: random.Random) -> str:
        return source.choices(self._words, cum_weights=self._weights)[0]


@dataclass(frozen=True)
class _Generator:
    words: _Words
    samplers: dict[str, _ZipfSampler]

    def fill(self, templates: Sequence[str], source: random.Random) -> str:
        drawn = {slot: sampler.draw(source) for slot, sampler in self.samplers.items()}
        text = source.choice(templates).format(**drawn, number=source.randint(2, 9_999))
        return text[0].upper() + text[1:]


@cache
def _generator() -> _Generator:
    words = _Words.model_validate_json((resources.files("vmemo_bench.speed") / "words.json").read_bytes())
    names = words.first
    people = [f"{names[number % len(names)]} {words.coin(number * 131 + 29)}" for number in range(PEOPLE)]
    towns = [f"{words.coin(number * 11 + 3)}ville" for number in range(TOWNS)]
    slots = {
        "who": people,
        "other": names,
        "place": [*words.place, *towns],
        "done": words.done,
        "thing": words.thing,
        "quality": words.quality,
        "when": words.when,
        "during": words.during,
        "coined": [words.coin(number * 37 + 5) for number in range(BRANDS)],
    }
    return _Generator(words, {slot: _ZipfSampler(choices) for slot, choices in slots.items()})


def messages(first: int, last: int) -> list[Message]:
    """Return the messages numbered from `first` up to `last`, in sessions spread over two years."""
    return [_message(number) for number in range(first, last)]


def _message(number: int) -> Message:
    generator = _generator()
    session, position = divmod(number, SESSION_SIZE)
    # Multiples of the golden ratio fill the span evenly at every size.
    started = STARTED + SPAN * (session * GOLDEN_RATIO % 1.0)
    return Message(
        content=generator.fill(generator.words.said, random.Random(f"message {number}")) + ".",
        speaker=generator.words.first[(session + position % 2) % len(generator.words.first)],
        timestamp=started + timedelta(minutes=position),
        document=f"session-{session}",
    )


def sentences(count: int) -> list[str]:
    """Return distinct texts like those of the messages."""
    return _distinct(_generator().words.said, "sentence", count)


def queries(count: int) -> list[str]:
    """Return distinct questions that name people; about a fifth of them name a time."""
    return _distinct(_generator().words.asked, "query", count)


def _distinct(templates: Sequence[str], label: str, count: int) -> list[str]:
    source = random.Random(label)
    texts: dict[str, None] = {}
    while len(texts) < count:
        texts[_generator().fill(templates, source)] = None
    return list(texts)
