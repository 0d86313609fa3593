# pyright: basic, reportMissingImports=false
"""Fits vmemo-answerable-1: does a question ask for advice, is a fact a constraint, do recalled facts hold the answer.

    python training/answerable.py heads ../shared/data models/vmemo_models/answerable/weights.npz
    python training/answerable.py signals ../shared/data models/vmemo_models/answerable/weights.npz
    python training/answerable.py precise ../shared/data

Needs vmemo. After each step, put the printed SHA-256 into `vmemo_models`. The first step fits linear models of the
vectors of questions and messages of all authors but `u` and `v`. The second recalls the questions of these two, whom
the encoder was not trained on either: as they are, without the messages that answer them, and from other conversations.
It prints how well each conversation is judged by weights that were fitted on the others. The third prints, by author,
what a precise recall returns of what a full one finds.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import lzma
import random
import sys
import tempfile
from collections import defaultdict
from collections.abc import Sequence, Set
from datetime import datetime
from pathlib import Path
from uuid import uuid4

import numpy as np

from vmemo import Memory, Message
from vmemo.embedding.packaged import PackagedEmbedder
from vmemo.models import Fact
from vmemo.recall.answerable import SIGNALS
from vmemo.text.temporal.annotation import embedded_text

HERE = Path(__file__).parent
VALIDATION = "uv"
HEADS_L2 = {"advice": 100.0, "constraint": 100.0, "asks": 300.0}
SIGNALS_L2 = 1.0
UNANSWERABLE_WEIGHT = 0.75
"""Weight of a question that its author meant to be unanswerable; one in nine is."""
CONSTRUCTED_WEIGHT = 68.0
"""Weight of all constructed ones together. More makes questions whose answer is missing clearer (AUROC .77 with 90, .68
with 28), and unanswerable ones as authors write them less clear (.87, .92)."""
RELATED = "u"
"""Author whose questions `related` is fitted on, for which the bars of `vmemo.recall.run` were chosen."""
OTHERS, GROUP = 6, 4
BUDGET, FULL = 300, 1500


def conversations(data: Path, *, validation: bool) -> list[dict]:
    """Return the annotated conversations of the validation authors, or of all others."""
    found = [
        json.loads(line)
        for path in sorted((HERE / "lives").glob("*.jsonl.xz"))
        if (path.name[0] in VALIDATION) == validation
        for line in lzma.decompress(path.read_bytes()).decode().splitlines()
    ]
    extra = [] if validation else sorted((data / "training" / "lives").glob("*.json"))
    return found + [json.loads(path.read_text("utf-8")) for path in extra]


def fit(rows: np.ndarray, right: np.ndarray, l2: float, weight: np.ndarray | None = None) -> np.ndarray:
    """Return weights and bias of a logistic regression on standardized columns, for the columns as they are."""
    mean, scale = rows.mean(0), rows.std(0) + 1e-9
    given = np.c_[(rows - mean) / scale, np.ones(len(rows))]
    weight = np.ones(len(rows)) if weight is None else weight
    penalty = np.diag([l2] * rows.shape[1] + [1e-6])
    fitted = np.zeros(given.shape[1])
    for _ in range(60):
        estimate = 1 / (1 + np.exp(-given @ fitted))
        gradient = given.T @ (weight * (estimate - right)) + penalty @ fitted
        curvature = given.T @ (given * (weight * estimate * (1 - estimate))[:, None]) + penalty
        step = np.linalg.solve(curvature, gradient)
        fitted -= step
        if abs(step).max() < 1e-6:
            break
    own = fitted[:-1] / scale
    return np.r_[own, fitted[-1] - mean @ own]


async def heads(data: Path) -> dict[str, np.ndarray]:
    """Fit the linear models of vectors."""
    embedder, given = PackagedEmbedder(), conversations(data, validation=False)
    questions = [question for each in given for question in each["questions"]]
    asked = await embedder.embed([question["question"] for question in questions], "query")
    documents, constraints = [], []
    for each in given:
        evidence = {id for q in each["questions"] if q["type"] == "advice" for id in q["evidence"]}
        for line in each["messages"]:
            voice = line["name"] if line["role"] == "user" else "Assistant"
            time = datetime.fromisoformat(line["time"])
            documents.append(embedded_text(f"{voice}: {line['text'][:1600]}", time))
            constraints.append(line["id"] in evidence)
    vectors = await embedder.embed(documents, "document")
    advice = np.array([question["type"] == "advice" for question in questions], float)
    answered = np.array([bool(question["evidence"]) for question in questions], float)
    return {
        "advice": fit(asked, advice, HEADS_L2["advice"]),
        "constraint": fit(vectors, np.array(constraints, float), HEADS_L2["constraint"]),
        "asks": fit(asked, answered, HEADS_L2["asks"]),
        "answerable": np.zeros(len(SIGNALS) + 1),
        "related": np.zeros(len(SIGNALS)),
    }


async def retained(memory: Memory, life: dict, without: Set[int] = frozenset()) -> dict[str, int]:
    """Retain a conversation without some of its messages; return the numbers of the others by their ids."""
    days, numbers = defaultdict(list), {}
    for line in life["messages"]:
        if line["id"] not in without:
            time, speaker = datetime.fromisoformat(line["time"]), line["name"] if line["role"] == "user" else None
            message = Message(
                role=line["role"], speaker=speaker, content=line["text"], timestamp=time, document=f"{time.date()}"
            )
            days[time.date()].append(message)
            numbers[message.id] = line["id"]
    for day in sorted(days):
        await memory.retain(days[day])
    return numbers


async def recalled(folder: str, life: dict, without: Set[int], asked: Sequence[tuple[str, str]]) -> list[list[float]]:
    """Return the signals of questions to a conversation without some of its messages."""
    async with Memory(f"sqlite:///{folder}/{uuid4()}.db", embedder=EMBEDDER) as memory:
        await retained(memory, life, without)
        found = [await memory.recall(text, BUDGET, now=time, explain=True) for text, time in asked]
    return [[each.explanation.signals[name] for name in SIGNALS] for each in found]


async def signals(data: Path) -> list[tuple[str, str, list[float], bool]]:
    """Return conversation, kind of question, signals and answerability of the validation authors' questions."""
    lives, rows, choice = conversations(data, validation=True), [], random.Random(7)
    with tempfile.TemporaryDirectory() as folder:
        for life in lives:
            own = [(q["question"], q["time"]) for q in life["questions"]]
            found = await recalled(folder, life, set(), own)
            rows += [(life["id"], "own", s, bool(q["evidence"])) for s, q in zip(found, life["questions"], strict=True)]
            others = choice.sample([each for each in lives if each is not life], OTHERS)
            asked = [(choice.choice(each["questions"])["question"], own[-1][1]) for each in others]
            rows += [(life["id"], "other", s, False) for s in await recalled(folder, life, set(), asked)]
            answered = [q for q in life["questions"] if q["evidence"]]
            choice.shuffle(answered)
            for start in range(0, len(answered), GROUP):
                group = answered[start : start + GROUP]
                without = {id for q in group for id in (*q["evidence"], *q.get("outdated", ()))}
                found = await recalled(folder, life, without, [(q["question"], q["time"]) for q in group])
                rows += [(life["id"], "removed", s, False) for s in found]
            print(life["id"], len(rows), flush=True)
    return rows


async def precise(data: Path) -> None:
    """Print by author the evidence that precise recalls and contexts return, and their precision, facts and tokens."""
    rows = defaultdict(list)
    for life in conversations(data, validation=True):
        async with Memory(":memory:", embedder=EMBEDDER) as memory:
            numbers = await retained(memory, life)

            def sources(facts: Sequence[Fact], numbers: dict[str, int] = numbers) -> list[set[int]]:
                return [{numbers[id] for id in fact.messages or (fact.id,) if id in numbers} for fact in facts]

            for asked in life["questions"]:
                evidence, now = set(asked["evidence"]), asked["time"]
                few = (await memory.recall(asked["question"], FULL, now=now, precise=True)).facts
                if not evidence:
                    rows[life["author"], "unanswerable: facts"].append(len(few))
                    continue
                whole = (await memory.recall(asked["question"], FULL, now=now)).facts
                full = evidence.intersection(set().union(*sources(whole)))
                context = await memory.context(asked["question"], now=now)
                shown, right = sources(few), [bool(each & evidence) for each in sources(few)]
                if full:
                    rows[life["author"], "recall"].append(len(full.intersection(set().union(*shown))) / len(full))
                rows[life["author"], "precision"].append(sum(right) / max(1, len(right)))
                rows[life["author"], "facts"].append(len(few))
                of_context = evidence.intersection(set().union(*sources(context.facts)))
                rows[life["author"], "context: recall"].append(len(of_context) / len(evidence))
                rows[life["author"], "context: tokens"].append(context.tokens)
    for (author, name), values in sorted(rows.items()):
        print(f"{author} {name} {np.mean(values):.3f} of {len(values)}")


def area(scores: np.ndarray, right: np.ndarray) -> float:
    """Return the area under the ROC curve."""
    high, low = scores[right], scores[~right]
    return float((np.greater.outer(high, low) + 0.5 * np.equal.outer(high, low)).mean())


def calibration_error(estimates: np.ndarray, right: np.ndarray) -> float:
    """Return the expected calibration error in ten bins."""
    bins = np.minimum((estimates * 10).astype(int), 9)
    groups = [bins == number for number in range(10) if (bins == number).any()]
    return float(sum(group.mean() * abs(estimates[group].mean() - right[group].mean()) for group in groups))


def fitted(rows: list[tuple[str, str, list[float], bool]]) -> dict[str, np.ndarray]:
    """Fit both models of the signals, and print how they judge conversations that they were not fitted on."""
    lives, kinds, right = (np.array([row[n] for row in rows]) for n in (0, 1, 3))
    given = np.array([row[2] for row in rows])
    constructed = kinds != "own"
    weight = np.where(right, 1.0, np.where(constructed, CONSTRUCTED_WEIGHT / constructed.sum(), UNANSWERABLE_WEIGHT))
    about = (right | constructed) & np.char.startswith(lives, RELATED)
    estimates, related = np.zeros(len(rows)), np.zeros(len(rows))
    for life in np.unique(lives):
        rest, held_out = lives != life, lives == life
        model = fit(given[rest], right[rest].astype(float), SIGNALS_L2, weight[rest])
        estimates[held_out] = 1 / (1 + np.exp(-(given[held_out] @ model[:-1] + model[-1])))
        model = fit(given[rest & about][:, 1:], right[rest & about].astype(float), SIGNALS_L2)
        related[held_out] = 1 / (1 + np.exp(-(given[held_out][:, 1:] @ model[:-1] + model[-1])))
    own = ~constructed
    print(f"as written: AUROC {area(estimates[own], right[own]):.3f}, ", end="")
    print(f"calibration error {calibration_error(estimates[own], right[own]):.3f} of {own.sum()}")
    for kind in ("removed", "other"):
        some = (kinds == kind) | right
        print(f"{kind}: AUROC {area(estimates[some], right[some]):.3f}, mean {estimates[kinds == kind].mean():.2f}")
    for lost in (0.02, 0.03, 0.05):
        bar = np.quantile(related[right], lost)
        silent = ", ".join(f"{kind} {(related[kinds == kind] < bar).mean():.2f}" for kind in ("removed", "other"))
        print(f"related below {bar:.2f}: answered {lost:.2f}, {silent}")
    return {
        "answerable": fit(given, right.astype(float), SIGNALS_L2, weight),
        "related": fit(given[about][:, 1:], right[about].astype(float), SIGNALS_L2),
    }


def main() -> None:
    """Run one step and write the weights."""
    step, data = sys.argv[1], Path(sys.argv[2])
    if step == "precise":
        asyncio.run(precise(data))
        return
    path = Path(sys.argv[3])
    made = asyncio.run(heads(data)) if step == "heads" else fitted(asyncio.run(signals(data)))
    weights = {**(np.load(path) if path.exists() else {}), **made}
    np.savez(path, **{name: each.astype(np.float32) for name, each in weights.items()})
    print(hashlib.sha256(path.read_bytes()).hexdigest())


EMBEDDER = PackagedEmbedder()

if __name__ == "__main__":
    main()
