"""Several processes share one file."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from builders import number, open_memory, rows, url
from test_crash import assert_whole
from writer import PEOPLE

PROCESSES = 4
MESSAGES = 10
WRITER = Path(__file__).with_name("writer.py")


def start(folder: Path, name: str) -> subprocess.Popen[str]:
    command = [sys.executable, str(WRITER), "share", url(folder), name, str(MESSAGES)]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True)


def test_four_processes_write_and_read_one_new_file_together_and_lose_nothing(tmp_path: Path) -> None:
    writers = [start(tmp_path, name) for name in ("first", "second", "third", "fourth")]
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

    assert_whole(tmp_path)
    with open_memory(tmp_path) as memory:
        status = memory.status_sync()
        assert memory.process_sync().derived == ()
        messages = memory.messages_sync(limit=1000)
    # Each wrote its own lines, and one of them wrote each line of the document that all of them retained.
    assert len(messages) == (PROCESSES + 1) * MESSAGES
    assert sorted(acknowledged) == sorted(message.id for message in messages)
    assert (status.pending, status.facts, status.troubles) == (0, len(messages), ())
    assert number(tmp_path, "SELECT count(DISTINCT text) FROM facts") == len(messages)
    names = sorted(str(name) for (name,) in rows(tmp_path, "SELECT name FROM entities"))
    assert names == sorted((*PEOPLE, "Harbour Cafe"))
