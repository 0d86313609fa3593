"""`vmemo migrate`: output, exit codes, and resuming after a kill."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from typer.testing import Result

from max_wait import MAX_WAIT
from vmemo.models import BankId
from vmemo.stores.sqlite.store import SqliteStore
from vmemo_conformance.samples import a_bank, store_messages

Run = Callable[..., Result]
LINES = 2500
"""Enough for three pages."""


@pytest.fixture
def target(tmp_path: Path) -> str:
    """A file that is not there yet."""
    return str(tmp_path / "target.db")


def exported(invoke: Run, db: str, folder: Path, bank: str = "default") -> bytes:
    file = folder / "export.jsonl"
    assert invoke("export", str(file), "--db", db, "--bank", bank, "--force").exit_code == 0
    return file.read_bytes()


def test_migrate_copies_every_bank_and_reports_it(invoke: Run, db: str, target: str, tmp_path: Path) -> None:
    assert invoke("retain", "Bo sails.", "--bank", "bo", "--db", db).exit_code == 0
    result = invoke("migrate", db, target)
    assert result.exit_code == 0, result.output
    bo, default, last = result.stdout.splitlines()
    assert bo.startswith("bo: 1 message, ")
    assert "3 messages" in default
    assert "entities" in default
    assert last == "2 banks copied and verified."
    assert result.stderr == ""
    for bank in ("bo", "default"):
        assert exported(invoke, target, tmp_path, bank) == exported(invoke, db, tmp_path, bank)


def test_migrate_copies_to_postgresql_and_back(
    invoke: Run, db: str, postgres_url: str, target: str, tmp_path: Path
) -> None:
    there = json.loads(invoke("migrate", db, postgres_url, "--json").stdout)
    back = json.loads(invoke("migrate", postgres_url, target, "--json").stdout)
    assert there["banks"][0]["sha256"] == back["banks"][0]["sha256"]
    assert exported(invoke, target, tmp_path) == exported(invoke, db, tmp_path)


def test_migrate_again_skips_identical_banks(invoke: Run, db: str, target: str) -> None:
    first = json.loads(invoke("migrate", db, target, "--json").stdout)
    again = json.loads(invoke("migrate", db, target, "--json").stdout)
    assert [bank["state"] for bank in (*first["banks"], *again["banks"])] == ["moved", "identical"]
    assert first["banks"][0]["records"] == again["banks"][0]["records"]
    told = invoke("migrate", db, target).stdout
    assert "default: already present and identical (" in told
    assert "0 banks copied and verified; 1 bank already present and identical." in told


def test_migrate_shows_progress_on_a_terminal_and_not_with_json(invoke: Run, db: str, target: str) -> None:
    terminal = {"NO_COLOR": "", "FORCE_COLOR": "1"}
    shown = invoke("migrate", db, target, **terminal).stderr
    assert all(step in shown for step in ("loading default", "verifying default"))
    assert invoke("migrate", db, target, "--json", **terminal).stderr == ""


def test_migrate_copies_only_the_given_banks(invoke: Run, db: str, target: str) -> None:
    for name in ("bo", "cy"):
        assert invoke("retain", "I sail.", "--bank", name, "--db", db).exit_code == 0
    moved = json.loads(invoke("migrate", db, target, "--bank", "cy", "--bank", "bo", "--json").stdout)
    assert [bank["bank"] for bank in moved["banks"]] == ["bo", "cy"]


def test_migrate_reports_pending_messages(invoke: Run, db: str, target: str) -> None:
    with closing(sqlite3.connect(db)) as connection:
        connection.execute("UPDATE messages SET state = 'pending'")
        connection.commit()
    assert "3 pending messages queued" in invoke("migrate", db, target).stdout


def test_migrate_refuses_a_target_with_a_different_bank_of_that_name(invoke: Run, db: str, target: str) -> None:
    assert invoke("retain", "Something else.", "--db", target).exit_code == 0
    result = invoke("migrate", db, target)
    assert (result.exit_code, result.stdout) == (1, "")
    assert "Bank 'default' is already in the target" in result.stderr
    refused = json.loads(invoke("migrate", db, target, "--json").stderr)
    assert refused["error"] == "InvalidInput"


def test_migrate_with_a_missing_source_creates_nothing(invoke: Run, tmp_path: Path, target: str) -> None:
    result = invoke("migrate", str(tmp_path / "none.db"), target)
    assert (result.exit_code, result.stdout) == (1, "")
    assert "There is no database" in result.stderr
    assert list(tmp_path.iterdir()) == []
    assert invoke("migrate", target).exit_code == 2


async def _many(path: Path) -> None:
    store = SqliteStore(path)
    await store.open()
    await store.create_bank(a_bank("big"))
    await store_messages(
        store, *(f"Line {number} of a long talk." for number in range(LINES)), bank=BankId("big"), state="raw"
    )
    await store.close()


def come(target: str) -> int:
    """Return the number of loaded records, read directly from the database."""
    if not Path(target).exists():
        return 0
    with closing(sqlite3.connect(f"file:{target}?mode=ro", uri=True, timeout=MAX_WAIT)) as connection:
        try:
            found = connection.execute("SELECT engine FROM banks WHERE replaces = 0").fetchone()
        except sqlite3.OperationalError:
            return 0
    return 0 if found is None else json.loads(found[0])["records"]


# A shell starts what it puts in the background with interrupts ignored, and so may whoever runs these tests.
PAUSING = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
from vmemo.cli import main
from vmemo.transfer import migrate as bank_migration

receive = bank_migration.receive

async def receive_and_wait(*arguments, **options):
    received = await receive(*arguments, **options)
    print("page", flush=True)
    sys.stdin.read()
    return received

bank_migration.receive = receive_and_wait
main()
"""
"""Says when a page has come, and waits for the end of its input."""


def stopped(source: str, target: str, how: signal.Signals) -> tuple[int, str]:
    """End a migration once a page has come; its exit code and what it said."""
    command = [sys.executable, "-c", PAUSING, "migrate", source, target]
    around, pipe = {**os.environ, "COLUMNS": "100"}, subprocess.PIPE
    with subprocess.Popen(command, env=around, stdin=pipe, stdout=pipe, stderr=pipe, encoding="utf-8") as moving:
        assert moving.stdout is not None
        assert moving.stdout.readline() == "page\n"
        moving.send_signal(how)
        said = moving.communicate(timeout=MAX_WAIT)[1]
    return moving.returncode, said


def test_a_killed_and_an_interrupted_migration_resume(invoke: Run, db: str, target: str, tmp_path: Path) -> None:
    source = str(tmp_path / "big.db")
    asyncio.run(_many(Path(source)))
    assert stopped(source, target, signal.SIGKILL)[0] == -signal.SIGKILL
    killed = come(target)
    assert 0 < killed < LINES
    code, said = stopped(source, target, signal.SIGINT)
    assert code == 130
    assert "run the same command to resume" in said
    there = come(target)
    assert killed < there < LINES
    left = "Bank 'big' is left unfinished in the target by another migration; --restart discards it."
    assert left in invoke("migrate", db, target).stdout
    result = invoke("migrate", source, target)
    assert result.exit_code == 0, result.output
    assert f"; {there:,} records from an earlier run" in result.stdout
    assert f"big: already present and identical ({LINES:,} messages)" in invoke("migrate", source, target).stdout
