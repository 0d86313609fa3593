"""The report of a QA run: accuracy by both judges or scores by a rubric, citations, and cost."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from vmemo.models.results import Usage
from vmemo_bench.datasets import Dataset, DatasetQuestion
from vmemo_bench.options import BenchOptions, Prices, QaOptions
from vmemo_bench.qa.answering import dated_questions
from vmemo_bench.qa.journal import QaJournal
from vmemo_bench.qa.judging import judges_of, rule_of
from vmemo_bench.qa.records import JudgedQuestion, JudgeVerdict, verdict_key
from vmemo_bench.report import Report, Setting, Table
from vmemo_bench.retrieval import selection_of
from vmemo_bench.statistics import Metrics, Timings, means, percentiles

MILLION = 1e6


def summarise(options: BenchOptions, dataset: Dataset, journal: QaJournal, *, config: Mapping[str, Setting]) -> Report:
    """Report means over all judged questions and per category, their cost, and every question."""
    asked = [question for case in dataset.cases for question in dated_questions(case)]
    judged = [each for question in asked if (each := _judged(question, journal, options.qa)) is not None]
    categories: defaultdict[str, list[JudgedQuestion]] = defaultdict(list)
    for each in judged:
        categories[each.category].append(each)
    sizes = [size for case in dataset.cases if (size := journal.sizes.get(case.id)) is not None]
    return Report(
        benchmark=options.benchmark,
        metrics=means(list(map(metrics_of, judged))),
        categories={name: means(list(map(metrics_of, members))) for name, members in sorted(categories.items())},
        timings=_timings(judged),
        config={
            **config,
            **selection_of(options, dataset, judged),
            "missing_answers": len(asked) - len(judged),
            "messages": sum(size.messages for size in sizes),
            "facts": sum(size.facts for size in sizes),
        },
        tables={"questions by category": _category_table(categories), "cost": _cost_table(judged, options.qa)},
        questions=tuple(map(_without_timings, judged)),
    )


def _judged(question: DatasetQuestion, journal: QaJournal, qa: QaOptions) -> JudgedQuestion | None:
    """Return a question with its answer and verdicts; None if they are missing."""
    answer = journal.answers.get(question.id)
    if answer is None:
        return None
    verdicts = {j: journal.verdicts.get(verdict_key(question.id, j, answer.digest)) for j in judges_of(question)}
    if None in verdicts.values():
        return None
    judged = JudgedQuestion(
        id=question.id,
        category=question.category,
        rule=rule_of(question),
        question=question.text,
        asked_on=f"{question.asked_at:%Y-%m-%d}" if question.asked_at else "",
        gold=_gold(question),
        answerable=question.answerable,
        answer=answer,
        recalled=journal.recalled.get(question.id),
        cost=0.0,
        **verdicts,
    )
    cost = _dollars(answer.usage, qa.prices) + _dollars(judged.judging, qa.judge_prices or qa.prices)
    return judged.model_copy(update={"cost": cost})


def _gold(question: DatasetQuestion) -> str:
    if question.rubric:
        return "; ".join(question.rubric)
    lure = f"(invited wrong answer: {question.lure})" if question.lure and not question.answerable else ""
    return " ".join(filter(None, (question.answer or "not known", lure)))


def _dollars(usage: Usage, prices: Prices | None) -> float:
    """Return the cost by the given prices, or the cost that the model reported."""
    if prices is None:
        return usage.cost
    return (usage.input_tokens * prices[0] + usage.output_tokens * prices[1]) / MILLION


def metrics_of(each: JudgedQuestion) -> Metrics:
    """Return the metrics of one question; those that do not apply are omitted from the means."""
    scores: Metrics = {
        **(_rubric_metrics(each.rubric) if each.rubric is not None else _accuracy_metrics(each)),
        "answer_tokens": float(_tokens(each.answer.usage)),
        "judge_tokens": float(_tokens(each.judging)),
        "dollars": each.cost,
    }
    if each.answerable and each.answer.found is not None:
        scores["declined"] = float(not each.answer.found)
    if each.answer.flaws is not None:
        scores["flawed"] = float(bool(each.answer.flaws))
    if each.recalled is not None:
        scores |= {"context_tokens": float(each.recalled.tokens), **each.recalled.metrics}
        if each.recalled.metrics and each.answer.cited is not None:
            scores |= _citation_metrics([cited.evidence for cited in each.answer.cited])
    return scores


def _accuracy_metrics(each: JudgedQuestion) -> Metrics:
    kind = "answerable" if each.answerable else "abstention"
    correct = {verdict.judge: float(verdict.correct) for verdict in each.verdicts}
    return {
        **{f"accuracy_{judge}": right for judge, right in correct.items()},
        **{f"{kind}_{judge}": right for judge, right in correct.items()},
        "judges_agree": float(not each.disputed),
    }


def _rubric_metrics(verdict: JudgeVerdict) -> Metrics:
    """Return the mean score of the criteria, and whether all are met."""
    return {"score": _mean_score(verdict), "all_met": float(verdict.correct)}


def _mean_score(verdict: JudgeVerdict) -> float:
    return sum(verdict.scores) / max(1, len(verdict.scores))


def _citation_metrics(evidence: Sequence[bool]) -> Metrics:
    """Return whether any citation is evidence, and the share of citations that are."""
    share = {"citations_on_evidence": sum(evidence) / len(evidence)} if evidence else {}
    return {"cited_evidence": float(any(evidence)), **share}


def _tokens(usage: Usage) -> int:
    return usage.input_tokens + usage.output_tokens


def _timings(judged: Sequence[JudgedQuestion]) -> Timings:
    """Return the times of the stages of recall, of the whole recall, and of the answer."""
    stages: defaultdict[str, list[float]] = defaultdict(list)
    for each in judged:
        if each.recalled is not None:
            for stage, ms in each.recalled.timings.items():
                stages[stage].append(ms)
        if each.answer.ms is not None:
            stages["answer"].append(each.answer.ms)
    return {stage: percentiles(stages[stage]) for stage in sorted(stages, key=("total", "answer").__contains__)}


def _without_timings(each: JudgedQuestion) -> JudgedQuestion:
    recalled = each.recalled and each.recalled.model_copy(update={"timings": {}})
    return each.model_copy(update={"recalled": recalled, "answer": each.answer.model_copy(update={"ms": None})})


def _category_table(categories: Mapping[str, Sequence[JudgedQuestion]]) -> Table:
    return {name: _category_row(members) for name, members in sorted(categories.items())}


def _category_row(members: Sequence[JudgedQuestion]) -> dict[str, Setting]:
    by_judge: defaultdict[str, list[JudgeVerdict]] = defaultdict(list)
    for verdict in (verdict for each in members for verdict in each.verdicts):
        by_judge[verdict.judge].append(verdict)
    return {
        "questions": len(members),
        "answerable": sum(each.answerable for each in members),
        **{
            judge: sum(map(_mean_score, verdicts)) if judge == "rubric" else sum(each.correct for each in verdicts)
            for judge, verdicts in by_judge.items()
        },
        "declined": sum(each.answerable and each.answer.found is False for each in members),
    }


def _cost_table(judged: Sequence[JudgedQuestion], qa: QaOptions) -> Table:
    """Return calls, tokens and dollars of answering and judging, in total and per question."""
    usage: defaultdict[str, Usage] = defaultdict(Usage)
    for each in judged:
        usage["answer"] += each.answer.usage
        for verdict in each.verdicts:
            usage[f"judge {verdict.judge}"] += verdict.usage
    dollars = {
        name: _dollars(spent, qa.prices if name == "answer" else qa.judge_prices or qa.prices)
        for name, spent in usage.items()
    }
    rows = {name: _cost_row(spent, dollars[name], len(judged)) for name, spent in usage.items()}
    return {**rows, "all": _cost_row(sum(usage.values(), Usage()), sum(dollars.values()), len(judged))}


def _cost_row(usage: Usage, dollars: float, questions: int) -> dict[str, Setting]:
    each = max(1, questions)
    return {
        "calls": usage.calls,
        "tokens in": usage.input_tokens,
        "tokens out": usage.output_tokens,
        "dollars": dollars,
        "calls each": usage.calls / each,
        "tokens in each": usage.input_tokens / each,
        "tokens out each": usage.output_tokens / each,
        "dollars each": dollars / each,
    }
