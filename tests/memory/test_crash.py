"""A retaining process is killed again and again: nothing acknowledged is lost, and nothing is half written."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from builders import WordEmbedder, open_memory

from consistency import assert_whole
from databases import column, store_name
from vmemo import Memory
from vmemo.ports import paged

KILLS = {"sqlite": 8, "postgres": 3, "neo4j": 3}
"""A transaction on a server takes longer, so that more of the kills fall into one."""
WRITER = Path(__file__).with_name("writer.py")


@contextmanager
def forking_writer(url: str) -> Generator[subprocess.Popen[str]]:
    command = [sys.executable, str(WRITER), "crash", url]
    # A process that forks must have no other thread, and numpy's library would start some.
    alone = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, bufsize=1, env=alone) as process:
        yield process
        assert process.stdin is not None
        process.stdin.close()


def killed_round(writer: subprocess.Popen[str], seed: int) -> list[str]:
    """Start a child, let it acknowledge a few times, kill it at a random moment; what it acknowledged is returned."""
    chance = random.Random(seed)
    assert writer.stdin is not None
    assert writer.stdout is not None
    writer.stdin.write(f"{seed}\n")
    child = int(writer.stdout.readline().removeprefix("start "))
    acknowledged: list[str] = []
    for _ in range(chance.randint(1, 6)):
        acknowledged += ids(writer.stdout.readline())
    # Between two acknowledgements lie several transactions; this wait makes the kill land in any of them.
    time.sleep(chance.uniform(0, 0.06))
    os.kill(child, signal.SIGKILL)
    while (line := writer.stdout.readline()) != "dead\n":
        acknowledged += ids(line)
    return acknowledged


def ids(line: str) -> list[str]:
    word, *found = line.split()
    assert word == "ack"
    return found


async def finished(url: str) -> int:
    """Complete the rest and return how many messages were waiting; a second time there is nothing left to do."""
    async with open_memory(url) as memory:
        waiting = (await memory.status()).pending
        done = await memory.process()
        assert len(set(done.derived)) == len(done.derived) >= waiting
        assert (await memory.process()).derived == ()
        status = await memory.status()
        assert status.pending == 0
        assert status.problems == ()
        return waiting


async def expected_facts(url: str) -> list[str]:
    """Return what an undisturbed memory derives from the same messages."""
    async with open_memory(url) as memory:
        messages = [message async for message in paged(lambda after: memory.messages(after=after, limit=1000))]
    async with Memory("sqlite:///:memory:", embedder=WordEmbedder()) as undisturbed:
        done = await undisturbed.retain(messages)
    return sorted(done.derived)


def test_a_process_killed_while_retaining_loses_nothing_and_is_completed_exactly_once(url: str) -> None:
    interrupted, kills = 0, KILLS[store_name(url)]
    acknowledged: set[str] = set()
    with forking_writer(url) as writer:
        for seed in range(kills):
            acknowledged.update(killed_round(writer, seed))
            assert acknowledged <= {str(id) for id in column(url, "messages", "id")}
            assert_whole(url)
            interrupted += asyncio.run(finished(url)) > 0
            assert_whole(url)
    assert sorted(str(id) for id in column(url, "facts", "id")) == asyncio.run(expected_facts(url))
    # The kills did land inside the work, and not only between one piece of it and the next.
    assert interrupted >= kills // 10
