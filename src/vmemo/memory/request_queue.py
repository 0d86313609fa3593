"""Concurrent requests of a server: bounded by kind, in turns of their callers and banks."""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import AsyncGenerator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Literal

from vmemo.errors import InvalidInput, StoreBusy
from vmemo.models import requests as r
from vmemo.models.requests import Returns

WorkKind = Literal["search", "write", "derive"]
_KINDS: Mapping[type[Returns[object]], WorkKind] = {
    r.RecallRequest: "search",
    r.RetrieveRequest: "search",
    r.ContextRequest: "search",
    r.RetainRequest: "write",
    r.ProcessRequest: "write",
    r.UpdateFactRequest: "write",
    r.ForgetRequest: "write",
    r.ForgetContentRequest: "write",
    r.MaintainRequest: "write",
    r.ReprocessRequest: "write",
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


Waiters = deque[asyncio.Future[None]]


@dataclass(eq=False)
class FairQueue:
    """Requests that wait for one of `width` places: callers take turns, and so do the banks of a caller."""

    width: int
    most: int
    running: int = 0
    waiting: int = 0
    _callers: OrderedDict[str, OrderedDict[str, Waiters]] = field(
        default_factory=OrderedDict[str, OrderedDict[str, Waiters]]
    )

    @asynccontextmanager
    async def turn(self, caller: str, bank: str) -> AsyncGenerator[None]:
        """Wait for a place, and hold it within the context; raise TooManyRequests if too many wait already."""
        if self.running < self.width:
            self.running += 1
        else:
            await self._wait(caller, bank)
        try:
            yield
        finally:
            self._release()

    async def _wait(self, caller: str, bank: str) -> None:
        if self.waiting >= self.most:
            raise TooManyRequests(f"{self.waiting} requests of this kind wait already. Nothing was changed; try again.")
        place = asyncio.get_running_loop().create_future()
        self._callers.setdefault(caller, OrderedDict()).setdefault(bank, Waiters()).append(place)
        self.waiting += 1
        try:
            await place
        except asyncio.CancelledError:
            if place.done() and not place.cancelled():
                # The place was given to this request, which has ended meanwhile.
                self._release()
            raise

    def _release(self) -> None:
        """Give the place to the next request."""
        place = self._next()
        if place is None:
            self.running -= 1
        else:
            place.set_result(None)

    def _next(self) -> asyncio.Future[None] | None:
        while self._callers:
            caller, banks = self._callers.popitem(last=False)
            bank, waiters = banks.popitem(last=False)
            place = waiters.popleft()
            self.waiting -= 1
            if waiters:
                banks[bank] = waiters
            if banks:
                self._callers[caller] = banks
            if not place.cancelled():
                return place
        return None


class RequestQueue:
    """The queues of a memory: many writes do not delay recalls, and those of one caller not those of others."""

    def __init__(self, limits: ConcurrencyLimits) -> None:
        self.queues: Mapping[WorkKind, FairQueue] = {
            "search": FairQueue(limits.searches, limits.waiting),
            "write": FairQueue(limits.writes, limits.waiting),
            # Each of them belongs to a write, and those are limited.
            "derive": FairQueue(limits.derivations, limits.writes + limits.waiting),
        }

    def turn(self, request: Returns[object], caller: str, bank: str) -> AbstractAsyncContextManager[None]:
        """Wait until a request may run, and count it within the context."""
        kind = _KINDS.get(type(request))
        return nullcontext() if kind is None else self.queues[kind].turn(caller, bank)

    def derivation(self, bank: str) -> AbstractAsyncContextManager[None]:
        """Wait until the messages of a bank may be processed."""
        return self.queues["derive"].turn("", bank)
