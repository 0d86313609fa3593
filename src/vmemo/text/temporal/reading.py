"""What a rule's builder is given: the match it reads and the scene it is resolved against."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import NamedTuple

from vmemo.text.temporal.day_range import Kind, Prefer, Stretch, Yearly, floating
from vmemo.text.temporal.tokenizer import Token


@dataclass(frozen=True, slots=True)
class Scene:
    """What an expression is resolved against."""

    text: str
    now: datetime
    prefer: Prefer
    day_first: bool

    @property
    def today(self) -> date:
        """The reference's day in its own time zone."""
        return self.now.date()


class Reading(NamedTuple):
    """One match of a rule: its labelled tokens, and the scene."""

    scene: Scene
    match: re.Match[str]
    tokens: Sequence[Token]

    def has(self, label: str) -> bool:
        """Whether the labelled part took part in the match."""
        return label in self.match.re.groupindex and self.match[label] is not None

    def tag(self, label: str) -> str:
        """The labelled token's tag, or an empty text when absent."""
        return self.match[label] or ""

    def token(self, label: str) -> Token:
        """The first token under the label."""
        return self.tokens[self.match.start(label)]

    def value(self, label: str) -> int:
        """The labelled token's number, 0 when absent."""
        return self.token(label).value if self.match[label] else 0

    def stretch(self, label: str) -> Stretch:
        """The stretch that an earlier stage found under the label."""
        stretch = self.token(label).stretch
        assert stretch is not None, f"{label} is no stretch"
        return stretch

    def plural(self, label: str) -> bool:
        """Whether the labelled unit was written in the plural."""
        written = self.written(label)
        return written.endswith("s") and written[-2] not in "'’"

    def written(self, label: str) -> str:
        """The labelled token's text as the writer cased it."""
        token = self.token(label)
        return self.scene.text[token.start : token.end]


@dataclass(frozen=True, slots=True)
class Number:
    """What a rule of the first stage makes: a number word or a word that stops other rules."""

    family: str
    value: int = 0


Build = Callable[[Reading], Stretch | Number | None]


def float_days(yearly: Yearly, scene: Scene, kind: Kind = "day") -> Stretch | None:
    """Days that come every year, placed as the scene prefers."""
    return floating(yearly, scene.today, scene.prefer, kind)
