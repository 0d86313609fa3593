"""The package imports and the command line works without the parts of Python that only Unix has."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from vmemo.errors import Unsupported
from vmemo.settings import database_url
from vmemo.stores.sqlite.connection import rekey_file


def test_every_module_imports_and_commands_run_without_unix_modules_and_fork(tmp_path: Path) -> None:
    child = Path(__file__).parent / "windows_child.py"
    done = subprocess.run(
        [sys.executable, child, tmp_path / "memory.db"], capture_output=True, text=True, cwd=tmp_path, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "Maya: I moved to Lisbon in May" in done.stdout


@pytest.mark.parametrize("path", [r"C:\Users\ana\memory.db", "C:/Users/ana/memory.db"])
def test_a_path_with_a_drive_letter_is_a_file(path: str) -> None:
    assert database_url(path) == f"sqlite:///{path}"


def test_a_key_is_not_changed_on_windows_where_an_open_file_cannot_be_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "platform", "win32")
    with pytest.raises(Unsupported, match="Export each bank"):
        rekey_file(tmp_path / "memory.db", None, None)
