"""The recorded engine: replays the facts that an LLM once wrote about a conversation, so that no model is called."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated

from dateutil.relativedelta import relativedelta
from pydantic import BaseModel, BeforeValidator, ConfigDict

from vmemo.bench.datasets import Case, Turn
from vmemo.models import EntityType, LinkKind, Message, Network
from vmemo.ports import Draft, Found, Reading

_FIRST_DAY = "YYYY-01-01"
_WIDTHS = {len("2023"): relativedelta(years=1), len("2023-05"): relativedelta(months=1)}


def widened(text: str) -> tuple[datetime, datetime]:
    """`2023`, `2023-05` or `2023-05-08` as the whole year, month or day."""
    width = _WIDTHS.get(len(text), relativedelta(days=1))
    start = datetime.fromisoformat(text + _FIRST_DAY[len(text) :]).replace(tzinfo=UTC)
    return start, start + width


Stretch = Annotated[tuple[datetime, datetime], BeforeValidator(widened)]


class Cause(BaseModel):
    """A relation to another fact of the session, by that fact's place in it."""

    model_config = ConfigDict(frozen=True)

    target: int
    type: LinkKind
    strength: float


class Entity(BaseModel):
    """An entity as the recording names it."""

    model_config = ConfigDict(frozen=True)

    name: str
    type: EntityType = "OTHER"


class RecordedFact(BaseModel):
    """One line of a recording; times may be a day, a month or a year."""

    model_config = ConfigDict(frozen=True)

    session: int
    text: str
    fact_type: Network
    occurred_start: Stretch | None = None
    occurred_end: Stretch | None = None
    entities: tuple[Entity, ...] = ()
    causal: tuple[Cause, ...] = ()
    sources: tuple[str, ...]

    @property
    def occurred(self) -> tuple[datetime, datetime] | None:
        """From the start of the first named time to the end of the last one."""
        times = [time for time in (self.occurred_start, self.occurred_end) if time]
        return (min(start for start, _ in times), max(end for _, end in times)) if times else None

    @property
    def network(self) -> Network:
        """The agent's own acts apart, all is world: that someone holds a belief is a fact about them."""
        return "experience" if self.fact_type == "experience" else "world"


class RecordedExtractor:
    """Fulfils the Extractor port from one conversation's recording.

    A fact is told by the batch that holds the last of its sources; one whose sources are no turns of the
    conversation is never told, and counts as unplaced.
    """

    name = "recorded"
    keeps_words = False

    def __init__(self, case: Case, facts: Sequence[RecordedFact]) -> None:
        order = {turn.id: place for place, turn in enumerate(_turns(case))}
        anchored = [(max(fact.sources, key=lambda turn: order.get(turn, -1), default=""), fact) for fact in facts]
        self._told = [(f"{n}", turn, fact) for n, (turn, fact) in enumerate(anchored) if turn in order]
        self.unplaced = len(facts) - len(self._told)

    async def read(self, messages: Sequence[Message], before: Message | None) -> Reading:
        """One draft per fact that these messages tell."""
        spoken = {str(message.metadata.get("turn")): message for message in messages}
        return Reading(drafts=tuple(_draft(key, fact, spoken) for key, turn, fact in self._told if turn in spoken))


def _turns(case: Case) -> list[Turn]:
    sessions = sorted(case.sessions, key=lambda session: session.started_at)
    return [turn for session in sessions for turn in session.turns]


def _draft(key: str, fact: RecordedFact, spoken: Mapping[str, Message]) -> Draft:
    sources = [message for turn, message in spoken.items() if turn in fact.sources]
    return Draft(
        key=key,
        network=fact.network,
        text=fact.text,
        mentioned_at=sources[-1].timestamp,
        recorded_at=max(message.recorded_at for message in sources),
        messages=tuple(message.id for message in sources),
        occurred=fact.occurred,
        entities=tuple(Found(name=entity.name, type=entity.type) for entity in fact.entities),
    )
