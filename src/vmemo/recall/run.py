"""One recall in progress: what all of its stages work with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from vmemo.models import Interval, utc_now
from vmemo.models.search import Encoding, StageTimer
from vmemo.ports import Context
from vmemo.recall.channels import Channels
from vmemo.recall.query import Query


@dataclass(frozen=True, kw_only=True)
class RecallRun:
    """The query, the memory's context, the channels of the question, and the time that each stage takes."""

    query: Query
    context: Context
    channels: Channels
    timer: StageTimer
    encodings: Sequence[Encoding]
    """Those of the question and of its parts."""
    during: Interval | None
    """The time that the temporal channel searches."""

    def for_query(self, query: Query) -> RecallRun:
        """Return this run with other filters and limits."""
        return replace(self, query=query, channels=replace(self.channels, query=query))

    @property
    def question(self) -> Encoding:
        """The encoding of the whole question."""
        return self.encodings[0]

    @property
    def now(self) -> datetime:
        """The time of the question."""
        return self.query.now or utc_now()
