"""Extracting processes are killed repeatedly, and several share one database: all work is done exactly once."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from conversations import days, said
from crash_worker import LATE, NOTE, SOON, SlowLLM, a_memory, answer
from pydantic import JsonValue

from databases import column, counts, store_name
from vmemo import Fact, Memory
from vmemo_conformance.fake_llm import ReceivedRequest
from vmemo_conformance.llm_server import ScriptedServer

KILLS = {"sqlite": 5, "postgres": 3, "neo4j": 3}
WORKER = Path(__file__).with_name("crash_worker.py")
BROKEN = {
    "a fact without its message": """SELECT count(*) FROM facts f WHERE network != 'observation' AND NOT EXISTS
        (SELECT 1 FROM sources s JOIN messages m ON m.seq = s.source
        WHERE s.bank = f.bank AND s.fact = f.seq AND s.kind = 0)""",
    "an extracted message without facts, or a pending one with facts": """SELECT count(*) FROM messages m WHERE
        (m.state = 'extracted') != EXISTS
        (SELECT 1 FROM sources s WHERE s.bank = m.bank AND s.kind = 0 AND s.source = m.seq)""",
    "a message in two episodes, or a placed one in none": """SELECT count(*) FROM messages m WHERE
        CASE m.state WHEN 'pending' THEN 0 ELSE 1 END !=
        (SELECT count(*) FROM episode_messages e WHERE e.bank = m.bank AND e.message = m.seq)""",
    "a grouped message without an extraction job": """SELECT count(*) FROM messages m WHERE m.state = 'grouped'
        AND NOT EXISTS (SELECT 1 FROM jobs j WHERE j.kind = 'extract' AND j.detail LIKE '%"' || m.id || '"%')""",
    "a pending message without a job": """SELECT count(*) FROM messages m WHERE m.state = 'pending' AND NOT EXISTS
        (SELECT 1 FROM jobs j WHERE j.bank = m.bank AND j.kind = 'process')""",
    "two entities of one name": "SELECT count(*) - count(DISTINCT name) FROM entities",
}
BROKEN_SQLITE = {
    "a fact without its vector": "SELECT count(*) FROM facts WHERE seq NOT IN (SELECT fact FROM fact_index)",
    "a row that refers to nothing": "SELECT count(*) FROM pragma_foreign_key_check",
}
BROKEN_POSTGRES = {
    "a fact without its vector": "SELECT count(*) FROM facts WHERE seq NOT IN (SELECT seq FROM fact_vectors)",
}
BROKEN_NEO4J = {
    "a fact without its message": """MATCH (f:Fact {bank: b.key}) WHERE f.network <> 'observation'
        AND NOT EXISTS { (f)-[:SOURCE]->(:Message) }""",
    "an extracted message without facts, or a pending one with facts": """MATCH (m:Message {bank: b.key})
        WHERE (m.state = 'extracted') <> EXISTS { (m)<-[:SOURCE]-(:Fact) }""",
    "a message in two episodes, or a placed one in none": """MATCH (m:Message {bank: b.key})
        WHERE CASE m.state WHEN 'pending' THEN 0 ELSE 1 END <> COUNT { (m)<-[:CONTAINS]-(:Episode) }""",
    "a grouped message without an extraction job": """MATCH (m:Message {bank: b.key, state: 'grouped'})
        WHERE NOT EXISTS { (j:Job {bank: b.key, kind: 'extract'}) WHERE j.detail CONTAINS '"' + m.id + '"' }""",
    "a pending message without a job": """MATCH (m:Message {bank: b.key, state: 'pending'})
        WHERE NOT EXISTS { (:Job {bank: b.key, kind: 'process'}) }""",
    "two entities of one name": """MATCH (e:Entity {bank: b.key}) WITH e.name AS name, count(*) AS entities
        WHERE entities > 1""",
    "a fact without its vector": "MATCH (f:Fact {bank: b.key}) WHERE f.embedding IS NULL",
}


def all_facts(memory: Memory) -> list[Fact]:
    """Return every world fact."""
    facts = memory.facts_sync(limit=1000)
    while page := memory.facts_sync(limit=1000, after=facts[-1].id):
        facts += page
    return [fact for fact in facts if fact.network == "world"]


def assert_whole(url: str) -> None:
    broken = {
        "sqlite": {**BROKEN, **BROKEN_SQLITE},
        "postgres": {**BROKEN, **BROKEN_POSTGRES},
        "neo4j": BROKEN_NEO4J,
    }
    assert counts(url, broken[store_name(url)]) == {}


@contextmanager
def worker_program(*arguments: str) -> Generator[subprocess.Popen[str]]:
    """Run the worker program; it forks, so it must have no other thread."""
    alone = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    pipe = subprocess.PIPE
    command = [sys.executable, str(WORKER), *arguments]
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, bufsize=1, env=alone) as process:
        yield process
        assert process.stdin is not None
        process.stdin.close()


def killed_round(reader: subprocess.Popen[str], seed: int) -> list[str]:
    """Start a child, kill it at a random time after a few acknowledgements, and return the acknowledged ids."""
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


def test_a_process_killed_while_extracting_loses_and_duplicates_nothing(url: str) -> None:
    kills, interrupted, acknowledged = KILLS[store_name(url)], 0, set[str]()
    with worker_program("crash", url) as reader:
        for seed in range(kills):
            acknowledged.update(killed_round(reader, seed))
            assert_whole(url)
            interrupted += not {"pending", "grouped"}.isdisjoint(column(url, "messages", "state"))
    with a_memory(url, SlowLLM(), SOON) as memory:
        memory.process_sync()
        assert memory.process_sync().derived == ()
        status = memory.status_sync()
        facts = all_facts(memory)
    assert_whole(url)
    assert (status.pending, status.problems) == (0, ())
    assert len(column(url, "messages", "id")) == status.messages >= len(acknowledged)
    # Every note became exactly one fact of one message.
    assert len(facts) == status.messages
    assert max(Counter(fact.text for fact in facts).values()) == 1
    assert all(len(fact.messages) == 1 for fact in facts)
    assert interrupted > 0


def test_two_workers_on_one_database_never_run_a_job_twice(url: str) -> None:
    lines, both_ask = 8, threading.Barrier(2)

    def answer_both(asked: ReceivedRequest) -> JsonValue:
        # Each worker runs one job at a time, so the second request is the other worker's. The wait is shorter than
        # `llm_timeout`, which would ask again.
        if asked.step == "extract" and not both_ask.broken:
            with suppress(threading.BrokenBarrierError):
                both_ask.wait(timeout=200)
            both_ask.abort()
        return answer(asked)

    with ScriptedServer(answer_both) as server:
        model = f"{server.url}#scripted"
        with a_memory(url, model, LATE) as memory:
            for n in range(lines):
                memory.add_message_sync(said(f"Note n{n} was taken.", days(n)))
        with worker_program("work", url, model) as workers:
            assert workers.stdout is not None
            did = [int(line.split()[1]) for line in workers.stdout]
        assert workers.returncode == 0
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
    assert len(did) == 2
    assert all(did)
    assert asked == {f"Note n{n}": 1 for n in range(lines)}
    assert len({fact.text for fact in facts}) == len(facts) == lines
    assert_whole(url)
