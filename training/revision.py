"""Trains the revision model: a logistic regression that estimates if a later statement makes an earlier one outdated,
and a second one that says which claims of it.

    python training/revision.py ../shared/data models/vmemo_models/revision/weights.json --vectors vectors.npz

Needs vmemo. Embeds 8,000 turns at first, which takes about two minutes of two cores; `--vectors` keeps them. Prints
for authors that a model was not trained on how often its predictions come true, of statements and of claims, and how
many outdated and other claims are marked at several thresholds.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import lzma
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

import numpy as np

from vmemo.embedding.packaged import PackagedEmbedder
from vmemo.embedding.revision_model import features
from vmemo.models.search import LINKED
from vmemo.retain.revise import LEAST_COSINE
from vmemo.retain.revise_by_model import (
    CANDIDATES,
    Statement,
    claim_numbers,
    claims_in,
    joined,
    rarity_of,
    statement_pairs,
)
from vmemo.text.temporal.annotation import embedded_text

HERE = Path(__file__).parent
MAX_CHARACTERS = 1600
L2 = 3.0
SCENARIO_WEIGHT = 0.3
"""Weight of a pair from the short scenarios, most of which hold a change."""
FOLDS = 6
MARKED = (0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7)
"""Probabilities from which a claim is marked in the report."""
STEPS = (0.0, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 1.0)


@dataclass(frozen=True)
class Turn:
    """One turn of a conversation."""

    id: str
    at: datetime
    speaker: str
    text: str

    @property
    def said(self) -> str:
        return f"{self.speaker}: {self.text[:MAX_CHARACTERS]}"

    @property
    def document(self) -> str:
        """The text that is embedded."""
        return embedded_text(self.said, self.at)


@dataclass(frozen=True)
class Conversation:
    """A person's turns that hold something, the pairs of which the later replaces a claim of the earlier, and claims.

    `changed` are the turn, the words and the ending turn of annotated claims; `kept` the turn and the words of claims
    that stay true.
    """

    author: str
    turns: Sequence[Turn]
    replaced: frozenset[tuple[str, str]]
    changed: Sequence[tuple[str, str, str]] = ()
    kept: Sequence[tuple[str, str]] = ()


@dataclass(frozen=True)
class Rows:
    """Features, labels and weights of pairs, with the author, conversation, turns and shared terms of each."""

    features: np.ndarray
    labels: np.ndarray
    weights: np.ndarray
    authors: np.ndarray
    places: Sequence[tuple[int, Turn, Turn]]
    rarities: Sequence[dict[str, float]]


@dataclass(frozen=True)
class ClaimRows:
    """Inputs and labels of claims, with the author and the place of each: conversation, turn, span and later turn.

    A claim that an earlier message had ended already is neither, and has the weight 0.
    """

    inputs: np.ndarray
    labels: np.ndarray
    weights: np.ndarray
    authors: np.ndarray
    places: Sequence[tuple[int, Turn, int, int, str]]


def lives(data: Path) -> Iterator[Conversation]:
    """Yield the annotated conversations."""
    packed = [lzma.decompress(path.read_bytes()).decode() for path in sorted((HERE / "lives").glob("*.xz"))]
    lines = [line for text in packed for line in text.splitlines() if line]
    for text in [*lines, *(path.read_text() for path in sorted((data / "training/lives").glob("*.json")))]:
        row = json.loads(text)
        noise = set(row["noise"])
        turns = [
            Turn(str(m["id"]), datetime.fromisoformat(m["time"]), m["name"], m["text"])
            for m in row["messages"]
            if m["role"] == "user" and m["id"] not in noise
        ]
        yield Conversation(
            row["author"],
            turns,
            frozenset((str(c["message"]), str(c["until"])) for c in row["changes"]),
            [(str(c["message"]), c["text"], str(c["until"])) for c in row["changes"]],
            [(str(c["message"]), c["text"]) for c in row["still_true"]],
        )


def scenarios() -> Iterator[Conversation]:
    """Yield the short update scenarios."""
    for path in sorted((HERE / "updates").glob("author_*.jsonl")):
        for line in path.read_text().splitlines():
            row = json.loads(line)
            turns = [
                Turn(t["id"], datetime.fromisoformat(t["date"]).replace(tzinfo=UTC), t["speaker"], t["text"])
                for t in row["turns"]
                if t["speaker"] != "Assistant"
            ]
            replaced = {(p["earlier"], p["later"]) for p in row["pairs"] if p["label"] == "replaces"}
            yield Conversation(path.stem, turns, frozenset(replaced))


def embed(documents: Sequence[str], cache: Path) -> dict[str, np.ndarray]:
    """Return a vector for each document; those that the cache lacks are added to it."""
    known: dict[str, np.ndarray] = {}
    if cache.exists():
        with np.load(cache) as stored:
            known = dict(zip(stored["documents"].tolist(), stored["vectors"], strict=True))
    missing = sorted(set(documents) - known.keys())
    embedder = PackagedEmbedder()
    for start in range(0, len(missing), 512):
        part = missing[start : start + 512]
        known.update(zip(part, asyncio.run(embedder.embed(part, "document")), strict=True))
        print(f"embedded {start + len(part)} of {len(missing)}", flush=True)
    if missing:
        np.savez(cache, documents=np.array(list(known)), vectors=np.stack(list(known.values())).astype(np.float16))
    return known


def compare(found: Sequence[Conversation], vectors: dict[str, np.ndarray]) -> Rows:
    """Return the pairs that retain compares: each turn with the nearest earlier ones of its speaker."""
    rows = []
    for number, conversation in enumerate(found):
        for at, later in enumerate(conversation.turns):
            earlier = [turn for turn in conversation.turns[:at] if turn.speaker == later.speaker]
            if not earlier:
                continue
            vector = vectors[later.document].astype(np.float32)
            cosines = np.stack([vectors[turn.document] for turn in earlier]).astype(np.float32) @ vector
            near = [n for n in np.argsort(-cosines, kind="stable")[:CANDIDATES].tolist() if cosines[n] >= LEAST_COSINE]
            statements = [Statement(earlier[n].said, earlier[n].at) for n in near]
            pairs = statement_pairs(Statement(later.said, later.at), statements, cosines[near].tolist())
            rarity = rarity_of(later.said, [each.text for each in statements])
            weight = 1.0 if conversation.kept else SCENARIO_WEIGHT
            for n, pair in zip(near, pairs, strict=True):
                label = (earlier[n].id, later.id) in conversation.replaced
                rows.append((pair, label, weight, conversation.author, (number, earlier[n], later), rarity))
    pairs, labels, weights, authors, places, rarities = zip(*rows, strict=True)
    return Rows(features(pairs), np.array(labels, float), np.array(weights), np.array(authors), places, rarities)


def claim_rows(found: Sequence[Conversation], rows: Rows, probability: np.ndarray) -> ClaimRows:
    """Return the claims of annotated statements that may be outdated by a later one, if there are several."""
    made = []
    for at, (number, earlier, later) in enumerate(rows.places):
        if probability[at] < LINKED or not found[number].kept:
            continue
        claims, after = claims_in(earlier.text[:MAX_CHARACTERS]), claims_in(later.text[:MAX_CHARACTERS])
        if len(claims) < 2 or not after:
            continue
        inputs = claim_numbers(claims, after, float(probability[at]), rows.rarities[at])
        for claim, numbers in zip(claims, inputs, strict=True):
            ends = ended(found[number], earlier, claim.start, claim.end)
            gone = any(int(end) < int(later.id) for end in ends) and later.id not in ends
            place = number, earlier, claim.start, claim.end, later.id
            made.append((numbers, later.id in ends, float(not gone), rows.authors[at], place))
    inputs, labels, weights, authors, places = zip(*made, strict=True)
    return ClaimRows(np.array(inputs), np.array(labels, float), np.array(weights), np.array(authors), places)


def ended(conversation: Conversation, turn: Turn, start: int, end: int) -> list[str]:
    """Return the turns that end an annotated claim which overlaps this place."""
    turns = []
    for message, text, until in conversation.changed:
        first = turn.text.find(text) if message == turn.id else -1
        overlap = min(end, first + len(text)) - max(start, first)
        if first >= 0 and overlap >= min(0.4 * (end - start), 0.5 * len(text)):
            turns.append(until)
    return turns


def logistic(values: np.ndarray) -> np.ndarray:
    """Return the logistic function of each value."""
    return 1 / (1 + np.exp(-np.clip(values, -30, 30)))


def fit(inputs: np.ndarray, labels: np.ndarray, weights: np.ndarray, penalty: float) -> tuple[np.ndarray, float]:
    """Return the weights of the inputs and the bias, by Newton's method on scaled inputs."""
    mean, scale = np.average(inputs, axis=0, weights=weights), inputs.std(axis=0) + 1e-6
    scaled = np.c_[(inputs - mean) / scale, np.ones(len(labels))]
    ridge = np.diag([penalty] * (scaled.shape[1] - 1) + [1e-9])
    found = np.zeros(scaled.shape[1])
    for _ in range(25):
        probability = logistic(scaled @ found)
        gradient = scaled.T @ (weights * (probability - labels)) + ridge @ found
        curvature = (scaled * (weights * probability * (1 - probability))[:, None]).T @ scaled + ridge
        found -= np.linalg.solve(curvature, gradient)
    return found[:-1] / scale, float(found[-1] - (found[:-1] / scale * mean).sum())


def held_out(inputs: np.ndarray, labels: np.ndarray, weights: np.ndarray, authors: np.ndarray) -> np.ndarray:
    """Return for each row the logit by a model that was not trained on its author."""
    logits = np.zeros(len(labels))
    names = sorted(set(authors.tolist()))
    for fold in range(FOLDS):
        inside = np.isin(authors, names[fold::FOLDS])
        found, bias = fit(inputs[~inside], labels[~inside], weights[~inside], L2)
        logits[inside] = inputs[inside] @ found + bias
    return logits


def report(title: str, labels: np.ndarray, probability: np.ndarray) -> None:
    """Print how often predictions come true."""
    order = np.argsort(-probability)
    right = labels[order]
    precision = (np.cumsum(right) / np.arange(1, len(right) + 1))[right > 0].mean()
    print(f"{title}: {len(labels)}, {int(right.sum())} replaced; average precision {precision:.3f}")
    print("| predicted | number | mean predicted | observed |\n|---|---|---|---|")
    for low, high in pairwise(STEPS):
        inside = (probability >= low) & (probability < high)
        if inside.any():
            mean, true = probability[inside].mean(), labels[inside].mean()
            print(f"| {low:.2f} to {high:.2f} | {int(inside.sum())} | {mean:.2f} | {true:.2f} |")


def report_marks(
    found: Sequence[Conversation], rows: Rows, probability: np.ndarray, claims: ClaimRows, of: np.ndarray
) -> None:
    """Print the outdated claims that are marked, and the claims that stay true, at several thresholds."""
    for least in MARKED:
        marked: defaultdict[tuple[int, str], list[str]] = defaultdict(list)
        divided = {(place[0], place[1].id, place[4]) for place in claims.places}
        for (number, earlier, later), value in zip(rows.places, probability, strict=True):
            if value >= least and (number, earlier.id, later.id) not in divided:
                marked[number, earlier.id].append(earlier.text)
        runs: defaultdict[tuple[int, str, str], list[tuple[int, int]]] = defaultdict(list)
        texts: dict[tuple[int, str], str] = {}
        for (number, turn, start, end, later), value in zip(claims.places, of, strict=True):
            if value >= least:
                runs[number, turn.id, later].append((start, end))
                texts[number, turn.id] = turn.text
        for (number, turn, _), spans in runs.items():
            marked[number, turn] += [
                texts[number, turn][start:end] for start, end in joined(texts[number, turn], spans)
            ]
        for author in (None, "u"):
            own = [(n, each) for n, each in enumerate(found) if each.kept and author in (None, each.author)]
            changed = [
                any(covers(t, text) for t in marked[n, turn]) for n, each in own for turn, text, _ in each.changed
            ]
            kept = [any(covers(t, text) for t in marked[n, turn]) for n, each in own for turn, text in each.kept]
            print(f"from {least:.2f}, {author or 'all'}: marked {np.mean(changed):.3f}, wrongly {np.mean(kept):.3f}")


def covers(text: str, claim: str) -> bool:
    """Return True if a text has most words of a claim."""
    inside, wanted = re.findall(r"\w+", text.casefold()), re.findall(r"\w+", claim.casefold())
    return sum(word in inside for word in wanted) >= 0.8 * len(wanted)


def main() -> None:
    """Train, report on authors that were held out, and write the calibrated weights of all."""
    parser = argparse.ArgumentParser(description="Train the revision model.")
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--vectors", type=Path, required=True)
    given = parser.parse_args()
    found = [*lives(given.data), *scenarios()]
    rows = compare(found, embed([turn.document for each in found for turn in each.turns], given.vectors))
    logits = held_out(rows.features, rows.labels, rows.weights, rows.authors)
    ours = rows.weights == 1
    # Platt's calibration: the slope and the bias with which held-out logits of the long conversations come true.
    slope, shift = fit(logits[ours][:, None], rows.labels[ours], rows.weights[ours], 0.0)
    probability = logistic(logits * slope[0] + shift)
    report("pairs of statements", rows.labels[ours], probability[ours])
    claims = claim_rows(found, rows, probability)
    of_claims = logistic(held_out(claims.inputs, claims.labels, claims.weights, claims.authors))
    known = claims.weights == 1
    report("claims of linked statements", claims.labels[known], of_claims[known])
    report_marks(found, rows, probability, claims, of_claims)
    weights, bias = fit(rows.features, rows.labels, rows.weights, L2)
    claim_weights, claim_bias = fit(claims.inputs, claims.labels, claims.weights, L2)
    values = {
        "bias": round(float(bias * slope[0] + shift), 4),
        "weights": [round(float(w), 4) for w in weights * slope[0]],
        "claim_bias": round(claim_bias, 4),
        "claim_weights": [round(float(w), 4) for w in claim_weights],
    }
    given.out.parent.mkdir(parents=True, exist_ok=True)
    given.out.write_text(json.dumps(values) + "\n")


if __name__ == "__main__":
    main()
