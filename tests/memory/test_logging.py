"""The library writes nothing to the log of an application that works as it should, and configures no logging."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from vmemo.stores.sql.migrate import quiet_alembic

WORK = """
from vmemo import Memory
with Memory("logged.db") as memory:
    memory.retain_sync("I live in Oslo. Always answer briefly.", speaker="Ana")
    memory.recall_sync("Where does Ana live?")
    memory.reflect_sync("Where does Ana live?")
    memory.forget_sync(entity="Ana")
    memory.maintain_sync()
"""
INSPECTED = """
import json, logging
logging.basicConfig(level=logging.INFO, format="%(name)s %(message)s")
before = list(logging.root.handlers), logging.root.level
{work}
print(json.dumps(before == (logging.root.handlers, logging.root.level)))
"""


def test_normal_use_writes_nothing_to_stderr_and_configures_no_logging(tmp_path: Path) -> None:
    script = INSPECTED.format(work=WORK)
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, encoding="utf-8", check=False, cwd=tmp_path
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout) is True, "nothing else is printed"


def test_the_loggers_of_the_library_are_quiet_until_the_application_configures_them() -> None:
    own = [name for name in logging.root.manager.loggerDict if name.split(".")[0].startswith("vmemo")]
    assert {name.split(".")[0] for name in own} == {"vmemo"}
    assert any(isinstance(each, logging.NullHandler) for each in logging.getLogger("vmemo").handlers)


@pytest.mark.parametrize(
    ("level", "other_thread", "is_kept"),
    [("info", False, False), ("warning", False, True), ("info", True, True)],
)
def test_only_lines_of_our_own_upgrades_below_warnings_are_dropped(
    level: str, other_thread: bool, is_kept: bool, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    write = getattr(logging.getLogger("alembic.runtime.migration"), level)
    with quiet_alembic():
        if other_thread:
            thread = threading.Thread(target=write, args=["Running upgrade"])
            thread.start()
            thread.join()
        else:
            write("Running upgrade")
    assert bool(caplog.records) is is_kept
    logging.getLogger("alembic.runtime.migration").info("of the application")
    assert caplog.messages[-1] == "of the application"
