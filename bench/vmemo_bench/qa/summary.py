"""From what was noted to a report: accuracy by both judges, what answers rest on, and what all of it cost."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from vmemo.models.results import Usage
from vmemo_bench.datasets import Dataset, Question
from vmemo_bench.metrics import Metrics, means, spread
from vmemo_bench.options import BenchOptions, Prices, QaOptions
from vmemo_bench.qa.banks import dated
from vmemo_bench.qa.journal import Books
from vmemo_bench.qa.records import JUDGES, Examined, Judge, Verdict, verdict_key
from vmemo_bench.qa.rules import rule_of
from vmemo_bench.report import Report, Setting, Table

MILLION = 1e6


def summarise(options: BenchOptions, dataset: Dataset, books: Books, *, config: Mapping[str, Setting]) -> Report:
    """Means over all judged questions and per category, what they cost, and every question itself."""
    asked = [question for case in dataset.cases for question in dated(case)]
    examined = [found for question in asked if (found := _examined(question, books, options.qa)) is not None]
    categories: defaultdict[str, list[Examined]] = defaultdict(list)
    for each in examined:
        categories[each.category].append(each)
    held = [bank for case in dataset.cases if (bank := books.held.get(case.id)) is not None]
    counts: dict[str, Setting] = {
        "sample": options.sample,
        "limit": options.limit,
        "cases": len(dataset.cases),
        "questions": len(examined),
        "missing_answers": len(asked) - len(examined),
        "messages": sum(bank.messages for bank in held),
        "facts": sum(bank.facts for bank in held),
        "skipped_evidence": dataset.parsed.skipped_evidence,
        "skipped_questions": dataset.parsed.skipped_questions,
    }
    return Report(
        benchmark=options.benchmark,
        metrics=means([metrics_of(each) for each in examined]),
        categories={
            name: means([metrics_of(each) for each in members]) for name, members in sorted(categories.items())
        },
        timings=_timings(examined),
        config={**config, **counts},
        tables={"questions by category": _counts(categories), "cost": _cost(examined, options.qa)},
        questions=tuple(map(_lasting, examined)),
    )


def _examined(question: Question, books: Books, qa: QaOptions) -> Examined | None:
    """A question with its answer and verdicts, or None where they are missing."""
    answer = books.answered.get(question.id)
    if answer is None:
        return None
    strict, lenient = (books.verdicts.get(verdict_key(question.id, judge, answer.digest)) for judge in JUDGES)
    if strict is None or lenient is None:
        return None
    judged = _dollars(strict.usage + lenient.usage, qa.judge_prices or qa.prices)
    return Examined(
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
        recalled=books.recalled.get(question.id),
        cost=_dollars(answer.usage, qa.prices) + judged,
    )


def _gold(question: Question) -> str:
    lure = f"(lured to: {question.lure})" if question.lure and not question.answerable else ""
    return " ".join(filter(None, (question.answer or "not known", lure)))


def _dollars(usage: Usage, prices: Prices | None) -> float:
    """By the prices that were given, or else what the model itself says it cost."""
    if prices is None:
        return usage.cost
    return (usage.input_tokens * prices[0] + usage.output_tokens * prices[1]) / MILLION


def metrics_of(each: Examined) -> Metrics:
    """All that counts of one question; what does not apply to it is left out of its mean."""
    strict, lenient = float(each.strict.correct), float(each.lenient.correct)
    kind = "answerable" if each.answerable else "abstention"
    scores: Metrics = {
        "accuracy_strict": strict,
        "accuracy_lenient": lenient,
        f"{kind}_strict": strict,
        f"{kind}_lenient": lenient,
        "judges_agree": float(not each.disputed),
        "answer_tokens": float(each.answer.usage.input_tokens + each.answer.usage.output_tokens),
        "judge_tokens": float(sum(_tokens(verdict) for verdict in (each.strict, each.lenient))),
        "dollars": each.cost,
    }
    if each.answerable and each.answer.found is not None:
        scores["declined"] = float(not each.answer.found)
    if each.answer.flaws is not None:
        scores["flawed"] = float(bool(each.answer.flaws))
    if each.recalled is not None:
        scores |= {"context_tokens": float(each.recalled.tokens), **each.recalled.metrics}
        if each.recalled.metrics and each.answer.cited is not None:
            scores |= _citing([cited.evidence for cited in each.answer.cited])
    return scores


def _citing(evidence: Sequence[bool]) -> Metrics:
    """Whether any citation is evidence, and which share of them is."""
    share = {"citations_on_evidence": sum(evidence) / len(evidence)} if evidence else {}
    return {"cited_evidence": float(any(evidence)), **share}


def _tokens(verdict: Verdict) -> int:
    return verdict.usage.input_tokens + verdict.usage.output_tokens


def _timings(examined: Sequence[Examined]) -> dict[str, dict[str, float]]:
    """Of the stages of recall, of all of it, and of an answer."""
    stages: defaultdict[str, list[float]] = defaultdict(list)
    for each in examined:
        if each.recalled is not None:
            for stage, ms in each.recalled.timings.items():
                stages[stage].append(ms)
        if each.answer.ms is not None:
            stages["answer"].append(each.answer.ms)
    return {stage: spread(stages[stage]) for stage in sorted(stages, key=("total", "answer").__contains__)}


def _lasting(each: Examined) -> Examined:
    """Without what differs from run to run."""
    recalled = each.recalled and each.recalled.model_copy(update={"timings": {}})
    return each.model_copy(update={"recalled": recalled, "answer": each.answer.model_copy(update={"ms": None})})


def _counts(categories: Mapping[str, Sequence[Examined]]) -> Table:
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


def _cost(examined: Sequence[Examined], qa: QaOptions) -> Table:
    """Calls, tokens and dollars of answering and judging, in all and per question."""
    judging = qa.judge_prices or qa.prices
    parts = {
        "answer": (sum((each.answer.usage for each in examined), Usage()), qa.prices),
        **{f"judge {judge}": (_spent(examined, judge), judging) for judge in JUDGES},
    }
    rows = {name: _row(usage, _dollars(usage, prices), len(examined)) for name, (usage, prices) in parts.items()}
    whole = sum((usage for usage, _ in parts.values()), Usage())
    dollars = sum(_dollars(usage, prices) for usage, prices in parts.values())
    return {**rows, "all": _row(whole, dollars, len(examined))}


def _spent(examined: Sequence[Examined], judge: Judge) -> Usage:
    return sum(((each.strict if judge == "strict" else each.lenient).usage for each in examined), Usage())


def _row(usage: Usage, dollars: float, questions: int) -> dict[str, Setting]:
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
