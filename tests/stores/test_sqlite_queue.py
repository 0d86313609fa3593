"""One file, several processes: each job is in one worker's hands."""

import asyncio
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

from vmemo.models.changes import Changes, NewJob
from vmemo.stores.sqlite.store import SqliteStore
from vmemo_conformance.samples import BANK, a_bank

JOBS, WORKERS = 200, 4

FORKED = """
import asyncio, os, sys
from pathlib import Path
from vmemo.stores.sqlite.store import SqliteStore

def say(*words) -> None:
    os.write(1, (" ".join(map(str, words)) + "\\n").encode())

async def lease(name: str) -> None:
    store = SqliteStore(Path(sys.argv[1]))
    await store.open()
    say("ready")
    os.read(0, 1)
    while taken := await store.lease(name, 600, limit=3):
        say(*(job.id for job in taken))
    await store.close()

for n in range(int(sys.argv[2])):
    if os.fork() == 0:
        asyncio.run(lease(f"worker {n}"))
        sys.exit()
sys.exit(max(os.wait()[1] for _ in range(int(sys.argv[2]))) > 0)
"""
"""Worker processes that open a store each, and lease jobs from when the standard input ends."""


def fill(path: Path) -> set[int]:
    async def run() -> set[int]:
        store = SqliteStore(path)
        await store.open()
        await store.create_bank(a_bank())
        await store.commit(Changes(bank=BANK, jobs=[NewJob(kind="observe", key=str(n)) for n in range(JOBS)]))
        found = {job.id for job in await store.jobs(BANK)}
        await store.close()
        return found

    return asyncio.run(run())


def test_processes_that_share_a_file_lease_each_job_once(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    queued = fill(path)
    # A process that forks must have no other thread, and numpy's library would start some.
    alone = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, "-c", FORKED, str(path), str(WORKERS)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=alone) as workers:
        assert workers.stdout is not None
        assert [workers.stdout.readline() for _ in range(WORKERS)] == ["ready\n"] * WORKERS
        taken = [int(id) for id in workers.communicate()[0].split()]
    assert workers.returncode == 0
    assert Counter(taken) == dict.fromkeys(queued, 1)
