"""The client's example, run as a user runs it."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[3] / "examples" / "use_a_server.py"


def test_client_example_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(EXAMPLE), run_name="__main__")
    output = capsys.readouterr()
    assert output.err == ""
    assert "moved to Lisbon in May" in output.out
    assert "seasick" in output.out
    assert "NotFound: There is no bank 'nobody' here." in output.out
