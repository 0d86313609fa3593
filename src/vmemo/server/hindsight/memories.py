"""Which facts a list of memories holds. Hindsight pages by offset and tells totals, so the whole bank is read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import cached_property
from typing import ClassVar, Literal

from pydantic import Field

from vmemo.models import Fact
from vmemo.models.base import Name
from vmemo.server.hindsight.schemas import Type
from vmemo.server.hindsight.serializers import context_of, moment
from vmemo.server.hindsight.tags import Match, carries
from vmemo.server.hindsight.unsupported import Page

TimeField = Literal["created_at", "updated_at", "mentioned_at", "occurred_start", "occurred_end"]


def current(fact: Fact) -> bool:
    """Whether a fact is believed now."""
    return fact.expired_at is None and fact.invalid_at is None


class Listing(Page):
    """Some facts of one state, those that are believed unless others are asked for."""

    harmless: ClassVar[Mapping[str, Sequence[object]]] = {}

    type: Type | None = None
    q: str = ""
    state: Literal["valid", "invalidated"] = "valid"
    document_id: Name | None = None
    entity_id: str | None = None
    tags: list[str] | None = Field(default=None, max_length=100)
    tags_match: Match | None = None
    time_field: TimeField | None = None
    start_date: str | None = None
    end_date: str | None = None

    @cached_property
    def _window(self) -> tuple[datetime | None, datetime | None]:
        return moment("start_date", self.start_date), moment("end_date", self.end_date)

    def lets(self, fact: Fact) -> bool:
        """Whether a fact is listed, be it of the document asked for or not."""
        return (
            current(fact) == (self.state == "valid")
            and (self.type is None or fact.network == self.type)
            and any(self.q.casefold() in text.casefold() for text in (fact.text, context_of(fact.metadata) or ""))
            and (self.entity_id is None or any(mention.id == self.entity_id for mention in fact.entities))
            and carries(fact, self.tags, self.tags_match)
            and self._within(self._moment(fact))
        )

    def place(self, fact: Fact) -> tuple[datetime, datetime, str]:
        """Where a fact stands in the list."""
        return self._moment(fact) or fact.mentioned_at, fact.recorded_at, fact.id

    def _moment(self, fact: Fact) -> datetime | None:
        """The fact's moment on the axis that is asked for; facts are written once."""
        windowed = self.start_date or self.end_date
        match self.time_field or ("created_at" if windowed else "mentioned_at"):
            case "created_at" | "updated_at":
                return fact.recorded_at
            case "mentioned_at":
                return fact.mentioned_at
            case "occurred_start":
                return fact.occurred_start
            case "occurred_end":
                return fact.occurred_end

    def _within(self, at: datetime | None) -> bool:
        if at is None:
            return False
        start, end = self._window
        return (start is None or at >= start) and (end is None or at < end)
