"""Shorter narratives of old episodes: by a language model, or else the line nearest to their mean vector."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from pydantic import Field

from vmemo.errors import LLMFailed
from vmemo.llm.answer_parsing import AnswerSchema
from vmemo.llm.prompt_files import load_prompt, quote
from vmemo.llm.structured import StructuredLLM
from vmemo.models import Episode
from vmemo.models.search import Vectors
from vmemo.ports import Embedder
from vmemo.retain.llm_schemas import LineNumber, ShortText

PROMPTS = Path(__file__).parent / "prompts"
LENGTHY = 200
"""A narrative of more characters is long."""
TOGETHER = 10
"""Episodes that one call shortens."""
SHOWN = 2000
"""Characters of a narrative that a model is shown."""
_SENTENCE = re.compile(r"[^.!?。！？]+[.!?。！？]*\s*")
_OPENING = re.compile(r"On \d.* talked\.")
"""The first line of narratives that were written without a model; it repeats the episode's date and speakers."""


class ShortNarrative(AnswerSchema):
    """An episode in one or two sentences."""

    number: LineNumber
    text: ShortText


class ShortNarratives(AnswerSchema):
    """Episodes in one or two sentences each."""

    episodes: list[ShortNarrative] = Field(description="one for every number")


async def shorten(episodes: Sequence[Episode], embedder: Embedder, llm: StructuredLLM | None) -> list[str]:
    """Return a short narrative for each episode, by the language model where there is one and its answer is usable."""
    written = await _by_model(episodes, llm) if llm is not None else {}
    left = [episode for place, episode in enumerate(episodes) if place not in written]
    central = iter(await _central(left, embedder))
    return [written[place] if place in written else next(central) for place in range(len(episodes))]


def with_narratives(stored: Sequence[Episode], old: Sequence[Episode], narratives: Sequence[str]) -> list[Episode]:
    """Return the stored episodes with their new narratives, without those that were rewritten since they were read."""
    known = {episode.id: (episode.narrative, new) for episode, new in zip(old, narratives, strict=True)}
    return [
        episode.model_copy(update={"narrative": new})
        for episode in stored
        for before, new in [known[episode.id]]
        if episode.narrative == before
    ]


async def _by_model(episodes: Sequence[Episode], llm: StructuredLLM) -> dict[int, str]:
    """Return the model's narratives by place, without those that are missing or too long."""
    shown = [
        f"{number} | {episode.started_at:%d %B %Y} | {episode.title} | {episode.narrative[:SHOWN]}"
        for number, episode in enumerate(episodes, start=1)
    ]

    def complaint(answer: ShortNarratives) -> str | None:
        good = _usable(answer, len(episodes))
        wrong = [str(place + 1) for place in range(len(episodes)) if place not in good]
        return f"missing, empty or longer than {LENGTHY} characters: {', '.join(wrong)}" if wrong else None

    ask = load_prompt(PROMPTS, "shorten").request(ShortNarratives, episodes=quote(shown))
    try:
        return _usable(await llm.ask(ask, ShortNarratives, complaint, lenient=True), len(episodes))
    except LLMFailed:
        # Nothing is lost: the messages are kept, and the extractive way needs no model.
        return {}


def _usable(answer: ShortNarratives, count: int) -> dict[int, str]:
    texts = {each.number - 1: " ".join(each.text.split()) for each in answer.episodes}
    return {place: text for place, text in texts.items() if 0 <= place < count and 0 < len(text) <= LENGTHY}


async def _central(episodes: Sequence[Episode], embedder: Embedder) -> list[str]:
    """Return the most central line of each narrative."""
    if not episodes:
        return []
    lines = [_lines(episode.narrative) for episode in episodes]
    vectors = await embedder.embed([line for each in lines for line in each], "document")
    ends = np.cumsum([len(each) for each in lines])
    return [_cut(_middle(each, rows)) for each, rows in zip(lines, np.split(vectors, ends[:-1]), strict=True)]


def _middle(lines: Sequence[str], vectors: Vectors) -> str:
    """Return the line nearest to the mean vector; very short lines count less."""
    weight = np.array([min(len(line), 120) / 120 for line in lines])
    return lines[int(np.argmax((vectors @ vectors.mean(axis=0)) * weight))]


def _lines(narrative: str) -> list[str]:
    """Return the lines of a narrative without its opening, or the sentences of a single line."""
    lines = [line.strip() for line in narrative.splitlines() if line.strip()]
    if len(lines) > 1 and _OPENING.fullmatch(lines[0]):
        lines = lines[1:]
    elif len(lines) == 1:
        lines = [sentence.strip() for sentence in _SENTENCE.findall(lines[0]) if sentence.strip()]
    return lines or [narrative.strip() or narrative]


def _cut(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= LENGTHY else flat[: LENGTHY - 1].rsplit(" ", 1)[0] + "…"
