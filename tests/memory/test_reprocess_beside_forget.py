"""Reprocessing while something else drops its staging bank."""

from __future__ import annotations

import pytest

from vmemo import Memory, Retained
from vmemo.lifecycle.reprocess import staging_bank
from vmemo.memory import administration
from vmemo.memory.session import MemoryRuntime
from vmemo.models import BankId
from vmemo_conformance.embedders import HashEmbedder


@pytest.mark.parametrize("recreated", [False, True], ids=["dropped", "dropped and created by another process"])
def test_reprocess_begins_again_if_its_staging_bank_is_dropped(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch, *, recreated: bool
) -> None:
    derive, dropped = administration.derive, list[BankId]()

    async def drop_first(runtime: MemoryRuntime, bank: BankId) -> Retained:
        if dropped:
            return await derive(runtime, bank)
        dropped.append(bank)
        store, embedder = runtime.context.store, runtime.context.embedder
        assert await store.drop_bank(bank)
        try:
            return await derive(runtime, bank)
        finally:
            if recreated:
                size = embedder.dimension
                await staging_bank(store, BankId("default"), "local/x", embedder=embedder.name, dimension=size)

    with Memory(sqlite_url, embedder=HashEmbedder()) as memory:
        memory.retain_sync(["Anna lives in Oslo.", "Bo likes tea."])
        before = memory.status_sync()
        monkeypatch.setattr(administration, "derive", drop_first)
        memory.reprocess_sync()
        assert len(dropped) == 1
        assert memory.status_sync().facts == before.facts
