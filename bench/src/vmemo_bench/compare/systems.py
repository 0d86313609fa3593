"""Systems that store turns and return the ids of those that a question finds."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from vmemo.models.search import Vectors
from vmemo.ports import Embedder
from vmemo_bench.datasets import Case

RRF = 60
"""The usual constant of reciprocal rank fusion."""
K1, B = 1.2, 0.75
"""The usual constants of BM25."""
_WORD = re.compile(r"\w+")


class TurnSearch(Protocol):
    """A system under comparison, empty at first."""

    async def add(self, turns: Mapping[str, str]) -> None: ...

    async def search(self, question: str, limit: int) -> Sequence[str]:
        """Return the ids of the turns that fit the question, best first."""
        ...


def turns_of(case: Case) -> dict[str, str]:
    """Return the turns of a case as every system is given them: with the speaker's name, in order of time."""
    sessions = sorted(case.sessions, key=lambda session: session.started_at)
    return {
        turn.id: f"{turn.speaker}: {turn.text}" if turn.speaker else turn.text
        for session in sessions
        for turn in session.turns
    }


@dataclass
class VectorSearch:
    """Cosine of the question with every turn."""

    embedder: Embedder
    ids: list[str] = field(default_factory=list[str])
    vectors: list[Vectors] = field(default_factory=list[Vectors])

    async def add(self, turns: Mapping[str, str]) -> None:
        self.ids += turns
        self.vectors.append(await self.embedder.embed(list(turns.values()), "document"))

    async def search(self, question: str, limit: int) -> Sequence[str]:
        query = (await self.embedder.embed([question], "query"))[0]
        order: list[int] = np.argsort(-(np.concatenate(self.vectors) @ query), kind="stable").tolist()
        return [self.ids[row] for row in order[:limit]]


@dataclass
class KeywordSearch:
    """BM25 over lower-case words."""

    turns: dict[str, Counter[str]] = field(default_factory=dict[str, Counter[str]])
    holders: Counter[str] = field(default_factory=Counter[str])

    async def add(self, turns: Mapping[str, str]) -> None:
        for id, text in turns.items():
            self.turns[id] = _words(text)
            self.holders.update(self.turns[id].keys())

    async def search(self, question: str, limit: int) -> Sequence[str]:
        mean = sum(words.total() for words in self.turns.values()) / max(1, len(self.turns))
        scores = {id: self._score(words, _words(question), mean) for id, words in self.turns.items()}
        return [id for id in sorted(scores, key=lambda id: -scores[id]) if scores[id] > 0][:limit]

    def _score(self, words: Counter[str], question: Counter[str], mean: float) -> float:
        norm = K1 * (1 - B + B * words.total() / mean)
        shared = ((word, words[word]) for word in question if word in words)
        return sum(self._rarity(word) * count * (K1 + 1) / (count + norm) for word, count in shared)

    def _rarity(self, word: str) -> float:
        holders = self.holders[word]
        return math.log(1 + (len(self.turns) - holders + 0.5) / (holders + 0.5))


def _words(text: str) -> Counter[str]:
    return Counter(_WORD.findall(text.lower()))


@dataclass
class HybridSearch:
    """Reciprocal rank fusion of vectors and keywords, the usual first step of a team that builds memory by itself."""

    vector: VectorSearch
    keyword: KeywordSearch

    async def add(self, turns: Mapping[str, str]) -> None:
        await self.vector.add(turns)
        await self.keyword.add(turns)

    async def search(self, question: str, limit: int) -> Sequence[str]:
        """Return the turns that are high in either ranking, or in both."""
        scores = dict[str, float]()
        for ranking in (await self.vector.search(question, 100), await self.keyword.search(question, 100)):
            for rank, id in enumerate(ranking, start=1):
                scores[id] = scores.get(id, 0.0) + 1 / (RRF + rank)
        return sorted(scores, key=lambda id: -scores[id])[:limit]
