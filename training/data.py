# pyright: basic, reportMissingImports=false
"""Banks as tensors on the training device: token ids of all texts in one row, labels, and the teacher's vectors."""

from __future__ import annotations

import lzma
import pickle
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import sentencepiece
import torch
from encoder import TAGS
from teacher import PREFIX, Teacher
from tokenizers import BertWordPieceTokenizer
from torch import Tensor

MOST = 320
"""Tokens of a text in training; the runtime takes 512."""
START, END = 1, 2
PSEUDO = 90_000
"""Parts of documents that the teacher encodes as queries."""


@dataclass
class Ragged:
    """Rows of different lengths in one tensor."""

    flat: Tensor
    starts: Tensor
    lengths: Tensor

    @staticmethod
    def of(rows: Sequence[np.ndarray], device: str) -> Ragged:
        """Put rows behind each other."""
        lengths = np.array([len(row) for row in rows], np.int64)
        starts = np.concatenate([[0], np.cumsum(lengths)[:-1]])
        flat = torch.from_numpy(np.concatenate(rows)).to(device)
        return Ragged(flat, torch.from_numpy(starts).to(device), torch.from_numpy(lengths).to(device))

    def padded(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Return some rows, padded to a multiple of eight, and a mask."""
        lengths = self.lengths[rows]
        width = int(lengths.max())
        places = torch.arange(width + -width % 8, device=rows.device)
        mask = places < lengths[:, None]
        index = (self.starts[rows][:, None] + places).clamp_max(len(self.flat) - 1)
        values = self.flat[index]
        return values * (mask if values.ndim == 2 else mask[..., None]), mask


@dataclass
class Bank:
    """Documents and questions by their numbers among all texts."""

    name: str
    split: str
    language: str
    documents: np.ndarray
    questions: np.ndarray
    evidence: list[list[int]]
    outdated: list[list[int]]
    turns: list[list[list[int]]]
    kinds: list[str]
    words: np.ndarray
    tokens: np.ndarray
    place: np.ndarray | None
    foreign: int = 0
    """From this question on, they are English about documents in another language."""
    labelled: bool = False


@dataclass
class Corpus:
    """All texts."""

    device: str
    banks: list[Bank] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    english: list[str | None] = field(default_factory=list)
    """What the teacher reads for a text: itself, its translation, or nothing."""
    asks: list[bool] = field(default_factory=list)
    labels: dict[int, dict] = field(default_factory=dict)
    groups: dict[str, list[int]] = field(default_factory=dict)
    ids: Ragged = field(init=False)
    tags: Ragged = field(init=False)
    noise: Tensor = field(init=False)
    lengths: np.ndarray = field(init=False)
    asking: Tensor = field(init=False)
    content: Tensor = field(init=False)
    """By piece: False for punctuation and markers."""

    def add(self, text: str, english: str | None, *, asks: bool) -> int:
        """Add a text and return its number."""
        self.texts.append(text)
        self.english.append(english)
        self.asks.append(asks)
        return len(self.texts) - 1


def load(pack: Path, tokens: Path, device: str, *, most: int = 10**6) -> Corpus:
    """Read the pack, or the first banks of each split, and tokenize it."""
    with lzma.open(pack, "rb") as file:
        raw = pickle.load(file)["banks"]
    corpus = Corpus(device)
    seen: Counter[str] = Counter()
    for bank in raw:
        if seen[bank["split"]] < most:
            _add(corpus, bank)
        seen[bank["split"]] += 1
    chance = random.Random(3)
    trained = [n for b in corpus.banks if not b.split.startswith(("valid", "locomo")) for n in b.documents.tolist()]
    for number in chance.sample(trained, min(PSEUDO, len(trained))):
        if (text := corpus.english[number]) == corpus.texts[number]:
            words = text.partition(": ")[2].split() or text.split()
            start, count = chance.randrange(max(1, len(words) - 6)), chance.randint(4, 20)
            part = " ".join(words[start : start + count])
            corpus.add(part, part, asks=True)
    tokenizer = sentencepiece.SentencePieceProcessor(model_file=str(tokens))
    corpus.ids = Ragged.of([_ids(row) for row in tokenizer.encode(corpus.texts, num_threads=16)], device)
    pieces = [tokenizer.id_to_piece(n) for n in range(len(tokenizer))]
    corpus.content = torch.tensor([any(map(str.isalnum, piece)) and n > END for n, piece in enumerate(pieces)]).to(
        device
    )
    corpus.lengths = corpus.ids.lengths.cpu().numpy()
    corpus.asking = torch.tensor(corpus.asks).to(device)
    _label(corpus)
    return corpus


def _ids(row: Sequence[int]) -> np.ndarray:
    return np.array([START, *row[: MOST - 2], END], np.int64)


def _add(corpus: Corpus, raw: dict) -> None:
    language = raw.get("language", "en")
    english = raw.get("english") or [None] * len(raw["documents"])
    documents = []
    for number, (text, translated) in enumerate(zip(raw["documents"], english, strict=True)):
        own = text if language == "en" else translated
        documents.append(corpus.add(text, own, asks=False))
        if "labels" in raw:
            corpus.labels[documents[-1]] = raw["labels"][number]
    asked = list(raw["questions"])
    others = raw.get("english_questions") or [None] * len(asked)
    questions = [
        corpus.add(text, text if language == "en" else other, asks=True)
        for text, other in zip(asked, others, strict=True)
    ]
    count = len(questions)
    rows = {name: list(raw[name]) for name in ("evidence", "turns", "kinds")}
    rows["outdated"] = list(raw.get("outdated") or [[] for _ in asked])
    words = np.asarray(raw["words"], np.float32)
    if language != "en" and others and all(others):
        questions += [corpus.add(other, other, asks=True) for other in others]
        rows = {name: values * 2 for name, values in rows.items()}
        words = np.concatenate([words, np.asarray(raw["english_words"], np.float32)])
    corpus.banks.append(
        Bank(
            name=raw["name"], split=raw["split"], language=language, documents=np.array(documents),
            questions=np.array(questions), words=words, tokens=np.array(raw["tokens"]), place=raw.get("place"),
            foreign=count, labelled="labels" in raw, **rows,
        )
    )  # fmt: skip


def _label(corpus: Corpus) -> None:
    """Add labels of the tokens of annotated documents: 1, 0, or -1 where nothing is known."""
    tags = np.full((len(corpus.ids.flat), TAGS), -1, np.int8)
    noise = np.full(len(corpus.texts), -1, np.float32)
    starts = corpus.ids.starts.cpu().numpy()
    for number, label in corpus.labels.items():
        noise[number] = label["noise"]
        found = label["tags"][: MOST - 2]
        tags[starts[number] + 1 : starts[number] + 1 + len(found)] = found
    corpus.tags = Ragged(torch.from_numpy(tags).to(corpus.device), corpus.ids.starts, corpus.ids.lengths)
    corpus.noise = torch.from_numpy(noise).to(corpus.device)


@dataclass
class Taught:
    """The teacher's vectors of texts, by the number of the text; `row` is -1 where it has none."""

    row: Tensor
    pooled: Tensor
    tokens: Ragged
    weights: Ragged
    """Of a query's tokens their share of attention; of a document's 1, or 0 for punctuation."""


@torch.no_grad()
def taught(corpus: Corpus, teacher: Teacher, vocabulary: Path) -> Taught:
    """Encode all texts that the teacher can read."""
    tokenizer = BertWordPieceTokenizer(str(vocabulary), lowercase=True)
    names = vocabulary.read_text("utf-8").removesuffix("\n").split("\n")
    content = torch.tensor([any(map(str.isalnum, name)) and name != "[SEP]" for name in names]).to(corpus.device)
    known = [n for n, text in enumerate(corpus.english) if text]
    row = torch.full((len(corpus.texts),), -1, dtype=torch.long, device=corpus.device)
    row[torch.tensor(known, device=corpus.device)] = torch.arange(len(known), device=corpus.device)
    given = [(PREFIX if corpus.asks[n] else "") + corpus.english[n] for n in known]
    rows = [np.array(each.ids if len(each.ids) <= MOST else [*each.ids[: MOST - 1], each.ids[-1]], np.int64)
            for each in tokenizer.encode_batch(given)]  # fmt: skip
    ids = Ragged.of(rows, corpus.device)
    asks = torch.tensor([corpus.asks[n] for n in known], device=corpus.device)
    pooled = torch.zeros((len(known), 384), dtype=torch.float16, device=corpus.device)
    tokens = torch.zeros((len(ids.flat), 48), dtype=torch.float16, device=corpus.device)
    weights = torch.zeros(len(ids.flat), dtype=torch.float16, device=corpus.device)
    order = ids.lengths.argsort()
    for group in order.split(512):
        some, mask = ids.padded(group)
        with torch.autocast("cuda", torch.bfloat16, enabled=corpus.device == "cuda"):
            vectors, short, attention = teacher(some, mask)
        pooled[group] = vectors.half()
        places = (ids.starts[group][:, None] + torch.arange(mask.shape[1], device=mask.device))[mask]
        tokens[places] = short[mask].half()
        share = attention.masked_fill(~mask, -1e4).softmax(-1)
        weights[places] = torch.where(asks[group][:, None], share, content[some].float())[mask].half()
    return Taught(row, pooled, Ragged(tokens, ids.starts, ids.lengths), Ragged(weights, ids.starts, ids.lengths))
