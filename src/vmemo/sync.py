"""Synchronous twins of async verbs, made in one place.

A twin runs its verb on a loop of its own in a background thread, so it works with and without a running loop.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator
from concurrent.futures import Future
from functools import wraps
from threading import Lock, Thread
from typing import Concatenate, ParamSpec, TypeVar

Owner = TypeVar("Owner")
P = ParamSpec("P")
R = TypeVar("R")


class Portal:
    """An event loop in a daemon thread, started when first used."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._process = 0

    def submit(self, work: Coroutine[object, object, R]) -> Future[R]:
        """Schedule a coroutine on the portal's loop."""
        return asyncio.run_coroutine_threadsafe(work, self._running())

    def run(self, work: Coroutine[object, object, R]) -> R:
        """Run a coroutine to its end and return its result."""
        if _current_loop() is self._loop is not None:
            work.close()
            raise RuntimeError("A _sync verb was called from inside another one; await the async verb there.")
        future = self.submit(work)
        try:
            return future.result()
        except BaseException:
            # Who is interrupted while waiting no longer wants it; what has ended is not touched by this.
            future.cancel()
            raise

    def end(self, work: Coroutine[object, object, None]) -> None:
        """Run the end of something that was begun here, and wait for it where that can come to an end.

        Garbage is collected wherever it may be: on the loop itself, in a forked child, or while the process dies.
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


def twin(
    verb: Callable[Concatenate[Owner, P], Coroutine[object, object, R]],
) -> Callable[Concatenate[Owner, P], R]:
    """The synchronous twin of an async method, with the same parameters."""

    @wraps(verb)
    def call(self: Owner, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return portal.run(verb(self, *args, **kwargs))

    call.__name__ = f"{verb.__name__}_sync"
    call.__doc__ = f"Synchronous twin of `{verb.__name__}`. {verb.__doc__ or ''}"
    return call


def twin_stream(
    verb: Callable[Concatenate[Owner, P], AsyncGenerator[R]],
) -> Callable[Concatenate[Owner, P], Iterator[R]]:
    """The synchronous twin of a method that gives one thing after the other."""

    @wraps(verb)
    def call(self: Owner, /, *args: P.args, **kwargs: P.kwargs) -> Iterator[R]:
        stream, turn = verb(self, *args, **kwargs), asyncio.Lock()
        try:
            while (item := portal.run(_next(stream, turn))) is not None:
                yield item
        finally:
            portal.end(_close(stream, turn))

    call.__name__ = f"{verb.__name__}_sync"
    call.__doc__ = f"Synchronous twin of `{verb.__name__}`. {verb.__doc__ or ''}"
    return call


async def _next(stream: AsyncGenerator[R], turn: asyncio.Lock) -> R | None:
    async with turn:
        return await anext(stream, None)


async def _close(stream: AsyncGenerator[object], turn: asyncio.Lock) -> None:
    # A step that was interrupted comes to its end first: a running generator can't be closed.
    async with turn:
        await stream.aclose()
