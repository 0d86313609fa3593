"""The answered questions of a report, with filters. All text is escaped: an answer may contain markup."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from vmemo.models.results import Usage
from vmemo_bench.qa.records import CitedFact, GivenAnswer, JudgedQuestion, JudgeVerdict, RecalledContext, RecalledFact

MAX_FACT_LENGTH = 300
"""Characters of a fact on the page; a report may contain many thousands of facts."""


def question_list(questions: Sequence[JudgedQuestion]) -> str:
    """Return a card with filters and a collapsible entry per question."""
    categories = sorted({each.category for each in questions})
    options = "".join(f'<option value="{escape(name)}">{escape(name)}</option>' for name in categories)
    return (
        '<section class="card wide"><h2>Questions</h2><div class="filters">'
        f'<label>Category <select id="category"><option value="">all</option>{options}</select></label>'
        '<label>Show <select id="show"><option value="">all</option><option value="wrong">wrong</option>'
        '<option value="disputed">judges disagree</option></select></label>'
        '<label>Search <input id="words" type="search"></label>'
        f'<output id="shown"></output></div>{"".join(map(_entry, questions))}</section>'
    )


def _entry(each: JudgedQuestion) -> str:
    wrong = not all(verdict.correct for verdict in each.verdicts)
    marks = "".join(map(_mark, each.verdicts))
    rows = [
        ("Asked on", escape(each.asked_on)),
        ("Correct answer", escape(each.gold)),
        ("Answer", escape(each.answer.text)),
        *((f"{verdict.judge.capitalize()} judge", _verdict(verdict)) for verdict in each.verdicts),
        ("Judging rule", escape(each.rule)),
        *_answer_rows(each.answer),
        *(_recall_rows(each.recalled) if each.recalled else ()),
        ("Usage", _usage(each)),
    ]
    body = "".join(f"<dt>{name}</dt><dd>{value}</dd>" for name, value in rows if value)
    return (
        f'<details class="q" data-category="{escape(each.category)}" data-wrong="{wrong:d}"'
        f' data-disputed="{each.disputed:d}"><summary>{marks} <span>{escape(each.id)} · {escape(each.category)}</span>'
        f"{escape(each.question)}</summary><dl>{body}</dl></details>"
    )


def _mark(verdict: JudgeVerdict) -> str:
    css, sign = ("up", "✓") if verdict.correct else ("down", "½" if any(verdict.scores) else "✗")
    return f'<b class="{css}" title="{verdict.judge}">{sign}</b>'


def _verdict(verdict: JudgeVerdict) -> str:
    return f"{_mark(verdict)} {escape(verdict.reason)}"


def _answer_rows(answer: GivenAnswer) -> Iterable[tuple[str, str]]:
    yield "Declined", "memory does not contain it" if answer.found is False else ""
    yield "Flaws", _list(map(escape, answer.flaws or ()))
    yield "Steps", _list(map(escape, answer.steps), tag="ol")
    yield "Lookups", _list(f"{escape(look.query)} <small>{look.found} found</small>" for look in answer.lookups)
    yield "Citations", _list(map(_cited, answer.cited or ()))


def _recall_rows(context: RecalledContext) -> Iterable[tuple[str, str]]:
    yield "Question type", escape(context.type)
    yield f"Recalled, {len(context.facts)} of {context.count}", _list(map(_recalled, context.facts), tag="ol")


def _cited(fact: CitedFact) -> str:
    return f"{_evidence(fact.evidence)}{_clipped(fact.text)} <small>{fact.network}, {escape(fact.day)}</small>"


def _recalled(fact: RecalledFact) -> str:
    ranks = ", ".join(f"{escape(channel)} {rank}" for channel, rank in fact.channels.items())
    about = f"score {fact.score:.3f} · {ranks} · {escape(fact.day)}"
    return f"{_evidence(fact.evidence)}{_clipped(fact.text)} <small>{about}</small>"


def _evidence(is_evidence: bool) -> str:
    return '<span class="evidence">evidence</span> ' if is_evidence else ""


def _clipped(text: str) -> str:
    return escape(text if len(text) <= MAX_FACT_LENGTH else f"{text[: MAX_FACT_LENGTH - 1]}…")


def _list(items: Iterable[str], *, tag: str = "ul") -> str:
    inside = "".join(f"<li>{item}</li>" for item in items)
    return f"<{tag}>{inside}</{tag}>" if inside else ""


def _usage(each: JudgedQuestion) -> str:
    context = f", {each.recalled.tokens:,} tokens recalled" if each.recalled else ""
    return f"answer {_spent(each.answer.usage)}; judges {_spent(each.judging)}{context}; ${each.cost:.4f}"


def _spent(usage: Usage) -> str:
    return f"{usage.calls} calls, {usage.input_tokens:,} tokens in, {usage.output_tokens:,} out"
