"""Made-up talk for the speed benchmark: messages and questions whose words are spread as in real text.

A few words are frequent and many are rare, so that a keyword search meets long and short posting lists.
The same numbers give the same texts.
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
"""When questions are asked, so that "last month" speaks of talk that is there."""
SITTING = 20
"""Messages of one document, a minute apart."""
GOLDEN = 0.6180339887498949
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
        """A name that no dictionary has."""
        size = len(self.syllable)
        places = (number, number // size, number // size // size)
        return "".join(self.syllable[place % size] for place in places).capitalize()


class _Bag:
    """Words drawn by Zipf's law in the order given; flattened, so that the first ones don't take all."""

    FLAT = 5

    def __init__(self, words: Sequence[str]) -> None:
        self._words = words
        self._weights = list(accumulate(1 / (self.FLAT + rank) for rank in range(1, len(words) + 1)))

    def draw(self, dice: random.Random) -> str:
        return dice.choices(self._words, cum_weights=self._weights)[0]


@dataclass(frozen=True)
class _Talk:
    words: _Words
    bags: dict[str, _Bag]

    def fill(self, templates: Sequence[str], dice: random.Random) -> str:
        drawn = {slot: bag.draw(dice) for slot, bag in self.bags.items()}
        text = dice.choice(templates).format(**drawn, number=dice.randint(2, 9_999))
        return text[0].upper() + text[1:]


@cache
def _talk() -> _Talk:
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
    return _Talk(words, {slot: _Bag(choices) for slot, choices in slots.items()})


def messages(first: int, last: int) -> list[Message]:
    """The messages numbered from `first` up to `last`, spread over two years in sittings."""
    return [_message(number) for number in range(first, last)]


def _message(number: int) -> Message:
    talk = _talk()
    sitting, place = divmod(number, SITTING)
    # Multiples of the golden ratio fill the span evenly at every size.
    started = STARTED + SPAN * (sitting * GOLDEN % 1.0)
    return Message(
        content=talk.fill(talk.words.said, random.Random(f"message {number}")) + ".",
        speaker=talk.words.first[(sitting + place % 2) % len(talk.words.first)],
        timestamp=started + timedelta(minutes=place),
        document=f"sitting-{sitting}",
    )


def sentences(count: int) -> list[str]:
    """Distinct texts of the same kind as the messages."""
    return _distinct(_talk().words.said, "sentence", count)


def queries(count: int) -> list[str]:
    """Distinct questions that name people; about a fifth of them name a time."""
    return _distinct(_talk().words.asked, "query", count)


def _distinct(templates: Sequence[str], label: str, count: int) -> list[str]:
    dice = random.Random(label)
    texts: dict[str, None] = {}
    while len(texts) < count:
        texts[_talk().fill(templates, dice)] = None
    return list(texts)
