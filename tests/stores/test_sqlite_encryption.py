"""Encrypted SQLite files: no text on the disk, clear errors for keys, and the behaviour of a plain file (Y4)."""

import asyncio
import sqlite3
import sys
import traceback
from contextlib import closing
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from sqlcipher3 import dbapi2 as sqlcipher

from vmemo import InvalidInput, Memory, MissingExtra, Settings, StoreError, migrate_sync
from vmemo.ports import Store
from vmemo.settings import EncryptionKey
from vmemo.stores.sql.statements import fetch
from vmemo.stores.sqlite.connection import ConnectionFactory, FileKey
from vmemo.stores.sqlite.store import SqliteFile, SqliteStore
from vmemo_conformance.embedders import HashEmbedder
from vmemo_conformance.two_stores import TwoStoreConformance

KEY = bytes(range(32))
PASSPHRASE = "correct horse 'battery' staple"
SECRET = "Quetzalcoatl hid the xylophone under the veranda."
TRACES = (b"quetzalcoatl", b"xylophone", b"veranda")
_PAGE, _RESERVED, _IV = 4096, 80, 16
_LOG_HEADER, _FRAME_HEADER = 32, 24


class TestEncryptedSqliteFile(TwoStoreConformance):
    """An encrypted file is shared like a plain one."""

    def make_store(self, folder: Path) -> Store:
        return SqliteStore(folder / "memory.db", key=KEY)


def open_memory(path: Path, key: EncryptionKey | None = KEY, settings: Settings | None = None) -> Memory:
    return Memory(f"sqlite:///{path}", embedder=HashEmbedder(), settings=settings, encryption_key=key)


def bytes_in(folder: Path) -> bytes:
    return b"".join(file.read_bytes().lower() for file in sorted(folder.rglob("*")) if file.is_file())


def found_in(content: bytes) -> list[bytes]:
    return [trace for trace in TRACES if trace in content]


# Text on the disk


def test_no_file_contains_text_of_an_encrypted_database(tmp_path: Path) -> None:
    with open_memory(tmp_path / "memory.db") as memory:
        memory.retain_sync(SECRET)
        assert SECRET in memory.recall_sync("What is under the veranda?").hits[0].text
        assert {file.name for file in tmp_path.iterdir()} == {"memory.db", "memory.db-wal", "memory.db-shm"}
        assert found_in(bytes_in(tmp_path)) == []
    assert found_in(bytes_in(tmp_path)) == []
    with open_memory(tmp_path / "plain.db", key=None) as memory:
        memory.retain_sync(SECRET)
    assert found_in((tmp_path / "plain.db").read_bytes().lower()) == list(TRACES)


def test_a_rollback_journal_contains_no_text_and_temporary_tables_stay_in_memory(tmp_path: Path) -> None:
    factory = ConnectionFactory(tmp_path / "memory.db", busy_seconds=1, key=FileKey(KEY))
    with closing(factory.connect()) as connection:
        assert connection.execute("PRAGMA temp_store").fetchone() == (2,)
        connection.execute("PRAGMA journal_mode=DELETE")
        connection.execute("CREATE TABLE texts (text)")
        connection.execute("INSERT INTO texts VALUES (?)", (SECRET,))
        connection.execute("BEGIN")
        connection.execute("UPDATE texts SET text = 'other'")
        connection.execute("PRAGMA cache_spill=1")
        assert (tmp_path / "memory.db-journal").exists()
        assert found_in(bytes_in(tmp_path)) == []
        connection.execute("ROLLBACK")


def test_forgotten_text_is_in_no_decrypted_page(tmp_path: Path) -> None:
    with open_memory(tmp_path / "memory.db") as memory:
        memory.retain_sync(SECRET, document="secret")
        memory.retain_sync("The kettle is red.")
        assert found_in(decrypted_pages(tmp_path / "memory.db")) == list(TRACES)
        memory.forget_sync(document="secret")
        pages = decrypted_pages(tmp_path / "memory.db")
        assert b"kettle" in pages
        assert found_in(pages) == []


def decrypted_pages(path: Path) -> bytes:
    """Decrypt every page of a file and its log, those that no table uses included."""
    content, log = path.read_bytes(), path.with_name(f"{path.name}-wal").read_bytes()
    pages = [content[start : start + _PAGE] for start in range(0, len(content), _PAGE)]
    frame = _FRAME_HEADER + _PAGE
    pages += [log[start + _FRAME_HEADER : start + frame] for start in range(_LOG_HEADER, len(log), frame)]
    # The first page starts with the salt in clear.
    return b"".join(_decrypted(page[16:] if n == 0 else page) for n, page in enumerate(pages)).lower()


def _decrypted(page: bytes) -> bytes:
    iv = page[-_RESERVED : -_RESERVED + _IV]
    decryptor = Cipher(algorithms.AES(KEY), modes.CBC(iv)).decryptor()
    return decryptor.update(page[:-_RESERVED]) + decryptor.finalize()


def test_a_bank_is_migrated_between_encrypted_files(tmp_path: Path) -> None:
    source, target = tmp_path / "memory.db", tmp_path / "other.db"
    with open_memory(source) as memory:
        memory.retain_sync(SECRET)
    settings = Settings(encryption_key=KEY)
    report = migrate_sync(f"sqlite:///{source}", f"sqlite:///{target}", settings=settings)
    assert [bank.state for bank in report.banks] == ["moved"]
    assert found_in(bytes_in(tmp_path)) == []
    with open_memory(target) as memory:
        assert memory.status_sync().messages == 1


# Keys


@pytest.mark.parametrize("key", [KEY, KEY.hex(), KEY.hex().upper() + "\n", lambda: KEY, lambda: KEY.hex()])
def test_a_raw_key_is_accepted_as_bytes_as_text_and_from_a_function(tmp_path: Path, key: EncryptionKey) -> None:
    with open_memory(tmp_path / "memory.db") as memory:
        memory.retain_sync(SECRET)
    with open_memory(tmp_path / "memory.db", key) as memory:
        assert memory.status_sync().messages == 1


def test_keys_come_from_a_file_and_from_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "key").write_text(PASSPHRASE + "\n", encoding="utf-8")
    with open_memory(tmp_path / "memory.db", None, Settings(encryption_key_file=tmp_path / "key")) as memory:
        memory.retain_sync(SECRET)
    monkeypatch.setenv("VMEMO_ENCRYPTION_KEY_FILE", str(tmp_path / "key"))
    with open_memory(tmp_path / "memory.db", None) as memory:
        assert memory.status_sync().messages == 1
    monkeypatch.setenv("VMEMO_ENCRYPTION_KEY", PASSPHRASE)
    with pytest.raises(InvalidInput, match="Unset VMEMO_ENCRYPTION_KEY or VMEMO_ENCRYPTION_KEY_FILE"):
        open_memory(tmp_path / "memory.db", None)
    monkeypatch.delenv("VMEMO_ENCRYPTION_KEY_FILE")
    with open_memory(tmp_path / "memory.db", None) as memory:
        assert memory.status_sync().messages == 1


def test_a_passphrase_is_derived_as_sqlcipher_derives_it(tmp_path: Path) -> None:
    with open_memory(tmp_path / "memory.db", PASSPHRASE) as memory:
        memory.retain_sync(SECRET)
    with closing(sqlcipher.connect(tmp_path / "memory.db")) as connection:
        connection.set_key(PASSPHRASE)
        assert connection.execute("SELECT content FROM messages").fetchall() == [(SECRET,)]


def test_stores_that_create_a_file_together_agree_on_its_salt(tmp_path: Path) -> None:
    async def open_all() -> None:
        stores = [SqliteStore(tmp_path / "memory.db", key=KEY) for _ in range(8)]
        try:
            await asyncio.gather(*(store.open() for store in stores))
        finally:
            for store in stores:
                await store.close()

    asyncio.run(open_all())


# Errors


def failing() -> str:
    raise ConnectionError(PASSPHRASE)


@pytest.mark.parametrize(
    ("key", "error", "message"),
    [
        (None, StoreError, "is encrypted, or damaged. Nothing was changed. For an encrypted file set VMEMO_ENCRYPTION"),
        (bytes(32), StoreError, "The encryption key does not open .*memory.db: the key is wrong"),
        ("", InvalidInput, "The encryption key is empty"),
        (b"short", InvalidInput, "has 5 bytes; as bytes it has 32"),
        (lambda: 7, InvalidInput, "that the function returned must be str or bytes, not int"),
        (failing, StoreError, "The function that returns the encryption key raised ConnectionError"),
    ],
)
def test_a_wrong_or_missing_key_is_named(
    tmp_path: Path, key: EncryptionKey | None, error: type[Exception], message: str
) -> None:
    with open_memory(tmp_path / "memory.db") as memory:
        memory.retain_sync(SECRET)
    before = (tmp_path / "memory.db").read_bytes()
    memory = open_memory(tmp_path / "memory.db", key)
    with pytest.raises(error, match=message) as raised:
        memory.recall_sync("What is under the veranda?")
    memory.close_sync()
    assert PASSPHRASE not in str(raised.value)
    assert (tmp_path / "memory.db").read_bytes() == before


def test_a_plain_file_is_not_opened_with_a_key(tmp_path: Path) -> None:
    with open_memory(tmp_path / "memory.db", key=None) as memory:
        memory.retain_sync(SECRET)
    memory = open_memory(tmp_path / "memory.db")
    with pytest.raises(StoreError, match=r"is not encrypted, but an encryption key is set.*vmemo rekey"):
        memory.status_sync()
    memory.close_sync()


@pytest.mark.parametrize("key", [KEY, None], ids=["encrypted", "plain"])
def test_damage_of_a_file_is_a_store_error(tmp_path: Path, key: EncryptionKey | None) -> None:
    path = tmp_path / "memory.db"
    with open_memory(path, key) as memory:
        memory.retain_sync(SECRET)
    content = path.read_bytes()
    path.write_bytes(content[:_PAGE] + bytes(255 - byte for byte in content[_PAGE:]))
    memory = open_memory(path, key)
    with pytest.raises(StoreError, match="SQLite refused"):
        memory.recall_sync("What is under the veranda?")
    memory.close_sync()


def test_an_error_of_a_statement_that_bypasses_sqlalchemy_is_translated(tmp_path: Path) -> None:
    for key in (KEY, None):
        file = SqliteFile(tmp_path / f"{key is None}.db", busy_seconds=1, key=key)
        with pytest.raises(StoreError, match="SQLite refused: no such table: missing"):
            file.read(lambda connection: fetch(connection, "SELECT * FROM missing"))
        file.close()


@pytest.mark.parametrize(
    ("content", "message"),
    [(None, "can't be read: No such file"), (b"\xff" * 32, "must be text"), (b"\n", "key is empty")],
)
def test_an_unusable_key_file_is_named(tmp_path: Path, content: bytes | None, message: str) -> None:
    if content is not None:
        (tmp_path / "key").write_bytes(content)
    memory = open_memory(tmp_path / "memory.db", None, Settings(encryption_key_file=tmp_path / "key"))
    with pytest.raises((StoreError, InvalidInput), match=message):
        memory.status_sync()
    memory.close_sync()
    assert not (tmp_path / "memory.db").exists()


def test_a_missing_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sqlcipher3.dbapi2", None)
    memory = open_memory(tmp_path / "memory.db")
    with pytest.raises(MissingExtra, match=r"pip install 'vmemo\[encryption\]'"):
        memory.status_sync()
    memory.close_sync()
    with open_memory(tmp_path / "plain.db", key=None) as memory:
        assert memory.status_sync().messages == 0


def test_a_key_is_refused_where_it_would_not_protect() -> None:
    with pytest.raises(InvalidInput, match="applies to SQLite files only"):
        Memory("postgresql://localhost/vmemo", encryption_key=KEY)
    with pytest.raises(InvalidInput, match=r"embedding cache vectors.db is not encrypted"):
        Memory("sqlite:///memory.db", settings=Settings(embedding_cache=Path("vectors.db")), encryption_key=KEY)


def test_settings_show_no_key() -> None:
    assert PASSPHRASE not in repr(Settings(encryption_key=PASSPHRASE))
    with pytest.raises(InvalidInput, match="encryption_key") as raised:
        Settings(encryption_key=[PASSPHRASE])  # pyright: ignore[reportArgumentType]
    assert PASSPHRASE not in "".join(traceback.format_exception(raised.value))


def test_the_standard_library_opens_a_plain_file(tmp_path: Path) -> None:
    with closing(ConnectionFactory(tmp_path / "memory.db", busy_seconds=1).connect()) as connection:
        assert isinstance(connection, sqlite3.Connection)
