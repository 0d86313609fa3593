"""Updates: short dated conversations in which a value changes, and look-alikes in which nothing is outdated.

Each scenario is retained into its own bank, one session a day. `newest_first` is the share of updates for which the
turn with the current value ranks above every outdated one, `closed` the share of outdated turns whose facts are
closed, `wrongly_closed` the share of turns that are still true and closed, and `former_found` the share of questions
about the former value that have its turn among the first three hits.
"""

from __future__ import annotations

import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from pydantic import BaseModel

from vmemo import Memory, Message
from vmemo.ports import Embedder
from vmemo.settings import Settings
from vmemo_bench.annotated import first_ranks, retain_days
from vmemo_bench.bank_contents import all_facts
from vmemo_bench.datasets import data_path
from vmemo_bench.environment import describe, make_folder, sqlite_url
from vmemo_bench.json_files import read_records
from vmemo_bench.options import BenchOptions
from vmemo_bench.progress import ProgressSink, StepCounter
from vmemo_bench.report import Report
from vmemo_bench.statistics import Outcome, shares

FILE = "updates/updates_dev.jsonl"
MAX_TOKENS = 4_000
FORMER_RANKS = 3
_UNRANKED = 10**6


class UpdateTurn(BaseModel):
    id: str
    date: datetime
    speaker: str
    text: str


class UpdateScenario(BaseModel):
    """A scenario in the file. A look-alike has no outdated turns."""

    id: str
    kind: str
    turns: list[UpdateTurn]
    old: str | None = None
    olds: list[str] = []
    new: str | None = None
    still_true: list[str] = []
    question_now: str | None = None
    question_before: str | None = None
    asked_at: datetime

    @property
    def outdated(self) -> set[str]:
        """Turns whose value was replaced."""
        return set(self.olds) or ({self.old} if self.old else set())


@dataclass(frozen=True, kw_only=True)
class ScenarioResult:
    """Closed turns, and the rank of each recalled turn for both questions."""

    scenario: UpdateScenario
    closed: set[str]
    now: Mapping[str, int]
    before: Mapping[str, int]


async def measure_updates(options: BenchOptions, embedder: Embedder, settings: Settings, sink: ProgressSink) -> Report:
    """Retain every scenario, ask its questions, and score the ranks and the closed facts."""
    scenarios = read_records(data_path(FILE, options), UpdateScenario)[: options.limit]
    steps, results = StepCounter(sink, "scenarios", len(scenarios)), list[ScenarioResult]()
    with tempfile.TemporaryDirectory(dir=make_folder(options.work_folder)) as folder:
        for scenario in scenarios:
            url = sqlite_url(Path(folder) / "updates.db")
            async with Memory(url, bank=scenario.id, embedder=embedder, settings=settings) as memory:
                results.append(await _measure(memory, scenario))
            steps.advance()
    kinds: defaultdict[str, list[ScenarioResult]] = defaultdict(list)
    for result in results:
        kinds[result.scenario.kind].append(result)
    return Report(
        benchmark="updates",
        metrics=_score(results),
        tables={"kinds": {kind: _score(kinds[kind]) for kind in sorted(kinds)}},
        config={**describe(embedder, settings), "scenarios": len(scenarios)},
    )


async def _measure(memory: Memory, scenario: UpdateScenario) -> ScenarioResult:
    turns = await retain_days(memory, {turn.id: _message(turn) for turn in scenario.turns})
    facts = await all_facts(memory)
    closed = {turns[message] for fact in facts if fact.expired_at or fact.invalid_at for message in fact.messages}

    async def ranks(question: str | None) -> dict[str, int]:
        if not question:
            return {}
        recalled = await memory.recall(question, max_tokens=MAX_TOKENS, now=_utc(scenario.asked_at))
        return first_ranks(recalled.hits, turns)

    now, before = await ranks(scenario.question_now), await ranks(scenario.question_before)
    return ScenarioResult(scenario=scenario, closed=closed, now=now, before=before)


def _message(turn: UpdateTurn) -> Message:
    role, day = "assistant" if turn.speaker == "Assistant" else "user", turn.date.date().isoformat()
    return Message(role=role, speaker=turn.speaker, content=turn.text, timestamp=_utc(turn.date), document=day)


def _utc(time: datetime) -> datetime:
    return time if time.tzinfo else time.replace(tzinfo=UTC)


def _score(results: Sequence[ScenarioResult]) -> dict[str, float]:
    """Return the metrics that are defined for these scenarios."""
    return shares(outcome for result in results for outcome in _judge(result))


def _judge(result: ScenarioResult) -> Iterator[Outcome]:
    """Yield each metric that one scenario counts towards, with its outcome."""
    scenario, outdated = result.scenario, result.scenario.outdated
    for turn in set(scenario.still_true) - outdated:
        yield "wrongly_closed", turn in result.closed
    for turn in outdated:
        yield "closed", turn in result.closed
    if outdated and scenario.new:
        rank = result.now.get(scenario.new, _UNRANKED)
        yield "newest_first", rank < min(result.now.get(turn, _UNRANKED) for turn in outdated)
        yield "on_top", rank == 0
    if outdated and scenario.question_before:
        yield "former_found", min(result.before.get(turn, _UNRANKED) for turn in outdated) < FORMER_RANKS
