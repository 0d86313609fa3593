"""`vmemo migrate`."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer
from rich.progress import Progress, TaskID

from vmemo import MigrationProgress, MigrationReport, MovedBank
from vmemo import migrate as move
from vmemo.cli.command import command
from vmemo.cli.options import AsJson
from vmemo.cli.output import clipped, many, print_json, progress, stderr, stdout
from vmemo.cli.target import Place

_PLURALS = {"entity": "entities", "spending": "spendings"}
_STEPS = {"load": "loading", "verify": "verifying"}


@command(
    "vmemo migrate memory.db postgresql://vmemo@localhost/vmemo",
    "vmemo migrate postgresql://vmemo@localhost/vmemo sqlite:///copy.db --bank alice --bank bob",
    "vmemo migrate memory.db team.db --json   run again after an interruption, it goes on",
)
def migrate(
    source: Annotated[str, typer.Argument(metavar="SOURCE", help="The database to copy from; it is only read.")],
    target: Annotated[str, typer.Argument(metavar="TARGET", help="The database to copy to; it is made if need be.")],
    bank: Annotated[list[str] | None, typer.Option("--bank", metavar="NAME", help="Only this bank.")] = None,
    anew: Annotated[
        bool, typer.Option("--anew", help="Drop what interrupted migrations left in TARGET, and begin anew.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Copy all banks, or some, into another database, each whole and verified; run it again to go on after a stop."""
    with progress(shown=not as_json) as shown:
        verb = move(
            Place(source, "").url, Place(target, "").url, banks=bank or None, anew=anew, on_progress=_Bars(shown)
        )
        try:
            report = asyncio.run(verb)
        except KeyboardInterrupt:
            stderr().print("Stopped. What was loaded is kept; the same command goes on from there.")
            raise
    if as_json:
        print_json(report.model_dump(mode="json"))
    else:
        _tell(report)


class _Bars:
    """One bar for each step, over the records of all banks."""

    def __init__(self, shown: Progress) -> None:
        self._shown = shown
        self._bars: dict[str, TaskID] = {}

    def __call__(self, now: MigrationProgress) -> None:
        if now.step not in self._bars:
            self._bars[now.step] = self._shown.add_task(_STEPS[now.step], total=now.total)
        told = f"{_STEPS[now.step]} {clipped(now.bank, 30)}"
        self._shown.update(self._bars[now.step], description=told, completed=now.done, total=now.total)


def _tell(report: MigrationReport) -> None:
    for bank in report.banks:
        stdout().print(_line(bank), markup=False, soft_wrap=True)
    moved = sum(bank.state == "moved" for bank in report.banks)
    there = len(report.banks) - moved
    passed = f"; {many(there, 'bank')} there already and equal" if there else ""
    stdout().print(f"{many(moved, 'bank')} moved and verified{passed}.")
    for name in report.unfinished:
        left = "was left unfinished in the target by another migration; --anew drops it."
        stdout().print(f"Bank {clipped(name)!r} {left}", markup=False, soft_wrap=True)


def _line(bank: MovedBank) -> str:
    name, held = clipped(bank.bank), ", ".join(_counted(kind, count) for kind, count in bank.records.items())
    if bank.state == "there":
        return f"{name}: there already and equal ({held or 'empty'})"
    resumed = f"; {many(bank.resumed, 'record')} of an earlier try" if bank.resumed else ""
    unread = f"; {many(bank.unread, 'unread message')} queued" if bank.unread else ""
    left = ", ".join(f"{count:,} {kind}" for kind, count in bank.left.items())
    behind = f"; queued work left behind: {left}" if left else ""
    return f"{name}: {held or 'empty'}{resumed}{unread}{behind}"


def _counted(kind: str, count: int) -> str:
    return many(count, kind, _PLURALS.get(kind))
