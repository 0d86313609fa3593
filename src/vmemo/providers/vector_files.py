"""Vectors computed elsewhere: texts go out, vectors come back, as JSON Lines (format: `docs/embeddings.md`)."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Literal, Protocol, TypeVar

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from vmemo.errors import InvalidInput
from vmemo.ports import TextKind, Vector
from vmemo.providers.caching import EmbeddingCache, cache_key

_LINES_AT_ONCE = 1000


class Space(Protocol):
    """A vector space and how its queries are written; `PackagedEmbedder` and `EmbeddingModel` are such."""

    @property
    def name(self) -> str: ...
    @property
    def dimension(self) -> int: ...
    @property
    def query_prefix(self) -> str: ...


class _Header(BaseModel):
    model_config = ConfigDict(frozen=True, strict=True)

    format: Literal["vmemo-vectors"]
    version: Literal[1]
    embedder: str = Field(min_length=1)
    dimension: int = Field(ge=1)


class _Line(BaseModel):
    model_config = ConfigDict(frozen=True, strict=True)

    key: str = Field(pattern="^[0-9a-f]{32}$")
    vector: str


_Shape = TypeVar("_Shape", _Header, _Line)


def export_missing(cache: EmbeddingCache, space: Space, texts: Iterable[str], kind: TextKind, file: str | Path) -> int:
    """Write the texts whose vectors are not cached, each once; the number of texts written."""
    by_key = {cache_key(space.name, kind, text): text for text in texts}
    known = cache.get_many(list(by_key))
    missing = {key: text for key, text in by_key.items() if key not in known}
    with Path(file).open("w", encoding="utf-8") as lines:
        print(json.dumps(_text_header(space)), file=lines)
        for key, text in missing.items():
            print(json.dumps({"key": key.hex(), "kind": kind, "text": text}), file=lines)
    return len(missing)


def import_vectors(cache: EmbeddingCache, file: str | Path, *, space: Space | None = None) -> int:
    """Put a file's vectors into the cache; the number of vectors. A file with a bad line changes nothing.

    With `space` given, a file made for another embedder or dimension is refused.
    """
    path = Path(file)
    for _ in _read(path, space):
        pass
    count = 0
    batch: dict[bytes, Vector] = {}
    for key, vector in _read(path, space):
        batch[key] = vector
        count += 1
        if len(batch) == _LINES_AT_ONCE:
            cache.put_many(batch)
            batch.clear()
    cache.put_many(batch)
    return count


def _text_header(space: Space) -> dict[str, str | int]:
    return {
        "format": "vmemo-texts",
        "version": 1,
        "embedder": space.name,
        "dimension": space.dimension,
        "query_prefix": space.query_prefix,
    }


def _read(path: Path, space: Space | None) -> Iterator[tuple[bytes, Vector]]:
    try:
        with path.open("rb") as lines:
            header = _parse(_Header, lines.readline(), f"{path}, line 1")
            _check_space(header, space, f"{path}, line 1")
            for number, line in enumerate(lines, start=2):
                where = f"{path}, line {number}"
                entry = _parse(_Line, line, where)
                yield bytes.fromhex(entry.key), _vector(entry.vector, header.dimension, where)
    except OSError as error:
        raise InvalidInput(f"{path} can't be read: {error.strerror or error}") from error


def _parse(shape: type[_Shape], line: bytes, where: str) -> _Shape:
    try:
        return shape.model_validate_json(line)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(map(str, first["loc"]))
        raise InvalidInput(f"{where}: {field + ': ' if field else ''}{first['msg']}") from error


def _check_space(header: _Header, space: Space | None, where: str) -> None:
    if space is None:
        return
    if header.embedder != space.name:
        raise InvalidInput(f"{where}: made for the embedder {header.embedder!r}, not for {space.name!r}")
    if header.dimension != space.dimension:
        raise InvalidInput(f"{where}: dimension {header.dimension}, but {space.name!r} has {space.dimension}")


def _vector(encoded: str, dimension: int, where: str) -> Vector:
    try:
        packed = base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError) as error:
        raise InvalidInput(f"{where}: vector: not base64") from error
    if len(packed) != 2 * dimension:
        raise InvalidInput(f"{where}: vector: {len(packed)} bytes, but {dimension} float16 take {2 * dimension}")
    numbers = np.frombuffer(packed, dtype="<f2").astype(np.float32)
    if not np.isfinite(numbers).all():
        raise InvalidInput(f"{where}: vector: holds numbers that are not finite")
    if not numbers.any():
        raise InvalidInput(f"{where}: vector: all zeros, which has no direction")
    return (numbers / np.linalg.norm(numbers)).astype(np.float32)
