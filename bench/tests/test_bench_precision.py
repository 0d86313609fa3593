"""The precision benchmark: what a query needs and nothing else."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from small_data import CountingEmbedder, run

from vmemo.errors import InvalidInput
from vmemo_bench import BenchOptions, Report


def belief(id: str, content: str, **fields: object) -> dict[str, object]:
    made = {"_id": id, "user_id": "test-user", "type": "preference", "canonical_name": id, "content": content}
    return {**made, "scope": ["code"], "created_at": "2026-09-01T00:00:00Z", **fields}


BELIEFS = [
    belief("tabs", "Writes Python with tabs."),
    belief("redis-old", "Caches sessions in Memcached.", superseded_by="redis"),
    belief("redis", "Caches sessions in Redis."),
    belief("style", "Answers are short.", pinned=True),
    belief("secret", "Writes Haskell.", user_id="other-user"),
]


def case(id: str, query: str, *expected: str, **fields: object) -> dict[str, object]:
    expect = {"relevantBeliefs": {"shouldOnlyInclude": list(expected)}}
    return {"caseId": id, "category": "Plain", "scope": ["code"], "query": query, "expect": expect, **fields}


CASES = [
    case("found", "Caches sessions in Redis", "redis"),
    case("new user", "Writes Python with tabs", userId="brand-new-user"),
    case("no room", "Writes Python with tabs", budget={"maxBeliefs": 0}),
]
TURN = {"turnIndex": 0, "scope": ["code"], "userMessage": "Writes Python with tabs", "expect": CASES[0]["expect"]}


def measure(folder: Path, cases: object) -> Report:
    files = {
        "beliefs.seed": BELIEFS,
        "retrieval.cases": cases,
        "session-retrieval.cases": [{"caseId": "s", "turns": [TURN]}],
    }
    for name, content in files.items():
        (folder / f"{name}.json").write_text(json.dumps(content))
    options = BenchOptions(benchmark="precision", file=folder, work=folder, cache=folder, embedder=CountingEmbedder())
    return run(options)


def test_precision_recall_and_silence_are_scored_by_the_rules_of_the_benchmark(tmp_path: Path) -> None:
    report = measure(tmp_path, CASES)
    assert report.metrics["recall"] == 1.0
    assert 0 < report.metrics["precision"] <= 1
    assert report.metrics["silent"] == 1.0
    assert report.metrics["session_recall"] == 0.0
    assert set(report.tables["published"]) > {"vmemo", "Mem0", "Zep"}
    assert report.config["cases"] == 3


def test_an_unusable_file_is_reported(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"retrieval\.cases\.json: 0\.caseId: Field required"):
        measure(tmp_path, [{"category": "Plain"}])
