"""Model files that ship with vmemo, read only after their hashes are checked; needs nothing but Python."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

__all__ = ["ENCODER", "REVISION", "EmbeddingModel", "ModelFileError", "ModelFiles", "RevisionFiles"]


class ModelFileError(Exception):
    """A model file is missing, unreadable or not the one that was released. Nothing of it was handed out."""


@dataclass(frozen=True, kw_only=True)
class ModelFiles:
    """A model's name and its files with their SHA-256."""

    name: str
    folder: Path
    files: Mapping[str, str] = field(repr=False)

    def read(self, file: str) -> bytes:
        """A file's bytes, of which the hash was just checked; else `ModelFileError`."""
        path = self.folder / file
        try:
            content = path.read_bytes()
        except OSError as error:
            raise ModelFileError(f"{path} can't be read: {error.strerror or error}") from error
        found = hashlib.sha256(content).hexdigest()
        if found != self.files[file]:
            raise ModelFileError(f"{path} has SHA-256 {found}, but {self.files[file]} was released")
        return content


@dataclass(frozen=True, kw_only=True)
class EmbeddingModel(ModelFiles):
    """A text embedding model and what a caller must know to run it."""

    dimension: int
    max_tokens: int
    query_prefix: str


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

REVISION = RevisionFiles(
    name="vmemo-revision-1",
    encoder=ENCODER.name,
    folder=Path(__file__).parent / "revision",
    files=MappingProxyType({"weights.json": "66812539a86c2cef75765c3e118786dbf1a4837ba366b147ad3a2c19a14c07a6"}),
)
"""A logistic regression that estimates if a later statement makes an earlier one outdated."""
