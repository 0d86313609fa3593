"""`vmemo test`: cases that a memory must pass, and their recording."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from vmemo.cli.command import Output, command
from vmemo.cli.options import AsJson, EmbedderName, Model
from vmemo.cli.output import one_line, progress
from vmemo.errors import InvalidInput
from vmemo.models.records import counted
from vmemo_replay.case_run import PRIVATE, CaseResult, Operation, junit, run_before_and_after, run_cases
from vmemo_replay.cases import PlacedCase, Source, read_cases, relative_to, write_cases
from vmemo_replay.configuration import Configuration, engine_model
from vmemo_replay.record import cases_of_question, cases_of_report

CasesArgument = Annotated[
    list[Path] | None, typer.Argument(metavar="CASES.yaml...", exists=True, dir_okay=False, help="Files of cases.")
]


@command(
    "vmemo test cases.yaml",
    "vmemo test cases.yaml --junit results.xml --embedder deep",
    "vmemo test cases.yaml --db memory.db --bank alice   asks a bank instead of the cases' own sources",
    "vmemo test cases.yaml --before-after reprocess",
    "vmemo test --record cases.yaml --report replay.json --turn 12",
    'vmemo test --record cases.yaml --question "Where does Ana live?" --db memory.db',
    name="test",
    resume="",
)
def run_test(  # noqa: PLR0913 - each is an option of the command
    files: CasesArgument = None,
    db: Annotated[
        str | None,
        typer.Option("--db", metavar="URL|FILE", help="With --bank: the bank to ask. Alone: holds temporary banks."),
    ] = None,
    bank: Annotated[str | None, typer.Option("--bank", metavar="NAME", help="The bank of --db to ask.")] = None,
    engine: Annotated[
        str | None, typer.Option("--engine", metavar="local|llm:MODEL", help="The engine, in place of --llm.")
    ] = None,
    llm: Model = None,
    embedder: EmbedderName = None,
    junit_file: Annotated[Path | None, typer.Option("--junit", help="Write the results as JUnit XML.")] = None,
    before_after: Annotated[
        Literal["reprocess", "reembed"] | None,
        typer.Option("--before-after", help="Run the cases on a copy before and after this, and compare."),
    ] = None,
    record: Annotated[Path | None, typer.Option("--record", metavar="FILE", help="Write cases to a new file.")] = None,
    report: Annotated[
        Path | None, typer.Option("--report", exists=True, help="With --record: the JSON report of a replay.")
    ] = None,
    turn: Annotated[
        list[int] | None, typer.Option("--turn", min=1, help="With --report: a turn that is right. Repeatable.")
    ] = None,
    question: Annotated[
        str | None, typer.Option(help="With --record: a question whose present hits are right.")
    ] = None,
    as_json: AsJson = False,
) -> Output:
    """Run cases: what a memory must and must not recall. The exit code is 1 if one fails.

    With --record, write cases: the turns of a replay that were marked, or a question with its present hits.
    """
    model = llm or None if engine is None else engine_model(engine)
    configuration = Configuration(llm=model, embedder=embedder or None)
    if record is not None:
        return _record(record, report, turn or [], question, _source(db, bank or "default"), configuration)
    if not files:
        raise InvalidInput("Pass the file of cases to run, or --record FILE to write one.")
    if bank is not None and db is None:
        raise InvalidInput(f"--bank {bank!r:.60} needs the database that holds it: pass --db.")
    given = None if db is None or bank is None else Source.of({"db": db, "bank": bank})
    cases = [relative_to(each) for file in files for each in read_cases(file, given)]
    if before_after is not None:
        return _before_after(cases, before_after, configuration, junit_file, as_json=as_json)
    with progress(shown=not as_json) as bars:
        task = bars.add_task("cases", total=len(cases))
        store = PRIVATE if db is None or given is not None else db
        results = asyncio.run(run_cases(cases, configuration, store=store, on_case=lambda: bars.advance(task)))
    _write_junit(junit_file, results)
    failed = sum(not result.passed for result in results)
    summary = (
        f"{counted(len(results), 'case')}, {failed:,} failed." if failed else f"{counted(len(results), 'case')} passed."
    )
    shown = Group(*[line for result in results for line in _lines(result)], summary)
    return Output([_as_value(result) for result in results], shown, exit_code=int(failed > 0))


def _source(db: str | None, bank: str) -> Source | None:
    return None if db is None else Source.of({"db": db, "bank": bank})


def _write_junit(file: Path | None, results: Sequence[CaseResult]) -> None:
    if file is not None:
        file.write_text(junit(results), encoding="utf-8")


def _lines(result: CaseResult) -> list[RenderableType]:
    placed = result.placed
    mark = ("passed", "green") if result.passed else ("FAILED", "red")
    title = Text.assemble(mark, f"  {placed.file.name} {placed.number}: {one_line(placed.case.title, 100)}")
    return [title, *(Text(f"        {one_line(failure)}") for failure in result.failures)]


def _as_value(result: CaseResult) -> dict[str, object]:
    placed = result.placed
    about: dict[str, object] = {"file": str(placed.file), "case": placed.number, "name": placed.case.title}
    return {
        **about,
        "passed": result.passed,
        "failures": result.failures,
        "hits": result.hits,
        "seconds": result.seconds,
    }


def _before_after(
    cases: Sequence[PlacedCase],
    operation: Operation,
    configuration: Configuration,
    junit_file: Path | None,
    *,
    as_json: bool,
) -> Output:
    """Run the cases on copies, before and after an operation, and show what differs."""
    if operation == "reembed" and configuration.embedder is None:
        raise InvalidInput("--before-after reembed needs the embedder to switch to: pass --embedder.")
    # The operation brings the new model or embedder; what was there before had none of it.
    before = replace(configuration, llm=None, embedder=None if operation == "reembed" else configuration.embedder)
    with progress(shown=not as_json) as bars:
        task = bars.add_task("cases", total=2 * len(cases))
        first, second = asyncio.run(
            run_before_and_after(cases, operation, before, configuration, on_case=lambda: bars.advance(task))
        )
    _write_junit(junit_file, second)
    pairs = list(zip(first, second, strict=True))
    different = [(old, new) for old, new in pairs if old.passed != new.passed or old.hits != new.hits]
    failed = sum(not result.passed for result in second)
    lines = [line for old, new in different for line in _difference(old, new)]
    summary = (
        f"{counted(len(cases), 'case')}: {sum(not each.passed for each in first):,} failed before {operation} and "
        f"{failed:,} after; the first hits of {len(different):,} differ."
    )
    value = [{"before": _as_value(old), "after": _as_value(new)} for old, new in pairs]
    return Output(value, Group(*lines, summary), exit_code=int(failed > 0))


def _difference(old: CaseResult, new: CaseResult) -> list[RenderableType]:
    placed = new.placed
    state = "passed" if new.passed else "FAILED"
    change = state if old.passed == new.passed else f"{'passed' if old.passed else 'FAILED'} -> {state}"
    title = Text(f"{change}  {placed.file.name} {placed.number}: {one_line(placed.case.title, 100)}")
    hits = [Text(f"        before: {one_line(text, 100)}", style="dim") for text in old.hits if text not in new.hits]
    hits += [Text(f"        after:  {one_line(text, 100)}") for text in new.hits if text not in old.hits]
    return [title, *hits, *(Text(f"        {one_line(failure)}", style="red") for failure in new.failures)]


def _record(
    file: Path,
    report: Path | None,
    turns: Sequence[int],
    question: str | None,
    source: Source | None,
    configuration: Configuration,
) -> Output:
    """Write cases of a report or of a question."""
    if report is not None and question is None:
        head, cases = cases_of_report(report, turns)
    elif question is not None and source is not None and report is None:
        head, cases = asyncio.run(cases_of_question(question, source, configuration))
    else:
        raise InvalidInput(
            "--record needs --report FILE, the JSON report of a replay with marks or --turn N, or --question with --db."
        )
    write_cases(file, head, cases)
    return Output({"file": str(file), "cases": len(cases)}, f"{counted(len(cases), 'case')} written to {file}.")
