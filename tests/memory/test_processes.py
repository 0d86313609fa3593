"""Several processes share one database."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from builders import open_memory
from test_crash import assert_whole
from writer import PEOPLE

from databases import column, without_schema

NAMES = ("first", "second", "third")
MESSAGES = 4
WRITER = Path(__file__).with_name("writer.py")


def test_processes_write_and_read_one_new_database_together_and_lose_nothing(url: str) -> None:
    command = [sys.executable, str(WRITER), "share", without_schema(url), str(MESSAGES), *NAMES]
    # A process that forks must have no other thread, and numpy's library would start some.
    alone = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, env=alone)
    assert (done.returncode, done.stderr) == (0, "")
    acknowledged = [id for line in done.stdout.splitlines() for id in line.split()[1:]]

    assert_whole(url)
    with open_memory(url) as memory:
        status = memory.status_sync()
        assert memory.process_sync().derived == ()
        messages = memory.messages_sync(limit=1000)
    # Each wrote its own lines, and one of them wrote each line of the document that all of them retained.
    assert len(messages) == (len(NAMES) + 1) * MESSAGES
    assert sorted(acknowledged) == sorted(message.id for message in messages)
    assert (status.pending, status.facts, status.problems) == (0, len(messages), ())
    assert len(set(column(url, "facts", "text"))) == len(messages)
    names = sorted(str(name) for name in column(url, "entities", "name"))
    assert names == sorted((*PEOPLE[:MESSAGES], "Harbour Cafe"))
