"""`vmemo migrate`."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer
from rich.progress import Progress, TaskID

from vmemo import MigrationProgress, MigrationReport, MovedBank, migrate as move
from vmemo.cli.command import command
from vmemo.cli.options import AsJson
from vmemo.cli.output import counted, one_line, print_json, progress, stderr, stdout
from vmemo.cli.target import Target

_PLURALS = {"entity": "entities", "spending": "spendings"}
_STEPS = {"load": "loading", "verify": "verifying"}


@command(
    "vmemo migrate memory.db postgresql://vmemo@localhost/vmemo",
    "vmemo migrate postgresql://vmemo@localhost/vmemo sqlite:///copy.db --bank alice --bank bob",
    "vmemo migrate memory.db team.db --json   run it again to resume after an interruption",
)
def migrate(
    source: Annotated[str, typer.Argument(metavar="SOURCE", help="The database to copy from; it is not modified.")],
    target: Annotated[
        str, typer.Argument(metavar="TARGET", help="The database to copy to; created if it does not exist.")
    ],
    bank: Annotated[
        list[str] | None, typer.Option("--bank", metavar="NAME", help="Only this bank; repeatable.")
    ] = None,
    restart: Annotated[
        bool, typer.Option("--restart", help="Discard what interrupted migrations left in TARGET and start over.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Copy banks into another database and verify them; run it again to resume after an interruption."""
    with progress(shown=not as_json) as shown:
        verb = move(
            Target(source, "").url,
            Target(target, "").url,
            banks=bank or None,
            restart=restart,
            on_progress=_Bars(shown),
        )
        try:
            report = asyncio.run(verb)
        except KeyboardInterrupt:
            stderr().print("Stopped. Records loaded so far are kept; run the same command to resume.")
            raise
    if as_json:
        print_json(report.model_dump(mode="json"))
    else:
        _print_report(report)


class _Bars:
    """One progress bar per step, over the records of all banks."""

    def __init__(self, shown: Progress) -> None:
        self._shown = shown
        self._bars: dict[str, TaskID] = {}

    def __call__(self, now: MigrationProgress) -> None:
        if now.step not in self._bars:
            self._bars[now.step] = self._shown.add_task(_STEPS[now.step], total=now.total)
        description = f"{_STEPS[now.step]} {one_line(now.bank, 30)}"
        self._shown.update(self._bars[now.step], description=description, completed=now.done, total=now.total)


def _print_report(report: MigrationReport) -> None:
    for bank in report.banks:
        stdout().print(_line(bank), markup=False, soft_wrap=True)
    moved = sum(bank.state == "moved" for bank in report.banks)
    identical = len(report.banks) - moved
    passed = f"; {counted(identical, 'bank')} already present and identical" if identical else ""
    stdout().print(f"{counted(moved, 'bank')} copied and verified{passed}.")
    for name in report.unfinished:
        left = "is left unfinished in the target by another migration; --restart discards it."
        stdout().print(f"Bank {one_line(name)!r} {left}", markup=False, soft_wrap=True)


def _line(bank: MovedBank) -> str:
    name, held = one_line(bank.bank), ", ".join(_counted(kind, count) for kind, count in bank.records.items())
    if bank.state == "identical":
        return f"{name}: already present and identical ({held or 'empty'})"
    resumed = f"; {counted(bank.resumed, 'record')} from an earlier run" if bank.resumed else ""
    pending = f"; {counted(bank.pending, 'pending message')} queued" if bank.pending else ""
    left = ", ".join(f"{count:,} {kind}" for kind, count in bank.left.items())
    behind = f"; queued jobs not copied: {left}" if left else ""
    return f"{name}: {held or 'empty'}{resumed}{pending}{behind}"


def _counted(kind: str, count: int) -> str:
    return counted(count, kind, _PLURALS.get(kind))
