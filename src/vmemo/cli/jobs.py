"""`vmemo jobs`: the job queue."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from rich.table import Table
from rich.text import Text

from vmemo.cli.command import command
from vmemo.cli.options import DEFAULT_BANK, DEFAULT_DB, AsJson, BankName, Db
from vmemo.cli.output import one_line, print_json, stdout, table, timestamp
from vmemo.cli.target import Target, run
from vmemo.models import utc_now
from vmemo.models.results import Job


@command("vmemo jobs", "vmemo jobs --bank alice --json")
def jobs(db: Db = DEFAULT_DB, bank: BankName = DEFAULT_BANK, as_json: AsJson = False) -> None:
    """List queued jobs with their errors and due times; `vmemo worker` and `vmemo process` run them."""
    queued = run(Target(db, bank), lambda memory: memory.jobs(), embeds=False)
    if as_json:
        print_json({"jobs": [job.model_dump(mode="json") for job in queued]})
    else:
        stdout().print(_table(queued) if queued else "The queue is empty.")


def _table(queued: Sequence[Job]) -> Table:
    now = utc_now()
    rows = table("id>", "kind", "state", "due", "attempts>", "last error")
    for job in queued:
        error = Text(one_line(job.error or ""), style="red")
        rows.add_row(str(job.id), job.kind, _state(job, now), timestamp(job.due), str(job.attempts), error)
    return rows


def _state(job: Job, now: datetime) -> str:
    if job.until is not None and job.until > now:
        return "running"
    return "failed" if job.error is not None else "waiting"
