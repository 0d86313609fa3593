"""The recorded engine: replays the facts that an LLM once wrote about a conversation, so that no model is called."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Annotated

from dateutil.relativedelta import relativedelta
from pydantic import BaseModel, BeforeValidator, ConfigDict

from vmemo.models import CauseKind, EntityType, Message, Network
from vmemo.models.drafts import DraftCause, ExtractionResult, FactDraft, FoundName
from vmemo_bench.datasets import Case, Turn

_FIRST_DAY = "YYYY-01-01"
_WIDTHS = {len("2023"): relativedelta(years=1), len("2023-05"): relativedelta(months=1)}


def widened(text: str) -> tuple[datetime, datetime]:
    """`2023`, `2023-05` or `2023-05-08` as the whole year, month or day."""
    width = _WIDTHS.get(len(text), relativedelta(days=1))
    start = datetime.fromisoformat(text + _FIRST_DAY[len(text) :]).replace(tzinfo=UTC)
    return start, start + width


Stretch = Annotated[tuple[datetime, datetime], BeforeValidator(widened)]


class RecordedCause(BaseModel):
    """A relation to another fact of the session, by that fact's place in it."""

    model_config = ConfigDict(frozen=True)

    target: int
    type: CauseKind
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
    causal: tuple[RecordedCause, ...] = ()
    sources: tuple[str, ...]

    @property
    def occurred(self) -> tuple[datetime, datetime] | None:
        """From the start of the first named time to the end of the last one."""
        times = [time for time in (self.occurred_start, self.occurred_end) if time]
        return (min(start for start, _ in times), max(end for _, end in times)) if times else None

    @property
    def days(self) -> tuple[str, str]:
        """The first and the last day of it in ISO form, or two empty texts."""
        if self.occurred is None:
            return "", ""
        start, end = self.occurred
        return f"{start:%Y-%m-%d}", f"{end - timedelta(days=1):%Y-%m-%d}"

    @property
    def network(self) -> Network:
        """The agent's own acts apart, all is world: that someone holds a belief is a fact about them."""
        return "experience" if self.fact_type == "experience" else "world"


class Recording:
    """The facts of one conversation with the turns that tell them.

    A fact belongs to the last of its sources; one whose sources are no turns of the conversation is never told, and
    counts as unplaced.
    """

    def __init__(self, case: Case, facts: Sequence[RecordedFact]) -> None:
        order = {turn.id: place for place, turn in enumerate(_turns(case))}
        anchored = [(max(fact.sources, key=lambda turn: order.get(turn, -1), default=""), fact) for fact in facts]
        self.placed = {n: (turn, fact) for n, (turn, fact) in enumerate(anchored) if turn in order}
        self.unplaced = len(facts) - len(self.placed)
        self._sessions: defaultdict[int, list[int]] = defaultdict(list)
        for n, fact in enumerate(facts):
            self._sessions[fact.session].append(n)

    def told(self, turns: Container[str]) -> dict[int, RecordedFact]:
        """Facts whose last source is among these turns, by their place in the recording."""
        return {n: fact for n, (turn, fact) in self.placed.items() if turn in turns}

    def causes(self, fact: RecordedFact) -> list[tuple[int, RecordedCause]]:
        """Relations of a fact, each with the place of the fact that it leads to; those that lead nowhere left out."""
        places = self._sessions[fact.session]
        return [(places[cause.target], cause) for cause in fact.causal if 0 <= cause.target < len(places)]


class RecordedExtractor:
    """Fulfils the Extractor port from one conversation's recording, with all sources and relations of its facts."""

    name = "recorded"
    keeps_words = False

    def __init__(self, recording: Recording) -> None:
        self._recording = recording

    async def read(self, messages: Sequence[Message], before: Message | None) -> ExtractionResult:
        """One draft per fact that these messages tell."""
        spoken = {str(message.metadata.get("turn")): message for message in messages}
        told = self._recording.told(spoken)
        return ExtractionResult(drafts=tuple(self._draft(n, fact, spoken) for n, fact in told.items()))

    def _draft(self, place: int, fact: RecordedFact, spoken: Mapping[str, Message]) -> FactDraft:
        sources = [message for turn, message in spoken.items() if turn in fact.sources]
        return FactDraft(
            key=f"{place}",
            network=fact.network,
            text=fact.text,
            mentioned_at=sources[-1].timestamp,
            recorded_at=max(message.recorded_at for message in sources),
            messages=tuple(message.id for message in sources),
            occurred=fact.occurred,
            entities=tuple(FoundName(name=entity.name, type=entity.type) for entity in fact.entities),
            causes=tuple(
                DraftCause(target=f"{target}", kind=cause.type, strength=cause.strength)
                for target, cause in self._recording.causes(fact)
            ),
        )


def _turns(case: Case) -> list[Turn]:
    sessions = sorted(case.sessions, key=lambda session: session.started_at)
    return [turn for session in sessions for turn in session.turns]
