"""BEAM is parsed, answered and scored by its rubrics."""

from __future__ import annotations

import asyncio
import json
import lzma
import re
from dataclasses import replace
from pathlib import Path

import pytest
from pydantic import JsonValue
from small_data import CountingEmbedder, run

from vmemo.errors import InvalidInput
from vmemo_bench import BenchOptions, QaOptions, dump_prompts
from vmemo_bench.datasets import load
from vmemo_bench.pages.report_page import render
from vmemo_bench.qa.judging import judge_request
from vmemo_conformance.embedders import HashEmbedder
from vmemo_conformance.fake_llm import FakeLLM, RawText, ReceivedRequest

CHAT = [
    {
        "batch_number": 1,
        "turns": [
            [
                {
                    "role": "user",
                    "id": 0,
                    "time_anchor": "March-15-2024",
                    "content": "My first sprint ends on March 29. ->-> 1,1",
                },
                {"role": "assistant", "id": 1, "content": "Noted: March 29."},
            ],
            [{"role": "user", "id": 2, "content": "I never wrote a Flask route. ->-> 1,2"}],
        ],
    },
    {
        "batch_number": 2,
        "turns": [
            [{"role": "user", "id": 3, "time_anchor": "April-05-2024", "content": "I wrote the login route in Flask."}]
        ],
    },
]
QUESTIONS = {
    "information_extraction": [
        {
            "question": "When does my first sprint end?",
            "answer": "On March 29.",
            "source_chat_ids": [0],
            "rubric": ["LLM response should state: March 29"],
        }
    ],
    "event_ordering": [
        {
            "question": "In which order did I mention sprint, routes and login?",
            "answer": "Sprint, routes, login.",
            "source_chat_ids": [0, [2], 3],
            "rubric": ["sprint", "routes", "login"],
        }
    ],
    "contradiction_resolution": [
        {
            "question": "Have I written Flask routes?",
            "ideal_answer": "You said both.",
            "source_chat_ids": {"first_statement": [2], "second_statement": [3]},
            "rubric": ["LLM response should state: there is contradictory information"],
        }
    ],
    "abstention": [
        {
            "question": "What is my salary?",
            "ideal_response": "There is no information.",
            "rubric": ["There is no information about the salary"],
        }
    ],
}


@pytest.fixture
def options(tmp_path: Path) -> BenchOptions:
    """Options over two equal conversations, one of them compressed."""
    for name in ("1", "10"):
        folder = tmp_path / "data" / "beam" / name
        folder.mkdir(parents=True)
        (folder / "probing_questions.json").write_text(json.dumps(QUESTIONS))
        content = json.dumps(CHAT).encode()
        if name == "1":
            (folder / "chat.json").write_bytes(content)
        else:
            (folder / "chat.json.xz").write_bytes(lzma.compress(content))
    return BenchOptions(benchmark="beam", data=tmp_path / "data", cache=tmp_path / "cache", embedder=HashEmbedder())


def qa(options: BenchOptions, **values: object) -> BenchOptions:
    chosen = replace(QaOptions(), **values)  # pyright: ignore[reportArgumentType]
    return replace(options, mode="qa", conversations=("1",), qa=chosen)


def model(received: ReceivedRequest) -> JsonValue | RawText:
    """Answer every question alike; meet the first criterion, half of the second, and not the third."""
    if received.step == "judge_rubric":
        criteria = re.findall(r"^\d+\. ", received.user, re.MULTILINE)
        scores = [1, 0.5, 0][: len(criteria)]
        return {"criteria": [{"reason": f"score {score}", "score": score} for score in scores]}
    return {"calls": [], "steps": [], "found": True, "text": "It ends on March 29."}


def test_a_chat_is_parsed_into_dated_sessions_without_markers(options: BenchOptions) -> None:
    one, ten = load(replace(options, mode="qa")).cases
    assert (one.id, ten.id) == ("1", "10")
    assert [f"{session.started_at:%Y-%m-%d}" for session in one.sessions] == ["2024-03-15", "2024-04-05"]
    assert [turn.text for turn in one.sessions[0].turns] == [
        "My first sprint ends on March 29.",
        "Noted: March 29.",
        "I never wrote a Flask route.",
    ]
    evidence = {question.category: set(question.evidence) for question in one.questions}
    assert evidence["event_ordering"] == {"0", "2", "3"}
    assert evidence["contradiction_resolution"] == {"2", "3"}


def test_retrieval_omits_questions_without_evidence(options: BenchOptions) -> None:
    report = run(replace(options, conversations=("10",)))
    assert report.config["skipped_questions"] == 1
    assert set(report.categories) == {"contradiction_resolution", "event_ordering", "information_extraction"}
    assert report.metrics["recall@10"] == 1.0


def test_answers_are_scored_by_their_rubrics(options: BenchOptions) -> None:
    llm = FakeLLM(model)
    report = run(qa(options, answerer=llm))
    assert {name: metrics["score"] for name, metrics in report.categories.items()} == {
        "abstention": 1.0,
        "contradiction_resolution": 1.0,
        "event_ordering": 0.5,
        "information_extraction": 1.0,
    }
    assert report.metrics["score"] == pytest.approx(3.5 / 4)
    assert report.metrics["all_met"] == 0.75
    assert report.config["judge_prompts"] == "judge_rubric-4"
    assert {received.step for received in llm.received} == {"reflect", "judge_rubric"}
    assert "0.5: score 0.5" in render(report)
    calls = len(llm.received)
    assert run(qa(options, answerer=llm)).metrics == report.metrics
    assert len(llm.received) == calls


def test_a_verdict_with_too_few_scores_is_requested_again(options: BenchOptions) -> None:
    verdicts: list[JsonValue] = [{"criteria": []}, {"criteria": [{"reason": "right", "score": 1}]}]

    def answer(received: ReceivedRequest) -> JsonValue | RawText:
        return verdicts.pop(0) if received.step == "judge_rubric" else model(received)

    report = run(replace(qa(options, answerer=FakeLLM(answer)), types=("abstention",)))
    assert report.metrics["score"] == 1.0
    assert not verdicts


def test_the_judge_sees_question_criteria_and_answer_only(options: BenchOptions) -> None:
    (case,) = load(qa(options)).cases
    (ordering,) = (question for question in case.questions if question.category == "event_ordering")
    request = judge_request("rubric", ordering, "Sprint, then login.")
    assert "1. sprint\n2. routes\n3. login" in request.user
    assert "Sprint, routes, login." not in request.user + request.system
    assert "asks for an order" in request.system


def test_prompts_are_exported_and_scores_imported(options: BenchOptions, tmp_path: Path) -> None:
    file, count = asyncio.run(dump_prompts(replace(qa(options, max_lookups=0)), tmp_path / "prompts"))
    asked = [json.loads(line) for line in file.read_text().splitlines()]
    assert count == len(asked) == 4
    answers = tmp_path / "answers.jsonl"
    answers.write_text("\n".join(json.dumps({"id": each["id"], "answer": "March 29."}) for each in asked))
    file, count = asyncio.run(dump_prompts(qa(options, answers=answers), tmp_path / "prompts"))
    judged = [json.loads(line) for line in file.read_text().splitlines()]
    assert {each["judge"] for each in judged} == {"rubric"}
    scores = {"1/event_ordering/0": [1, 0.5, 0]}
    lines: list[dict[str, object]] = [{"id": each["id"], "scores": scores.get(each["id"], [1])} for each in judged[:-1]]
    lines.append({"id": judged[-1]["id"], "judge": "rubric", "criteria": [{"reason": "no", "score": 0}]})
    with answers.open("a") as open_file:
        open_file.write("\n" + "\n".join(map(json.dumps, lines)))
    report = run(qa(options, answers=answers))
    assert report.metrics["score"] == pytest.approx((1 + 1 + 0.5 + 0) / 4)
    answers.write_text(answers.read_text() + "\n" + json.dumps({"id": "1/abstention/0", "scores": [1, 1]}))
    with pytest.raises(InvalidInput, match=r"scores 2 criteria of 1/abstention/0, which has 1"):
        run(qa(options, answers=answers))


def test_unknown_conversations_and_types_are_named(options: BenchOptions) -> None:
    with pytest.raises(InvalidInput, match="conversations contains '3'; the dataset has 1, 10"):
        run(replace(options, conversations=("3",)))
    with pytest.raises(InvalidInput, match="types contains 'poetry'"):
        run(replace(options, types=("poetry",)))


def test_a_kept_bank_is_used_again(options: BenchOptions, tmp_path: Path) -> None:
    kept = replace(options, keep_banks=tmp_path / "banks", embedder=CountingEmbedder())
    first = run(kept)
    assert len(list((tmp_path / "banks").rglob("*.db"))) == 2
    # Another cache: a bank that was filled again would be embedded again.
    again, embedder = tmp_path / "another cache", CountingEmbedder()
    assert run(replace(kept, cache=again, embedder=embedder)).metrics == first.metrics
    assert embedder.documents == []
