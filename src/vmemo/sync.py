"""Synchronous twins of async methods, resources of one event loop, and the check of forked processes.

A twin runs its method on an event loop in a background thread, so it works with and without a running loop.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator, Iterator
from concurrent.futures import Future
from functools import wraps
from threading import Lock, Thread
from typing import Concatenate, Generic, Literal, ParamSpec, TypeVar
from weakref import WeakKeyDictionary

from vmemo.errors import StoreError


class ProcessGuard:
    """The process that opened connections and started threads."""

    def __init__(self) -> None:
        self._process: int | None = None

    @property
    def forked(self) -> bool:
        return self._process not in (None, os.getpid())

    def enter(self) -> None:
        """Remember this process; raise StoreError if another one is remembered, where a call would never return."""
        if self.forked:
            raise StoreError(
                "This memory was opened before fork(), and its threads and connections do not exist in the child "
                "process. Nothing was done. Create the Memory in the child, or use the start method 'spawn'."
            )
        self._process = os.getpid()

    def reset(self) -> None:
        """Forget the process, after everything is closed."""
        self._process = None


Owner = TypeVar("Owner")
P = ParamSpec("P")
R = TypeVar("R")
F = TypeVar("F", bound=Callable[..., object])


class PerEventLoop(Generic[R]):
    """One resource per event loop, created on first use."""

    def __init__(self, create: Callable[[], R]) -> None:
        self._create = create
        self._lock = Lock()
        self._resources: WeakKeyDictionary[asyncio.AbstractEventLoop, R] = WeakKeyDictionary()

    def get(self) -> R:
        """Return the resource of the running loop."""
        loop = asyncio.get_running_loop()
        with self._lock:
            # Most resources keep their loop alive, so weak keys alone would never release a closed one.
            for other in [other for other in self._resources if other.is_closed()]:
                del self._resources[other]
            if loop not in self._resources:
                self._resources[loop] = self._create()
            return self._resources[loop]

    async def close(self, close: Callable[[R], Coroutine[object, object, None]]) -> None:
        """Close each resource on its own loop; the next use creates new ones."""
        with self._lock:
            resources = list(self._resources.items())
            self._resources.clear()
        for loop, resource in resources:
            if loop is asyncio.get_running_loop():
                await close(resource)
            elif loop.is_running():
                await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(close(resource), loop))


class Portal:
    """An event loop in a daemon thread, started on first use."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._process = 0

    def submit(self, work: Coroutine[object, object, R]) -> Future[R]:
        """Schedule a coroutine on the portal's loop."""
        return asyncio.run_coroutine_threadsafe(work, self._running())

    def run(self, work: Coroutine[object, object, R]) -> R:
        if _current_loop() is self._loop is not None:
            work.close()
            raise RuntimeError("A _sync verb was called from inside another one; await the async verb there.")
        future = self.submit(work)
        try:
            return future.result()
        except BaseException:
            # Cancel on interrupt; a no-op if the future is already done.
            future.cancel()
            raise

    def finish(self, work: Coroutine[object, object, None]) -> None:
        """Run the cleanup of a stream, and wait for it unless that would block.

        Garbage collection may call this on the loop itself, in a forked child, or while the interpreter exits.
        """
        if self._process != os.getpid() or sys.is_finalizing():
            work.close()
        elif _current_loop() is self._loop:
            self.submit(work)
        else:
            self.run(work)

    def _running(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            # A forked child has no copy of the thread.
            if self._loop is None or self._process != os.getpid():
                self._process = os.getpid()
                self._loop = asyncio.new_event_loop()
                Thread(target=self._loop.run_forever, name="vmemo-portal", daemon=True).start()
            return self._loop


def _current_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


portal = Portal()


class Task(Generic[R]):
    """A handle to a coroutine that runs in the background.

    Await it from any event loop, poll `state`, or block on `result()`; `cancel()` stops it.
    Writes before a cancellation stay; the rest stays queued.
    """

    def __init__(self, work: Coroutine[object, object, R]) -> None:
        loop = _current_loop()
        self._future: Future[R] = portal.submit(work) if loop is None else asyncio.run_coroutine_threadsafe(work, loop)

    @property
    def state(self) -> Literal["running", "done", "failed", "cancelled"]:
        if not self._future.done():
            return "running"
        if self._future.cancelled():
            return "cancelled"
        return "done" if self._future.exception() is None else "failed"

    def done(self) -> bool:
        return self._future.done()

    def cancel(self) -> bool:
        """Request cancellation; return False if it has ended already."""
        return self._future.cancel()

    def result(self, timeout: float | None = None) -> R:
        """Block until it ends, and return its result or raise its error. Do not call this on the loop that runs it."""
        return self._future.result(timeout)

    def __await__(self) -> Generator[None, None, R]:
        return asyncio.wrap_future(self._future).__await__()


def twin(verb: Callable[Concatenate[Owner, P], Coroutine[object, object, R]]) -> Callable[Concatenate[Owner, P], R]:
    """Return the synchronous twin of an async method. It calls the method of the subclass if that overrides it."""

    @wraps(verb, updated=())
    def call(self: Owner, /, *args: P.args, **kwargs: P.kwargs) -> R:
        method: Callable[P, Coroutine[object, object, R]] = getattr(self, verb.__name__)
        return portal.run(method(*args, **kwargs))

    return _named(call, verb)


def twin_function(verb: Callable[P, Coroutine[object, object, R]]) -> Callable[P, R]:
    """Return the synchronous twin of an async function."""

    @wraps(verb, updated=())
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        return portal.run(verb(*args, **kwargs))

    return _named(call, verb)


def twin_stream(
    verb: Callable[Concatenate[Owner, P], AsyncGenerator[R]],
) -> Callable[Concatenate[Owner, P], Iterator[R]]:
    """Return the synchronous twin of a method that returns an async generator."""

    @wraps(verb, updated=())
    def call(self: Owner, /, *args: P.args, **kwargs: P.kwargs) -> Iterator[R]:
        method: Callable[P, AsyncGenerator[R]] = getattr(self, verb.__name__)
        stream, lock = method(*args, **kwargs), asyncio.Lock()
        try:
            while (item := portal.run(_next(stream, lock))) is not None:
                yield item
        finally:
            portal.finish(_close(stream, lock))

    return _named(call, verb)


def _named(call: F, verb: Callable[..., object]) -> F:
    call.__name__ = f"{verb.__name__}_sync"
    call.__qualname__ = f"{verb.__qualname__}_sync"
    call.__doc__ = f"Synchronous twin of `{verb.__name__}`. {verb.__doc__ or ''}"
    return call


async def _next(stream: AsyncGenerator[R], lock: asyncio.Lock) -> R | None:
    async with lock:
        return await anext(stream, None)


async def _close(stream: AsyncGenerator[object], lock: asyncio.Lock) -> None:
    # A running generator can't be closed; wait until its current step has ended.
    async with lock:
        await stream.aclose()
