"""Questions are answered from memory by one model and judged by another, and no call is repeated."""

from __future__ import annotations

import asyncio
import gc
from dataclasses import replace
from pathlib import Path

import pytest
from qa_data import ANSWERS, QUESTIONS, ScriptedModel, qa_options
from small_data import reproducible, run

from vmemo.errors import InvalidInput, VmemoError
from vmemo.providers import LocalExtractor
from vmemo_bench import BenchOptions, Progress, Report, run_benchmark
from vmemo_bench.qa.run import MAX_CONSECUTIVE_FAILURES
from vmemo_conformance.embedders import HashEmbedder
from vmemo_conformance.fake_llm import FakeLLM
from vmemo_conformance.llm_server import ScriptedServer


def scripted(folder: Path, script: ScriptedModel, *, judge: str = "judge") -> BenchOptions:
    return qa_options(folder, answerer=FakeLLM(script, name="answerer"), judge=FakeLLM(script, name=judge))


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Report:
    """An uninterrupted run."""
    return run(scripted(tmp_path_factory.mktemp("whole"), ScriptedModel()))


def test_locomo_is_answered_and_judged_over_the_wire(tmp_path: Path) -> None:
    with ScriptedServer(ScriptedModel()) as server:
        report = run(qa_options(tmp_path, answerer=f"{server.url}#small", judge=f"{server.url}#large"))
        models = {(asked.model, asked.step) for asked in server.received}
    assert models == {("small", "reflect"), ("large", "judge_both")}
    assert report.config["questions"] == QUESTIONS
    assert report.metrics["accuracy_strict"] == 5 / 8
    assert report.metrics["accuracy_lenient"] == 6 / 8
    assert report.metrics["judges_agree"] == 7 / 8
    assert (report.metrics["abstention_strict"], report.metrics["answerable_strict"]) == (1 / 2, 4 / 6)
    assert (report.metrics["declined"], report.metrics["flawed"]) == (0, 0)
    assert (report.metrics["cited_evidence"], report.metrics["citations_on_evidence"]) == (1, 1)
    assert set(report.categories) == {"single-hop", "temporal", "multi-hop", "open-domain", "adversarial"}
    assert report.categories["temporal"]["accuracy_lenient"] == 1.0
    assert "recall@10" in report.categories["single-hop"]
    assert "recall@10" not in report.categories["open-domain"]
    assert report.tables["cost"]["all"]["calls"] == 2 * QUESTIONS


def test_longmemeval_questions_have_their_own_date_and_unanswerable_ones_are_declined(tmp_path: Path) -> None:
    with ScriptedServer(ScriptedModel()) as server:
        report = run(qa_options(tmp_path, "longmemeval", answerer=f"{server.url}#m"))
        assert all("30 May 2023" in asked.user for asked in server.received)
    assert [each.id for each in report.questions] == ["q1", "q2", "q3_abs"]
    assert report.metrics["abstention_strict"] == 1.0
    assert report.metrics["accuracy_strict"] == 2 / 3
    assert report.config["answerer"] == report.config["judge"]


def test_a_question_is_reported_with_answer_verdicts_and_recalled_facts(whole: Report) -> None:
    first = whole.questions[0]
    assert (first.id, first.category, first.rule, first.gold) == ("conv-x/0", "single-hop", "fact", "a red kite")
    assert first.answer.text == "She bought a red kite."
    assert first.answer.steps == ("I read it.",)
    assert first.answer.cited is not None
    assert [(cited.text, cited.evidence) for cited in first.answer.cited] == [
        ("Ada: I bought a red kite in Porto.", True)
    ]
    assert first.recalled is not None
    assert [fact.rank for fact in first.recalled.facts] == list(range(1, len(first.recalled.facts) + 1))
    assert any(fact.evidence and "semantic" in fact.channels for fact in first.recalled.facts)
    assert first.verdicts[0].reason == "by the key a red kite"
    assert whole.questions[4].gold == "not known (invited wrong answer: Tofu)"


def test_the_answerer_sees_nothing_that_only_the_dataset_knows(tmp_path: Path) -> None:
    script = ScriptedModel()
    answerer = FakeLLM(script)
    run(qa_options(tmp_path, answerer=answerer, judge=FakeLLM(script)))
    prompts = "\n".join(asked.system + asked.user for asked in answerer.received)
    assert "Likely yes" not in prompts
    assert "Tofu the beagle" not in prompts
    assert not {"open-domain", "adversarial", "single-hop"} & set(prompts.split())


def test_the_cost_of_both_models_is_reported(tmp_path: Path) -> None:
    script = ScriptedModel()
    plain = scripted(tmp_path, script)
    report = run(replace(plain, qa=replace(plain.qa, prices=(1.0, 10.0), judge_prices=(2.0, 20.0))))
    cost = report.tables["cost"]
    tokens_in, tokens_out = cost["answer"]["tokens in"], cost["answer"]["tokens out"]
    assert isinstance(tokens_in, int)
    assert isinstance(tokens_out, int)
    assert cost["answer"]["dollars"] == pytest.approx((tokens_in + 10 * tokens_out) / 1e6)
    whole = cost["all"]["dollars"]
    assert isinstance(whole, float)
    assert whole == pytest.approx(sum(each.cost for each in report.questions))
    assert report.metrics["dollars"] == pytest.approx(whole / QUESTIONS)
    assert report.metrics["context_tokens"] > 10


@pytest.mark.parametrize("failed", [[0, 3, 6]])
def test_a_failed_question_is_named_and_only_it_is_retried(tmp_path: Path, whole: Report, failed: list[int]) -> None:
    names = [list(ANSWERS)[place] for place in failed]
    script = ScriptedModel(fails=set(names))
    with pytest.raises(VmemoError, match="LLMRefused") as raised:
        run(scripted(tmp_path, script))
    assert whole.questions[failed[0]].id in str(raised.value)
    tried = script.count("reflect")
    script.fails.clear()
    script.asked.clear()
    assert reproducible(run(scripted(tmp_path, script))) == reproducible(whole)
    assert {question for step, question in script.asked if step == "reflect"} == set(names)
    assert script.count("reflect") == len(names)
    assert tried == QUESTIONS


def test_an_answer_whose_judgement_failed_is_not_requested_again(tmp_path: Path) -> None:
    script = ScriptedModel(fails_to_judge={"What did Ada buy in Porto?"})
    with pytest.raises(VmemoError, match="conv-x/0"):
        run(scripted(tmp_path, script))
    script.fails_to_judge.clear()
    script.asked.clear()
    assert run(scripted(tmp_path, script)).config["questions"] == QUESTIONS
    assert dict(script.asked) == {("judge_both", "What did Ada buy in Porto?"): 1}


@pytest.mark.parametrize("step", [9])
def test_a_cancelled_run_resumes_and_gives_the_same_result(tmp_path: Path, whole: Report, step: int) -> None:
    script = ScriptedModel()

    async def cancelled() -> None:
        def stop(progress: Progress, /) -> None:
            if progress.done == step:
                task.cancel()

        task = asyncio.create_task(run_benchmark(scripted(tmp_path, script), stop))
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancelled())
    gc.collect()
    assert reproducible(run(scripted(tmp_path, script))) == reproducible(whole)
    assert QUESTIONS <= script.count("reflect") <= QUESTIONS + 4
    assert QUESTIONS <= script.count("judge_both") <= QUESTIONS + 4


def test_banks_are_kept_until_all_questions_are_answered(tmp_path: Path) -> None:
    script = ScriptedModel(fails={"Who swims?"})
    with pytest.raises(VmemoError):
        run(scripted(tmp_path, script))
    work = tmp_path / "work" / "runs"
    (bank,) = work.glob("*/*.db")
    kept = bank.stat().st_ino
    assert kept
    script.fails.clear()
    run(scripted(tmp_path, script))
    assert not list(work.glob("**/*.db*"))
    assert {path.suffix for path in work.iterdir()} == {".jsonl"}


def test_a_finished_run_makes_no_calls_again_and_another_judge_reuses_the_answers(tmp_path: Path) -> None:
    script = ScriptedModel()
    once = run(scripted(tmp_path, script))
    script.asked.clear()
    assert reproducible(run(scripted(tmp_path, script))) == reproducible(once)
    assert not script.asked
    run(scripted(tmp_path, script, judge="another"))
    assert (script.count("reflect"), script.count("judge_both")) == (0, QUESTIONS)


def test_a_run_stops_after_consecutive_failures(tmp_path: Path) -> None:
    script = ScriptedModel(fails=set(ANSWERS))
    options = scripted(tmp_path, script)
    with pytest.raises(VmemoError, match="8 consecutive failures") as raised:
        run(replace(options, qa=replace(options.qa, parallel=1)))
    assert script.count("reflect") == MAX_CONSECUTIVE_FAILURES
    assert "and 3 more" in str(raised.value)


@pytest.mark.parametrize("parallel", [16])
def test_the_number_of_parallel_questions_does_not_change_the_scores(
    tmp_path: Path, whole: Report, parallel: int
) -> None:
    options = scripted(tmp_path, ScriptedModel())
    assert reproducible(run(replace(options, qa=replace(options.qa, parallel=parallel)))) == reproducible(whole)


@pytest.mark.parametrize("benchmark", ["speed", "ablation", "retain"])
def test_only_datasets_have_qa_mode(benchmark: str, tmp_path: Path) -> None:
    options = replace(qa_options(tmp_path), benchmark=benchmark)  # pyright: ignore[reportArgumentType]
    with pytest.raises(InvalidInput, match="not for"):
        run(options)


def test_missing_and_invalid_models_are_rejected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("VMEMO_LLM", raising=False)
    with pytest.raises(InvalidInput, match="--answerer MODEL, or set VMEMO_LLM"):
        run(qa_options(tmp_path))
    with pytest.raises(InvalidInput, match="not a language model"):
        run(qa_options(tmp_path, answerer="gpt"))
    with pytest.raises(InvalidInput, match="can neither answer nor judge"):
        run(qa_options(tmp_path, answerer=LocalExtractor()))
    with pytest.raises(InvalidInput, match="at least one"):
        run(qa_options(tmp_path, parallel=0))
    with pytest.raises(InvalidInput, match="max_lookups must be"):
        run(qa_options(tmp_path, max_lookups=4))
    with pytest.raises(InvalidInput, match="--mode qa"):
        run(replace(qa_options(tmp_path, judge=FakeLLM({})), mode="retrieval"))


def test_the_model_of_the_environment_is_the_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with ScriptedServer(ScriptedModel()) as server:
        monkeypatch.setenv("VMEMO_LLM", f"{server.url}#everyday")
        report = run(qa_options(tmp_path, "longmemeval"))
    assert str(report.config["judge"]).endswith("#everyday")


def test_retrieval_mode_omits_questions_without_evidence(tmp_path: Path) -> None:
    report = run(replace(qa_options(tmp_path), mode="retrieval", embedder=HashEmbedder()))
    assert (report.config["questions"], report.config["skipped_questions"]) == (4, 4)
    assert report.questions == ()
    assert "mode" not in report.config
