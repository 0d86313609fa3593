"""Values as every store keeps them, and the rules that all stores apply to what they are given."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence, Set as AbstractSet
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import accumulate, pairwise
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray
from pydantic import JsonValue

from vmemo.errors import EmbedderMismatch, InvalidInput, NotFound, SchemaTooNew, StoreError
from vmemo.models import Claim, Message, MessageState
from vmemo.models.search import Encoding, StoredTokens, TokenVectors

UNPROCESSED: tuple[MessageState, ...] = ("pending", "grouped")
"""States of messages that wait to be processed."""
WORDLESS: tuple[MessageState, ...] = ("derived", "curated")
"""States of messages that are not in the word index."""
MOST_ERROR = 2000
"""Characters of an error that are kept."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def micros(time: datetime) -> int:
    """Return an aware datetime as whole microseconds since 1970."""
    return (time - _EPOCH) // _MICROSECOND


def micros_or_none(time: datetime | None) -> int | None:
    return None if time is None else micros(time)


@lru_cache(maxsize=16_384)
def instant(value: int) -> datetime:
    """Return stored microseconds as an aware UTC datetime; raise ValueError for a number that no datetime has."""
    try:
        return _EPOCH + timedelta(microseconds=value)
    except OverflowError as error:
        raise ValueError(f"no datetime is {value} microseconds from 1970") from error


def dump(value: Sequence[JsonValue | Claim] | Mapping[str, JsonValue]) -> str:
    """Tags, aliases, metadata or claims as stable JSON."""
    if not value:
        return "{}" if isinstance(value, Mapping) else "[]"
    plain = dict(value) if isinstance(value, Mapping) else list(value)
    return json.dumps(plain, ensure_ascii=False, sort_keys=True, separators=(",", ":"), default=_claim_fields)


def _claim_fields(claim: Claim) -> dict[str, JsonValue]:
    return claim.model_dump(mode="json")


def claims_of(text: str) -> tuple[Claim, ...]:
    if text == "[]":
        return ()
    claims: list[dict[str, Any]] = json.loads(text)
    for claim in claims:
        for name in ("valid_at", "invalid_at"):
            claim[name] = claim[name] and datetime.fromisoformat(claim[name])
    return tuple(map(Claim.trusted, claims))


def names_of(text: str) -> tuple[str, ...]:
    return () if text == "[]" else tuple(json.loads(text))


class _NoMetadata(dict[str, JsonValue]):
    """Metadata of a record that has none: results share the record, so it refuses to be changed."""

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        raise TypeError("The metadata of a record can't be changed in place. Retain or edit the record instead.")

    __setitem__ = __ior__ = setdefault = update = _refuse  # pyright: ignore[reportAssignmentType]


_NONE = _NoMetadata()


def metadata_of(text: str) -> dict[str, JsonValue]:
    return _NONE if text == "{}" else json.loads(text)


def storable(text: str) -> bool:
    """Return True if every store can hold a text."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return "\x00" not in text


def storable_error(error: str) -> str:
    """Return the beginning of an error, without characters that a database refuses."""
    return error[:MOST_ERROR].replace("\x00", "?").encode("utf-8", "replace").decode("utf-8")


def unstored(new: Sequence[Message], known: AbstractSet[object]) -> list[Message]:
    """Return the messages to append; `known` holds stored ids, and stored pairs of document and key."""
    seen, fresh = set(known), list[Message]()
    for message in new:
        names: set[object] = {message.id}
        if message.key is not None:
            names.add((message.document, message.key))
        if not names & seen:
            fresh.append(message)
            seen |= names
    return fresh


def demand_embedder(stored: str, given: str) -> None:
    if given != stored:
        raise EmbedderMismatch(
            f"The bank's vectors are of embedder {stored!r}, not {given!r}. Nothing was changed. "
            "Run `vmemo reembed` to switch the bank, or pass the embedder it was written with."
        )


def demand_vectors(encodings: Iterable[Encoding], dimension: int) -> None:
    """Raise InvalidInput for vectors that no search of the bank could compare."""
    for encoding in encodings:
        vector, tokens = encoding.vector, encoding.tokens
        if vector.shape != (dimension,) or not np.isfinite(vector).all():
            raise InvalidInput(f"A vector must be {dimension} finite numbers. Nothing was written.")
        if tokens is not None and (tokens.ndim != 2 or not np.isfinite(tokens).all()):
            raise InvalidInput("Token vectors must be rows of finite numbers. Nothing was written.")


def missing_reference(what: str, id: str) -> InvalidInput:
    """Return the error of a batch that refers to a record which does not exist."""
    return InvalidInput(f"There is no {what} {id!r} in this bank to refer to. Nothing was written.")


def refuse_newer_schema(version: str | None, head: str) -> None:
    """Raise `SchemaTooNew` for a database from the future."""
    if version is not None and version > head:
        raise SchemaTooNew(
            f"The database has schema {version}, this vmemo knows up to {head}. "
            "Nothing was touched. Upgrade vmemo to open it."
        )


def refuse_other_schema(version: str | None, head: str) -> None:
    """Raise `NotFound` for a database without memories, and `StoreError` for one of another release."""
    refuse_newer_schema(version, head)
    if version is None:
        raise NotFound("There are no memories in this database. Nothing was made; correct its URL.")
    if version != head:
        raise StoreError(
            f"The database has schema {version} of an earlier release, and would have to be upgraded to {head}. "
            "Nothing was touched. Open it once with this release to upgrade it, for example with `vmemo doctor`."
        )


@lru_cache(maxsize=65_536)
def term_hash(term: str) -> int:
    """Return the 32-bit hash of a term, the same on every machine."""
    return int.from_bytes(hashlib.blake2b(term.encode("utf-8"), digest_size=4).digest(), "little")


MAGNITUDES = np.array([0.1, 0.31, 0.56, 0.9], np.float32)
_BOUNDS = (MAGNITUDES[1:] + MAGNITUDES[:-1]) / 2
_VALUES = np.rint(100 * np.concatenate([MAGNITUDES, -MAGNITUDES])).astype(np.int8)
"""The component of each code, in hundredths."""
_FOUR = np.array([0, 3, 6, 9], np.uint16)
"""The bits by which the codes of four components are shifted."""
_DECODED = _VALUES[(np.arange(1 << 12, dtype=np.uint16)[:, None] >> _FOUR) & np.uint16(7)]
"""The four components of each twelve bits."""


def encode_tokens(texts: Sequence[TokenVectors]) -> list[bytes]:
    """Return the token vectors of each text as stored: three bytes for each eight components of a row, filled up."""
    if len({tokens.shape[1] for tokens in texts}) > 1:
        return [packed for tokens in texts for packed in encode_tokens([tokens])]
    if not texts:
        return []
    packed, size = _encoded(np.concatenate(texts)), 3 * -(-texts[0].shape[1] // 8)
    ends = (np.cumsum([len(tokens) for tokens in texts]) * size).tolist()
    return [packed[start:end] for start, end in zip([0, *ends], ends, strict=False)]


def _encoded(tokens: TokenVectors) -> bytes:
    sizes = np.abs(tokens)
    peaks = np.maximum(sizes.max(axis=1, keepdims=True, initial=0), 1e-12)
    sizes /= peaks
    codes = np.zeros((len(tokens), tokens.shape[1] + -tokens.shape[1] % 8), np.uint8)
    codes[:, : tokens.shape[1]] = _magnitudes(sizes) | ((tokens < 0).view(np.uint8) << 2)
    # The bits that a byte has no space for are shifted out of it, and are in the next.
    a, b, c, d, e, f, g, h = np.ascontiguousarray(codes.reshape(-1, 8).T)
    packed = np.empty((len(a), 3), np.uint8)
    packed[:, 0] = a | (b << 3) | (c << 6)
    packed[:, 1] = (c >> 2) | (d << 1) | (e << 4) | (f << 7)
    packed[:, 2] = (f >> 1) | (g << 2) | (h << 5)
    return packed.tobytes()


def _magnitudes(relative: NDArray[np.float32]) -> NDArray[np.uint8]:
    found = np.zeros(relative.shape, np.uint8)
    for bound in _BOUNDS:
        found += relative >= bound
    return found


def decode_tokens(stored: Sequence[tuple[int, bytes] | None]) -> Sequence[StoredTokens | None]:
    """Return the token vectors of texts in order, from their width and packed vectors; None for a text without."""
    widths = {item[0] for item in stored if item is not None}
    if len(widths) != 1:
        return [None if item is None else decode_tokens([item])[0] for item in stored]
    [width] = widths
    size = 3 * -(-width // 8)
    rows = _decoded(b"".join([item[1] for item in stored if item is not None]), width)
    scales = (1.0 / np.sqrt(np.einsum("ij,ij->i", rows, rows, dtype=np.float32, casting="unsafe"))).astype(np.float32)
    spans = pairwise(accumulate([0 if item is None else len(item[1]) // size for item in stored], initial=0))
    # Copies, because a part would keep all of them in memory.
    parts = [StoredTokens(rows[start:end].copy(), scales[start:end].copy()) for start, end in spans]
    return [None if item is None else part for item, part in zip(stored, parts, strict=True)]


def _decoded(packed: bytes, width: int) -> NDArray[np.int8]:
    first, middle, last = np.frombuffer(packed, np.uint8).reshape(-1, 3).T.astype(np.uint16)
    # Numbers of the type that `take` works with, which it would convert others to.
    twelve = np.empty((len(first), 2), np.intp)
    twelve[:, 0] = first | ((middle & 15) << 8)
    twelve[:, 1] = (middle >> 4) | (last << 4)
    return np.take(_DECODED, twelve, axis=0).reshape(-1, width + -width % 8)[:, :width]
