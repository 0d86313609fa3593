"""Model files that ship with vmemo, read only after their hashes are checked; needs nothing but Python."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

__all__ = ["ARCTIC_EMBED_S_INT8", "EmbeddingModel", "ModelFileError"]


class ModelFileError(Exception):
    """A model file is missing, unreadable or not the one that was released. Nothing of it was handed out."""


@dataclass(frozen=True, kw_only=True)
class EmbeddingModel:
    """A text embedding model: what a caller must know to run it, and the files with their SHA-256."""

    name: str
    dimension: int
    max_tokens: int
    query_prefix: str
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


ARCTIC_EMBED_S_INT8 = EmbeddingModel(
    name="arctic-embed-s-int8",
    dimension=384,
    max_tokens=512,
    query_prefix="Represent this sentence for searching relevant passages: ",
    folder=Path(__file__).parent / "arctic_embed_s_int8",
    files=MappingProxyType(
        {
            "model.onnx": "f93ff225320628d2e88baf2a395cae791b0e3b27edf5c70bf7b312a4d3260c14",
            "vocab.txt": "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3",
        }
    ),
)
"""snowflake-arctic-embed-s, weights in int8: CLS pooling, unit vectors, queries take the prefix."""
