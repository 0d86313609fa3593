# pyright: basic, reportMissingImports=false
"""Trains the logistic regression of `vmemo.retain.revise` that says which standing instruction a later sentence ends.

    python training/instructions.py ../shared/data src/vmemo/retain/instruction_ends.json

Needs vmemo. Reads the annotated conversations of all authors with the packaged encoder, which takes about three minutes
of two cores. A pair is an instruction and a later sentence that is one or ends one, as the reader finds them; it is
labelled by the message and the words with which the annotated instruction ends. Authors `u`, `v` and `we` are held out:
the encoder's reader was not trained on them either. The report shows for them what is right from several probabilities.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import lzma
import re
import uuid
from collections.abc import Iterator
from datetime import datetime
from itertools import groupby
from pathlib import Path
from types import SimpleNamespace

import numpy as np
from revision import fit, logistic

from vmemo.embedding.packaged import PackagedEmbedder
from vmemo.models import Message
from vmemo.models.changes import FactDraft
from vmemo.ports import encodings
from vmemo.retain.local_extraction import LocalExtractor
from vmemo.retain.reader import read_drafts
from vmemo.retain.revise import StandingInstruction, end_inputs
from vmemo.text.temporal.annotation import embedded_text, with_date

HERE = Path(__file__).parent
HELD_OUT = ("u", "v", "we")
L2 = 2.0
STEPS = (0.4, 0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8)


def conversations(data: Path) -> Iterator[dict]:
    packed = [*sorted((HERE / "lives").glob("*.xz")), *sorted((HERE / "wishes").glob("*.xz"))]
    texts = [lzma.decompress(path.read_bytes()).decode() for path in packed]
    yield from (json.loads(line) for text in texts for line in text.splitlines() if line)
    yield from (json.loads(path.read_text()) for path in sorted((data / "training/lives").glob("*.json")))


async def read(row: dict, embedder: PackagedEmbedder) -> list[tuple[int, FactDraft, StandingInstruction]]:
    """Return the sentences of a conversation that are instructions or end one, with their messages."""

    async def embed(drafts):
        texts = [
            embedded_text(draft.text, draft.mentioned_at, "local")
            if draft.likely_dates is None
            else with_date(draft.likely_dates, draft.mentioned_at)
            for draft in drafts
        ]
        return await encodings(embedder, texts, "document")

    messages = [
        Message.of(
            {
                "id": str(uuid.UUID(int=each["id"])),
                "role": each["role"],
                "speaker": each["name"] if each["role"] == "user" else None,
                "content": each["text"],
                "timestamp": datetime.fromisoformat(each["time"]),
                "document": each["time"][:10],
                "state": "pending",
            }
        )
        for each in row["messages"]
    ]
    found = []
    for _, day in groupby(messages, lambda message: message.document):
        extracted = (await LocalExtractor().read(list(day), None)).drafts
        done = await read_drafts(extracted, await embed(extracted), embed, embedder.name)
        for draft, encoding in zip(done.drafts, done.encodings, strict=True):
            if draft.instruction or draft.ends_instruction:
                fact = SimpleNamespace(text=draft.text, mentioned_at=draft.mentioned_at)
                found.append((uuid.UUID(draft.messages[0]).int, draft, StandingInstruction(fact, encoding.vector)))
    return found


def holds(text: str, passage: str) -> bool:
    """Return True if a text has four of five words of a passage, as `vmemo benchmark lives` compares them."""
    words = re.findall(r"\w+", re.sub(r"\(= [^)]*\)", "", text).casefold())
    wanted = re.findall(r"\w+", passage.casefold())
    return sum(word in words for word in wanted) >= 0.8 * len(wanted)


def examples(row: dict, sentences: list) -> Iterator[tuple[np.ndarray, list[bool | None]]]:
    """Yield the inputs of each sentence with the earlier instructions of its speaker, and those that it ends; None is
    not annotated."""
    standing: list[tuple[int, str, StandingInstruction]] = []
    for at, (message, draft, made) in enumerate(sentences):
        speaker = draft.text.partition(": ")[0]
        earlier = [each for each in standing if each[0] != message and each[1] == speaker]
        ended, labels = [], []
        beside = [other for number, other, _ in sentences if number == message]
        for number, _, known in earlier:
            notes = [
                each
                for each in row["instructions"]
                if each["message"] == number and holds(known.fact.text, each["text"])
            ]
            label = False if notes else None
            for note in notes:
                if note.get("until") == message:
                    by = [other for other in beside if holds(other.text, note.get("by") or "")]
                    label = True if not by or draft in by else None
                    ended.append(known)
            labels.append(label)
        if earlier:
            yield end_inputs(made, [known for *_, known in earlier]), labels
        if all(number != message for number, *_ in sentences[at + 1 :]):
            standing = [each for each in standing if each[2] not in ended]
        if draft.instruction:
            standing.append((message, speaker, made))


async def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("data", type=Path)
    parser.add_argument("weights", type=Path)
    options = parser.parse_args()
    embedder, found = PackagedEmbedder(), []
    for row in conversations(options.data):
        found += [(row["author"], *each) for each in examples(row, await read(row, embedder))]
    labelled = np.array([label is not None for *_, labels in found for label in labels])
    inputs = np.concatenate([each[1] for each in found])[labelled]
    labels = np.array([bool(label) for *_, labels in found for label in labels])[labelled]
    held_out = np.array([each[0] in HELD_OUT for each in found for _ in each[2]])[labelled]
    weights, bias = fit(inputs[~held_out], labels[~held_out].astype(float), np.ones((~held_out).sum()), L2)
    estimated = logistic(inputs @ weights + bias)
    print(f"{len(labels)} pairs, {labels.sum()} end one; of the held-out authors {labels[held_out].sum()}")
    for least in STEPS:
        chosen = held_out & (estimated >= least)
        print(f"from {least:.2f}: {chosen.sum()} closed, {labels[chosen].mean():.2f} right")
    fitted = {"weights": [round(float(each), 3) for each in weights], "bias": round(bias, 3)}
    options.weights.write_text(json.dumps(fitted) + "\n")


if __name__ == "__main__":
    asyncio.run(main())
