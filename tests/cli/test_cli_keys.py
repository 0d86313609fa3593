"""`vmemo keys`: make, list and revoke."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from typer.testing import Result

from vmemo import Memory

Run = Callable[..., Result]


def test_a_key_is_created_listed_and_revoked(invoke: Run, tmp_path: Path) -> None:
    db = str(tmp_path / "x.db")
    made = json.loads(
        invoke(
            "keys", "create", "agent", "--bank", "a", "--bank", "t-*", "--permission", "write", "--db", db, "--json"
        ).stdout
    )
    assert made["secret"].startswith("vmemo_")
    listed = json.loads(invoke("keys", "list", "--db", db, "--json").stdout)
    assert [(key["name"], key["banks"], key["permission"]) for key in listed] == [("agent", ["a", "t-*"], "write")]
    assert made["secret"] not in json.dumps(listed)
    assert invoke("keys", "revoke", made["id"], "--db", db).exit_code == 0
    assert json.loads(invoke("keys", "list", "--db", db, "--json").stdout)[0]["revoked_at"] is not None


def test_the_secret_of_a_key_is_not_stored(invoke: Run, tmp_path: Path) -> None:
    db = tmp_path / "x.db"
    secret = invoke("keys", "create", "agent", "--db", str(db)).stdout.split()[0]
    assert secret.startswith("vmemo_")
    assert all(secret.encode() not in file.read_bytes() for file in tmp_path.iterdir())
    with Memory(f"sqlite:///{db}") as memory:
        assert memory.exists_sync()


def test_creating_a_key_creates_no_bank(invoke: Run, tmp_path: Path) -> None:
    db = tmp_path / "x.db"
    invoke("keys", "create", "agent", "--days", "2", "--db", str(db))
    assert not Memory(f"sqlite:///{db}").banks_sync()
    shown = invoke("keys", "list", "--db", str(db)).stdout
    assert "agent" in shown
    assert "read every bank" in shown


def test_revoking_an_unknown_key_is_an_error(invoke: Run, tmp_path: Path) -> None:
    result = invoke("keys", "revoke", "nope", "--db", str(tmp_path / "x.db"))
    assert result.exit_code == 1
    assert "no API key 'nope'" in result.stderr


def test_a_key_requires_a_name_and_a_valid_permission(invoke: Run, tmp_path: Path) -> None:
    db = str(tmp_path / "x.db")
    assert invoke("keys", "create", " ", "--db", db).exit_code == 1
    assert invoke("keys", "create", "agent", "--permission", "everything", "--db", db).exit_code == 2


def test_a_key_of_any_number_of_days_can_be_created(invoke: Run, tmp_path: Path) -> None:
    made = invoke("keys", "create", "agent", "--days", "1e12", "--db", str(tmp_path / "x.db"), "--json")
    assert json.loads(made.stdout)["expires_at"].startswith("9999-12-31")
