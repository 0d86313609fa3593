"""The example of the documentation runs, and the next sessions are given what the recorded one decided."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

EXAMPLE = Path(__file__).parents[2] / "examples" / "coding_agent" / "session.py"


def test_the_recorded_session_is_remembered_in_the_next_ones(home: Path) -> None:
    run = subprocess.run([sys.executable, EXAMPLE], capture_output=True, text=True, check=False, timeout=300)
    assert run.returncode == 0, run.stderr
    lock, _, rest = run.stdout.partition("# How do we release")
    release, _, in_other = rest.partition("# A session in another repository")
    assert "we use Postgres advisory locks for the scheduler" in lock
    assert release.index("1. Bump the version") < release.index("3. Tag the commit") < release.index("That worked.")
    assert "in short sentences" in in_other
    assert "advisory" not in in_other
