"""`pytest --forks` reports every test once, as pytest in one process does."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the tests run in processes of pytest-xdist")
FIRST = """
import os, sys
import pytest

captured = sys.stdout

def test_before():
    pass

def test_that_ends_its_process():
    os._exit(7)

@pytest.mark.skip("not today")
def test_skipped():
    pass

def test_after(tmp_path):
    captured.write("said by a test")
    assert os.environ["HOME"] != str(tmp_path), "unequal"
    assert not list(tmp_path.iterdir()), "empty"
    assert False, "as wanted"
"""
SECOND = """
import pytest

@pytest.fixture(scope="session")
def shared():
    yield
    raise OSError("on leaving")

def test_beside():
    pass

def test_with_a_fixture(shared):
    pass
"""


def run(folder: Path, *arguments: str) -> tuple[int, str]:
    """Return the exit status and the output of pytest, in a folder with tests."""
    path = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, "-m", "pytest", "-q", "-c", os.devnull, "--rootdir", str(folder), *arguments]
    command += ["-p", "forked_workers", "-p", "no:cacheprovider", "-p", "no:schemathesis"]
    env = {**os.environ, "PYTHONPATH": path, "PYTEST_ADDOPTS": ""}
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def test_failures_skips_and_the_end_of_a_process_are_reported(tmp_path: Path) -> None:
    (tmp_path / "test_first.py").write_text(FIRST)
    (tmp_path / "test_second.py").write_text(SECOND)
    status, output = run(tmp_path, "--forks", "2", "-rs", "test_first.py", "test_second.py")
    assert status == 1, output
    assert output.splitlines()[-1].startswith("2 failed, 3 passed, 1 skipped, 1 error in "), output
    for words in ("ended with exit code 7", "AssertionError: as wanted", "said by a test", "OSError: on leaving"):
        assert words in output
    assert "SKIPPED [1] test_first.py:13: not today" in output


def test_a_run_of_passing_tests_succeeds_and_one_failure_is_enough_to_stop(tmp_path: Path) -> None:
    (tmp_path / "test_second.py").write_text(SECOND)
    status, output = run(tmp_path, "--forks", "3", "test_second.py", "-k", "beside")
    assert (status, output.splitlines()[-1].split(" in ")[0]) == (0, "1 passed, 1 deselected"), output
    status, output = run(tmp_path, "--forks", "3", "test_second.py", "-x")
    assert status == 1, output
    assert "stopping after 1 failures" in output
