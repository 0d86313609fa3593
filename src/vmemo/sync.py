"""Synchronous twins of async verbs, made in one place.

A twin runs its verb on a loop of its own in a background thread, so it works with and without a running loop.
"""

from __future__ import annotations

import asyncio
import os
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
        return self.submit(work).result()

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
        stream = verb(self, *args, **kwargs)
        try:
            while (item := portal.run(_next(stream))) is not None:
                yield item
        finally:
            portal.run(stream.aclose())

    call.__name__ = f"{verb.__name__}_sync"
    call.__doc__ = f"Synchronous twin of `{verb.__name__}`. {verb.__doc__ or ''}"
    return call


async def _next(stream: AsyncGenerator[R]) -> R | None:
    return await anext(stream, None)
