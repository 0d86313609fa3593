"""The conversations that were written for training, as they were annotated."""

from __future__ import annotations

import json
import lzma
from collections.abc import Iterator
from pathlib import Path

OWN = Path(__file__).parent


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
