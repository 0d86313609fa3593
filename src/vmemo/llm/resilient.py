"""Patience around a language model: it waits for a busy one, asks the same thing once, and keeps to a pace."""

from __future__ import annotations

import asyncio
import hashlib
import json
import random
import threading
import time
from collections import OrderedDict
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from contextlib import aclosing
from dataclasses import KW_ONLY, dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Generic, Protocol, TypeVar, cast, runtime_checkable
from weakref import WeakKeyDictionary

from vmemo.errors import InvalidInput, LLMUnavailable
from vmemo.llm.sse import in_one_piece
from vmemo.models.results import Usage
from vmemo.ports.providers import LLM, Completion, LLMRequest, StreamingLLM

T = TypeVar("T")

LONGEST_WISH = 60.0
"""Seconds that a service's wish to be left alone is waited out; a longer one is for the queue, which comes back."""


class Busy(LLMUnavailable):
    """The service is too busy or out of reach for now; `retry_after` is how many seconds it asked to wait."""

    def __init__(self, message: str, *, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class Garbled(LLMUnavailable):
    """What arrived was no model's answer at all: an empty body, a web page, a broken envelope. Another try may do."""


class PerLoop(Generic[T]):
    """One thing for each event loop, because connections and locks work only on the loop where they began."""

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._things: WeakKeyDictionary[asyncio.AbstractEventLoop, T] = WeakKeyDictionary()

    def here(self) -> T:
        """What belongs to the running loop, made where it is missing."""
        loop = asyncio.get_running_loop()
        with self._lock:
            # Most things keep their loop alive, so weak keys alone would never let go of a closed one.
            for other in [other for other in self._things if other.is_closed()]:
                del self._things[other]
            if loop not in self._things:
                self._things[loop] = self._make()
            return self._things[loop]

    async def close(self, close: Callable[[T], Coroutine[object, object, None]]) -> None:
        """Close each thing on its own loop; the next use makes new ones."""
        with self._lock:
            things = list(self._things.items())
            self._things.clear()
        for loop, thing in things:
            if loop is asyncio.get_running_loop():
                await close(thing)
            elif loop.is_running():
                await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(close(thing), loop))


@runtime_checkable
class _Closing(Protocol):
    async def close(self) -> None: ...


@dataclass(eq=False)
class _Flight:
    """One call that is under way, and how many wait for it."""

    task: asyncio.Task[Completion]
    waiters: int = 0
    reported: bool = False


class _Here:
    """What belongs to one event loop."""

    def __init__(self, concurrency: int) -> None:
        self.places = asyncio.Semaphore(concurrency)
        self.flights: dict[bytes, _Flight] = {}


@dataclass(eq=False, repr=False)
class PatientLLM:
    """Another model with patience; fulfils the StreamingLLM port, and may be shared by event loops and threads.

    Calls that fail for a reason that passes are repeated, after pauses that grow and are spread by chance. Equal asks
    at the same time are one call, and an answer is kept for asks repeated within `remember_seconds`; such an answer
    costs nothing and says so. Failures are never kept. A stream is repeated only while it has given nothing, as words
    once given can't be taken back.
    """

    inner: LLM
    _: KW_ONLY
    tries: int = 4
    first_pause: float = 0.5
    longest_pause: float = 30.0
    requests_per_minute: float | None = None
    concurrency: int = 300
    keep: int = 256
    remember_seconds: float = 600.0
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    rng: Callable[[], float] = random.random
    clock: Callable[[], float] = time.monotonic
    _lock: threading.Lock = field(init=False, default_factory=threading.Lock)
    _loops: PerLoop[_Here] = field(init=False)
    _kept: OrderedDict[bytes, tuple[float, str]] = field(init=False, default_factory=OrderedDict)
    _closed_until: float = field(init=False, default=float("-inf"))
    _next_slot: float = field(init=False, default=float("-inf"))

    def __post_init__(self) -> None:
        if self.tries < 1 or self.concurrency < 1:
            raise InvalidInput("tries and concurrency must be at least 1")
        if self.requests_per_minute is not None and self.requests_per_minute <= 0:
            raise InvalidInput("requests_per_minute must be more than 0")
        self._loops = PerLoop(lambda: _Here(self.concurrency))

    @property
    def name(self) -> str:
        """The inner model's name."""
        return self.inner.name

    def __repr__(self) -> str:
        return f"PatientLLM({self.inner!r})"

    async def complete(self, request: LLMRequest) -> Completion:
        """The answer: a kept one, that of an equal call under way, or a new one."""
        key = _key(request)
        if (kept := self._remembered(key)) is not None:
            return Completion(text=kept, usage=Usage())
        flights = self._loops.here().flights
        if (flight := flights.get(key)) is None:
            flight = flights[key] = _Flight(asyncio.create_task(self._fetch(request, key)))
            # A failure that nobody is left to see is no news.
            flight.task.add_done_callback(lambda task: task.cancelled() or task.exception())
        return await self._wait(flight, flights, key)

    async def stream(self, request: LLMRequest) -> AsyncGenerator[str | Completion]:
        """The answer while it is written; in one piece where it is kept, or the inner model does not stream."""
        key = _key(request)
        if (kept := self._remembered(key)) is not None:
            yield kept
            yield Completion(text=kept, usage=Usage())
            return
        async with aclosing(self._patiently(request, self._told)) as pieces:
            async for piece in pieces:
                if isinstance(piece, Completion):
                    self._remember(key, request, piece.text)
                yield piece

    def forget(self, request: LLMRequest) -> None:
        """Keep an answer no longer: it turned out to be of no use, and must not be given again."""
        with self._lock:
            self._kept.pop(_key(request), None)

    async def close(self) -> None:
        """Close the inner model, where it can be closed."""
        if isinstance(self.inner, _Closing):
            await self.inner.close()

    async def _wait(self, flight: _Flight, flights: dict[bytes, _Flight], key: bytes) -> Completion:
        flight.waiters += 1
        try:
            completion = await asyncio.shield(flight.task)
        finally:
            flight.waiters -= 1
            if not flight.waiters or flight.task.done():
                flight.task.cancel()
                if flights.get(key) is flight:
                    del flights[key]
        if flight.reported:
            return Completion(text=completion.text, usage=Usage())
        flight.reported = True
        return completion

    async def _fetch(self, request: LLMRequest, key: bytes) -> Completion:
        async with aclosing(self._patiently(request, self._whole)) as pieces:
            async for piece in pieces:
                if isinstance(piece, Completion):
                    self._remember(key, request, piece.text)
                    return piece
        raise AssertionError("unreachable")

    def _whole(self, request: LLMRequest) -> AsyncGenerator[str | Completion]:
        return in_one_piece(self.inner, request)

    def _told(self, request: LLMRequest) -> AsyncGenerator[str | Completion]:
        return self.inner.stream(request) if isinstance(self.inner, StreamingLLM) else self._whole(request)

    async def _patiently(
        self, request: LLMRequest, begin: Callable[[LLMRequest], AsyncGenerator[str | Completion]]
    ) -> AsyncGenerator[str | Completion]:
        pause, given = self.first_pause, False
        for left in range(self.tries - 1, -1, -1):
            async with self._loops.here().places:
                await self._turn()
                try:
                    async with aclosing(begin(request)) as pieces:
                        async for piece in pieces:
                            given = True
                            yield piece
                        return
                except LLMUnavailable as error:
                    wish = _wish(error)
                    if wish is not None and wish > LONGEST_WISH and not given:
                        raise Busy(f"{error}. It wants to be left alone {_until(wish)}", retry_after=wish) from error
                    if given or not left:
                        raise
            if wish is None:
                await self.sleep(self.rng() * min(pause, self.longest_pause))
            else:
                self._closed_until = max(self._closed_until, self.clock() + wish)
            pause *= 2

    async def _turn(self) -> None:
        """Wait for a slot of the pace, and until the service has had the rest it asked for."""
        if self.requests_per_minute is not None:
            with self._lock:
                now = self.clock()
                slot = max(now, self._next_slot)
                self._next_slot = slot + 60 / self.requests_per_minute
            if slot > now:
                await self.sleep(slot - now)
        waited_for = self.clock()
        while (until := self._closed_until) > waited_for:
            waited_for = until
            # Spread a little, or all who wait would come back in the same instant.
            await self.sleep(until - self.clock() + self.rng() * self.first_pause)

    def _remember(self, key: bytes, request: LLMRequest, text: str) -> None:
        if self.keep and _fits(text, request):
            with self._lock:
                self._kept[key] = (self.clock(), text)
                self._kept.move_to_end(key)
                if len(self._kept) > self.keep:
                    self._kept.popitem(last=False)

    def _remembered(self, key: bytes) -> str | None:
        with self._lock:
            at, text = self._kept.get(key, (float("-inf"), ""))
            if self.clock() - at > self.remember_seconds:
                self._kept.pop(key, None)
                return None
            self._kept.move_to_end(key)
            return text


def _key(request: LLMRequest) -> bytes:
    asked = json.dumps(
        [request.step, request.system, request.user, dict(request.schema), request.max_tokens], sort_keys=True
    )
    return hashlib.sha256(asked.encode()).digest()


def _wish(error: Exception) -> float | None:
    return error.retry_after if isinstance(error, Busy) else None


def _until(seconds: float) -> str:
    # A wish may be absurd, and a date can't be.
    moment = datetime.now(UTC) + timedelta(seconds=min(seconds, 10 * 365 * 86_400.0))
    return f"until {moment:%Y-%m-%d %H:%M:%S} UTC"


def _fits(text: str, request: LLMRequest) -> bool:
    """Whether an answer looks like what was asked for; others would only be repeated to whoever tries again."""
    try:
        value = cast("object", json.loads(text))
    except (ValueError, RecursionError):
        return False
    required = request.schema.get("required")
    if not isinstance(required, list):
        return True
    return isinstance(value, dict) and all(name in value for name in required)
