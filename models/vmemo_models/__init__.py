"""Model files that ship with vmemo, read only after their hashes are checked; needs nothing but Python."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType

__all__ = [
    "ANSWERABLE",
    "DEEP",
    "ENCODER",
    "REVISION",
    "EmbeddingModel",
    "ModelFileError",
    "ModelFiles",
    "RevisionFiles",
]


class ModelFileError(Exception):
    """A model file is missing, unreadable or not the one that was released. Nothing of it was handed out."""


@dataclass(frozen=True, kw_only=True)
class ModelFiles:
    """A model's name and its files with their SHA-256."""

    name: str
    folder: Path
    files: Mapping[str, str] = field(repr=False)

    def read(self, file: str) -> bytes:
        """Return a file's bytes after checking their hash, or raise ModelFileError."""
        path = self.folder / file
        try:
            content = path.read_bytes()
        except OSError as error:
            raise _unreadable(path, error) from error
        _demand_released(path, hashlib.sha256(content).hexdigest(), self.files[file])
        return content

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
    network: str
    """The ONNX file."""


@dataclass(frozen=True, kw_only=True)
class RevisionFiles(ModelFiles):
    """A model that compares two statements by features, one of which is the cosine by an encoder."""

    encoder: str
    """The name of the encoder whose cosines it takes."""


_SHARED_FILES = {
    "tokens.npz": "ca2ff3990a15b72450000bce99068dd30710fb443249dad01b3abf3505d7b20d",
    "tokens.spm": "985956a10b46ff3db3563c167d79d4ed8154ef4c3017ca50b6672bd04aeb3df7",
    "words.npy": "75ef584f4627f82d9a8d571d2c0fe6801b152b1944a3a9bbcbb455879ed279de",
}
"""The tokenizer, and the vector of each token."""

ENCODER = EmbeddingModel(
    name="vmemo-encoder-2.1",
    dimension=384,
    max_tokens=512,
    network="encoder.onnx",
    folder=Path(__file__).parent / "encoder",
    files=MappingProxyType(
        {"encoder.onnx": "c7ae006dcb0098cc6a4cf6c3124ea6212a4832f2801901e01728bd6b82ef3311", **_SHARED_FILES}
    ),
)
"""vmemo's own memory encoder, int8, 6 layers: a pooled vector to search by, token vectors, and a reader of messages."""

DEEP = replace(
    ENCODER,
    name="vmemo-encoder-2.1-deep",
    network="deep.onnx",
    files=MappingProxyType(
        {"deep.onnx": "828684227a31d82d673401376f021b0a183626100a7a5f01e01796f69ae6cc9e", **_SHARED_FILES}
    ),
)
"""The same with 12 layers, in a vector space of its own."""

REVISION = RevisionFiles(
    name="vmemo-revision-3",
    encoder=ENCODER.name,
    folder=Path(__file__).parent / "revision",
    files=MappingProxyType({"weights.json": "d15e78596a9c6ff0594f13c24c30f006ae85ca8880b0c9a4fb16d0b6ac6fb2cb"}),
)
"""Logistic regressions that estimate if a later statement makes an earlier one outdated, and which claims of it."""

ANSWERABLE = RevisionFiles(
    name="vmemo-answerable-1",
    encoder=ENCODER.name,
    folder=Path(__file__).parent / "answerable",
    files=MappingProxyType({"weights.npz": "89d6d7df208a080ab792ecb151b8cc65a55b7664420e8a589ddb2b44df66ad1c"}),
)
"""Linear models that estimate if a question asks for advice, and if the facts that a recall found hold its answer."""
