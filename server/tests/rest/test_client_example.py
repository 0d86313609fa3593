"""The client's example, run as a user runs it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

EXAMPLE = Path(__file__).parents[3] / "examples" / "use_a_server.py"


def test_client_example_runs(tmp_path: Path) -> None:
    command = [sys.executable, "-W", "error", str(EXAMPLE)]
    result = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert (result.returncode, result.stderr) == (0, "")
    assert "moved to Lisbon in May" in result.stdout
    assert "seasick" in result.stdout
    assert "NotFound: There is no bank 'nobody' here." in result.stdout
