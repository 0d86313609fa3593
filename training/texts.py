"""The conversations that were written for training, as they were annotated."""

from __future__ import annotations

import json
import lzma
import random
from collections.abc import Iterator
from pathlib import Path

OWN = Path(__file__).parent
TATOEBA = {
    "ar": ("ara", "arz"), "de": ("deu",), "es": ("spa",), "fr": ("fra",), "hi": ("hin",), "id": ("ind",),
    "it": ("ita",), "ja": ("jpn",), "ko": ("kor",), "pl": ("pol",), "pt": ("por",), "ru": ("rus",), "tr": ("tur",),
    "vi": ("vie",), "zh": ("cmn",),
}  # fmt: skip
"""The names of a language's files of sentences."""


def annotated(data: Path) -> Iterator[tuple[str, dict]]:
    """Yield the kind (lives, languages, wishes) and content of each annotated conversation."""
    for path in sorted((data / "training/lives").glob("*.json")):
        yield "lives", json.loads(path.read_text("utf-8"))
    for kind in ("lives", "languages", "wishes"):
        for path in sorted((OWN / kind).glob("*.jsonl.xz")):
            with lzma.open(path, "rt", encoding="utf-8") as lines:
                yield from ((kind, json.loads(line)) for line in lines)


def all_texts(data: Path) -> Iterator[str]:
    """Yield all text that is trained on, for the choice of pieces."""
    for path in sorted((OWN / "conversations").glob("*.txt")):
        yield from path.read_text("utf-8").splitlines()
    for session in json.loads((data / "training/sessions.json").read_text("utf-8")):
        yield from (turn["content"] for turn in session["turns"])
    with lzma.open(data / "training/multihop_sentences.jsonl.xz", "rt", encoding="utf-8") as lines:
        for row in map(json.loads, lines):
            yield from (row["q"], *row["p"], *row["n"])
    for _, conversation in annotated(data):
        for message in conversation["messages"]:
            yield from (message["text"], message.get("en", ""))
        for question in conversation.get("questions", []):
            yield from (question["question"], question.get("en", ""))


def sentence_pairs(public: Path) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """Yield a language, and its sentences with their translations into English, from a checkout of LASER."""
    for language, names in TATOEBA.items():
        for name in names:
            files = (public / f"LASER/data/tatoeba/v1/tatoeba.{name}-eng.{part}" for part in (name, "eng"))
            rows = (file.read_text("utf-8").splitlines() for file in files)
            yield language, [pair for pair in zip(*rows, strict=True) if all(pair)]


def chats(public: Path) -> Iterator[list[tuple[str, str]]]:
    """Yield conversations of strangers as speakers and messages, from a checkout of Topical-Chat."""
    chance = random.Random(7)
    names = "Mia Tom Priya Jack Elena Sam Ruth Kofi Lin Dave Nora Omar user Assistant".split()
    for path in sorted((public / "Topical-Chat/conversations").glob("*.json")):
        for conversation in json.loads(path.read_text("utf-8")).values():
            voices = dict(zip(("agent_1", "agent_2"), chance.sample(names, 2), strict=True))
            yield [(voices[turn["agent"]], turn["message"].strip()) for turn in conversation["content"]]
