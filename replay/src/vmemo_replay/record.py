"""Cases of what was right in a replay, or is right now."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from vmemo import Hit
from vmemo.errors import InvalidInput
from vmemo_replay.case_run import open_source
from vmemo_replay.cases import NewCase, Source
from vmemo_replay.configuration import Configuration
from vmemo_replay.report import KnownFact, Marked, Report, Said, Turn, read_report

EXPECTED = 3
"""First hits that a turn or a question without marks expects."""


def cases_of_report(path: Path, turns: Sequence[int]) -> tuple[Mapping[str, object], list[NewCase]]:
    """Return the source and the cases of a report: turns that were marked, and those given by number (from 1)."""
    report = read_report(path)
    if beyond := next((number for number in turns if number > len(report.turns)), None):
        raise InvalidInput(f"--turn {beyond}: the report has {len(report.turns)} turns.")
    wanted = {*turns}
    cases: list[NewCase] = []
    for number, turn in enumerate(report.turns, start=1):
        message = report.messages[turn.number]
        mark = report.marks.get(message.id)
        if mark is None and number in wanted:
            mark = Marked(right=_expected(report, turn))
        if mark is not None and (mark.right or mark.wrong or mark.silent):
            cases.append(_case(message, mark, report, first=number in wanted))
    if not cases:
        raise InvalidInput(
            f"{path} has no marks. Mark hits on the page of `vmemo replay --html` and save the report with marks, or "
            "name turns with --turn."
        )
    return {"files": list(report.files), "from": report.origin}, cases


def _expected(report: Report, turn: Turn) -> tuple[str, ...]:
    """Return the first hits that are neither stale nor noise, by message, or by text if the message has several."""
    facts = {fact.id: fact for fact in report.columns[0].facts}
    count = Counter(id for fact in facts.values() for id in fact.messages)
    hits = [hit for hit in turn.given[0].hits if not hit.flags][:EXPECTED]
    return tuple(_key(facts.get(hit.fact), hit.fact, count) for hit in hits)


def _key(fact: KnownFact | None, id: str, count: Counter[str]) -> str:
    if fact is None:
        return id
    return fact.messages[0] if fact.messages and count[fact.messages[0]] < 2 else fact.text


def _case(message: Said, mark: Marked, report: Report, *, first: bool) -> NewCase:
    texts = {each.id: each.text for each in report.messages}
    return NewCase(
        question=message.text,
        at=message.id,
        time=message.time.isoformat(),
        must_recall=mark.right,
        must_not_recall=mark.wrong,
        first=mark.right[0] if first and mark.right else None,
        silent=mark.silent,
        remarks=texts,
    )


async def cases_of_question(
    question: str, source: Source, configuration: Configuration
) -> tuple[Mapping[str, object], list[NewCase]]:
    """Return the source and a case of a question: the fewest hits that suffice now are right."""
    async with open_source(source, configuration) as memory:
        found = await memory.recall(question, precise=True)
    if not found.hits:
        raise InvalidInput(f"Nothing is recalled for {question!r:.80}, so there is nothing to expect.")
    named = expected_keys(found.hits)
    keys = {named[hit.id]: hit.text for hit in found.hits[:EXPECTED]}
    case = NewCase(question=question, must_recall=tuple(keys), first=next(iter(keys)), remarks=keys)
    return {"db": source.db, "bank": source.bank}, [case]


def expected_keys(hits: Sequence[Hit]) -> dict[str, str]:
    """Return what names each hit in a case: its message, or its text if several hits come from that message."""
    count = Counter[str](id for hit in hits for id in hit.fact.messages)
    sources = {hit.id: next(iter(hit.fact.messages), "") for hit in hits}
    return {hit.id: sources[hit.id] if count[sources[hit.id]] == 1 else hit.text for hit in hits}
