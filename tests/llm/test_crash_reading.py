"""A process that reads with a model is killed again and again, and several work on one database: all is done once."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from reader import LATE, NOTE, SOON, Slow, a_memory, answer
from talk import days, said

from databases import counts, number
from vmemo import Fact, Memory
from vmemo.testing import ScriptedServer

KILLS = {"sqlite": 20, "postgresql": 6}
READER = Path(__file__).with_name("reader.py")
BROKEN = {
    "a fact without its message": """SELECT count(*) FROM facts f WHERE network != 'observation' AND NOT EXISTS
        (SELECT 1 FROM sources s JOIN messages m ON m.seq = s.source
        WHERE s.bank = f.bank AND s.fact = f.seq AND s.kind = 0)""",
    "a read message without facts, or an unread one with": """SELECT count(*) FROM messages m WHERE
        (m.state = 'extracted') != EXISTS
        (SELECT 1 FROM sources s WHERE s.bank = m.bank AND s.kind = 0 AND s.source = m.seq)""",
    "a message in two episodes, or a placed one in none": """SELECT count(*) FROM messages m WHERE
        CASE m.state WHEN 'pending' THEN 0 ELSE 1 END !=
        (SELECT count(*) FROM episode_messages e WHERE e.bank = m.bank AND e.message = m.seq)""",
    "a grouped message that no job will read": """SELECT count(*) FROM messages m WHERE m.state = 'grouped'
        AND NOT EXISTS (SELECT 1 FROM jobs j WHERE j.kind = 'extract' AND j.detail LIKE '%"' || m.id || '"%')""",
    "an unread message without a job": """SELECT count(*) FROM messages m WHERE m.state = 'pending' AND NOT EXISTS
        (SELECT 1 FROM jobs j WHERE j.bank = m.bank AND j.kind = 'process')""",
    "two entities of one name": "SELECT count(*) - count(DISTINCT name) FROM entities",
}
BROKEN_SQLITE = {
    "a fact without its vector": "SELECT count(*) FROM facts WHERE seq NOT IN (SELECT seq FROM fact_index)",
    "a row that refers to nothing": "SELECT count(*) FROM pragma_foreign_key_check",
}
BROKEN_POSTGRES = {
    "a fact without its vector": "SELECT count(*) FROM facts WHERE seq NOT IN (SELECT seq FROM fact_search)",
}


def all_facts(memory: Memory) -> list[Fact]:
    """Every fact that a message told."""
    facts = memory.facts_sync(limit=1000)
    while page := memory.facts_sync(limit=1000, after=facts[-1].id):
        facts += page
    return [fact for fact in facts if fact.network == "world"]


def assert_whole(url: str) -> None:
    broken = BROKEN_SQLITE if url.startswith("sqlite") else BROKEN_POSTGRES
    assert counts(url, {**BROKEN, **broken}) == {}


@contextmanager
def program(*arguments: str) -> Generator[subprocess.Popen[str]]:
    """The reader in a process of its own; it forks, so it must have no other thread."""
    alone = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    pipe = subprocess.PIPE
    command = [sys.executable, str(READER), *arguments]
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, bufsize=1, env=alone) as process:
        yield process
        assert process.stdin is not None
        process.stdin.close()


def killed_round(reader: subprocess.Popen[str], seed: int) -> list[str]:
    """Start a child, let it acknowledge a few times, kill it at a random moment; what it acknowledged is returned."""
    chance = random.Random(seed)
    assert reader.stdin is not None
    assert reader.stdout is not None
    reader.stdin.write(f"{seed}\n")
    child = int(reader.stdout.readline().removeprefix("start "))
    acknowledged: list[str] = []
    for _ in range(chance.randint(1, 2)):
        acknowledged += reader.stdout.readline().split()[1:]
    time.sleep(chance.uniform(0, 0.15))
    os.kill(child, signal.SIGKILL)
    while (line := reader.stdout.readline()) != "dead\n":
        acknowledged += line.split()[1:]
    return acknowledged


def test_a_reader_killed_at_any_point_loses_nothing_and_doubles_nothing(url: str) -> None:
    kills, interrupted, acknowledged = KILLS[url.partition(":")[0]], 0, set[str]()
    with program("crash", url) as reader:
        for seed in range(kills):
            acknowledged.update(killed_round(reader, seed))
            assert_whole(url)
            interrupted += number(url, "SELECT count(*) FROM messages WHERE state IN ('pending', 'grouped')") > 0
    with a_memory(url, Slow(), SOON) as memory:
        memory.process_sync()
        assert memory.process_sync().derived == ()
        status = memory.status_sync()
        facts = all_facts(memory)
    assert_whole(url)
    assert (status.pending, status.problems) == (0, ())
    assert number(url, "SELECT count(*) FROM messages") == status.messages >= len(acknowledged)
    # Every note became one fact, told by one message, and none of them two.
    assert len(facts) == status.messages
    assert max(Counter(fact.text for fact in facts).values()) == 1
    assert all(len(fact.messages) == 1 for fact in facts)
    assert interrupted > kills // 4


def test_two_workers_on_one_file_never_do_one_job_twice(url: str) -> None:
    lines = 30
    with ScriptedServer(answer) as server:
        model = f"{server.url}#scripted"
        with a_memory(url, model, LATE) as memory:
            for n in range(lines):
                memory.add_message_sync(said(f"Note n{n} was taken.", days(n)))
        with program("work", url, model) as one, program("work", url, model) as other:
            for worker in (one, other):
                assert worker.stdout is not None
                assert worker.stdout.readline() == "ready\n"
            for worker in (one, other):
                assert worker.stdin is not None
                worker.stdin.write("go\n")
            did = [int(worker.stdout.readline().split()[1]) for worker in (one, other) if worker.stdout is not None]
        with a_memory(url, model, LATE) as memory:
            memory.process_sync()
            facts = all_facts(memory)
            assert memory.status_sync().pending == 0
        asked = Counter(
            note
            for each in server.received
            if each.step == "extract"
            for _, note in NOTE.findall(each.user.rpartition("Lines to read (")[2])
        )
    assert all(did)
    assert asked == {f"Note n{n}": 1 for n in range(lines)}
    assert len({fact.text for fact in facts}) == len(facts) == lines
    assert_whole(url)
