"""Messages are replaced by others in one commit."""

from __future__ import annotations

import asyncio

import pytest

from vmemo import Memory, StoreBusy
from vmemo.models import BankId
from vmemo.models.changes import Lease
from vmemo.models.requests import RetainRequest
from vmemo_conformance.embedders import HashEmbedder

LINE = "The safe's code is 4711."


def request(*contents: str, tag: str) -> RetainRequest:
    """Return a request for lines of one document, which the same lines with other tags conflict with."""
    lines = [{"content": content, "document": "d", "tags": [tag]} for content in contents]
    return RetainRequest.of({"messages": lines})


def stored(memory: Memory) -> list[tuple[str, tuple[str, ...]]]:
    return [(message.content, message.tags) for message in memory.messages_sync()]


def test_a_line_is_replaced_by_the_same_line_with_other_tags(sqlite_url: str) -> None:
    with Memory(sqlite_url, embedder=HashEmbedder()) as memory:
        before = memory.run_sync(request(LINE, "Water the fern.", tag="old"))
        after = memory.replace_messages_sync(request(LINE, tag="new"), [before.stored[0], "missing"])
        assert stored(memory) == [("Water the fern.", ("old",)), (LINE, ("new",))]
        assert len(after.stored) == 1
        assert len(memory.recall_sync("What is the safe's code?").hits) == 2
        assert memory.status_sync().pending == 0


def test_messages_that_are_stored_already_are_skipped(sqlite_url: str) -> None:
    with Memory(sqlite_url, embedder=HashEmbedder()) as memory:
        before = memory.run_sync(request(LINE, "Water the fern.", tag="old"))
        after = memory.replace_messages_sync(request("Water the fern.", tag="new"), before.stored[:1])
        assert (after.stored, len(after.skipped)) == ((), 1)
        assert stored(memory) == [("Water the fern.", ("old",))]


def test_nothing_is_removed_if_the_new_messages_cannot_be_stored(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run() -> None:
        async with Memory(sqlite_url, embedder=HashEmbedder()) as memory:
            before = await memory.run(request(LINE, tag="old"))
            monkeypatch.setattr("vmemo.lifecycle.forget.WAIT_SECONDS", 0.05)
            lease = await memory.store.hold(memory.name, "another", 30)
            assert lease is not None
            with pytest.raises(StoreBusy):
                await memory.replace_messages(request(LINE, tag="new"), before.stored)
            assert [message.tags for message in await memory.messages()] == [("old",)]

    asyncio.run(run())


def test_a_replacement_cancelled_while_it_takes_hold_of_the_bank_releases_it(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run() -> None:
        async with Memory(sqlite_url, embedder=HashEmbedder()) as memory:
            before = await memory.run(request(LINE, tag="old"))
            store, taken = memory.store, asyncio.Event()
            hold = store.hold

            async def slow_hold(bank: BankId, owner: str, seconds: float) -> Lease | None:
                lease = await hold(bank, owner, seconds)
                taken.set()
                await asyncio.sleep(0.01)
                return lease

            monkeypatch.setattr(store, "hold", slow_hold)
            replacement = asyncio.ensure_future(memory.replace_messages(request(LINE, tag="new"), before.stored))
            await taken.wait()
            replacement.cancel()
            await asyncio.wait([replacement])
            assert await hold(memory.name, "another", 1) is not None

    asyncio.run(run())
