"""Prompts are exported as JSON Lines, and answers and verdicts of other systems imported."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from pydantic import JsonValue
from qa_data import QUESTIONS, ScriptedModel, qa_options
from small_data import run

from vmemo.errors import InvalidInput
from vmemo.ports import LLMRequest
from vmemo_bench import dump_prompts
from vmemo_conformance.fake_llm import FakeLLM


def lines(file: Path) -> list[dict[str, str]]:
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def written(file: Path, rows: Iterable[Mapping[str, object]]) -> Path:
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return file


def answered(asked: Iterable[Mapping[str, str]]) -> list[dict[str, object]]:
    """Return the answers of another system to the prompts."""
    model = FakeLLM(ScriptedModel())

    async def complete(line: Mapping[str, str]) -> str:
        return (await model.complete(_ask(line))).text

    return [{"id": line["id"], "answer": asyncio.run(complete(line))} for line in asked]


def judged(asked: Iterable[Mapping[str, str]]) -> list[dict[str, object]]:
    """Return the verdicts of another system on the prompts."""
    model = FakeLLM(ScriptedModel())

    async def complete(line: Mapping[str, str]) -> dict[str, object]:
        return json.loads((await model.complete(_ask(line))).text)

    return [{"id": line["id"], "judge": line["judge"], **asyncio.run(complete(line))} for line in asked]


def _ask(line: Mapping[str, str]) -> LLMRequest:
    schema: dict[str, JsonValue] = json.loads(json.dumps(line["schema"]))
    step = line.get("step") or f"judge_{line['judge']}"
    return LLMRequest(step=step, system=line["system"], user=line["user"], schema=schema)


def test_prompts_are_exported_and_answers_and_verdicts_imported(tmp_path: Path) -> None:
    options = qa_options(tmp_path)
    file, count = asyncio.run(dump_prompts(options, tmp_path / "out"))
    assert (file.name, count) == ("answer.jsonl", QUESTIONS)
    prompts = lines(file)
    assert list(prompts[0]) == ["id", "category", "step", "system", "user", "schema"]
    answers = written(tmp_path / "answers.jsonl", answered(prompts))
    given = replace(options, qa=replace(options.qa, answers=answers))
    file, count = asyncio.run(dump_prompts(given, tmp_path / "out"))
    assert (file.name, count) == ("judge.jsonl", 2 * QUESTIONS)
    assert list(lines(file)[0]) == ["id", "judge", "system", "user", "schema"]
    verdicts = judged(lines(file))
    written(answers, [*answered(prompts), *verdicts])
    report = run(given)
    direct = run(qa_options(tmp_path / "direct", answerer=FakeLLM(ScriptedModel())))
    assert report.metrics["accuracy_strict"] == direct.metrics["accuracy_strict"]
    assert report.metrics["recall@10"] == direct.metrics["recall@10"]
    assert [each.answer.text for each in report.questions] == [each.answer.text for each in direct.questions]
    assert [each.recalled for each in report.questions] == [each.recalled for each in direct.questions]
    assert (report.config["answerer"], report.config["judge"]) == ("external", "external")
    assert report.config["external_verdicts"] == 2 * QUESTIONS
    assert report.tables["cost"]["all"]["calls"] == 0


def test_exported_prompts_equal_those_of_reflect(tmp_path: Path) -> None:
    file, _ = asyncio.run(dump_prompts(qa_options(tmp_path), tmp_path / "out"))
    model = FakeLLM(ScriptedModel())
    run(qa_options(tmp_path / "direct", answerer=model, parallel=1))
    asked = [(each.system, each.user, each.schema) for each in model.received if each.step == "reflect"]
    assert [(line["system"], line["user"], line["schema"]) for line in lines(file)] == asked


def test_exported_prompts_offer_lookups_only_if_allowed(tmp_path: Path) -> None:
    file, _ = asyncio.run(dump_prompts(qa_options(tmp_path, max_lookups=0), tmp_path / "out"))
    assert not any("calls" in f"{line['system']}{line['schema']}" for line in lines(file))
    file, _ = asyncio.run(dump_prompts(qa_options(tmp_path), tmp_path / "out"))
    assert all("up to 3 rounds in all" in " ".join(line["system"].split()) for line in lines(file))


def test_an_export_leaves_no_bank(tmp_path: Path) -> None:
    asyncio.run(dump_prompts(qa_options(tmp_path), tmp_path / "out"))
    assert not list((tmp_path / "work" / "runs").glob("**/*.db*"))


def test_imported_answers_are_judged_and_missing_ones_counted(tmp_path: Path) -> None:
    answers = written(
        tmp_path / "answers.jsonl",
        [
            {"id": "conv-x/0", "answer": "A red kite [F1]."},
            {"id": "conv-x/1", "answer": {"text": "On 1 June 2023 [F2][F3].", "found": True, "steps": ["so it is"]}},
            {"id": "conv-x/2", "answer": 700, "strict": True, "lenient": True},
        ],
    )
    judge = FakeLLM(ScriptedModel())
    report = run(qa_options(tmp_path, answers=answers, judge=judge))
    assert [each.answer.text for each in report.questions] == ["A red kite.", "On 1 June 2023.", "700"]
    assert [each.verdicts[0].correct for each in report.questions] == [True, True, True]
    assert [each.answer.found for each in report.questions] == [None, True, None]
    assert len(judge.received) == 2
    assert (report.config["questions"], report.config["missing_answers"]) == (3, QUESTIONS - 3)
    assert "recall@10" not in report.metrics
    assert "flawed" not in report.metrics
    assert not list((tmp_path / "work" / "runs").glob("**/*.db*"))


def test_no_model_is_needed_if_all_verdicts_are_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VMEMO_LLM", "no such model")
    row = {"id": "conv-x/0", "answer": "x", "strict": False, "lenient": True}
    report = run(qa_options(tmp_path, answers=written(tmp_path / "answers.jsonl", [row])))
    assert report.config["judge"] == "external"


def test_a_limit_selects_its_part_of_the_answers(tmp_path: Path) -> None:
    rows = [{"id": id, "answer": "x", "strict": False, "lenient": True} for id in ("conv-x/0", "conv-y/0")]
    options = qa_options(tmp_path, answers=written(tmp_path / "answers.jsonl", rows))
    assert run(options).config["questions"] == 2
    assert run(replace(options, limit=1)).config["questions"] == 1


ANSWER = {"id": "conv-x/0", "answer": "kite"}


@pytest.mark.parametrize(
    ("rows", "complaint"),
    [
        ([ANSWER, {"id": "conv-z/9", "answer": "x"}], "conv-z/9"),
        ([{"id": f"z{n}", "answer": "x"} for n in range(9)], "and 4 more"),
        ([ANSWER, ANSWER], "two answers to conv-x/0"),
        ([ANSWER, {"id": "conv-x/1", "strict": True}], "no answer to it"),
        ([{**ANSWER, "strict": True}, {"id": "conv-x/0", "judge": "strict", "correct": False}], "two strict verdicts"),
        ([{"id": "conv-x/0", "answer": {"reply": "kite"}}], "neither text nor the JSON"),
        ([{"answer": "x"}], "line 1"),
        ([ANSWER, {"id": "conv-x/0", "judge": "kind", "correct": True}], "line 2"),
        ([], "contains no answer"),
        ([ANSWER, {"id": "conv-x/0", "judge": "strict", "correct": True}], "--judge MODEL"),
    ],
)
def test_the_error_for_an_invalid_file_names_the_problem(
    tmp_path: Path, rows: list[Mapping[str, object]], complaint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("VMEMO_LLM", raising=False)
    with pytest.raises(InvalidInput, match=complaint):
        run(qa_options(tmp_path, answers=written(tmp_path / "answers.jsonl", rows)))


@pytest.mark.parametrize("content", [b"\xff\xfe", b"[1]\n", b'{"id": "conv-x/0", "answer": "\\ud800"}'])
def test_a_file_in_another_format_is_rejected(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "odd.jsonl"
    file.write_bytes(content)
    with pytest.raises(InvalidInput, match=str(file.name)):
        run(qa_options(tmp_path, answers=file))
    with pytest.raises(InvalidInput, match="No such file"):
        run(qa_options(tmp_path, answers=tmp_path / "nowhere.jsonl"))


def test_prompts_are_exported_in_qa_mode_only(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="--mode qa"):
        asyncio.run(dump_prompts(replace(qa_options(tmp_path), mode="retrieval"), tmp_path / "out"))
