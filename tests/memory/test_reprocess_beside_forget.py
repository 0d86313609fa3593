"""Reprocessing while something else drops its staging bank."""

from __future__ import annotations

import pytest

from vmemo import Memory, Retained
from vmemo.memory import administration
from vmemo.memory.runtime import MemoryRuntime
from vmemo.models import BankId
from vmemo.testing.embedders import HashEmbedder


def test_reprocess_begins_again_if_its_staging_bank_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    derive, dropped = administration.derive, list[BankId]()

    async def drop_first(runtime: MemoryRuntime, bank: BankId) -> Retained:
        if not dropped:
            dropped.append(bank)
            assert await runtime.context.store.drop_bank(bank)
        return await derive(runtime, bank)

    with Memory(embedder=HashEmbedder()) as memory:
        memory.retain_sync(["Anna lives in Oslo.", "Bo likes tea."])
        before = memory.status_sync()
        monkeypatch.setattr(administration, "derive", drop_first)
        memory.reprocess_sync()
        assert len(dropped) == 1
        assert memory.status_sync().facts == before.facts
