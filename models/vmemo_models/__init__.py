"""Model files that ship with vmemo, read only after their hashes are checked; needs nothing but Python."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType

__all__ = [
    "ENCODER",
    "LANGUAGES",
    "REVISION",
    "SMALL_ENCODER",
    "EmbeddingModel",
    "FilePart",
    "ModelFileError",
    "ModelFiles",
    "RevisionFiles",
]


class ModelFileError(Exception):
    """A model file is missing, unreadable or not the one that was released. Nothing of it was handed out."""


@dataclass(frozen=True)
class FilePart:
    """Bytes inside a file, with their SHA-256."""

    file: str
    start: int
    end: int
    sha256: str = field(repr=False)


@dataclass(frozen=True, kw_only=True)
class ModelFiles:
    """A model's name and its files with their SHA-256."""

    name: str
    folder: Path
    files: Mapping[str, str] = field(repr=False)

    def read(self, file: str) -> bytes:
        """Return a file's bytes after checking their hash, or raise ModelFileError."""
        return self._checked(file, self.files[file], slice(None))

    def read_part(self, part: FilePart) -> bytes:
        """Return the bytes of a part after checking their hash, or raise ModelFileError."""
        return self._checked(part.file, part.sha256, slice(part.start, part.end))

    def checked(self, file: str) -> Path:
        """Return a file's path after checking its hash, without holding its content; or raise ModelFileError."""
        path = self.folder / file
        try:
            with path.open("rb") as opened:
                found = hashlib.file_digest(opened, "sha256").hexdigest()
        except OSError as error:
            raise _unreadable(path, error) from error
        _demand_released(path, found, self.files[file])
        return path

    def _checked(self, file: str, released: str, part: slice) -> bytes:
        path = self.folder / file
        try:
            with path.open("rb") as opened:
                opened.seek(part.start or 0)
                content = opened.read() if part.stop is None else opened.read(part.stop - part.start)
        except OSError as error:
            raise _unreadable(path, error) from error
        _demand_released(path, hashlib.sha256(content).hexdigest(), released)
        return content


def _unreadable(path: Path, error: OSError) -> ModelFileError:
    return ModelFileError(f"{path} can't be read: {error.strerror or error}")


def _demand_released(path: Path, found: str, released: str) -> None:
    if found != released:
        raise ModelFileError(f"{path} has SHA-256 {found}, but {released} was released")


@dataclass(frozen=True, kw_only=True)
class EmbeddingModel(ModelFiles):
    """A text embedding model and what a caller must know to run it."""

    dimension: int
    max_tokens: int
    query_prefix: str
    network: str = "model.onnx"
    """The ONNX file."""
    words: FilePart | None = None
    """The table of words that completes the ONNX file, if it lacks one."""

    def open_network(self) -> Path | bytes:
        """Return the complete ONNX model, as a file if it is in one; or raise ModelFileError."""
        if self.words is None:
            return self.checked(self.network)
        return self.read(self.network) + self.read_part(self.words)


@dataclass(frozen=True, kw_only=True)
class RevisionFiles(ModelFiles):
    """A model that compares two statements by features, one of which is the cosine by an encoder."""

    encoder: str
    """The name of the encoder whose cosines it takes."""


ENCODER = EmbeddingModel(
    name="vmemo-encoder-1",
    dimension=384,
    max_tokens=512,
    query_prefix="Represent this sentence for searching relevant passages: ",
    folder=Path(__file__).parent / "memory_encoder",
    files=MappingProxyType(
        {
            "model.onnx": "3e9e474e014a183fb3015a85c25ea65dd1d1f6623623119deb90887ac650174d",
            "vocab.txt": "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3",
        }
    ),
)
"""vmemo's own memory encoder, int8: a pooled vector to search by and a vector per token to rerank by, in one pass."""

SMALL_ENCODER = replace(
    ENCODER,
    name="vmemo-encoder-1-small",
    network="small.onnx",
    words=FilePart("model.onnx", 566668, 12287180, "d49c04c89e125f91057af7e045c6c3b47c2290f4865435252c567fcf2df49099"),
    files=MappingProxyType(
        {
            "small.onnx": "67f8f9a21c668debad5c35fc3b6b06b336a63e6a874a8f9c956b8aebd3300b77",
            "vocab.txt": ENCODER.files["vocab.txt"],
        }
    ),
)
"""An encoder with half the layers, distilled from `ENCODER` into its vector space, and with its table of words."""

REVISION = RevisionFiles(
    name="vmemo-revision-1",
    encoder=ENCODER.name,
    folder=Path(__file__).parent / "revision",
    files=MappingProxyType({"weights.json": "66812539a86c2cef75765c3e118786dbf1a4837ba366b147ad3a2c19a14c07a6"}),
)
"""A logistic regression that estimates if a later statement makes an earlier one outdated."""

LANGUAGES = ModelFiles(
    name="vmemo-languages-1",
    folder=Path(__file__).parent / "language",
    files=MappingProxyType({"ngrams.npz": "26522237246c3da4419fdc81cbb03a63b99952244136c6d7d5ba5827868c3f70"}),
)
"""Weights of n-grams in 38 languages in Latin script, in numpy's format."""
