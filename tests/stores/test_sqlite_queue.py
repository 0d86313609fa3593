"""One file, several processes: each job is in one worker's hands."""

import asyncio
import subprocess
import sys
from collections import Counter
from pathlib import Path

from vmemo.models.changes import Changes, NewJob
from vmemo.stores.sqlite.store import SqliteStore
from vmemo_conformance.samples import BANK, a_bank

JOBS, WORKERS = 200, 4

WORKER = """
import asyncio, sys
from pathlib import Path
from vmemo.stores.sqlite.store import SqliteStore

async def main() -> None:
    store = SqliteStore(Path(sys.argv[1]))
    await store.open()
    print("ready", flush=True)
    sys.stdin.readline()
    while taken := await store.lease(sys.argv[2], 600, limit=3):
        print(*(job.id for job in taken), flush=True)
    await store.close()

asyncio.run(main())
"""


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
    workers = [
        subprocess.Popen(
            [sys.executable, "-c", WORKER, str(path), f"worker {n}"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for n in range(WORKERS)
    ]
    for worker in workers:
        assert worker.stdout is not None
        assert worker.stdout.readline() == "ready\n"
    for worker in workers:
        assert worker.stdin is not None
        worker.stdin.write("go\n")
        worker.stdin.flush()
    taken = [[int(id) for id in worker.communicate()[0].split()] for worker in workers]
    assert [worker.returncode for worker in workers] == [0] * WORKERS
    assert Counter(id for ids in taken for id in ids) == dict.fromkeys(queued, 1)
