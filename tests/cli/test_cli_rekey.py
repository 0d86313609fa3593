"""`vmemo rekey`, and other commands on an encrypted database."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import Result

Run = Callable[..., Result]
KEY, NEW = "ab" * 32, "cd" * 32


@pytest.fixture
def key_file(tmp_path: Path) -> str:
    (tmp_path / "key").write_text(KEY + "\n", encoding="utf-8")
    return str(tmp_path / "key")


def test_a_database_is_encrypted_rotated_and_decrypted(invoke: Run, db: str, key_file: str) -> None:
    encrypted = invoke("rekey", "--to-key-file", key_file, "--db", db)
    assert encrypted.exit_code == 0, encrypted.output
    assert encrypted.stdout == ("The database is encrypted with the new key.\nOpen it with the new key from now on.\n")
    assert b"Northwind" not in Path(db).read_bytes()
    recalled = invoke("recall", "Where does Ana work?", "--db", db, VMEMO_ENCRYPTION_KEY_FILE=key_file)
    assert "Contoso" in recalled.stdout
    rotated = invoke("rekey", "--db", db, "--json", VMEMO_ENCRYPTION_KEY=KEY, VMEMO_NEW_ENCRYPTION_KEY=NEW)
    assert json.loads(rotated.stdout) == {"changed": True, "encrypted": True}
    again = invoke("rekey", "--db", db, VMEMO_ENCRYPTION_KEY=KEY, VMEMO_NEW_ENCRYPTION_KEY=NEW)
    assert again.stdout == "The database is encrypted with the new key already.\n"
    decrypted = invoke("rekey", "--to-plain", "--db", db, VMEMO_ENCRYPTION_KEY=NEW)
    assert decrypted.stdout == "The database is decrypted.\nOpen it without a key now.\n"
    assert json.loads(invoke("inspect", "--db", db, "--json").stdout)["messages"] == 3


def test_exactly_one_new_key_is_needed(invoke: Run, db: str, key_file: str) -> None:
    for options in ((), ("--to-plain", "--to-key-file", key_file)):
        refused = invoke("rekey", "--db", db, *options)
        assert refused.exit_code == 1
        assert "Pass one of --to-key-file and --to-plain, or set VMEMO_NEW_ENCRYPTION_KEY." in refused.stderr


def test_doctor_reports_encryption_and_leftovers_and_shows_no_key(invoke: Run, db: str) -> None:
    invoke("rekey", "--db", db, VMEMO_NEW_ENCRYPTION_KEY=KEY)
    left = Path(db + ".rekey-old")
    left.write_bytes(b"old")
    result = invoke("doctor", "--db", db, VMEMO_ENCRYPTION_KEY=KEY)
    assert result.exit_code == 0, result.output
    assert "opens, encrypted with SQLCipher" in result.stdout
    assert f"{left} is left by an interrupted rekey; run it again" in result.stdout
    assert KEY not in result.output
    wrong = invoke("doctor", "--db", db, VMEMO_ENCRYPTION_KEY=NEW)
    assert wrong.exit_code == 1
    assert "The encryption key does not open" in wrong.stdout
    assert NEW not in wrong.output
    missing = invoke("doctor", "--db", db)
    assert "it is encrypted, or damaged" in missing.stdout


def test_a_command_without_the_extra_names_it(invoke: Run, db: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sqlcipher3.dbapi2", None)
    refused = invoke("recall", "Where does Ana work?", "--db", db, VMEMO_ENCRYPTION_KEY=KEY)
    assert refused.exit_code == 1
    assert "pip install 'vmemo[encryption]'" in refused.stderr
