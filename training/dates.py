# pyright: basic, reportMissingImports=false
"""Trains the judge of doubtful dates: a logistic regression over tense, distance and the reader's tag of a time.

    python training/dates.py ../shared/data src/vmemo/text/temporal/dates.json

Needs vmemo. Reads the annotated conversations of all authors but `u`, and prints for `u` how many of the dates that the
rules leave open would be written, and how many of them are right.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import lzma
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import numpy as np
from revision import fit, logistic

from vmemo.embedding.packaged import PackagedEmbedder
from vmemo.models import Message
from vmemo.retain.local_extraction import LocalExtractor
from vmemo.retain.reader import meant_as_date
from vmemo.text.own_words import MAX_OWN_WORDS
from vmemo.text.temporal import DoubtfulDate, date_text
from vmemo.text.temporal.annotation import with_date

HERE = Path(__file__).parent
HELD_OUT = "u"
L2 = 2.0


def conversations(data: Path) -> Iterator[dict]:
    packed = [lzma.decompress(path.read_bytes()).decode() for path in sorted((HERE / "lives").glob("*.xz"))]
    yield from (json.loads(line) for text in packed for line in text.splitlines() if line)
    yield from (json.loads(path.read_text()) for path in sorted((data / "training/lives").glob("*.json")))


def is_right(row: dict, message: dict, found: DoubtfulDate) -> bool | None:
    """Return True if the annotation has this day, False if another or none, and None without an annotation."""

    def overlaps(each: dict) -> bool:
        start = message["text"].find(each["text"])
        return each["message"] == message["id"] and 0 <= start < found.end and found.start < start + len(each["text"])

    dates = [each for each in row["dates"] if overlaps(each)]
    if not dates:
        return False if any(map(overlaps, row["no_dates"])) else None
    return any(each["start"][:10] == str(found.first) for each in dates)


async def examples(data: Path) -> list[tuple[str, list[float], bool]]:
    """Return the author, the inputs and the label of each doubtful date in a user's words that is annotated."""
    embedder, extractor = PackagedEmbedder(), LocalExtractor()
    found = []
    for row in conversations(data):
        for message in row["messages"]:
            time = datetime.fromisoformat(message["time"])
            dated = date_text(message["text"], time) if len(message["text"]) <= MAX_OWN_WORDS else None
            if message["role"] != "user" or dated is None:
                continue
            labels = {each: is_right(row, message, each) for each in dated.doubtful}
            if all(label is None for label in labels.values()):
                continue
            said = Message(speaker=message["name"], content=message["text"], timestamp=time)
            [draft, *more] = (await extractor.read([said], None)).drafts
            [encoding] = await embedder.encode([with_date(draft.likely_dates or draft.text, time)], "document")
            if more or draft.source is None or encoding.reading is None:
                continue
            for each, label in labels.items():
                if label is not None:
                    tag = meant_as_date(draft, draft.source, encoding.reading, each.start, each.end)
                    found.append((row["author"], each.inputs(tag), label))
    return found


def main() -> None:
    """Train, report on the held-out author, and write the weights."""
    parser = argparse.ArgumentParser(description="Train the judge of doubtful dates.")
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    given = parser.parse_args()
    authors, inputs, labels = (np.array(each) for each in zip(*asyncio.run(examples(given.data)), strict=True))
    own = authors != HELD_OUT
    # The last input is the constant, whose weight is the bias.
    weights, bias = fit(inputs[own, :-1], labels[own].astype(float), np.ones(own.sum()), L2)
    probability = logistic(inputs[~own, :-1] @ weights + bias)
    right = labels[~own]
    print(f"{own.sum()} dates, {labels[own].mean():.2f} right; of {HELD_OUT} {len(right)}, {right.mean():.2f} right")
    for least in (0.7, 0.8, 0.85, 0.9, 0.95):
        chosen = probability >= least
        print(f"from {least}: {chosen.sum()} written, {right[chosen].mean():.3f} right")
    given.out.write_text(json.dumps([round(float(each), 4) for each in (*weights, bias)]) + "\n")


if __name__ == "__main__":
    main()
