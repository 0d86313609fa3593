"""Concurrent requests of a server, bounded by kind: many writes do not delay recalls."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass
from typing import Literal

from vmemo.errors import InvalidInput, StoreBusy
from vmemo.models import requests as r
from vmemo.models.requests import Returns

WorkKind = Literal["search", "write", "derive"]
_KINDS: Mapping[type[Returns[object]], WorkKind] = {
    **dict.fromkeys((r.RecallRequest, r.RetrieveRequest, r.ContextRequest), "search"),
    **dict.fromkeys((r.RetainRequest, r.ProcessRequest, r.UpdateFactRequest), "write"),
    **dict.fromkeys((r.ForgetRequest, r.ForgetContentRequest, r.MaintainRequest, r.ReprocessRequest), "write"),
}
"""Requests that compute for long. Others are short, or wait for a language model."""


class TooManyRequests(StoreBusy):
    """Too many requests wait already. Nothing was changed; repeat the call."""


@dataclass(frozen=True, kw_only=True)
class ConcurrencyLimits:
    """Concurrent requests of each kind, and those that may wait for each other, with their defaults."""

    searches: int = 8
    """Recalls that run at a time."""
    writes: int = 64
    """Retains and other writes that run at a time. Those of one bank are derived together."""
    derivations: int = 2
    """Banks whose messages the local engine processes at a time; this is the work that would delay recalls."""
    waiting: int = 256
    """Requests of each kind that wait; more are refused."""

    def __post_init__(self) -> None:
        if min(self.searches, self.writes, self.derivations, self.waiting) < 1:
            raise InvalidInput("searches, writes, derivations and waiting must be at least 1.")


class RequestQueue:
    """The requests of a memory: those of each kind run in the order in which they arrive."""

    def __init__(self, limits: ConcurrencyLimits) -> None:
        self._running: Mapping[WorkKind, asyncio.Semaphore] = {
            "search": asyncio.Semaphore(limits.searches),
            "write": asyncio.Semaphore(limits.writes),
            "derive": asyncio.Semaphore(limits.derivations),
        }
        self._waiting: dict[WorkKind, int] = dict.fromkeys(self._running, 0)
        self._most = limits.waiting

    def turn(self, request: Returns[object]) -> AbstractAsyncContextManager[object]:
        """Wait until a request may run, and count it within the context; raise TooManyRequests if too many wait."""
        kind = _KINDS.get(type(request))
        return nullcontext() if kind is None else self._bounded(kind)

    def derivation(self) -> AbstractAsyncContextManager[object]:
        """Wait until the messages of a bank may be processed. It belongs to a write, and those are bounded."""
        return self._running["derive"]

    @asynccontextmanager
    async def _bounded(self, kind: WorkKind) -> AsyncGenerator[None]:
        running = self._running[kind]
        if running.locked() and self._waiting[kind] >= self._most:
            raise TooManyRequests(f"{self._most} requests of this kind wait already. Nothing was changed; try again.")
        self._waiting[kind] += 1
        try:
            await running.acquire()
        finally:
            self._waiting[kind] -= 1
        try:
            yield
        finally:
            running.release()
