"""`vmemo replay`: what a memory would have given at each turn of a conversation."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.console import Group, RenderableType
from rich.progress import TaskID
from rich.text import Text

from vmemo.cli.command import Output, command
from vmemo.cli.options import EmbedderName, Model
from vmemo.cli.output import one_line, progress, stderr, table
from vmemo.errors import InvalidInput
from vmemo.models.records import counted
from vmemo_replay.configuration import Configuration, combinations
from vmemo_replay.dry_run import derive
from vmemo_replay.page import page
from vmemo_replay.replay import MOST_TURNS, ReplayOptions, replay as run_replay
from vmemo_replay.report import TURN_FLAGS, Prices, Report, as_json
from vmemo_replay.transcripts import Transcript, read_transcript

SHOWN_DERIVED = 20
"""Facts, entities, instructions and messages without facts that a dry run prints."""
FilesArgument = Annotated[
    list[Path], typer.Argument(metavar="FILE...", exists=True, readable=True, help="Conversations, as vmemo import.")
]
FromOption = Annotated[
    str | None,
    typer.Option("--from", metavar="PRODUCT", help="The product that wrote the files; detected by default."),
]


@command(
    "vmemo replay chat.json --html replay.html",
    "vmemo replay conversations.json --from chatgpt --last 50 --html replay.html --json replay.json",
    "vmemo replay chat.json --compare embedder=default,deep --compare max_tokens=512,1024 --html replay.html",
    "vmemo replay chat.json --llm openai:gpt-5-mini --prices 0.25,2 --turns 20",
    "vmemo replay chat.json --dry-run   shows the facts, entities, instructions and noise",
    resume="",
)
def replay(  # noqa: PLR0913 - each is an option of the command
    files: FilesArgument,
    origin: FromOption = None,
    json: Annotated[Path | None, typer.Option("--json", help="Write the report to this file.")] = None,
    html: Annotated[Path | None, typer.Option("--html", help="Write a page that works offline to this file.")] = None,
    compare: Annotated[
        list[str] | None,
        typer.Option("--compare", metavar="NAME=VALUE,…", help="Compare engines, embedders or settings; repeatable."),
    ] = None,
    turns: Annotated[int | None, typer.Option("--turns", min=1, help="Ask at the first turns only.")] = None,
    last: Annotated[int | None, typer.Option("--last", min=1, help="Ask at the last turns only.")] = None,
    most: Annotated[
        int, typer.Option(min=1, help="Ask at no more turns: questions first, others at even distances.")
    ] = MOST_TURNS,
    max_tokens: Annotated[int, typer.Option(min=1, help="Tokens of a recall, and of a context.")] = 1024,
    prices: Annotated[
        str | None, typer.Option("--prices", metavar="IN,OUT", help="Dollars per million tokens of your model.")
    ] = None,
    threshold: Annotated[
        float, typer.Option("--answerable", min=0, max=1, help="Questions below this probability are unanswerable.")
    ] = 0.5,
    derive: Annotated[
        Literal["turn", "session"] | None,
        typer.Option("--derive", help="Derive facts at each turn (local engine), or when a session ends (model)."),
    ] = None,
    no_reflect: Annotated[bool, typer.Option("--no-reflect", help="Ask a model for no answers.")] = False,
    keep: Annotated[
        Path | None, typer.Option("--keep", metavar="FILE", help="Keep the banks in this new database file.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be derived; keep nothing.")] = False,
    llm: Model = None,
    embedder: EmbedderName = None,
) -> Output:
    """Show what a memory would have given at each turn of a conversation, knowing only what was said before.

    Nothing is stored, unless --keep names a file. A turn is what a user says; the memory is asked with its words.
    """
    base = Configuration(llm=llm or None, embedder=embedder or None, max_tokens=max_tokens)
    configurations = combinations(base, compare or [])
    if keep is not None and keep.exists():
        raise InvalidInput(f"{keep} exists, and a replay keeps its banks in a new file. Name another one.")
    for path in (json, html, keep):
        if path is not None and not path.absolute().parent.is_dir():
            raise InvalidInput(
                f"{path} can't be written: there is no folder {path.absolute().parent}. Create it first."
            )
    gap = timedelta(minutes=base.resolved().episode_gap_minutes)
    transcript = read_transcript(files, origin, gap=gap)
    if dry_run:
        return _dry_run(transcript, configurations[0], json)
    options = ReplayOptions(
        first=turns,
        last=last,
        most=most,
        threshold=threshold,
        reflect=not no_reflect,
        pace=derive,
        prices=read_prices(prices),
        keep=keep,
    )
    report = _replayed(transcript, configurations, options, files=[path.name for path in files], origin=origin)
    if json is not None:
        json.write_text(as_json(report), encoding="utf-8")
    if html is not None:
        html.write_text(page(report, summary_rows(report)), encoding="utf-8")
    return Output(None, Group(_summary(report), *(f"Written: {path}" for path in (json, html) if path is not None)))


def _dry_run(transcript: Transcript, configuration: Configuration, json: Path | None) -> Output:
    """Show what would be derived from all messages, and keep nothing."""
    with stderr().status("deriving facts"):
        derived = asyncio.run(derive(transcript, configuration))
    if json is not None:
        json.write_text(derived.model_dump_json(indent=2), encoding="utf-8")
    shown: list[RenderableType] = []
    for name, items in derived.sections():
        rows = table(f"{name} ({len(items):,})", "date")
        for text, day in items[:SHOWN_DERIVED]:
            rows.add_row(Text(one_line(text)), day)
        more = len(items) - SHOWN_DERIVED
        shown += [rows, f"and {more:,} more; --json FILE has all\n"] if more > 0 else [rows] if items else []
    said = counted(len(transcript.lines), "message")
    return Output(None, Group(*shown, f"{said} read with {configuration.engine}; nothing was kept.", *transcript.notes))


def read_prices(text: str | None) -> Prices | None:
    """Return the prices of `IN,OUT`."""
    if text is None:
        return None
    try:
        read, written = map(float, text.split(","))
        return Prices(input=read, output=written)
    except (ValueError, InvalidInput) as error:
        raise InvalidInput(
            f"--prices {text!r:.40} must be two numbers of 0 or more, IN,OUT: the dollars per million tokens that your "
            "model reads and writes, such as 0.25,2."
        ) from error


def _replayed(
    transcript: Transcript,
    configurations: Sequence[Configuration],
    options: ReplayOptions,
    *,
    files: Sequence[str],
    origin: str | None,
) -> Report:
    asked = len(options.turns(transcript))
    if not asked:
        raise InvalidInput(f"{', '.join(files)}: no message is of a user, so there is no turn to ask at.")
    with progress() as bars:
        tasks: dict[str, TaskID] = {}

        def show(label: str, done: int) -> None:
            if label not in tasks:
                tasks[label] = bars.add_task(one_line(label, 40), total=asked)
            bars.update(tasks[label], completed=done)

        work = run_replay(transcript, configurations, options, files=files, origin=origin, on_turn=show)
        return asyncio.run(work)


def _summary(report: Report) -> RenderableType:
    said, sessions = counted(len(report.messages), "message"), report.messages[-1].session + 1
    title = f"{said} in {counted(sessions, 'session')}, {counted(len(report.turns), 'turn')}"
    rows = table("", *(f"{one_line(column.label, 40)}>" for column in report.columns), title=title)
    for name, *values in summary_rows(report):
        rows.add_row(name, *values)
    return Group(rows, *report.notes)


def summary_rows(report: Report) -> list[tuple[str, ...]]:
    """Return the totals, a row for each with the values of all configurations."""
    totals = [column.totals for column in report.columns]
    rows: list[tuple[str, ...]] = [
        ("facts", *(f"{len(column.facts):,}" for column in report.columns)),
        ("hits per turn", *(f"{each.hits / each.turns:.1f}" for each in totals)),
        ("tokens per recall", *(f"{each.tokens / each.turns:,.0f}" for each in totals)),
        ("tokens per context", *(f"{each.context_tokens / each.turns:,.0f}" for each in totals)),
        ("tokens per whole transcript", *(f"{each.transcript_tokens / each.turns:,.0f}" for each in totals)),
        *((f"turns: {flag}", *(f"{getattr(each, flag):,}" for each in totals)) for flag in TURN_FLAGS),
        ("recall ms, median and p95", *(f"{each.recall_p50:.0f}, {each.recall_p95:.0f}" for each in totals)),
        ("context ms, median and p95", *(f"{each.context_p50:.0f}, {each.context_p95:.0f}" for each in totals)),
    ]
    if len(totals) > 1:
        rows.append(("turns: different", *(f"{sum(turn.different for turn in report.turns):,}" for _ in totals)))
    if any(each.calls for each in totals):
        rows.append(("model calls of retain", *(f"{each.calls:,}" for each in totals)))
    if report.prices is not None or any(each.cents or each.retain_cents for each in totals):
        rows.append(("cents, contexts and answers", *(f"{each.cents:,.3f}" for each in totals)))
        rows.append(("cents, retain", *(f"{each.retain_cents:,.3f}" for each in totals)))
    if report.prices is not None:
        rows.append(("cents, whole transcripts", *(f"{each.transcript_cents:,.3f}" for each in totals)))
    return [*rows, ("seconds", *(f"{each.seconds:,.1f}" for each in totals))]
