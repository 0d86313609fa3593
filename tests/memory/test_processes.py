"""Several processes share one database."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from builders import open_memory
from test_crash import assert_whole
from writer import PEOPLE

from databases import number, rows

PROCESSES = 4
MESSAGES = 6
WRITER = Path(__file__).with_name("writer.py")


def start(url: str, name: str) -> subprocess.Popen[str]:
    command = [sys.executable, str(WRITER), "share", url, name, str(MESSAGES)]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True)


def test_four_processes_write_and_read_one_new_database_together_and_lose_nothing(url: str) -> None:
    writers = [start(url, name) for name in ("first", "second", "third", "fourth")]
    for writer in writers:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "ready\n"
    acknowledged: list[str] = []
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.write("go\n")
        writer.stdin.flush()
    for writer in writers:
        output, trouble = writer.communicate()
        assert (writer.returncode, trouble) == (0, "")
        acknowledged += [id for line in output.splitlines() for id in line.split()[1:]]

    assert_whole(url)
    with open_memory(url) as memory:
        status = memory.status_sync()
        assert memory.process_sync().derived == ()
        messages = memory.messages_sync(limit=1000)
    # Each wrote its own lines, and one of them wrote each line of the document that all of them retained.
    assert len(messages) == (PROCESSES + 1) * MESSAGES
    assert sorted(acknowledged) == sorted(message.id for message in messages)
    assert (status.pending, status.facts, status.problems) == (0, len(messages), ())
    assert number(url, "SELECT count(DISTINCT text) FROM facts") == len(messages)
    names = sorted(str(name) for (name,) in rows(url, "SELECT name FROM entities"))
    assert names == sorted((*PEOPLE[:MESSAGES], "Harbour Cafe"))
