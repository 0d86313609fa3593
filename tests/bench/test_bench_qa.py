"""Questions are answered from memory by one model and judged by another, and nothing is paid for twice."""

from __future__ import annotations

import asyncio
import gc
from dataclasses import replace
from pathlib import Path

import pytest
from qa_toy import KNOWN, QUESTIONS, Scripted, lasting, toy

from vmemo.errors import InvalidInput, VmemoError
from vmemo.retain.local import LocalExtractor
from vmemo.testing import FakeLLM, HashEmbedder, ScriptedServer
from vmemo_bench import BenchOptions, Progress, Report, run_benchmark
from vmemo_bench.qa.qa_run import PATIENCE


def run(options: BenchOptions) -> Report:
    return asyncio.run(run_benchmark(options))


def faked(folder: Path, script: Scripted, *, judge: str = "judge") -> BenchOptions:
    return toy(folder, answerer=FakeLLM(script, name="answerer"), judge=FakeLLM(script, name=judge))


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Report:
    """What a run finds that nothing disturbs."""
    return run(faked(tmp_path_factory.mktemp("whole"), Scripted()))


def test_locomo_is_answered_and_judged_over_the_wire(tmp_path: Path) -> None:
    with ScriptedServer(Scripted()) as server:
        report = run(toy(tmp_path, answerer=f"{server.url}#small", judge=f"{server.url}#large"))
        models = {(asked.model, asked.step) for asked in server.received}
    assert models == {("small", "reflect"), ("large", "judge_strict"), ("large", "judge_lenient")}
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
    assert report.tables["cost"]["all"]["calls"] == 3 * QUESTIONS


def test_longmemeval_is_asked_on_its_own_day_and_declines_what_was_not_told(tmp_path: Path) -> None:
    with ScriptedServer(Scripted()) as server:
        report = run(toy(tmp_path, "longmemeval", answerer=f"{server.url}#m"))
        assert all("30 May 2023" in asked.user for asked in server.received)
    assert [each.id for each in report.questions] == ["q1", "q2", "q3_abs"]
    assert report.metrics["abstention_strict"] == 1.0
    assert report.metrics["accuracy_strict"] == 2 / 3
    assert report.config["answerer"] == report.config["judge"]


def test_a_question_is_told_with_all_that_came_of_it(whole: Report) -> None:
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
    assert first.strict.reason == "by the key a red kite"
    assert whole.questions[4].gold == "not known (lured to: Tofu)"


def test_nothing_that_only_the_dataset_knows_reaches_the_one_who_answers(tmp_path: Path) -> None:
    script = Scripted()
    answerer = FakeLLM(script)
    run(toy(tmp_path, answerer=answerer, judge=FakeLLM(script)))
    told = "\n".join(asked.system + asked.user for asked in answerer.received)
    assert "Likely yes" not in told
    assert "Tofu the beagle" not in told
    assert not {"open-domain", "adversarial", "single-hop"} & set(told.split())


def test_what_it_costs_is_counted_for_both_models(tmp_path: Path) -> None:
    script = Scripted()
    plain = faked(tmp_path, script)
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


@pytest.mark.parametrize("failed", [[0], [0, 3, 6], range(QUESTIONS)])
def test_a_question_that_a_model_fails_is_named_and_alone_is_taken_up_again(
    tmp_path: Path, whole: Report, failed: list[int]
) -> None:
    names = [list(KNOWN)[place] for place in failed]
    script = Scripted(fails=set(names))
    with pytest.raises(VmemoError, match="LLMRefused") as raised:
        run(faked(tmp_path, script))
    assert whole.questions[failed[0]].id in str(raised.value)
    tried = script.count("reflect")
    script.fails.clear()
    script.asked.clear()
    assert lasting(run(faked(tmp_path, script))) == lasting(whole)
    assert {question for step, question in script.asked if step == "reflect"} == set(names)
    assert script.count("reflect") == len(names)
    assert tried == QUESTIONS


def test_an_answer_that_was_not_judged_is_not_asked_for_again(tmp_path: Path) -> None:
    script = Scripted(fails_to_judge={"What did Ada buy in Porto?"})
    with pytest.raises(VmemoError, match="conv-x/0"):
        run(faked(tmp_path, script))
    script.fails_to_judge.clear()
    script.asked.clear()
    assert run(faked(tmp_path, script)).config["questions"] == QUESTIONS
    assert dict(script.asked) == {
        ("judge_strict", "What did Ada buy in Porto?"): 1,
        ("judge_lenient", "What did Ada buy in Porto?"): 1,
    }


@pytest.mark.parametrize("step", [1, 4, 9, 13, 16, 20])
def test_a_run_that_is_cancelled_anywhere_goes_on_and_ends_the_same(tmp_path: Path, whole: Report, step: int) -> None:
    script = Scripted()

    async def cancelled() -> None:
        def stop(progress: Progress, /) -> None:
            if progress.done == step:
                task.cancel()

        task = asyncio.create_task(run_benchmark(faked(tmp_path, script), stop))
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancelled())
    gc.collect()
    assert lasting(run(faked(tmp_path, script))) == lasting(whole)
    assert QUESTIONS <= script.count("reflect") <= QUESTIONS + 4
    assert QUESTIONS <= script.count("judge_strict") <= QUESTIONS + 4


def test_banks_stay_while_questions_are_open_and_go_when_all_are_answered(tmp_path: Path) -> None:
    script = Scripted(fails={"Who swims?"})
    with pytest.raises(VmemoError):
        run(faked(tmp_path, script))
    work = tmp_path / "work" / "runs"
    (bank,) = work.glob("*/*.db")
    kept = bank.stat().st_ino
    assert kept
    script.fails.clear()
    run(faked(tmp_path, script))
    assert not list(work.glob("**/*.db*"))
    assert {path.suffix for path in work.iterdir()} == {".jsonl"}


def test_a_finished_run_is_not_paid_for_again_but_another_judge_is(tmp_path: Path) -> None:
    script = Scripted()
    once = run(faked(tmp_path, script))
    script.asked.clear()
    assert lasting(run(faked(tmp_path, script))) == lasting(once)
    assert not script.asked
    run(faked(tmp_path, script, judge="another"))
    assert (script.count("reflect"), script.count("judge_strict")) == (0, QUESTIONS)


def test_a_model_that_is_gone_is_not_asked_to_the_end(tmp_path: Path) -> None:
    script = Scripted(fails=set(KNOWN))
    options = faked(tmp_path, script)
    with pytest.raises(VmemoError, match="seems to be gone") as raised:
        run(replace(options, qa=replace(options.qa, parallel=1)))
    assert script.count("reflect") == PATIENCE
    assert "and 3 more" in str(raised.value)


@pytest.mark.parametrize("parallel", [1, 16])
def test_questions_one_at_a_time_or_many_score_the_same(tmp_path: Path, whole: Report, parallel: int) -> None:
    options = faked(tmp_path, Scripted())
    assert lasting(run(replace(options, qa=replace(options.qa, parallel=parallel)))) == lasting(whole)


@pytest.mark.parametrize("benchmark", ["speed", "ablation", "retain"])
def test_only_datasets_have_a_qa_mode(benchmark: str, tmp_path: Path) -> None:
    options = replace(toy(tmp_path), benchmark=benchmark)  # pyright: ignore[reportArgumentType]
    with pytest.raises(InvalidInput, match="not for"):
        run(options)


def test_models_that_are_missing_or_no_models_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("VMEMO_LLM", raising=False)
    with pytest.raises(InvalidInput, match="--answerer MODEL, or set VMEMO_LLM"):
        run(toy(tmp_path))
    with pytest.raises(InvalidInput, match="names no language model"):
        run(toy(tmp_path, answerer="gpt"))
    with pytest.raises(InvalidInput, match="can neither answer nor judge"):
        run(toy(tmp_path, answerer=LocalExtractor()))
    with pytest.raises(InvalidInput, match="at least one"):
        run(toy(tmp_path, parallel=0))
    with pytest.raises(InvalidInput, match="looks must be"):
        run(toy(tmp_path, looks=4))
    with pytest.raises(InvalidInput, match="--mode qa"):
        run(replace(toy(tmp_path, judge=FakeLLM({})), mode="retrieval"))


def test_the_model_of_the_environment_answers_and_judges(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with ScriptedServer(Scripted()) as server:
        monkeypatch.setenv("VMEMO_LLM", f"{server.url}#everyday")
        report = run(toy(tmp_path, "longmemeval"))
    assert str(report.config["judge"]).endswith("#everyday")


def test_retrieval_mode_asks_what_it_asked_before(tmp_path: Path) -> None:
    report = run(replace(toy(tmp_path), mode="retrieval", embedder=HashEmbedder()))
    assert (report.config["questions"], report.config["skipped_questions"]) == (4, 4)
    assert report.questions == ()
    assert "mode" not in report.config
