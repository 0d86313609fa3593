"""Runs with a language model are recorded in a cassette and replayed without the model."""

from __future__ import annotations

import asyncio
import json
import lzma
from dataclasses import replace
from pathlib import Path

import pytest
from small_data import CountingEmbedder, recorded_line, run, write_locomo

from vmemo.errors import InvalidInput, LLMDenied, LLMUnavailable, VmemoError
from vmemo.models.results import Usage
from vmemo.ports import LLM, Completion, LLMRequest
from vmemo_bench import BenchOptions, dump_prompts
from vmemo_bench.cassette import Cassette, ReplayLLM, request_key
from vmemo_bench.datasets import load
from vmemo_bench.llms import open_llms
from vmemo_bench.options import BenchModelOptions
from vmemo_bench.recordings import load_recordings
from vmemo_bench.retain.recorded_llm import RecordedLLM
from vmemo_conformance.fake_llm import FakeLLM

QUESTIONS = [{"question": "What did Ada buy from the shop?", "answer": "kite", "evidence": ["D1:1"], "category": 4}]
SESSIONS = {1: ["I bought a kite from the shop.", "It is red."], 2: ["I sold the kite.", "I miss it."]}
RECORDING = [
    recorded_line("Ada bought a kite from the shop.", "D1:1"),
    recorded_line("Ada sold her kite.", "D2:1", session=2),
]
ANSWERS = {
    "reflect": '{"calls": [], "steps": [], "found": true, "text": "A kite."}',
    "judge_both": '{"reason": "partly right", "strict": false, "lenient": true}',
}
"""Answers to the prompts that the recording of the conversation does not answer."""
REQUEST = LLMRequest(step="extract", system="Extract.", user="Lines:\n1 | Hello", schema={"type": "object"})


class StrongModel:
    """A model that answers from the recording of the small conversation, fails after some calls, and counts them."""

    name = "127.0.0.1:8000#strong"

    def __init__(self, options: BenchOptions, *, calls: int = 1000) -> None:
        dataset = load(options)
        (case,) = dataset.cases
        self._llm = RecordedLLM(case, load_recordings(options, dataset)[case.id])
        self.calls = 0
        self._left = calls

    async def complete(self, request: LLMRequest) -> Completion:
        if self.calls == self._left:
            raise LLMUnavailable("the model is unreachable")
        self.calls += 1
        answer = ANSWERS.get(request.step)
        return await self._llm.complete(request) if answer is None else Completion(text=answer, usage=Usage(calls=1))


@pytest.fixture
def options(tmp_path: Path) -> BenchOptions:
    """Options of a run over one conversation with four messages."""
    data = write_locomo(tmp_path / "data", SESSIONS, QUESTIONS, RECORDING)
    return BenchOptions(
        benchmark="locomo", engine="llm", data=data, cache=tmp_path / "cache", embedder=CountingEmbedder()
    )


def recording(options: BenchOptions, model: object, file: Path) -> BenchOptions:
    return replace(options, llm=BenchModelOptions(model=model, record=file))  # pyright: ignore[reportArgumentType]


def replaying(options: BenchOptions, path: Path) -> BenchOptions:
    return replace(options, llm=BenchModelOptions(replay=path), embedder=CountingEmbedder())


def test_a_recorded_run_is_replayed_with_the_same_numbers(options: BenchOptions, tmp_path: Path) -> None:
    file, model = tmp_path / "cassettes" / "run.jsonl.xz", StrongModel(options)
    recorded = run(recording(options, model, file))
    assert recorded.metrics["recall@1"] == 1.0
    assert recorded.metrics["retain_calls_per_episode"] > 0
    assert recorded.config["llm"] == "127.0.0.1:8000#strong"
    again = run(recording(options, model, file))
    assert model.calls == len(Cassette(file).answers)
    for path in (file, file.parent):
        replayed = run(replaying(options, path))
        assert replayed.metrics == recorded.metrics == again.metrics
        assert replayed.tables == recorded.tables


def test_a_cassette_names_model_prompts_and_day_but_not_the_endpoint(options: BenchOptions, tmp_path: Path) -> None:
    file = tmp_path / "run.jsonl.xz"
    run(recording(options, StrongModel(options), file))
    header, *answers = map(json.loads, lzma.decompress(file.read_bytes()).decode().splitlines())
    assert header["prompts"]["extract"] >= 1
    assert len(header["recorded"]) == len("2026-11-16")
    assert {answer["model"] for answer in answers} == {"strong"}
    assert "127.0.0.1" not in str(answers)
    assert [path.name for path in tmp_path.glob("run*")] == ["run.jsonl.xz"]


def test_an_interrupted_recording_resumes_with_the_answers_so_far(options: BenchOptions, tmp_path: Path) -> None:
    file = tmp_path / "run.jsonl"
    with pytest.raises(VmemoError, match="the model is unreachable"):
        run(recording(options, StrongModel(options, calls=1), file))
    model = StrongModel(options)
    run(recording(options, model, file))
    assert model.calls == len(Cassette(file).answers) - 1


def test_equal_concurrent_requests_are_sent_once(options: BenchOptions, tmp_path: Path) -> None:
    model = FakeLLM({"extract": [{"facts": []}]})

    async def ask() -> tuple[Completion, Completion]:
        async with open_llms(recording(options, model, tmp_path / "run.jsonl")) as opened:
            llm = opened.llm.model
            assert isinstance(llm, LLM)
            return await asyncio.gather(llm.complete(REQUEST), llm.complete(REQUEST))

    one, two = asyncio.run(ask())
    assert one == two
    assert len(model.received) == 1


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (replace(REQUEST, step="observe"), "none of this step"),
        (replace(REQUEST, system="Extract all."), "system message differs"),
        (replace(REQUEST, schema={"type": "array"}), "schema of the answer differs"),
        (replace(REQUEST, user="Lines:\n1 | Bye"), "line 2 is '1 | Bye', .* '1 | Hello'"),
    ],
)
def test_a_missing_answer_names_what_differs(
    options: BenchOptions, tmp_path: Path, changed: LLMRequest, message: str
) -> None:
    file = tmp_path / "run.jsonl"

    async def record() -> None:
        async with open_llms(recording(options, FakeLLM({"extract": {"facts": []}}), file)) as opened:
            llm = opened.llm.model
            assert isinstance(llm, LLM)
            await llm.complete(REQUEST)

    asyncio.run(record())
    player = ReplayLLM(Cassette(file))
    assert asyncio.run(player.complete(REQUEST)).text == '{"facts": []}'
    with pytest.raises(LLMDenied, match=message):
        asyncio.run(player.complete(changed))


def test_the_key_of_a_request_depends_on_its_content_alone() -> None:
    assert request_key(REQUEST) == request_key(replace(REQUEST, schema=dict(REQUEST.schema), max_tokens=9))
    others = [replace(REQUEST, user="2 | Hello"), replace(REQUEST, system="Go."), replace(REQUEST, step="judge")]
    assert len({request_key(request) for request in (REQUEST, *others)}) == 4


def test_a_missing_answer_ends_a_replay(options: BenchOptions, tmp_path: Path) -> None:
    file = tmp_path / "run.jsonl"
    run(recording(options, StrongModel(options), file))
    *kept, _ = file.read_text().splitlines()
    file.write_text("\n".join(kept))
    with pytest.raises(VmemoError, match="no answer to a request of the step 'extract'"):
        run(replaying(options, file))


def test_prompts_about_a_replayed_bank_are_exported(options: BenchOptions, tmp_path: Path) -> None:
    run(recording(options, StrongModel(options), tmp_path / "run.jsonl"))
    asked = replace(replaying(options, tmp_path / "run.jsonl"), mode="qa")
    file, count = asyncio.run(dump_prompts(asked, tmp_path / "prompts"))
    assert count == 1
    assert "Ada bought a kite from the shop." in file.read_text()


@pytest.mark.parametrize(
    ("llm", "message"),
    [
        (BenchModelOptions(), "--llm MODEL"),
        (BenchModelOptions(record=Path("a.jsonl"), replay=Path("b.jsonl")), "not both"),
        (BenchModelOptions(record=Path("a.txt")), "ends in .jsonl"),
        (BenchModelOptions(replay=Path("missing.jsonl")), "No such cassette"),
    ],
)
def test_invalid_options_of_the_model_are_named(options: BenchOptions, llm: BenchModelOptions, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        run(replace(options, llm=llm))


def test_both_engines_are_compared_on_the_same_questions(options: BenchOptions, tmp_path: Path) -> None:
    model = StrongModel(options)
    compared = replace(options, benchmark="engines", engine="local", answer_tokens=(500,))
    report = run(recording(compared, model, tmp_path / "run.jsonl"))
    row = report.tables["engines"]["evidence@500"]
    assert row == {"local": report.metrics["local_evidence@500"], "llm": 1.0, "difference": row["difference"]}
    assert report.metrics["llm_derived_over_source"] > 0
    assert report.tables["engines"]["derived_over_source"]["local"] is None
    assert report.tables["engines"]["accuracy_lenient@500"] == {"local": 1.0, "llm": 1.0, "difference": 0.0}
    assert report.metrics["llm_accuracy_strict@500"] == 0.0
    assert run(replaying(compared, tmp_path / "run.jsonl")).metrics == report.metrics
    assert report.tables["retain by step"]["all"]["calls"] == report.tables["retained"]["conv-x"]["calls"]
