"""Precision: the beliefs that a query needs, and nothing else, by the rules and cases of PrecisionMemBench.

Each belief is retained as one text, its name, aliases, content and reason, with its scope as a tag; one that replaces
others updates their fact. A query is a precise recall of at most `maxBeliefs` facts in the first scope of the case.
Pinned beliefs are listed apart and do not count as results; a relation brings in its participants. A case without
expected and returned beliefs has no precision, and one that returns something for nothing has a precision of 0.
"""

from __future__ import annotations

import tempfile
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import TypeVar

from pydantic import AwareDatetime, BaseModel, Field, TypeAdapter, ValidationError

from vmemo import Memory, Message
from vmemo.errors import InvalidInput
from vmemo.models import FactId
from vmemo.ports import Embedder
from vmemo.settings import Settings
from vmemo_bench.datasets import data_path
from vmemo_bench.environment import describe, make_folder, sqlite_url
from vmemo_bench.json_files import read_file
from vmemo_bench.options import BenchOptions
from vmemo_bench.progress import ProgressSink, StepCounter
from vmemo_bench.report import Report, Table
from vmemo_bench.statistics import percentile

R = TypeVar("R")
FOLDER = "precision"
USER = "test-user"
MAX_BELIEFS = 20
"""Beliefs that a case may return, pinned ones included, unless it has another limit."""
PUBLISHED: Table = {
    "open-knowledge-format": {"precision": 0.47, "recall": 0.91, "active_passes": 18, "p50_ms": 3535},
    "Supermemory": {"precision": 0.22, "recall": 0.71, "active_passes": 4, "p50_ms": 69},
    "agentmemory": {"precision": 0.17, "recall": 0.97, "active_passes": 0, "p50_ms": 82},
    "Zep": {"precision": 0.09, "recall": 0.95, "active_passes": 0, "p50_ms": 124},
    "plain vectors": {"precision": 0.09, "recall": 1.0, "active_passes": 0, "p50_ms": 72},
    "Hindsight": {"precision": 0.06, "recall": 1.0, "active_passes": 0, "p50_ms": 590},
    "Mem0": {"precision": 0.06, "recall": 0.99, "active_passes": 0, "p50_ms": 65},
    "Cognee": {"precision": 0.05, "recall": 0.92, "active_passes": 0, "p50_ms": 2891},
}
"""Results over the 77 cases that the authors of the benchmark publish."""


class Belief(BaseModel):
    id: str = Field(alias="_id")
    user_id: str
    type: str
    canonical_name: str
    aliases: list[str] = []
    content: str
    why_it_matters: str = ""
    scope: list[str]
    pinned: bool = False
    resolved_at: AwareDatetime | None = None
    superseded_by: str | None = None
    participants: list[str] = []
    created_at: AwareDatetime

    @property
    def text(self) -> str:
        """The text that every system stores."""
        return " ".join(filter(None, (self.canonical_name, *self.aliases, self.content, self.why_it_matters)))


class Expected(BaseModel):
    only: list[str] | None = Field(default=None, alias="shouldOnlyInclude")
    excluded: list[str] = Field(default=[], alias="mustExclude")


class Expectations(BaseModel):
    relevant: Expected = Field(default_factory=Expected, alias="relevantBeliefs")


class BeliefLimit(BaseModel):
    beliefs: int = Field(default=MAX_BELIEFS, alias="maxBeliefs")


class PrecisionCase(BaseModel):
    id: str = Field(alias="caseId")
    category: str = "Session"
    user: str = Field(default=USER, alias="userId")
    scope: list[str]
    query: str
    budget: BeliefLimit = Field(default_factory=BeliefLimit)
    expect: Expectations


class SessionTurn(BaseModel):
    number: int = Field(alias="turnIndex")
    scope: list[str]
    text: str = Field(alias="userMessage")
    expect: Expectations


class DriftingSession(BaseModel):
    id: str = Field(alias="caseId")
    turns: list[SessionTurn]

    def cases(self) -> list[PrecisionCase]:
        """Return each turn as a case of its own."""
        return [
            PrecisionCase.model_construct(
                id=f"{self.id}:{turn.number}",
                category="Session",
                user=USER,
                scope=turn.scope,
                query=turn.text,
                budget=BeliefLimit(),
                expect=turn.expect,
            )
            for turn in self.turns
        ]


@dataclass(frozen=True)
class PrecisionResult:
    """The beliefs that a case returned, and those that it should."""

    case: PrecisionCase
    returned: frozenset[str]
    milliseconds: float

    @property
    def expected(self) -> frozenset[str]:
        return frozenset(self.case.expect.relevant.only or ())

    @property
    def precision(self) -> float | None:
        if not self.returned:
            return 0.0 if self.expected else None
        return len(self.returned & self.expected) / len(self.returned)

    @property
    def recall(self) -> float | None:
        return len(self.returned & self.expected) / len(self.expected) if self.expected else None

    @property
    def passed(self) -> bool:
        asserted = self.case.expect.relevant
        exact = asserted.only is None or self.returned == self.expected
        return exact and self.returned.isdisjoint(asserted.excluded)


async def measure_precision(
    options: BenchOptions, embedder: Embedder, settings: Settings, sink: ProgressSink
) -> Report:
    """Retain the beliefs, ask every case and every turn of the sessions, and compare what is returned."""
    folder = data_path(FOLDER, options)
    beliefs = {each.id: each for each in _read(folder / "beliefs.seed.json", list[Belief])}
    cases = _read(folder / "retrieval.cases.json", list[PrecisionCase])[: options.limit]
    sessions = _read(folder / "session-retrieval.cases.json", list[DriftingSession])[: options.limit]
    turns = [case for session in sessions for case in session.cases()]
    steps, results = StepCounter(sink, "cases", len(cases) + len(turns)), list[PrecisionResult]()
    with tempfile.TemporaryDirectory(dir=make_folder(options.work_folder)) as work:
        url = sqlite_url(Path(work) / "precision.db")
        async with Memory(url, bank=USER, embedder=embedder, settings=settings) as memory:
            updated = dict[FactId, str]()
            for user in dict.fromkeys(belief.user_id for belief in beliefs.values()):
                own = [each for each in beliefs.values() if each.user_id == user]
                updated |= await _retain(memory.bank(user), own)
            for case in (*cases, *turns):
                results.append(await _ask(memory.bank(case.user), case, beliefs, updated))
                steps.advance()
    single, drifting = results[: len(cases)], results[len(cases) :]
    milliseconds = percentile([each.milliseconds for each in single], 0.5)
    shown = {name: value for name, value in _score(single).items() if name in PUBLISHED["Mem0"]}
    categories: defaultdict[str, list[PrecisionResult]] = defaultdict(list)
    for result in results:
        categories[result.case.category].append(result)
    return Report(
        benchmark="precision",
        metrics={**_score(single), **{f"session_{name}": value for name, value in _score(drifting).items()}},
        categories={name: _score(group) for name, group in sorted(categories.items())},
        tables={"published": {"vmemo": {**shown, "p50_ms": milliseconds}, **PUBLISHED}},
        config={**describe(embedder, settings), "cases": len(cases), "turns": len(turns)},
    )


async def _retain(memory: Memory, beliefs: Sequence[Belief]) -> dict[FactId, str]:
    """Store each belief; one that replaces another is the new version of its fact. Return the beliefs of versions."""
    replaced = {each.superseded_by: each.id for each in beliefs if each.superseded_by}
    facts, versions = dict[str, FactId](), dict[FactId, str]()
    for belief in sorted(beliefs, key=lambda each: _depth(each, replaced)):
        if belief.id in replaced:
            fact = await memory.update(facts[replaced[belief.id]], belief.text, valid_at=belief.created_at)
            facts[belief.id] = fact.id
            versions[fact.id] = belief.id
            continue
        message = Message(
            content=belief.text, timestamp=belief.created_at, tags=tuple(belief.scope), metadata={"belief": belief.id}
        )
        retained = await memory.retain(message)
        facts[belief.id] = retained.derived[0] if retained.derived else FactId(message.id)
    return versions


def _depth(belief: Belief, replaced: Mapping[str, str]) -> int:
    """Return the number of versions before a belief."""
    depth, id = 0, belief.id
    while id in replaced and depth < len(replaced):
        id, depth = replaced[id], depth + 1
    return depth


async def _ask(
    memory: Memory, case: PrecisionCase, beliefs: Mapping[str, Belief], versions: Mapping[FactId, str]
) -> PrecisionResult:
    started, found = perf_counter(), list[str]()
    pinned = {each.id for each in beliefs.values() if _is_pinned(each, case)}
    if case.query.strip() and case.budget.beliefs > 0 and await memory.exists():
        recalled = await memory.retrieve(case.query, case.budget.beliefs, tags=case.scope[:1], precise=True)
        ids = [versions.get(fact.id) or str(fact.metadata.get("belief")) for fact in recalled.facts]
        found = [id for id in dict.fromkeys(ids) if id in beliefs and id not in pinned]
    for id in tuple(found):
        if beliefs[id].type == "relation":
            found += [each for each in beliefs[id].participants if _may_follow(each, case, beliefs, {*found, *pinned})]
    milliseconds = (perf_counter() - started) * 1000
    return PrecisionResult(case, frozenset(found[: max(0, case.budget.beliefs - len(pinned))]), milliseconds)


def _is_pinned(belief: Belief, case: PrecisionCase) -> bool:
    current = belief.superseded_by is None and belief.resolved_at is None
    is_fact = belief.pinned and current and belief.type != "open_question"
    return is_fact and belief.user_id == case.user and not set(belief.scope).isdisjoint(case.scope)


def _may_follow(id: str, case: PrecisionCase, beliefs: Mapping[str, Belief], known: set[str]) -> bool:
    belief = beliefs.get(id)
    if belief is None or id in known or belief.user_id != case.user:
        return False
    return not case.scope or not set(belief.scope).isdisjoint(case.scope)


def _score(results: Sequence[PrecisionResult]) -> dict[str, float]:
    precisions = [each.precision for each in results if each.precision is not None]
    recalls = [each.recall for each in results if each.recall is not None]
    passed = [each for each in results if each.passed]
    scores = {
        "precision": sum(precisions) / len(precisions) if precisions else 1.0,
        "recall": sum(recalls) / len(recalls) if recalls else 1.0,
        "passes": float(len(passed)),
        "active_passes": float(sum(1 for each in passed if each.precision)),
    }
    silent = [not each.returned for each in results if each.case.expect.relevant.only == []]
    return {**scores, "silent": sum(silent) / len(silent)} if silent else scores


def _read(path: Path, model: type[R]) -> R:
    try:
        return TypeAdapter(model).validate_json(read_file(path))
    except ValidationError as error:
        first = error.errors()[0]
        raise InvalidInput(f"{path}: {'.'.join(map(str, first['loc']))}: {first['msg']}") from error
