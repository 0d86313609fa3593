"""The records that every importer returns, and the errors of a file that does not fit its format."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, TypeVar
from uuid import UUID, uuid5

from pydantic import BaseModel, ConfigDict, ValidationError

from vmemo.errors import InvalidInput
from vmemo.models.base import in_words
from vmemo.models.requests import NewMessage
from vmemo.models.results import Skipped

ForeignFormat = Literal["mem0", "zep", "hindsight", "chatgpt", "claude", "chat"]
NOTHING_IMPORTED = "Nothing was imported."
_IDS = UUID("6f1b9f0e-3c58-5d0b-9a54-2f0a7c1d8e43")
"""The namespace of the ids of imported messages."""


class ForeignModel(BaseModel):
    """A part of a foreign file; fields that are not needed are ignored."""

    model_config = ConfigDict(extra="ignore", allow_inf_nan=False, frozen=True, defer_build=True)


M = TypeVar("M", bound=ForeignModel)


@dataclass(frozen=True)
class Place:
    """A place in a file, such as conversations[3].mapping, for the errors of what is found there."""

    file: str
    path: str = ""

    def __truediv__(self, name: str) -> Place:
        return Place(self.file, f"{self.path}.{name}" if self.path else name)

    def __getitem__(self, number: int) -> Place:
        return Place(self.file, f"{self.path}[{number}]")

    def at(self, location: Sequence[int | str]) -> Place:
        """Return the place of a part, by the names and numbers that lead to it."""
        place = self
        for part in location:
            place = place[part] if isinstance(part, int) else place / part
        return place

    def error(self, problem: str) -> InvalidInput:
        """Return the error of a problem at this place."""
        return InvalidInput(f"{self.file}: {f'{self.path}: ' if self.path else ''}{problem}. {NOTHING_IMPORTED}")

    def parse(self, kind: type[M], value: object) -> M:
        """Return a part of the file as a model; raise InvalidInput that names the first field that does not fit."""
        try:
            return kind.model_validate(value)
        except ValidationError as error:
            first = error.errors()[0]
            raise self.at(first["loc"]).error(in_words(first["type"], first["msg"])) from error

    def message(self, values: Mapping[str, object]) -> NewMessage:
        """Return a message to store; raise InvalidInput if one of its values can't be stored."""
        try:
            return NewMessage.of(values)
        except InvalidInput as error:
            raise self.error(str(error).rstrip(".")) from error


@dataclass(frozen=True, kw_only=True)
class StatedFact:
    """A fact that another product derived. Its text is the message's, and is stored as it is."""

    message: NewMessage
    network: Literal["world", "experience"] = "world"
    names: tuple[str, ...] = ()
    """Names of entities that the product found in it."""
    occurred: tuple[datetime, datetime] | None = None
    valid_at: datetime | None = None
    invalid_at: datetime | None = None
    expired_at: datetime | None = None
    expires_at: datetime | None = None
    """The time after which it is not recalled any more."""


@dataclass(frozen=True, kw_only=True)
class ForeignRecords:
    """The content of a foreign export, in the order of time.

    Facts are derived from `messages`; those that are `verbatim` are kept for recall by their words, because the file
    has the facts that another product derived from them.
    """

    messages: Sequence[NewMessage] = ()
    verbatim: Sequence[NewMessage] = ()
    facts: Sequence[StatedFact] = ()
    skipped: Sequence[Skipped] = ()


def derived_id(format: ForeignFormat, *parts: object) -> str:
    """Return the id of a record, which is the same whenever it is imported."""
    return str(uuid5(_IDS, "\n".join(map(str, (format, *parts)))))


def without_none(values: Mapping[str, object]) -> dict[str, object]:
    """Return the values that are there."""
    return {name: value for name, value in values.items() if value not in (None, "", [], {})}
