"""The data for training and evaluation, as banks: documents of one memory and questions about them."""

from __future__ import annotations

import json
import lzma
import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import texts

from vmemo.text.temporal import annotate
from vmemo.text.temporal.annotation import embedded_text

OWN = Path(__file__).parent / "conversations"
HELD_OUT = 6
"""Every sixth conversation and session is kept for validation and never trained on."""
TURN = re.compile(r"(\d+)\.(\d+) ([^:]{1,40}): (.+)")


@dataclass(frozen=True)
class Document:
    """A turn or fact as retain would embed it, its words alone, and the turn before it."""

    id: str
    text: str
    words: str
    context: str = ""


@dataclass(frozen=True)
class TrainingQuestion:
    """A question and the documents that contain its answer."""

    text: str
    evidence: frozenset[str]
    kind: str
    turns: tuple[frozenset[str], ...] = ()
    """For each turn, the documents that contain it; empty if each document is one turn."""


@dataclass(frozen=True)
class MemoryBank:
    """Documents, all of which are candidates for each question."""

    name: str
    split: str
    documents: Sequence[Document]
    questions: Sequence[TrainingQuestion] = field(default_factory=tuple)


def document(id: str, voice: str, content: str, time: datetime, before: Document | None) -> Document:
    """Return a turn in the form in which the local engine embeds it; with an empty voice, a narrative fact."""
    text = annotate(content, time).text if voice else content
    words = f"{voice}: {content}" if voice else content
    stored = f"{voice}: {text}" if voice else text
    return Document(id, embedded_text(stored, time), words, before.words[-400:] if before else "")


def conversations() -> Iterator[MemoryBank]:
    """Yield the conversations written for this training."""
    for number, path in enumerate(sorted(OWN.glob("*.txt"))):
        text = path.read_text("utf-8")
        if number % HELD_OUT == HELD_OUT - 1:
            yield _conversation(path.stem, "valid", text)
        else:
            yield _conversation(path.stem, "train", text)
            yield _conversation(f"{path.stem}-renamed", "train", _renamed(path.stem, text))


def _renamed(name: str, text: str) -> str:
    """Return a conversation whose two people have other names."""
    head, _, rest = text.partition("\n")
    known = [voice for voice in head.partition(": ")[2].split(", ") if voice != "Assistant"]
    given = dict(zip(known, random.Random(name).sample(texts.NAMES[:-2], len(known)), strict=True))
    if not given:
        return text
    pattern = re.compile(rf"\b({'|'.join(map(re.escape, given))})\b")
    return f"{head}\n{pattern.sub(lambda match: given[match[0]], rest)}"


def _conversation(name: str, split: str, whole: str) -> MemoryBank:
    head, _, tail = whole.partition("\n??")
    time, previous, documents = datetime.min.replace(tzinfo=UTC), None, list[Document]()
    for line in head.splitlines():
        if line.startswith("== "):
            time, previous = datetime.strptime(line[3:].strip(), "%Y-%m-%d %H:%M").replace(tzinfo=UTC), None
        elif match := TURN.match(line):
            session, turn, voice, content = match.groups()
            fact = voice == "fact"
            made = document(f"{session}.{turn}", "" if fact else voice, content, time, None if fact else previous)
            documents.append(made)
            previous = made
    known = {made.id for made in documents}
    rows = [[part.strip() for part in line.split("|")] for line in tail.splitlines() if line.count("|") == 3]
    asked = [TrainingQuestion(text, frozenset(ids.split()) & known, kind) for kind, text, ids, _ in rows]
    return MemoryBank(name, split, documents, [question for question in asked if question.evidence])


def earlier_conversations(data: Path) -> Iterator[MemoryBank]:
    """Yield the four conversations of the project's sample, for validation only."""
    for path in sorted((data / "training/conversations").glob("*.json")):
        raw, documents = json.loads(path.read_text("utf-8")), list[Document]()
        for session in raw["sessions"]:
            time, previous = datetime.fromisoformat(session["date"]).replace(tzinfo=UTC), None
            for turn in session["turns"]:
                previous = document(turn["id"], turn["speaker"], turn["text"], time, previous)
                documents.append(previous)
        asked = [TrainingQuestion(q["question"], frozenset(q["evidence"]), q["kind"]) for q in raw["questions"]]
        yield MemoryBank(path.stem, "valid", documents, [question for question in asked if question.evidence])


def sessions(data: Path, together: int = 8) -> Iterator[MemoryBank]:
    """Yield chats with an assistant, several per bank, so that turns of other chats are candidates too."""
    raw = json.loads((data / "training/sessions.json").read_text("utf-8"))
    lines = (data / "training/questions.jsonl").read_text("utf-8").splitlines()
    asked: dict[str, list[TrainingQuestion]] = {}
    for q in map(json.loads, lines):
        asked.setdefault(q["session"], []).append(TrainingQuestion(q["question"], frozenset(q["evidence"]), q["kind"]))
    order = list(range(len(raw)))
    random.Random(7).shuffle(order)
    for number in range(0, len(order), together):
        chosen = [raw[index] for index in order[number : number + together]]
        documents = [made for session in chosen for made in _session(session)]
        questions = [q for session in chosen for q in asked.get(f"S{session['n']}", [])]
        split = "valid" if number // together % HELD_OUT == HELD_OUT - 1 else "train"
        yield MemoryBank(f"sessions-{number // together}", split, documents, questions)


def _session(raw: dict) -> Iterator[Document]:
    time = datetime.strptime(re.sub(r" \(\w+\)", "", raw["date"]), "%Y/%m/%d %H:%M").replace(tzinfo=UTC)
    previous = None
    for number, turn in enumerate(raw["turns"]):
        previous = document(f"S{raw['n']}:{number}", turn["role"], turn["content"][:1600], time, previous)
        yield previous


def sentences(data: Path, together: int = 16) -> Iterator[MemoryBank]:
    """Yield questions about two or more sentences of an encyclopedia, several per bank."""
    with lzma.open(data / "training/multihop_sentences.jsonl.xz", "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    for number in range(0, len(rows) - together + 1, together):
        documents, questions = list[Document](), list[TrainingQuestion]()
        for index, row in enumerate(rows[number : number + together]):
            positive = [Document(f"{index}/p{i}", text, text) for i, text in enumerate(row["p"])]
            negative = [Document(f"{index}/n{i}", text, text) for i, text in enumerate(row["n"][:14])]
            documents += [*positive, *negative]
            questions.append(TrainingQuestion(row["q"], frozenset(made.id for made in positive), "hop"))
        yield MemoryBank(f"sentences-{number // together}", "hop", documents, questions)


def locomo(data: Path) -> Iterator[MemoryBank]:
    """Yield LoCoMo's development part, for evaluation only."""
    for raw in json.loads((data / "locomo/locomo_dev.json").read_text("utf-8")):
        conversation, documents = raw["conversation"], list[Document]()
        for key in sorted((k for k in conversation if re.fullmatch(r"session_\d+", k)), key=lambda k: int(k[8:])):
            start = conversation[f"{key}_date_time"].strip()
            time = datetime.strptime(start, "%I:%M %p on %d %B, %Y").replace(tzinfo=UTC)
            previous = None
            for turn in conversation[key]:
                photo = f" [photo: {turn['blip_caption']}]" if turn.get("blip_caption") else ""
                previous = document(turn["dia_id"], turn["speaker"], turn["text"] + photo, time, previous)
                documents.append(previous)
        yield MemoryBank(raw["sample_id"], "locomo", documents, _locomo_questions(raw, documents))


def _locomo_questions(raw: dict, documents: Sequence[Document]) -> list[TrainingQuestion]:
    known = {made.id for made in documents}
    names = {1: "multi-hop", 2: "temporal", 3: "open-domain", 4: "single-hop"}
    asked = [
        TrainingQuestion(q["question"], frozenset(q["evidence"]) & known, names[q["category"]])
        for q in raw["qa"]
        if q["category"] in names
    ]
    return [question for question in asked if question.evidence]


def extractions(data: Path) -> Iterator[MemoryBank]:
    """Yield LoCoMo's recorded extractions, for evaluation only. A fact counts if an evidence turn is its source."""
    for bank in locomo(data):
        lines = (data / f"locomo/extractions/{bank.name}.jsonl").read_text("utf-8").splitlines()
        rows = [json.loads(line) for line in lines]
        dates = {made.id.split(":")[0]: made.text.split(". ", 1)[0] for made in bank.documents}
        documents = [
            Document(f"F{n}", f"{dates[row['sources'][0].split(':')[0]]}. {row['text']}", row["text"])
            for n, row in enumerate(rows)
        ]
        sources = {made.id: set(row["sources"]) for made, row in zip(documents, rows, strict=True)}
        questions = [_over_facts(q, sources) for q in bank.questions]
        yield MemoryBank(f"{bank.name}-facts", "facts", documents, [q for q in questions if q.evidence])


def _over_facts(question: TrainingQuestion, sources: dict[str, set[str]]) -> TrainingQuestion:
    turns = [frozenset(id for id, held in sources.items() if turn in held) for turn in sorted(question.evidence)]
    known = tuple(facts for facts in turns if facts)
    return TrainingQuestion(question.text, frozenset().union(*known), question.kind, known)
