"""Converts banks to numbers, so that the training machine needs torch and NumPy but not vmemo.

python training/pack.py DATA OUT.pkl.xz
"""

from __future__ import annotations

import lzma
import pickle
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import corpus
import numpy as np

from vmemo.embedding.token_counter import count_tokens
from vmemo.embedding.wordpiece import WordPiece
from vmemo.stores.sqlite.index.postings import Postings, hashed, keys_of
from vmemo.text.tokens import terms
from vmemo_models import ENCODER

OWN_TOKENS = 384
CONTEXT_CHARACTERS = 240


def banks(data: Path) -> Iterator[corpus.MemoryBank]:
    """Yield all banks, source by source."""
    yield from corpus.conversations()
    yield from corpus.earlier_conversations(data)
    yield from corpus.sessions(data)
    yield from corpus.sentences(data)
    yield from corpus.locomo(data)
    yield from corpus.extractions(data)


def packed(bank: corpus.MemoryBank, tokenizer: WordPiece) -> dict[str, object]:
    """Return a bank as ids and numbers."""
    place = {made.id: index for index, made in enumerate(bank.documents)}
    return {
        "name": bank.name,
        "split": bank.split,
        "documents": [_ids(tokenizer, made.text, OWN_TOKENS) for made in bank.documents],
        "contexts": [_ids(tokenizer, made.context[-CONTEXT_CHARACTERS:], 96)[1:] for made in bank.documents],
        "tokens": [count_tokens(made.words) for made in bank.documents],
        "questions": [_ids(tokenizer, ENCODER.query_prefix + q.text, 128) for q in bank.questions],
        "evidence": [sorted(place[id] for id in q.evidence) for q in bank.questions],
        "turns": [
            [sorted(place[id] for id in ids) for ids in (q.turns or [{id} for id in q.evidence])]
            for q in bank.questions
        ],
        "kinds": [q.kind for q in bank.questions],
        "words": _word_scores(bank),
    }


def _ids(tokenizer: WordPiece, text: str, most: int) -> np.ndarray:
    ids = tokenizer.encode(text) if text else []
    return np.array([*ids[: most - 1], ids[-1]] if len(ids) > most else ids, np.uint16)


def _word_scores(bank: corpus.MemoryBank) -> np.ndarray:
    """Return each question's BM25 scores as in keyword search, divided by the best."""
    texts = [[*terms(made.words) * 2, *terms(made.context)] for made in bank.documents]
    postings = Postings.empty().extended(keys_of([hashed(text) for text in texts]), len(texts))
    rows = [postings.scores(terms(q.text)) for q in bank.questions]
    scores = np.stack([row[: len(texts)] for row in rows]) if rows else np.zeros((0, len(texts)))
    return (scores / np.maximum(scores.max(axis=1, keepdims=True), 1e-9)).astype(np.float16)


def dropped_ids(vocabulary: Sequence[str]) -> list[int]:
    """Return the tokens without a vector: punctuation and the end marker."""
    return [n for n, token in enumerate(vocabulary) if not any(map(str.isalnum, token)) or token == "[SEP]"]


def main() -> None:
    """Write the pack."""
    data, out = Path(sys.argv[1]), Path(sys.argv[2])
    vocabulary = ENCODER.read("vocab.txt").decode("utf-8").removesuffix("\n").split("\n")
    tokenizer = WordPiece(vocabulary, max_tokens=512)
    rows = [packed(bank, tokenizer) for bank in banks(data)]
    with lzma.open(out, "wb", preset=1) as file:
        pickle.dump({"banks": rows, "dropped": dropped_ids(vocabulary)}, file)
    for split in dict.fromkeys(row["split"] for row in rows):
        chosen = [row for row in rows if row["split"] == split]
        documents = sum(len(row["documents"]) for row in chosen)
        print(
            split, f"{len(chosen)} banks, {documents} documents, {sum(len(r['questions']) for r in chosen)} questions"
        )


if __name__ == "__main__":
    main()
