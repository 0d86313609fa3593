"""Exclusive access to a bank, for changes that must succeed however often others write."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from time import monotonic

from vmemo.errors import StoreBusy
from vmemo.models import BankId, new_id
from vmemo.models.changes import Changes, Lease
from vmemo.ports import Store

SECONDS = 60.0
"""Seconds for which a bank is held; a process that dies holds it no longer."""
MOST_WAIT = 60.0
"""Seconds to wait for a bank that another process holds."""
PAUSE = 0.02


@asynccontextmanager
async def exclusive(store: Store, bank: BankId) -> AsyncGenerator[Lease]:
    """Hold a bank; commits of others to its memories wait meanwhile. Pass the lease to `Changes.lease`."""
    owner, deadline = new_id(), monotonic() + MOST_WAIT
    while (lease := await store.hold(bank, owner, SECONDS)) is None:
        if monotonic() > deadline:
            raise StoreBusy(f"Another process holds the bank {bank!r}. Nothing was changed; try again.")
        await asyncio.sleep(PAUSE)
    try:
        yield lease
    finally:
        await store.commit(Changes(bank=bank, finished=[lease]))
