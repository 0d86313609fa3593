"""One file, several processes: each job is in one worker's hands."""

import asyncio
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

from sqlalchemy import Connection

from vmemo.models.changes import Changes, Lease, NewJob
from vmemo.models.select import MessageSelect
from vmemo.stores.sql import bank_rows, message_rows, migrate
from vmemo.stores.sqlite import rows
from vmemo.stores.sqlite.file import SqliteFile
from vmemo.stores.sqlite.store import SqliteStore
from vmemo.testing.samples import BANK, OTHER, a_bank, a_batch, a_message, store_messages

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


def test_the_upgrade_queues_messages_that_an_earlier_release_left_pending(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"

    def second_release(connection: Connection) -> None:
        migrate.upgrade(connection, "0002")
        for bank, state in ((BANK, "pending"), (OTHER, "derived")):
            bank_rows.create(connection, a_bank(bank), None, "")
            number = message_rows.bank_state(connection, bank).seq
            stored = message_rows.append(connection, number, [a_message("tulips", state=state)])
            if state == "pending":
                rows.add_words(connection, number, [(seq, message.content) for seq, message in stored])

    file = SqliteFile(path, busy_seconds=1)
    file.write(second_release)
    file.close()

    async def run() -> None:
        store = SqliteStore(path)
        await store.open()
        [queued] = await store.jobs(BANK)
        assert (queued.kind, queued.key, queued.asked, queued.attempts, queued.error) == ("process", "", 1, 0, None)
        assert await store.jobs(OTHER) == []
        await store_messages(store, "roses")
        assert await store.jobs(BANK) == [queued.model_copy(update={"asked": 2})]
        [job] = await store.lease("worker", 600)
        claims = [message.id for message in await store.messages(BANK, MessageSelect.oldest_pending(9))]
        lease = Lease(job=job.id, owner="worker", asked=job.asked)
        assert await store.commit(replace(await a_batch(store), pending=claims, finished=[lease]))
        assert await store.jobs(BANK) == []
        await store.close()

    asyncio.run(run())
