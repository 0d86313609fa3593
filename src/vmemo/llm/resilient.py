"""Retries, rate limiting and a response cache around a language model."""

from __future__ import annotations

import asyncio
import hashlib
import json
import random
import threading
import time
from collections import OrderedDict
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import KW_ONLY, dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from weakref import WeakValueDictionary

from vmemo.errors import InvalidInput, LLMUnavailable
from vmemo.llm.connections import stream_whole
from vmemo.models.results import Usage
from vmemo.ports import LLM, Closable, Completion, LLMRequest, StreamingLLM
from vmemo.sync import PerEventLoop

MAX_RETRY_AFTER = 60.0
"""Seconds that a call waits if the service asks it to; a longer delay is left to the job queue."""
_Start = Callable[[LLMRequest], AsyncGenerator[str | Completion]]


@dataclass(eq=False, repr=False)
class ResilientLLM:
    """Wraps a model; implements the StreamingLLM port and is safe to share between event loops and threads.

    Transient failures are retried with jittered exponential backoff. An answer is cached for `cache_seconds`, and a
    cached answer reports no usage. Of equal concurrent requests, one calls the model and the others use its answer. A
    stream is retried only until its first delta, because yielded text cannot be taken back.
    """

    inner: LLM
    _: KW_ONLY
    tries: int = 4
    initial_delay: float = 0.5
    max_delay: float = 30.0
    requests_per_minute: float | None = None
    concurrency: int = 300
    cache_size: int = 256
    cache_seconds: float = 600.0
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    rng: Callable[[], float] = random.random
    clock: Callable[[], float] = time.monotonic
    _lock: threading.Lock = field(init=False, default_factory=threading.Lock)
    _slots: PerEventLoop[asyncio.Semaphore] = field(init=False)
    _turns: PerEventLoop[WeakValueDictionary[bytes, asyncio.Lock]] = field(init=False)
    _cache: OrderedDict[bytes, tuple[float, str]] = field(init=False, default_factory=OrderedDict)
    _blocked_until: float = field(init=False, default=float("-inf"))
    _next_slot: float = field(init=False, default=float("-inf"))

    def __post_init__(self) -> None:
        if self.tries < 1 or self.concurrency < 1:
            raise InvalidInput(f"tries and concurrency must be at least 1, not {self.tries} and {self.concurrency}")
        if self.requests_per_minute is not None and self.requests_per_minute <= 0:
            raise InvalidInput(f"requests_per_minute must be greater than 0 or None, not {self.requests_per_minute}")
        self._slots = PerEventLoop(lambda: asyncio.Semaphore(self.concurrency))
        self._turns = PerEventLoop(WeakValueDictionary[bytes, asyncio.Lock])

    @property
    def name(self) -> str:
        return self.inner.name

    def __repr__(self) -> str:
        return f"ResilientLLM({self.inner!r})"

    async def complete(self, request: LLMRequest) -> Completion:
        """Return a cached answer, that of an equal call in progress, or that of a new call."""
        turn = self._turns.get().setdefault(_cache_key(request), asyncio.Lock())
        async with turn, aclosing(self._deltas(request, partial(stream_whole, self.inner))) as deltas:
            async for delta in deltas:
                if isinstance(delta, Completion):
                    return delta
        raise AssertionError("unreachable")

    def stream(self, request: LLMRequest) -> AsyncGenerator[str | Completion]:
        """Stream the answer; as one delta if it is cached or the wrapped model cannot stream."""
        inner = self.inner
        return self._deltas(request, inner.stream if isinstance(inner, StreamingLLM) else partial(stream_whole, inner))

    def forget(self, request: LLMRequest) -> None:
        """Remove the answer to a request from the cache, because it turned out to be invalid."""
        with self._lock:
            self._cache.pop(_cache_key(request), None)

    async def close(self) -> None:
        if isinstance(self.inner, Closable):
            await self.inner.close()

    async def _deltas(self, request: LLMRequest, start: _Start) -> AsyncGenerator[str | Completion]:
        key = _cache_key(request)
        if (cached := self._cached(key)) is not None:
            yield cached
            yield Completion(text=cached, usage=Usage())
            return
        async with aclosing(self._with_retries(request, start)) as deltas:
            async for delta in deltas:
                if isinstance(delta, Completion):
                    self._store(key, delta.text)
                yield delta

    async def _with_retries(self, request: LLMRequest, start: _Start) -> AsyncGenerator[str | Completion]:
        delay, yielded = self.initial_delay, False
        for retries_left in range(self.tries - 1, -1, -1):
            async with self._slots.get():
                await self._wait_for_turn()
                try:
                    async with aclosing(start(request)) as deltas:
                        async for delta in deltas:
                            yielded = True
                            yield delta
                        return
                except LLMUnavailable as error:
                    retry_after = error.retry_after
                    if retry_after is not None and retry_after > MAX_RETRY_AFTER and not yielded:
                        # Cap the delay: a very large Retry-After is not a valid date.
                        until = datetime.now(UTC) + timedelta(seconds=min(retry_after, 10 * 365 * 86_400.0))
                        message = f"{error}. It asks not to be called until {until:%Y-%m-%d %H:%M:%S} UTC"
                        raise LLMUnavailable(message, retry_after=retry_after) from error
                    if yielded or not retries_left:
                        raise
            if retry_after is None:
                await self.sleep(self.rng() * min(delay, self.max_delay))
            else:
                self._blocked_until = max(self._blocked_until, self.clock() + retry_after)
            delay *= 2

    async def _wait_for_turn(self) -> None:
        """Wait for a slot of the rate limit and for the end of a delay that the service requested."""
        if self.requests_per_minute is not None:
            with self._lock:
                now = self.clock()
                slot = max(now, self._next_slot)
                self._next_slot = slot + 60 / self.requests_per_minute
            if slot > now:
                await self.sleep(slot - now)
        waited_until = self.clock()
        while (until := self._blocked_until) > waited_until:
            waited_until = until
            # Add jitter so that all waiting calls do not resume at the same instant.
            await self.sleep(until - self.clock() + self.rng() * self.initial_delay)

    def _store(self, key: bytes, text: str) -> None:
        with self._lock:
            self._cache[key] = (self.clock(), text)
            self._cache.move_to_end(key)
            if len(self._cache) > self.cache_size:
                self._cache.popitem(last=False)

    def _cached(self, key: bytes) -> str | None:
        with self._lock:
            at, text = self._cache.get(key, (float("-inf"), ""))
            if self.clock() - at > self.cache_seconds:
                self._cache.pop(key, None)
                return None
            self._cache.move_to_end(key)
            return text


def _cache_key(request: LLMRequest) -> bytes:
    fields = [request.step, request.system, request.user, dict(request.schema), request.max_tokens]
    return hashlib.sha256(json.dumps(fields, sort_keys=True).encode()).digest()
