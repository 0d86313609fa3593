"""The key of a SQLite file is changed completely or not at all (Y4)."""

import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from vmemo import InvalidInput, Memory, MissingExtra, NotFound, StoreBusy, StoreError, Unsupported, rekey_sync
from vmemo.stores.sqlite.connection import leftovers
from vmemo_conformance.embedders import HashEmbedder

KEY, NEW = bytes(range(32)), bytes(range(32, 64))
SECRET = "Quetzalcoatl hid the xylophone under the veranda."
QUESTION = "What is under the veranda?"
TRACE = b"quetzalcoatl"


def open_memory(path: Path, key: bytes | None) -> Memory:
    return Memory(f"sqlite:///{path}", embedder=HashEmbedder(), encryption_key=key)


def fill(path: Path, key: bytes | None) -> None:
    with open_memory(path, key) as memory:
        memory.retain_sync([SECRET, "Anna moved to Gdansk in May 2023.", "The kettle on the veranda is red."])
        memory.retain_sync("The xylophone is out of tune.", infer=False)


def recalled(path: Path, key: bytes | None) -> list[tuple[str, str, float]]:
    with open_memory(path, key) as memory:
        return [(hit.id, hit.text, hit.score) for hit in memory.recall_sync(QUESTION).hits]


def change(path: Path, old: bytes | None, new: bytes | None) -> bool:
    return rekey_sync(f"sqlite:///{path}", encryption_key=old, new_key=new)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "memory.db"


def test_recall_returns_the_same_from_a_plain_an_encrypted_and_a_decrypted_file(path: Path) -> None:
    fill(path, None)
    path.chmod(0o640)
    plain = recalled(path, None)
    assert len(plain) >= 3
    for old, new in ((None, KEY), (KEY, NEW), (NEW, None)):
        assert change(path, old, new)
        assert recalled(path, new) == plain
        assert (TRACE in path.read_bytes().lower()) == (new is None)
        assert [file.name for file in path.parent.iterdir()] == [path.name]
        assert path.stat().st_mode & 0o777 == 0o640


def test_every_row_is_kept(path: Path) -> None:
    fill(path, None)
    before = dump(path)
    change(path, None, KEY)
    change(path, KEY, None)
    assert dump(path) == before


def dump(path: Path) -> dict[str, list[str]]:
    with closing(sqlite3.connect(path)) as connection:
        schema = connection.execute("SELECT type, name, sql FROM sqlite_master ORDER BY type, name").fetchall()
        names = [name for kind, name, sql in schema if kind == "table" and "VIRTUAL" not in sql]
        rows = {name: sorted(map(repr, connection.execute(f'SELECT * FROM "{name}"'))) for name in names}
        return {"": [repr(each) for each in schema], **rows}


def test_changing_to_the_present_key_changes_nothing(path: Path) -> None:
    fill(path, KEY)
    before = path.read_bytes()
    assert not change(path, KEY, KEY)
    assert not change(path, NEW, KEY)
    assert not change(path, None, KEY)
    assert path.read_bytes() == before


@pytest.mark.parametrize("key", [KEY, None], ids=["encrypted", "plain"])
def test_a_file_that_another_connection_has_open_is_refused(path: Path, key: bytes | None) -> None:
    fill(path, key)
    with open_memory(path, key) as memory:
        memory.status_sync()
        with pytest.raises(StoreBusy, match=r"is open in another connection. Nothing was changed"):
            change(path, key, NEW)
        memory.retain_sync("Nothing was lost.")
    assert leftovers(path) == []
    assert change(path, key, NEW)
    with open_memory(path, NEW) as memory:
        assert memory.status_sync().messages == 5


def test_a_wrong_key_changes_nothing(path: Path) -> None:
    fill(path, KEY)
    before = path.read_bytes()
    with pytest.raises(StoreError, match="The encryption key does not open"):
        change(path, bytes(32), NEW)
    with pytest.raises(StoreError, match="is encrypted, or damaged"):
        change(path, None, NEW)
    with pytest.raises(InvalidInput, match="as bytes it has 32"):
        change(path, KEY, b"short")
    assert path.read_bytes() == before
    assert leftovers(path) == []


def test_what_has_no_key_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(NotFound, match="There is no database"):
        change(tmp_path / "missing.db", None, KEY)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(Unsupported, match="Only SQLite files"):
        rekey_sync("postgresql://localhost/vmemo", new_key=KEY)
    with pytest.raises(Unsupported, match="in memory has no key"):
        rekey_sync("sqlite:///:memory:", new_key=KEY)
    fill(tmp_path / "memory.db", None)
    monkeypatch.setitem(sys.modules, "sqlcipher3.dbapi2", None)
    with pytest.raises(MissingExtra, match=r"vmemo\[encryption\]"):
        change(tmp_path / "memory.db", None, KEY)


KILLED = """
import os, sys
from pathlib import Path
from vmemo.stores.sqlite import connection as rekey
from vmemo.stores.sqlite.connection import FileKey

def die(*arguments):
    os._exit(9)

place, name = sys.argv[2].split(".")
setattr(os if place == "os" else rekey, name, die)
old, new = (FileKey(bytes.fromhex(key)) if key else None for key in sys.argv[3:])
rekey.rekey_file(Path(sys.argv[1]), old, new)
"""


@pytest.mark.parametrize(
    ("step", "old", "new"),
    [
        ("rekey._verify", NEW, None),
        ("os.link", KEY, NEW),
        ("os.replace", None, KEY),
        ("rekey._erase", None, KEY),
    ],
    ids=["while copying", "before linking", "before replacing", "before erasing"],
)
def test_a_killed_change_of_the_key_is_completed_by_the_next_run(
    path: Path, step: str, old: bytes | None, new: bytes | None
) -> None:
    fill(path, old)
    expected = recalled(path, old)
    keys = [(key or b"").hex() for key in (old, new)]
    assert subprocess.run([sys.executable, "-c", KILLED, str(path), step, *keys], check=False).returncode == 9
    assert leftovers(path) != []
    replaced = step == "rekey._erase"
    assert recalled(path, new if replaced else old) == expected
    assert change(path, old, new) == (not replaced)
    assert leftovers(path) == []
    assert recalled(path, new) == expected
    content = b"".join(file.read_bytes().lower() for file in path.parent.iterdir())
    assert (TRACE in content) == (new is None)


def test_the_old_bytes_are_overwritten(path: Path) -> None:
    fill(path, None)
    second_name = path.with_name("second-name")
    second_name.hardlink_to(path)
    change(path, None, KEY)
    assert set(second_name.read_bytes()) == {0}


def test_a_failed_copy_leaves_the_file_as_it_was(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(path, None)
    expected = recalled(path, None)

    def counts(_: sqlite3.Connection) -> dict[str, object]:
        return {"messages": object()}

    monkeypatch.setattr("vmemo.stores.sqlite.connection._counts", counts)
    with pytest.raises(StoreError, match=r"not equal to its source .* Nothing was changed"):
        change(path, None, KEY)
    assert leftovers(path) == []
    assert recalled(path, None) == expected
