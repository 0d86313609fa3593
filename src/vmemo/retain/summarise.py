"""Extractive titles and narratives: an episode's most central messages."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from vmemo.models import Message

TITLE = 80
SENTENCES = 3
_SENTENCE = re.compile(r"[^.!?。！？\n]+[.!?。！？]*")


def title(messages: Sequence[Message], vectors: NDArray[np.float32]) -> str:
    """Return the first sentence of the most central message, with short messages weighted down."""
    central = messages[_by_centrality(messages, vectors)[0]]
    match = _SENTENCE.search(central.content)
    words = (match.group() if match else central.content).strip()
    return words if len(words) <= TITLE else words[: TITLE - 1].rsplit(" ", 1)[0] + "…"


def narrative(messages: Sequence[Message], vectors: NDArray[np.float32]) -> str:
    """Return the date, the speakers and the most central messages in their order."""
    voices = list(dict.fromkeys(message.voice for message in messages))
    first = messages[0].timestamp
    opening = f"On {first.day} {first:%B %Y} {_joined(voices)} talked."
    chosen = sorted(_by_centrality(messages, vectors)[:SENTENCES])
    lines = [f"{messages[i].voice}: {_shortened(messages[i].content)}" for i in chosen]
    return "\n".join([opening, *lines])


def _by_centrality(messages: Sequence[Message], vectors: NDArray[np.float32]) -> list[int]:
    middle = vectors.mean(axis=0)
    weight = np.array([min(len(message.content), 120) / 120 for message in messages])
    scores = (vectors @ middle) * weight
    return np.argsort(-scores, kind="stable").tolist()


def _joined(voices: Sequence[str]) -> str:
    return voices[0] if len(voices) == 1 else f"{', '.join(voices[:-1])} and {voices[-1]}"


def _shortened(text: str, most: int = 300) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= most else flat[: most - 1].rsplit(" ", 1)[0] + "…"
