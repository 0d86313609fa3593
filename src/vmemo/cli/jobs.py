"""`vmemo jobs`: queued work."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from rich.table import Table
from rich.text import Text

from vmemo.cli.command import command
from vmemo.cli.options import DEFAULT_BANK, DEFAULT_DB, AsJson, BankName, Db
from vmemo.cli.output import clipped, moment, print_json, stdout, table
from vmemo.cli.target import Place, run
from vmemo.models import utc_now
from vmemo.models.results import Job


@command("vmemo jobs", "vmemo jobs --bank alice --json")
def jobs(db: Db = DEFAULT_DB, bank: BankName = DEFAULT_BANK, as_json: AsJson = False) -> None:
    """Show queued work with its errors and when it is due; `vmemo worker` and `vmemo process` do it."""
    queued = run(Place(db, bank), lambda memory: memory.jobs())
    if as_json:
        print_json({"jobs": [job.model_dump(mode="json") for job in queued]})
    else:
        stdout().print(_table(queued) if queued else "Nothing is queued.")


def _table(queued: Sequence[Job]) -> Table:
    now = utc_now()
    rows = table("id>", "kind", "state", "due", "tries>", "last error")
    for job in queued:
        error = Text(clipped(job.error or ""), style="red")
        rows.add_row(str(job.id), job.kind, _state(job, now), moment(job.due), str(job.attempts), error)
    return rows


def _state(job: Job, now: datetime) -> str:
    if job.until is not None and job.until > now:
        return "running"
    return "failed" if job.error is not None else "waiting"
