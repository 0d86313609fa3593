"""Recorded extractions: facts that a language model once wrote about LoCoMo, replayed without calling a model.

A recording is a file of JSON Lines per conversation, in the folder `locomo/extractions`.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated

from dateutil.relativedelta import relativedelta
from pydantic import BeforeValidator

from vmemo.errors import InvalidInput
from vmemo.models import CauseKind, EntityType, Message, Network
from vmemo.models.changes import DraftCause, ExtractionResult, FactDraft, FoundName
from vmemo.ports import LLM, Extractor
from vmemo_bench.datasets import Case, Dataset
from vmemo_bench.json_files import FileRecord, read_records
from vmemo_bench.options import BenchOptions, EngineName
from vmemo_bench.report import Setting

_FOLDER = Path("locomo") / "extractions"
_FIRST_DAY = "YYYY-01-01"
_PERIODS = {len("2023"): relativedelta(years=1), len("2023-05"): relativedelta(months=1)}


def parse_period(text: str) -> tuple[datetime, datetime]:
    """Return the start and end of a year (`2023`), a month (`2023-05`) or a day (`2023-05-08`)."""
    period = _PERIODS.get(len(text), relativedelta(days=1))
    start = datetime.fromisoformat(text + _FIRST_DAY[len(text) :]).replace(tzinfo=UTC)
    return start, start + period


Period = Annotated[tuple[datetime, datetime], BeforeValidator(parse_period)]


class RecordedCause(FileRecord):
    """A relation to another fact of the session, by that fact's position in it."""

    target: int
    type: CauseKind
    strength: float


class RecordedEntity(FileRecord):
    name: str
    type: EntityType = "OTHER"


class RecordedFact(FileRecord):
    """One line of a recording; times may be a day, a month or a year."""

    session: int
    text: str
    fact_type: Network
    occurred_start: Period | None = None
    occurred_end: Period | None = None
    entities: tuple[RecordedEntity, ...] = ()
    causal: tuple[RecordedCause, ...] = ()
    sources: tuple[str, ...]

    @property
    def occurred(self) -> tuple[datetime, datetime] | None:
        """The time from the start of the first period to the end of the last."""
        times = [time for time in (self.occurred_start, self.occurred_end) if time]
        return (min(start for start, _ in times), max(end for _, end in times)) if times else None

    @property
    def days(self) -> tuple[str, str]:
        """The first and the last day of that time in ISO 8601, or two empty strings."""
        if self.occurred is None:
            return "", ""
        start, end = self.occurred
        return f"{start:%Y-%m-%d}", f"{end - timedelta(days=1):%Y-%m-%d}"

    @property
    def network(self) -> Network:
        """The network of the fact: a person's opinion is a world fact about that person."""
        return "experience" if self.fact_type == "experience" else "world"


class Recording:
    """The facts of one conversation.

    A fact belongs to the last of its source turns. A fact whose sources are no turns of the conversation is never
    returned and counts as unplaced.
    """

    def __init__(self, case: Case, facts: Sequence[RecordedFact]) -> None:
        sessions = sorted(case.sessions, key=lambda session: session.started_at)
        turns = [turn.id for session in sessions for turn in session.turns]
        order = {turn: position for position, turn in enumerate(turns)}
        last = [max(fact.sources, key=lambda turn: order.get(turn, -1), default="") for fact in facts]
        self._placed = {n: (turn, facts[n]) for n, turn in enumerate(last) if turn in order}
        self.unplaced = len(facts) - len(self._placed)
        self._sessions: defaultdict[int, list[int]] = defaultdict(list)
        for n, fact in enumerate(facts):
            self._sessions[fact.session].append(n)

    def facts_of(self, turns: Container[str]) -> dict[int, RecordedFact]:
        """Return the facts whose last source is among these turns, by their position in the recording."""
        return {n: fact for n, (turn, fact) in self._placed.items() if turn in turns}

    def causes(self, fact: RecordedFact) -> list[tuple[int, RecordedCause]]:
        """Return the relations of a fact, each with the position of its target; invalid targets are omitted."""
        session = self._sessions[fact.session]
        return [(session[cause.target], cause) for cause in fact.causal if 0 <= cause.target < len(session)]


class RecordedExtractor:
    """Extractor that replays the recording of one conversation."""

    name = "recorded"
    keeps_words = False

    def __init__(self, recording: Recording) -> None:
        self._recording = recording

    async def read(self, messages: Sequence[Message], before: Message | None) -> ExtractionResult:
        """Return one draft per recorded fact of these messages."""
        by_turn = {str(message.metadata.get("turn")): message for message in messages}
        facts = self._recording.facts_of(by_turn)
        return ExtractionResult(drafts=tuple(self._draft(n, fact, by_turn) for n, fact in facts.items()))

    def _draft(self, position: int, fact: RecordedFact, by_turn: Mapping[str, Message]) -> FactDraft:
        sources = [message for turn, message in by_turn.items() if turn in fact.sources]
        return FactDraft(
            key=f"{position}",
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


@dataclass(frozen=True, kw_only=True)
class BenchEngine:
    """A language model for all cases, or extractors by case id; otherwise the local engine processes messages."""

    name: EngineName = "local"
    llm: LLM | None = None
    extractors: Mapping[str, Extractor] = field(default_factory=dict[str, Extractor])
    digest: str = ""
    counts: Mapping[str, Setting] = field(default_factory=dict[str, Setting])

    @property
    def config(self) -> dict[str, Setting]:
        """The part of the configuration that scores depend on."""
        config: dict[str, Setting] = {"engine": self.name}
        if self.digest:
            config["recordings"] = self.digest
        if self.llm is not None:
            config["llm"] = self.llm.name
        return config


def engine_of(options: BenchOptions, dataset: Dataset) -> BenchEngine:
    """Return the engine of the options. Raise InvalidInput if recordings are missing."""
    if options.engine == "local":
        return BenchEngine()
    if options.engine == "llm":
        if options.llm.model is None or isinstance(options.llm.model, str):
            raise InvalidInput("--engine llm needs a model: pass --llm MODEL, set VMEMO_LLM, or pass --replay FILE.")
        return BenchEngine(name="llm", llm=options.llm.model)
    recordings = load_recordings(options, dataset)
    return BenchEngine(
        name="recorded",
        extractors={case: RecordedExtractor(recording) for case, recording in recordings.items()},
        digest=_digest(_folder(options)),
        counts={"unplaced_facts": sum(recording.unplaced for recording in recordings.values())},
    )


def load_recordings(options: BenchOptions, dataset: Dataset) -> dict[str, Recording]:
    """Return the recording of each case, by the case's id."""
    if dataset.name != "locomo":
        raise InvalidInput(f"Recordings exist for locomo only, not for {dataset.name}: use --engine local.")
    folder = _folder(options)
    return {case.id: _recording(case, folder / f"{case.id}.jsonl") for case in dataset.cases}


def _folder(options: BenchOptions) -> Path:
    """Return the folder of the recordings: in the data folder, or beside a file that is passed without one."""
    if options.file is not None and options.data is None:
        return options.file.parent / _FOLDER.name
    return options.data_folder / _FOLDER


def _recording(case: Case, path: Path) -> Recording:
    if not path.exists():
        raise InvalidInput(f"{path} does not exist: pass --data FOLDER with the folder that contains {_FOLDER}.")
    return Recording(case, read_records(path, RecordedFact))


def _digest(folder: Path) -> str:
    """Return a digest of all recordings, the same for a run over some cases and over all."""
    whole = hashlib.sha256()
    for path in sorted(folder.glob("*.jsonl")):
        whole.update(path.read_bytes())
    return whole.hexdigest()[:12]
