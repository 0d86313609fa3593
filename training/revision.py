"""Trains the revision model: a logistic regression that estimates if a later statement makes an earlier one outdated.

    python training/revision.py ../shared/data models/vmemo_models/revision/weights.json --vectors vectors.npz

Needs vmemo. Embeds 16,000 turns at first, which takes about ten minutes of two cores; `--vectors` keeps them.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from vmemo.embedding.packaged import PackagedEmbedder
from vmemo.text.change_features import change_features, examine
from vmemo.text.fact_text import embedded_text

HERE = Path(__file__).parent
AUTHORS = "abcd"
CANDIDATES, FLOOR = 12, 0.3
"""The nearest earlier turns that a turn is compared with, as `vmemo.retain.revise_by_model` does."""
CONVERSATION_WEIGHT, UNANNOTATED_SHARE = 0.1, 0.3
"""Weight of a pair from the long conversations, and the share of turns without annotated pairs that is used."""
SOFT = {"status", "plan", "progress", "experience", "event", "activity", "decision", "count", "age"}
"""Kinds of annotated changes that most readers would not call outdated, such as a plan that was carried out."""
L2 = 10.0
RATES = (0.01, 0.02, 0.05, 0.1)
TURN = re.compile(r"(\d+)\.(\d+) ([^:]{1,40}): (.+)")


@dataclass(frozen=True)
class Turn:
    """One turn of a conversation."""

    id: str
    at: datetime
    speaker: str
    text: str

    @property
    def said(self) -> str:
        """The text as a fact has it; some conversations are of facts, which have no speaker."""
        return self.text if self.speaker == "fact" else f"{self.speaker}: {self.text}"

    @property
    def document(self) -> str:
        """The text that is embedded."""
        return embedded_text(self.said, self.at)


@dataclass(frozen=True)
class Conversation:
    """Turns, and the labels of annotated pairs (True if the later turn replaces something; None is left out)."""

    source: str
    turns: Sequence[Turn]
    labels: dict[tuple[str, str], bool | None]

    @property
    def outdated(self) -> set[str]:
        """The turns that a later one replaces."""
        return {earlier for (earlier, _), replaces in self.labels.items() if replaces}


@dataclass(frozen=True)
class Rows:
    """Features, labels and weights of pairs, with the conversation and the turns of each."""

    features: np.ndarray
    labels: np.ndarray
    weights: np.ndarray
    pairs: Sequence[tuple[int, str, str]]


def scenarios() -> Iterator[Conversation]:
    """Yield the short update scenarios, by author."""
    for author in AUTHORS:
        for line in (HERE / f"updates/author_{author}.jsonl").read_text().splitlines():
            row = json.loads(line)
            turns = [Turn(t["id"], datetime.fromisoformat(t["date"]), t["speaker"], t["text"]) for t in row["turns"]]
            labels = {(p["earlier"], p["later"]): p["label"] == "replaces" for p in row["pairs"]}
            yield Conversation(author, turns, labels)


def conversations(data: Path) -> Iterator[Conversation]:
    """Yield the long conversations with the annotated pairs of `update_pairs.jsonl`."""
    labels: dict[str, dict[tuple[str, str], bool | None]] = {}
    for line in (data / "training/update_pairs.jsonl").read_text().splitlines():
        pair = json.loads(line)
        replaces = pair["label"] == "replaces"
        key = pair["earlier"], pair["later"]
        labels.setdefault(pair["conv"], {})[key] = None if replaces and pair.get("kind") in SOFT else replaces
    for path in sorted((HERE / "conversations").glob("*.txt")):
        yield Conversation("long", list(_turns(path.read_text())), labels.get(path.stem, {}))


def _turns(text: str) -> Iterator[Turn]:
    at = datetime.min.replace(tzinfo=UTC)
    for line in text.partition("\n??")[0].splitlines():
        if line.startswith("== "):
            at = datetime.strptime(line[3:].strip(), "%Y-%m-%d %H:%M").replace(tzinfo=UTC)
        elif match := TURN.match(line):
            session, number, speaker, said = match.groups()
            yield Turn(f"{session}.{number}", at, speaker, said)


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
        np.savez(cache, documents=np.array(list(known)), vectors=np.stack(list(known.values())).astype(np.float16))
        print(f"embedded {start + len(part)} of {len(missing)}", flush=True)
    return known


def compare(found: Sequence[Conversation], vectors: dict[str, np.ndarray]) -> Rows:
    """Return the pairs that retain would compare: each turn of a person with the nearest earlier ones."""
    rng = random.Random(4)
    rows: list[tuple[list[float], bool, float, tuple[int, str, str]]] = []
    for number, conversation in enumerate(found):
        annotated = {later for _, later in conversation.labels}
        long = conversation.source == "long"
        people = [turn for turn in conversation.turns if turn.speaker.lower() != "assistant"]
        matrix = np.stack([vectors[turn.document] for turn in people]).astype(np.float32)
        cues = [examine(turn.said) for turn in people]
        for at, later in enumerate(people):
            if long and later.id not in annotated and rng.random() > UNANNOTATED_SHARE:
                continue
            weight = 1.0 if not long else CONVERSATION_WEIGHT / (1 if later.id in annotated else UNANNOTATED_SHARE)
            cosines = matrix[:at] @ matrix[at]
            for other in np.argsort(-cosines)[:CANDIDATES]:
                earlier, label = people[other], conversation.labels.get((people[other].id, later.id), False)
                if cosines[other] < FLOOR or label is None:
                    continue
                days = (later.at.date() - earlier.at.date()).days
                values = change_features(cues[other], cues[at], days=days, cosine=float(cosines[other]))
                rows.append((list(values.values()), label, weight, (number, earlier.id, later.id)))
    features, labels, weights, pairs = zip(*rows, strict=True)
    return Rows(np.array(features), np.array(labels, float), np.array(weights), pairs)


def join(parts: Sequence[Rows]) -> Rows:
    """Return all rows in one."""
    arrays = (np.concatenate([getattr(part, name) for part in parts]) for name in ("features", "labels", "weights"))
    return Rows(*arrays, [pair for part in parts for pair in part.pairs])


def fit(rows: Rows) -> tuple[np.ndarray, float]:
    """Return the weights of the features and the bias, by Newton's method on scaled features."""
    mean, scale = np.average(rows.features, axis=0, weights=rows.weights), rows.features.std(axis=0) + 1e-6
    scaled = np.c_[(rows.features - mean) / scale, np.ones(len(rows.labels))]
    penalty = np.diag([L2] * (scaled.shape[1] - 1) + [0.0])
    weights = np.zeros(scaled.shape[1])
    for _ in range(30):
        probability = 1 / (1 + np.exp(-np.clip(scaled @ weights, -30, 30)))
        gradient = scaled.T @ (rows.weights * (probability - rows.labels)) + penalty @ weights
        curvature = (scaled * (rows.weights * probability * (1 - probability))[:, None]).T @ scaled + penalty
        weights -= np.linalg.solve(curvature, gradient)
    return weights[:-1] / scale, float(weights[-1] - (weights[:-1] / scale * mean).sum())


def outcome(
    found: Sequence[Conversation], rows: Rows, model: tuple[np.ndarray, float]
) -> tuple[np.ndarray, np.ndarray]:
    """Return the highest probability by which each outdated turn, and each other one, would be closed.

    A later turn closes only the one that it most probably outdates.
    """
    probability = 1 / (1 + np.exp(-(rows.features @ model[0] + model[1])))
    best: dict[tuple[int, str], tuple[float, str]] = {}
    for value, (number, earlier, later) in zip(probability, rows.pairs, strict=True):
        best[number, later] = max(best.get((number, later), (0.0, "")), (float(value), earlier))
    highest: dict[tuple[int, str], float] = {}
    for (number, _), (value, earlier) in best.items():
        highest[number, earlier] = max(highest.get((number, earlier), 0.0), value)
    outdated, others = [], []
    for number, conversation in enumerate(found):
        for turn in conversation.turns:
            closed = highest.get((number, turn.id), 0.0)
            (outdated if turn.id in conversation.outdated else others).append(closed)
    return np.array(outdated), np.array(others)


def report(outdated: np.ndarray, others: np.ndarray) -> None:
    """Print which share of outdated turns is closed where a small share of the others is."""
    for rate in RATES:
        threshold = np.quantile(others, 1 - rate)
        print(
            f"others closed {rate:.2f}: threshold {threshold:.3f}, outdated closed {(outdated > threshold).mean():.3f}"
        )


def main() -> None:
    """Train, report on each author without that author's scenarios, and write the weights of all."""
    parser = argparse.ArgumentParser(description="Train the revision model.")
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--vectors", type=Path, required=True)
    given = parser.parse_args()
    short, long = list(scenarios()), list(conversations(given.data))
    vectors = embed([turn.document for each in (*short, *long) for turn in each.turns], given.vectors)
    by_author = {author: [each for each in short if each.source == author] for author in AUTHORS}
    rows = {author: compare(found, vectors) for author, found in by_author.items()}
    extra = compare(long, vectors)
    results = []
    for author in AUTHORS:
        model = fit(join([*(rows[other] for other in AUTHORS if other != author), extra]))
        results.append(outcome(by_author[author], rows[author], model))
    report(*(np.concatenate(parts) for parts in zip(*results, strict=True)))
    weights, bias = fit(join([*rows.values(), extra]))
    names = change_features(examine(""), examine(""), days=0, cosine=0.0)
    given.out.parent.mkdir(parents=True, exist_ok=True)
    values = {"bias": round(bias, 4), **{name: round(float(w), 4) for name, w in zip(names, weights, strict=True)}}
    given.out.write_text(json.dumps(values, indent=1) + "\n")


if __name__ == "__main__":
    main()
