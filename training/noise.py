# pyright: basic, reportMissingImports=false
"""Trains the logistic regression of `vmemo.retain.noise` that says which words hold nothing to remember.

    python training/noise.py ../shared/data src/vmemo/retain/noise.json

Needs vmemo. Reads all annotated conversations and the short lines of `small_talk` with the packaged encoder, which
takes about four minutes of two cores. The report shows for authors `u` and `v`, whom the encoder's reader has not seen,
and for each fifth short line what a regression trained without them keeps and leaves out.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import lzma
import uuid
from collections.abc import Iterator
from datetime import datetime
from itertools import groupby
from pathlib import Path

import numpy as np
from revision import fit

from vmemo.embedding.cache import EmbeddingCache, cache_embedder
from vmemo.embedding.packaged import PackagedEmbedder
from vmemo.models import Message
from vmemo.ports import encodings
from vmemo.retain.local_extraction import LocalExtractor
from vmemo.retain.noise import least_noise, noise_numbers
from vmemo.retain.reader import MAX_NOISE
from vmemo.text.small_talk import is_small_talk
from vmemo.text.temporal.annotation import embedded_text, with_date

HERE = Path(__file__).parent
L2 = 300.0
WEIGHTS = {"x": 0.3, "line": 1.5}
"""Weights of authors: those of `languages` do not agree on short advice."""
SPEAKERS = ("Ana", "Tom", "Priya", "Lars", "Mei", "Kofi", "Jo", "Mr Quayle", "Fatima", "Dmitri", "Ruth", "Iñaki", "nan")
FOLDS = 5
MEASURED = ("u", "v", *(f"line {fold}" for fold in range(FOLDS)))


def messages(row: dict) -> Iterator[Message]:
    for each in row["messages"]:
        yield Message.of(
            {
                "id": str(uuid.UUID(int=each["id"])),
                "role": each["role"],
                "speaker": each.get("name") if each["role"] == "user" else None,
                "content": each["text"],
                "timestamp": datetime.fromisoformat(each["time"]),
                "document": each["time"][:10],
                "state": "pending",
            }
        )


def short_lines() -> Iterator[dict]:
    """Yield each short line twice, without a speaker's name and with one; "a: " marks those of the assistant."""
    for name in ("content", "none"):
        for number, line in enumerate((HERE / f"small_talk/{name}.txt").read_text().splitlines()):
            role = "assistant" if line.startswith("a: ") else "user"
            time = f"2025-{number % 12 + 1:02}-{number % 27 + 1:02}T10:00:00Z"
            said = {"id": 1, "role": role, "text": line.removeprefix("a: "), "time": time}
            for speaker in (None, SPEAKERS[number % len(SPEAKERS)]):
                noise = [1] if name == "none" else []
                messages = [{**said, "name": speaker}]
                yield {
                    "id": f"{name} {number}",
                    "author": f"line {number % FOLDS}",
                    "messages": messages,
                    "noise": noise,
                }


def conversations(data: Path) -> Iterator[dict]:
    packed = [path for name in ("lives", "wishes", "languages") for path in sorted((HERE / name).glob("*.xz"))]
    texts = [lzma.decompress(path.read_bytes()).decode() for path in packed]
    yield from (json.loads(line) for text in texts for line in text.splitlines() if line)
    yield from (json.loads(path.read_text()) for path in sorted((data / "training/lives").glob("*.json")))
    yield from short_lines()


async def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("data", type=Path)
    parser.add_argument("weights", type=Path)
    parser.add_argument("--cache", type=Path, help="file of embeddings that runs share")
    options = parser.parse_args()
    cache = None if options.cache is None else EmbeddingCache(options.cache)
    embedder = cache_embedder(PackagedEmbedder(), cache)
    rows, authors, labels, small, replies, least = [], [], [], [], [], []
    for row in conversations(options.data):
        for _, day in groupby(messages(row), lambda message: message.document):
            drafts = [
                draft
                for draft in (await LocalExtractor().read(list(day), None)).drafts
                if draft.source is not None and len(draft.source.message.content) <= MAX_NOISE
            ]
            texts = [
                embedded_text(draft.text, draft.mentioned_at)
                if draft.likely_dates is None
                else with_date(draft.likely_dates, draft.mentioned_at)
                for draft in drafts
            ]
            for draft, encoding in zip(drafts, await encodings(embedder, texts, "document"), strict=True):
                words, by_agent = draft.source.words, draft.source.message.role == "assistant"
                numbers = noise_numbers(words, encoding.reading, by_agent=by_agent, to_agent=draft.source.to_agent)
                rows.append([*numbers, *encoding.vector])
                authors.append(row["author"])
                labels.append(uuid.UUID(draft.source.message.id).int in row["noise"])
                small.append(is_small_talk(words))
                replies.append(by_agent)
                least.append(least_noise(words, by_agent=by_agent))
    inputs, names, noise = np.array(rows), np.array(authors), np.array(labels)
    split = inputs.shape[1] - embedder.dimension
    weights = np.array([WEIGHTS.get("line" if name.startswith("line") else name[0], 1.0) for name in authors])

    def trained(chosen: np.ndarray, columns: slice) -> np.ndarray:
        """Return the weights of the columns, where the last of the numbers, which is 1, has the bias."""
        found, bias = fit(inputs[chosen, columns], noise[chosen].astype(float), weights[chosen], L2)
        found[split - 1] = bias
        return found

    for columns in (slice(None), slice(split)):
        probability = np.zeros(len(noise))
        for name in MEASURED:
            logits = inputs[:, columns] @ trained(names != name, columns)
            probability[names == name] = (1 / (1 + np.exp(-logits)))[names == name]
        left_out = (probability >= np.array(least)) | small
        for name in ("u", "v", "line"):
            for reply in (False, True):
                here = np.char.startswith(names, name) & (np.array(replies) == reply)
                kept, lost = (~left_out)[here & noise], left_out[here & ~noise]
                who = "replies" if reply else "user"
                print(f"{name}, {who}: {kept.sum()} of {len(kept)} kept, {lost.sum()} of {len(lost)} lost")
    every = np.ones(len(noise), bool)
    found, alone = trained(every, slice(None)), trained(every, slice(split))
    fitted = {"encoder": embedder.name, "numbers": found[:split], "vector": found[split:], "alone": alone}
    rounded = {
        key: each if isinstance(each, str) else [round(float(number), 4) for number in each]
        for key, each in fitted.items()
    }
    options.weights.write_text(json.dumps(rounded) + "\n")


if __name__ == "__main__":
    asyncio.run(main())
