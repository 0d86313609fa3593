"""An event loop in a thread of its own.

Connections work only on the event loop where they began. A store that keeps them on a loop of its own serves callers
from any number of loops, and nothing that runs on a connection holds up theirs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from threading import Lock, Thread
from typing import TypeVar

from vmemo.fork import ProcessGuard

R = TypeVar("R")


class LoopThread:
    """A loop that starts with the first call, and again after it was closed."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._starting = Lock()
        self._guard = ProcessGuard()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: Thread | None = None

    async def run(self, work: Callable[[], Coroutine[object, object, R]]) -> R:
        """Run a coroutine on the loop."""
        self._guard.enter()
        with self._starting:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = Thread(target=self._loop.run_forever, name=self._name, daemon=True)
                self._thread.start()
            done = asyncio.run_coroutine_threadsafe(work(), self._loop)
        return await asyncio.wrap_future(done)

    async def close(self, dispose: Callable[[], Coroutine[object, object, None]]) -> bool:
        """Cancel all that runs, run `dispose` on the loop, and end its thread.

        Return False, without `dispose`, in a child of the process that started the thread: there it does not exist.
        """
        forked = self._guard.forked
        if forked:
            self._starting, self._loop, self._thread = Lock(), None, None
        self._guard.reset()
        with self._starting:
            loop, thread, self._loop, self._thread = self._loop, self._thread, None, None
        if loop is None or thread is None:
            return not forked
        await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(_finish(dispose), loop))
        loop.call_soon_threadsafe(loop.stop)
        await asyncio.get_running_loop().run_in_executor(None, thread.join)
        loop.close()
        return True


async def _finish(dispose: Callable[[], Coroutine[object, object, None]]) -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
    await dispose()
