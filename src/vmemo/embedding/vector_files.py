"""Export of texts and import of their vectors as JSON Lines, to compute embeddings elsewhere.

The format is described in `docs/embeddings.md`.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal, Protocol, TypeVar

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from vmemo.embedding.cache import EmbeddingCache, cache_key, unpack_tokens
from vmemo.errors import InvalidInput
from vmemo.models.search import Encoding, TokenVectors, Vector
from vmemo.ports import TextKind

_BATCH_SIZE = 1000


class VectorSpace(Protocol):
    """A vector space and the prefix of its queries, such as `PackagedEmbedder` and `EmbeddingModel`."""

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


class _VectorLine(BaseModel):
    model_config = ConfigDict(frozen=True, strict=True)

    key: str = Field(pattern="^[0-9a-f]{32}$")
    vector: str
    token_width: int | None = Field(None, ge=1)
    tokens: str | None = None


_Shape = TypeVar("_Shape", _Header, _VectorLine)


def export_missing(
    cache: EmbeddingCache,
    space: VectorSpace,
    texts: Iterable[str],
    kind: TextKind,
    file: str | Path,
    *,
    tokens: bool = False,
) -> int:
    """Write each text whose vector is not cached, and return their number.

    With `tokens`, for an embedder with token vectors, documents without cached token vectors are written too.
    """
    wanted = tokens and kind == "document"
    by_key = {cache_key(space.name, kind, text): text for text in texts}
    known = _known(cache, list(by_key), tokens=wanted)
    missing = {key: text for key, text in by_key.items() if key not in known}
    with Path(file).open("w", encoding="utf-8") as lines:
        print(json.dumps(_text_header(space, tokens=wanted)), file=lines)
        for key, text in missing.items():
            print(json.dumps({"key": key.hex(), "kind": kind, "text": text}), file=lines)
    return len(missing)


def import_vectors(cache: EmbeddingCache, file: str | Path, *, space: VectorSpace | None = None) -> int:
    """Put a file's vectors into the cache, and return their number. A file with an invalid line changes nothing.

    With `space`, a file for another embedder or dimension raises InvalidInput.
    """
    path = Path(file)
    for _ in _read(path, space):
        pass
    count = 0
    batch: dict[bytes, Encoding] = {}
    for key, encoding in _read(path, space):
        batch[key] = encoding
        count += 1
        if len(batch) == _BATCH_SIZE:
            _put(cache, batch)
            batch.clear()
    _put(cache, batch)
    return count


def _known(cache: EmbeddingCache, keys: Sequence[bytes], *, tokens: bool) -> set[bytes]:
    """Return the completely cached keys, read in batches because all vectors may not fit in memory."""
    known: set[bytes] = set()
    for start in range(0, len(keys), _BATCH_SIZE):
        batch = keys[start : start + _BATCH_SIZE]
        found = set(cache.get_many(batch))
        known |= found & cache.get_tokens(batch).keys() if tokens else found
    return known


def _put(cache: EmbeddingCache, encodings: Mapping[bytes, Encoding]) -> None:
    cache.put_many({key: encoding.vector for key, encoding in encodings.items()})
    cache.put_tokens({key: tokens for key, (_, tokens) in encodings.items() if tokens is not None})


def _text_header(space: VectorSpace, *, tokens: bool) -> dict[str, str | int]:
    header: dict[str, str | int] = {
        "format": "vmemo-texts",
        "version": 1,
        "embedder": space.name,
        "dimension": space.dimension,
        "query_prefix": space.query_prefix,
    }
    return header | {"tokens": True} if tokens else header


def _read(path: Path, space: VectorSpace | None) -> Iterator[tuple[bytes, Encoding]]:
    try:
        with path.open("rb") as lines:
            header = _parse(_Header, lines.readline(), f"{path}, line 1")
            _check_space(header, space, f"{path}, line 1")
            for number, line in enumerate(lines, start=2):
                where = f"{path}, line {number}"
                entry = _parse(_VectorLine, line, where)
                vector = _vector(entry.vector, header.dimension, where)
                yield bytes.fromhex(entry.key), Encoding(vector, _tokens(entry, where))
    except OSError as error:
        raise InvalidInput(f"{path} can't be read: {error.strerror or error}") from error


def _parse(shape: type[_Shape], line: bytes, where: str) -> _Shape:
    try:
        return shape.model_validate_json(line)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(map(str, first["loc"]))
        raise InvalidInput(f"{where}: {field + ': ' if field else ''}{first['msg']}") from error


def _check_space(header: _Header, space: VectorSpace | None, where: str) -> None:
    if space is None:
        return
    if header.embedder != space.name:
        raise InvalidInput(f"{where}: made for the embedder {header.embedder!r}, not for {space.name!r}")
    if header.dimension != space.dimension:
        raise InvalidInput(f"{where}: dimension {header.dimension}, but {space.name!r} has {space.dimension}")


def _vector(encoded: str, dimension: int, where: str) -> Vector:
    packed = _decode_base64(encoded, f"{where}: vector")
    if len(packed) != 2 * dimension:
        raise InvalidInput(f"{where}: vector: {len(packed)} bytes, but {dimension} float16 take {2 * dimension}")
    numbers = np.frombuffer(packed, dtype="<f2").astype(np.float32)
    if not np.isfinite(numbers).all():
        raise InvalidInput(f"{where}: vector: contains numbers that are not finite")
    if not numbers.any():
        raise InvalidInput(f"{where}: vector: all zeros, which has no direction")
    return (numbers / np.linalg.norm(numbers)).astype(np.float32)


def _tokens(entry: _VectorLine, where: str) -> TokenVectors | None:
    width = entry.token_width
    if entry.tokens is None and width is None:
        return None
    if entry.tokens is None or width is None:
        raise InvalidInput(f"{where}: token_width and tokens must be given together or not at all")
    packed = _decode_base64(entry.tokens, f"{where}: tokens")
    if len(packed) % width:
        raise InvalidInput(f"{where}: tokens: {len(packed)} bytes, which is not a multiple of the row width {width}")
    rows = unpack_tokens(packed, width)
    if not rows.any(axis=1).all():
        raise InvalidInput(f"{where}: tokens: a row of zeros, which has no direction")
    return rows


def _decode_base64(encoded: str, where: str) -> bytes:
    try:
        return base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError) as error:
        raise InvalidInput(f"{where}: not base64") from error
