"""Values as every store keeps them, and the rules that all stores apply to what they are given."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence, Set as AbstractSet
from datetime import UTC, datetime, timedelta
from functools import lru_cache

import numpy as np
from pydantic import JsonValue

from vmemo.errors import EmbedderMismatch, InvalidInput, NotFound, SchemaTooNew, StoreError
from vmemo.models import Message, MessageState
from vmemo.models.search import Encoding

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


def dump(value: Sequence[JsonValue] | Mapping[str, JsonValue]) -> str:
    """Tags, aliases or metadata as stable JSON."""
    if not value:
        return "{}" if isinstance(value, Mapping) else "[]"
    plain = dict(value) if isinstance(value, Mapping) else list(value)
    return json.dumps(plain, ensure_ascii=False, sort_keys=True, separators=(",", ":"))


def names_of(text: str) -> tuple[str, ...]:
    return () if text == "[]" else tuple(json.loads(text))


def metadata_of(text: str) -> dict[str, JsonValue]:
    return {} if text == "{}" else json.loads(text)


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
    for vector, tokens in encodings:
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
