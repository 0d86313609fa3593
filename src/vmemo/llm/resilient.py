"""Retries, rate limiting, request coalescing and a response cache around a language model."""

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
from typing import Protocol, cast, runtime_checkable

from vmemo.errors import InvalidInput, LLMUnavailable
from vmemo.llm.connections import stream_whole
from vmemo.llm.event_loops import PerEventLoop
from vmemo.models.results import Usage
from vmemo.ports.providers import LLM, Completion, LLMRequest, StreamingLLM

MAX_RETRY_AFTER = 60.0
"""Seconds that a call waits if the service asks it to; a longer delay is left to the job queue."""


@runtime_checkable
class _Closeable(Protocol):
    async def close(self) -> None: ...


@dataclass(eq=False)
class _InFlightCall:
    """A call in progress, the number of its waiters, and whether its usage was already returned to one of them."""

    task: asyncio.Task[Completion]
    waiters: int = 0
    usage_reported: bool = False


class _LoopState:
    """State of one event loop."""

    def __init__(self, concurrency: int) -> None:
        self.slots = asyncio.Semaphore(concurrency)
        self.calls: dict[bytes, _InFlightCall] = {}


@dataclass(eq=False, repr=False)
class ResilientLLM:
    """Wraps a model; implements the StreamingLLM port and is safe to share between event loops and threads.

    Transient failures are retried with jittered exponential backoff. Equal concurrent requests share one call, and an
    answer is cached for `cache_seconds`; a cached answer reports no usage. Failures are never cached. A stream is
    retried only until its first delta, because yielded text cannot be taken back.
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
    _loops: PerEventLoop[_LoopState] = field(init=False)
    _cache: OrderedDict[bytes, tuple[float, str]] = field(init=False, default_factory=OrderedDict)
    _blocked_until: float = field(init=False, default=float("-inf"))
    _next_slot: float = field(init=False, default=float("-inf"))

    def __post_init__(self) -> None:
        if self.tries < 1 or self.concurrency < 1:
            raise InvalidInput(f"tries and concurrency must be at least 1, not {self.tries} and {self.concurrency}")
        if self.requests_per_minute is not None and self.requests_per_minute <= 0:
            raise InvalidInput(f"requests_per_minute must be greater than 0 or None, not {self.requests_per_minute}")
        self._loops = PerEventLoop(lambda: _LoopState(self.concurrency))

    @property
    def name(self) -> str:
        """The wrapped model's name."""
        return self.inner.name

    def __repr__(self) -> str:
        return f"ResilientLLM({self.inner!r})"

    async def complete(self, request: LLMRequest) -> Completion:
        """Return a cached answer, the answer of an equal call in progress, or that of a new call."""
        key = _cache_key(request)
        if (cached := self._cached(key)) is not None:
            return Completion(text=cached, usage=Usage())
        calls = self._loops.get().calls
        if (call := calls.get(key)) is None:
            call = calls[key] = _InFlightCall(asyncio.create_task(self._call(request, key)))
            # Retrieve the exception so that asyncio does not log it when all waiters are gone.
            call.task.add_done_callback(lambda task: task.cancelled() or task.exception())
        return await self._wait(call, calls, key)

    async def stream(self, request: LLMRequest) -> AsyncGenerator[str | Completion]:
        """Stream the answer; as one delta if it is cached or the wrapped model cannot stream."""
        key = _cache_key(request)
        if (cached := self._cached(key)) is not None:
            yield cached
            yield Completion(text=cached, usage=Usage())
            return
        async with aclosing(self._with_retries(request, self._stream_inner)) as deltas:
            async for delta in deltas:
                if isinstance(delta, Completion):
                    self._store(key, request, delta.text)
                yield delta

    def forget(self, request: LLMRequest) -> None:
        """Remove the answer to a request from the cache, because it turned out to be invalid."""
        with self._lock:
            self._cache.pop(_cache_key(request), None)

    async def close(self) -> None:
        """Close the wrapped model if it has a `close` method."""
        if isinstance(self.inner, _Closeable):
            await self.inner.close()

    async def _wait(self, call: _InFlightCall, calls: dict[bytes, _InFlightCall], key: bytes) -> Completion:
        call.waiters += 1
        try:
            completion = await asyncio.shield(call.task)
        finally:
            call.waiters -= 1
            if not call.waiters or call.task.done():
                call.task.cancel()
                if calls.get(key) is call:
                    del calls[key]
        if call.usage_reported:
            return Completion(text=completion.text, usage=Usage())
        call.usage_reported = True
        return completion

    async def _call(self, request: LLMRequest, key: bytes) -> Completion:
        async with aclosing(self._with_retries(request, self._complete_inner)) as deltas:
            async for delta in deltas:
                if isinstance(delta, Completion):
                    self._store(key, request, delta.text)
                    return delta
        raise AssertionError("unreachable")

    def _complete_inner(self, request: LLMRequest) -> AsyncGenerator[str | Completion]:
        return stream_whole(self.inner, request)

    def _stream_inner(self, request: LLMRequest) -> AsyncGenerator[str | Completion]:
        return self.inner.stream(request) if isinstance(self.inner, StreamingLLM) else self._complete_inner(request)

    async def _with_retries(
        self, request: LLMRequest, start: Callable[[LLMRequest], AsyncGenerator[str | Completion]]
    ) -> AsyncGenerator[str | Completion]:
        delay, yielded = self.initial_delay, False
        for retries_left in range(self.tries - 1, -1, -1):
            async with self._loops.get().slots:
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
                        message = f"{error}. It asks not to be called {_until(retry_after)}"
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

    def _store(self, key: bytes, request: LLMRequest, text: str) -> None:
        if self.cache_size and _has_required_fields(text, request):
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


def _until(seconds: float) -> str:
    # Cap the delay: a very large Retry-After is not a valid date.
    at = datetime.now(UTC) + timedelta(seconds=min(seconds, 10 * 365 * 86_400.0))
    return f"until {at:%Y-%m-%d %H:%M:%S} UTC"


def _has_required_fields(text: str, request: LLMRequest) -> bool:
    """Return True if the answer is JSON with the schema's required fields; other answers are not worth caching."""
    try:
        value = cast("object", json.loads(text))
    except (ValueError, RecursionError):
        return False
    required = request.schema.get("required")
    if not isinstance(required, list):
        return True
    return isinstance(value, dict) and all(name in value for name in required)
