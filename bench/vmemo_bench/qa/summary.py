"""The report of a QA run: accuracy by both judges, citations, and cost."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from vmemo.models.results import Usage
from vmemo_bench.datasets import Dataset, DatasetQuestion
from vmemo_bench.options import BenchOptions, Prices, QaOptions
from vmemo_bench.qa.answering import dated_questions
from vmemo_bench.qa.journal import QaJournal
from vmemo_bench.qa.judging import rule_of
from vmemo_bench.qa.records import JUDGES, JudgedQuestion, JudgeVerdict, verdict_key
from vmemo_bench.report import Report, Setting, Table
from vmemo_bench.retrieval import selection_of
from vmemo_bench.statistics import Metrics, Timings, means, p50_p95

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
    strict, lenient = (journal.verdicts.get(verdict_key(question.id, judge, answer.digest)) for judge in JUDGES)
    if strict is None or lenient is None:
        return None
    return JudgedQuestion(
        id=question.id,
        category=question.category,
        rule=rule_of(question),
        question=question.text,
        asked_on=f"{question.asked_at:%Y-%m-%d}" if question.asked_at else "",
        gold=_gold(question),
        answerable=question.answerable,
        answer=answer,
        strict=strict,
        lenient=lenient,
        recalled=journal.recalled.get(question.id),
        cost=_dollars(answer.usage, qa.prices) + _dollars(strict.usage + lenient.usage, qa.judge_prices or qa.prices),
    )


def _gold(question: DatasetQuestion) -> str:
    lure = f"(invited wrong answer: {question.lure})" if question.lure and not question.answerable else ""
    return " ".join(filter(None, (question.answer or "not known", lure)))


def _dollars(usage: Usage, prices: Prices | None) -> float:
    """Return the cost by the given prices, or the cost that the model reported."""
    if prices is None:
        return usage.cost
    return (usage.input_tokens * prices[0] + usage.output_tokens * prices[1]) / MILLION


def metrics_of(each: JudgedQuestion) -> Metrics:
    """Return the metrics of one question; those that do not apply are omitted from the means."""
    strict, lenient = float(each.strict.correct), float(each.lenient.correct)
    kind = "answerable" if each.answerable else "abstention"
    scores: Metrics = {
        "accuracy_strict": strict,
        "accuracy_lenient": lenient,
        f"{kind}_strict": strict,
        f"{kind}_lenient": lenient,
        "judges_agree": float(not each.disputed),
        "answer_tokens": float(_tokens(each.answer.usage)),
        "judge_tokens": float(_tokens(each.strict.usage) + _tokens(each.lenient.usage)),
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
    return {stage: p50_p95(stages[stage]) for stage in sorted(stages, key=("total", "answer").__contains__)}


def _without_timings(each: JudgedQuestion) -> JudgedQuestion:
    recalled = each.recalled and each.recalled.model_copy(update={"timings": {}})
    return each.model_copy(update={"recalled": recalled, "answer": each.answer.model_copy(update={"ms": None})})


def _category_table(categories: Mapping[str, Sequence[JudgedQuestion]]) -> Table:
    return {
        name: {
            "questions": len(members),
            "answerable": sum(each.answerable for each in members),
            "strict": sum(each.strict.correct for each in members),
            "lenient": sum(each.lenient.correct for each in members),
            "declined": sum(each.answerable and each.answer.found is False for each in members),
        }
        for name, members in sorted(categories.items())
    }


def _cost_table(judged: Sequence[JudgedQuestion], qa: QaOptions) -> Table:
    """Return calls, tokens and dollars of answering and judging, in total and per question."""

    def total(verdicts: Sequence[JudgeVerdict]) -> Usage:
        return sum((verdict.usage for verdict in verdicts), Usage())

    judge_prices = qa.judge_prices or qa.prices
    parts = {
        "answer": (sum((each.answer.usage for each in judged), Usage()), qa.prices),
        "judge strict": (total([each.strict for each in judged]), judge_prices),
        "judge lenient": (total([each.lenient for each in judged]), judge_prices),
    }
    rows = {name: _cost_row(usage, _dollars(usage, prices), len(judged)) for name, (usage, prices) in parts.items()}
    usage = sum((usage for usage, _ in parts.values()), Usage())
    dollars = sum(_dollars(usage, prices) for usage, prices in parts.values())
    return {**rows, "all": _cost_row(usage, dollars, len(judged))}


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
