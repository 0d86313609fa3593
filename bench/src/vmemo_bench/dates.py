"""Inserted dates: the share of dates that retain writes into text and that are right.

Judged dates (`training/dates/inserted_dates.jsonl`) name a turn of a dataset, an offset and a date. The turn is
processed by the local engine again, and what it inserts there now is looked up. `precision` is the share of right ones
among the inserted dates that are judged right or wrong, `recall` the share of all right ones that is still inserted.
`unsure` counts inserted dates that the judge left open, `unjudged` those that nobody has judged.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date, datetime
from pathlib import Path
from typing import Literal

from pydantic import BaseModel

from vmemo import Message
from vmemo.errors import InvalidInput
from vmemo.models import Role
from vmemo.ports import Embedder
from vmemo.providers import LocalExtractor
from vmemo.settings import Settings
from vmemo_bench.datasets import beam, locomo, longmemeval
from vmemo_bench.datasets.cases import ParsedDataset, Turn
from vmemo_bench.json_files import read_file, read_records
from vmemo_bench.options import BenchOptions
from vmemo_bench.progress import ProgressSink, StepCounter
from vmemo_bench.report import Report

FILE = Path("training/dates/inserted_dates.jsonl")
_INSERTED = re.compile(r" \(= ([^()\n]{4,60})\)")
Source = Literal["locomo", "longmemeval", "beam"]
TurnKey = tuple[Source, str, date]


class JudgedDate(BaseModel):
    """A row of the file. `should_be` is the right date, or words that describe it."""

    dataset: Source
    turn: str
    said: date
    role: Role
    offset: int
    inserted: str
    verdict: Literal["right", "wrong", "unsure"]
    split: Literal["development", "held_out"]
    judge: str
    category: str | None = None
    should_be: str | None = None

    @property
    def key(self) -> TurnKey:
        """The turn and the day on which it was said."""
        return self.dataset, self.turn, self.said


async def measure_dates(options: BenchOptions, _: Embedder, settings: Settings, sink: ProgressSink) -> Report:
    """Process every judged turn whose dataset is present, and compare its dates with the judged ones."""
    file = options.file or FILE
    if not file.is_file():
        raise InvalidInput(f"No judged dates at {file}. Run in the repository's folder, or pass --file.")
    rows = read_records(file, JudgedDate)
    turns = _turns(options.data_folder, {row.key for row in rows})
    judged: defaultdict[TurnKey, list[JudgedDate]] = defaultdict(list)
    for row in rows:
        if row.key in turns:
            judged[row.key].append(row)
    if not judged:
        raise InvalidInput(f"{options.data_folder} has none of the datasets: locomo, longmemeval and beam.")
    steps, counts = StepCounter(sink, "turns", len(judged)), defaultdict[str, Counter[str]](Counter)
    extractor = LocalExtractor()
    for key, judgements in judged.items():
        inserted = await _insert(extractor, *turns[key])
        for group in ("all", f"{key[0]} {judgements[0].role}", judgements[0].split):
            counts[group].update(_compare(inserted, judgements))
        steps.advance()
    tables = {group: _score(counts[group]) for group in sorted(counts) if group != "all"}
    config = {"turns": len(judged), "judged": sum(map(len, judged.values())), "absent": len(rows)}
    config["absent"] -= config["judged"]
    return Report(benchmark="dates", metrics=_score(counts["all"]), tables={"dates": tables}, config=config)


def _turns(folder: Path, wanted: set[TurnKey]) -> dict[TurnKey, tuple[datetime, Turn]]:
    """Return the wanted turns of those datasets that are present."""
    found = (each for read in (_locomo, _longmemeval, _beam) for each in read(folder))
    return {key: (said, turn) for source, name, said, turn in found if (key := (source, name, said.date())) in wanted}


_DatedTurn = tuple[Source, str, datetime, Turn]


def _locomo(folder: Path) -> Iterator[_DatedTurn]:
    yield from _sessions(folder / "locomo/locomo_dev.json", "locomo", locomo.parse)


def _longmemeval(folder: Path) -> Iterator[_DatedTurn]:
    yield from _sessions(folder / "longmemeval/longmemeval_s_dev.json.xz", "longmemeval", longmemeval.parse)


def _sessions(path: Path, source: Source, parse: Callable[[bytes], ParsedDataset]) -> Iterator[_DatedTurn]:
    if not path.is_file():
        return
    for case in parse(read_file(path)).cases:
        for session in case.sessions:
            for turn in session.turns:
                yield source, _turn_name(source, case.id, turn.id), session.started_at, turn


def _turn_name(source: Source, case: str, turn: str) -> str:
    """Return conversation and turn; a turn of LongMemEval is named by its session and place, from 0."""
    session, _, place = turn.rpartition(":")
    return f"{case}/{turn}" if source == "locomo" else f"{session}/{int(place) - 1}"


def _beam(folder: Path) -> Iterator[_DatedTurn]:
    for path in sorted((folder / "beam").glob("*/chat.json")):
        for said, turn in beam.parse_turns(read_file(path)):
            yield "beam", f"{path.parent.name}/{turn.id}", said, turn


async def _insert(extractor: LocalExtractor, said: datetime, turn: Turn) -> dict[int, str]:
    """Return the dates that the engine inserts into a turn, by their offsets in its text."""
    message = Message(role=turn.role, speaker=turn.speaker, content=turn.text, timestamp=said)
    found: dict[int, str] = {}
    for draft in (await extractor.read([message], None)).drafts:
        text = draft.text.partition(": ")[2]
        begin = turn.text.find(_INSERTED.sub("", text))
        length = 0
        for mark in _INSERTED.finditer(text):
            found[begin + mark.start() - length] = mark[1]
            length += len(mark[0])
    return found


def _compare(inserted: Mapping[int, str], judgements: Sequence[JudgedDate]) -> Iterator[str]:
    """Yield the verdict of each inserted date, and `known` and `kept` for each right one of the judge."""
    for offset, written in inserted.items():
        here = [row for row in judgements if row.offset == offset]
        verdicts = [row.verdict for row in here if row.inserted == written]
        yield "right" if written in [row.should_be for row in here] else verdicts[0] if verdicts else "unjudged"
    for row in judgements:
        if row.verdict == "right":
            yield "known"
            if inserted.get(row.offset) == row.inserted:
                yield "kept"


def _score(counts: Counter[str]) -> dict[str, float]:
    decided, known = counts["right"] + counts["wrong"], counts["known"]
    shares = {"precision": counts["right"] / decided} if decided else {}
    if known:
        shares["recall"] = counts["kept"] / known
    return {**shares, **{name: counts[name] for name in ("right", "wrong", "unsure", "unjudged")}}
