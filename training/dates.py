# pyright: basic, reportMissingImports=false
"""Trains the two logistic regressions of `annotation.py`: the side of the reference on which an expression lies, by its
tense and distances; and the judge of doubtful dates, by these and the reader's tag of a time.

    python training/dates.py ../shared/data src/vmemo/text/temporal/dates.json

Needs vmemo. Reads the annotated conversations of all authors but `u` and `v`, and prints for these how many of the
dates that the rules leave open would be written, and how many of them are right.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import lzma
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
from revision import fit, logistic

from vmemo.embedding.packaged import PackagedEmbedder
from vmemo.models import Message
from vmemo.retain.local_extraction import LocalExtractor
from vmemo.retain.reader import meant_as_date
from vmemo.text.own_words import MAX_OWN_WORDS
from vmemo.text.temporal import DoubtfulDate, date_text
from vmemo.text.temporal.annotation import side_examples, with_date

HERE = Path(__file__).parent
HELD_OUT = ("u", "v")
L2, L2_SIDE = 2.0, 3.0
PAST = 2.0
"""Weight of a past date: three of four annotated ones lie ahead, more than people elsewhere speak of."""


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


def sides(data: Path) -> list[tuple[str, list[float], bool]]:
    """Return the author, the inputs and the side of each annotated expression whose readings differ; True is ahead."""
    found = []
    for row in conversations(data):
        for message in row["messages"]:
            dates = [each for each in row["dates"] if each["message"] == message["id"]]
            time = datetime.fromisoformat(message["time"]).replace(tzinfo=UTC)
            for start, end, inputs, *days in side_examples(message["text"], time) if dates else ():
                for each in dates:
                    at = message["text"].find(each["text"])
                    right = [str(day) == each["start"][:10] for day in days]
                    if 0 <= at < end and start < at + len(each["text"]) and any(right) and not all(right):
                        found.append((row["author"], inputs, right[1]))
                        break
    return found


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


def trained(rows: list[tuple[str, list[float], bool]], penalty: float, past: float = 1.0) -> list[float]:
    """Return the weights, of which the last one is the bias, and print how good they are for the held-out authors."""
    authors, inputs, labels = (np.array(each) for each in zip(*rows, strict=True))
    own, weights = ~np.isin(authors, HELD_OUT), np.where(labels, 1.0, past)
    # The last input is the constant, whose weight is the bias.
    found, bias = fit(inputs[own, :-1], labels[own].astype(float), weights[own], penalty)
    probability, right = logistic(inputs[~own, :-1] @ found + bias), labels[~own]
    print(f"{own.sum()} examples, {labels[own].mean():.2f} true; of others {len(right)}, {right.mean():.2f} true")
    print(f"right at .5: {((probability >= 0.5) == right).mean():.3f}")
    for least in (0.7, 0.8, 0.85, 0.92, 0.95):
        chosen = probability >= least
        print(f"from {least}: {chosen.sum()}, {right[chosen].mean():.3f} true")
    return [round(float(each), 4) for each in (*found, bias)]


def main() -> None:
    """Train, report on the held-out authors, and write the weights; the second model is trained with the first."""
    parser = argparse.ArgumentParser(description="Train the regressions of dates.")
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    given = parser.parse_args()
    weights = json.loads(given.out.read_text())
    weights["future"] = trained(sides(given.data), L2_SIDE, PAST)
    given.out.write_text(json.dumps(weights) + "\n")
    weights["date"] = trained(asyncio.run(examples(given.data)), L2)
    given.out.write_text(json.dumps(weights) + "\n")


if __name__ == "__main__":
    main()
