"""Old episodes in fewer words: as a model tells them, or else by the line that is nearest to their middle."""

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
from vmemo.retain.llm_schemas import Line, Words

PROMPTS = Path(__file__).parent / "prompts"
LENGTHY = 200
"""Characters of a narrative that count as short."""
TOGETHER = 10
"""Episodes that one call shortens."""
SHOWN = 2000
"""Characters of a narrative that a model is shown."""
_SENTENCE = re.compile(r"[^.!?。！？]+[.!?。！？]*\s*")
_OPENING = re.compile(r"On \d.* talked\.")
"""How narratives without a model begin; it tells nothing that the episode's date and lines don't."""


class Told(AnswerSchema):
    """An episode in one or two sentences."""

    number: Line
    text: Words


class Retold(AnswerSchema):
    """Episodes in one or two sentences each."""

    episodes: list[Told] = Field(description="one for every number")


async def shortened(episodes: Sequence[Episode], embedder: Embedder, desk: StructuredLLM | None) -> list[str]:
    """A short narrative for each episode, by the desk's model where there is one and it can be used."""
    told = await _told(episodes, desk) if desk is not None else {}
    left = [episode for place, episode in enumerate(episodes) if place not in told]
    central = iter(await _central(left, embedder))
    return [told[place] if place in told else next(central) for place in range(len(episodes))]


async def _told(episodes: Sequence[Episode], desk: StructuredLLM) -> dict[int, str]:
    """What a model makes of episodes, by their place; nothing of those that it leaves out or tells no shorter."""
    shown = [
        f"{number} | {episode.started_at:%d %B %Y} | {episode.title} | {episode.narrative[:SHOWN]}"
        for number, episode in enumerate(episodes, start=1)
    ]

    def complaint(answer: Retold) -> str | None:
        good = _usable(answer, len(episodes))
        wrong = [str(place + 1) for place in range(len(episodes)) if place not in good]
        return f"missing, empty or longer than {LENGTHY} characters: {', '.join(wrong)}" if wrong else None

    ask = load_prompt(PROMPTS, "shorten").request(Retold, episodes=quote(shown))
    try:
        return _usable(await desk.ask(ask, Retold, complaint, lenient=True), len(episodes))
    except LLMFailed:
        # Nothing is lost: the messages are there, and the extractive way needs no model.
        return {}


def _usable(answer: Retold, count: int) -> dict[int, str]:
    texts = {each.number - 1: " ".join(each.text.split()) for each in answer.episodes}
    return {place: text for place, text in texts.items() if 0 <= place < count and 0 < len(text) <= LENGTHY}


async def _central(episodes: Sequence[Episode], embedder: Embedder) -> list[str]:
    """The most central line of each narrative."""
    if not episodes:
        return []
    pieces = [_pieces(episode.narrative) for episode in episodes]
    vectors = await embedder.embed([piece for each in pieces for piece in each], "document")
    ends = np.cumsum([len(each) for each in pieces])
    return [_cut(_middle(each, rows)) for each, rows in zip(pieces, np.split(vectors, ends[:-1]), strict=True)]


def _middle(pieces: Sequence[str], vectors: Vectors) -> str:
    """The piece nearest to the middle of all, among those that say something."""
    weight = np.array([min(len(piece), 120) / 120 for piece in pieces])
    return pieces[int(np.argmax((vectors @ vectors.mean(axis=0)) * weight))]


def _pieces(narrative: str) -> list[str]:
    """Lines of a narrative that tell something; sentences, where it is all one line."""
    lines = [line.strip() for line in narrative.splitlines() if line.strip()]
    if len(lines) > 1 and _OPENING.fullmatch(lines[0]):
        lines = lines[1:]
    elif len(lines) == 1:
        lines = [sentence.strip() for sentence in _SENTENCE.findall(lines[0]) if sentence.strip()]
    return lines or [narrative.strip() or narrative]


def _cut(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= LENGTHY else flat[: LENGTHY - 1].rsplit(" ", 1)[0] + "…"
