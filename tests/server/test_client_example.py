"""The client's example runs as a user starts it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

EXAMPLE = Path(__file__).parents[2] / "examples" / "use_a_server.py"


def test_the_example_of_the_client_runs(tmp_path: Path) -> None:
    command = [sys.executable, "-W", "error", str(EXAMPLE)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "moved to Lisbon in May" in done.stdout
    assert "seasick" in done.stdout
    assert "NotFound: There is no bank 'nobody' here." in done.stdout
