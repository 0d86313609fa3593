"""The server's own tables: in the database of the memory, or in a file beside one that is no SQL database."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path
from typing import cast

import pytest

from vmemo import Memory, SchemaTooNew
from vmemo.ports import Store
from vmemo_conformance.embedders import HashEmbedder
from vmemo_server.state import AuditEntry, IdempotentRequest, ServerState

NO_SQL = cast("Store", object())


def test_state_beside_another_database_is_in_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        first, second = ServerState(NO_SQL), ServerState(NO_SQL)
        key, secret = await first.create_key("agent", banks=["a*"])
        entry = await second.begin_write(AuditEntry(interface="rest", verb="POST /x", bank="a"))
        await second.finish_write(entry, 200)
        await asyncio.gather(first.close(), second.close())
        assert await first.find_key(secret) == key
        assert [(each.bank, each.status) for each in await first.audit_entries(banks=["a"])] == [("a", 200)]
        await first.close()

    monkeypatch.setenv("VMEMO_SERVER_DB", str(tmp_path / "server.db"))
    asyncio.run(run())
    assert (tmp_path / "server.db").is_file()


def test_tables_of_a_newer_release_are_refused(database: str) -> None:
    async def run() -> None:
        async with Memory(database, embedder=HashEmbedder()) as memory:
            await ServerState(memory.store).open()
            with sqlite3.connect(database.removeprefix("sqlite:///")) as connection:
                connection.execute("UPDATE server_version SET version = 9999")
            connection.close()
            with pytest.raises(SchemaTooNew, match="Upgrade vmemo-server"):
                await ServerState(memory.store).keys()

    asyncio.run(run())


def test_response_of_a_request_that_ran_while_text_was_deleted_is_deleted(database: str) -> None:
    request = IdempotentRequest(owner="-", key="once", fingerprint="same", bank="a")
    other = IdempotentRequest(owner="-", key="other", fingerprint="same", bank="b")

    async def run() -> None:
        async with Memory(database, embedder=HashEmbedder()) as memory:
            state = ServerState(memory.store)
            assert [await state.claim(request), await state.claim(other)] == [None, None]
            async with state.erasing("a"):
                await state.save_response(request, 200, "quotes the text")
                await state.save_response(other, 200, "of another bank")
            again = [
                IdempotentRequest(owner="-", key=each.key, fingerprint="same", bank=each.bank)
                for each in (request, other)
            ]
            assert await state.claim(again[0]) is None
            assert (known := await state.claim(again[1])) is not None
            assert known.body == "of another bank"

    asyncio.run(run())
