"""Resources that belong to one event loop, such as HTTP clients and locks."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Generic, TypeVar
from weakref import WeakKeyDictionary

T = TypeVar("T")


class PerEventLoop(Generic[T]):
    """One resource per event loop, created on first use."""

    def __init__(self, create: Callable[[], T]) -> None:
        self._create = create
        self._lock = threading.Lock()
        self._resources: WeakKeyDictionary[asyncio.AbstractEventLoop, T] = WeakKeyDictionary()

    def get(self) -> T:
        """Return the resource of the running loop."""
        loop = asyncio.get_running_loop()
        with self._lock:
            # Most resources keep their loop alive, so weak keys alone would never release a closed one.
            for other in [other for other in self._resources if other.is_closed()]:
                del self._resources[other]
            if loop not in self._resources:
                self._resources[loop] = self._create()
            return self._resources[loop]

    async def close(self, close: Callable[[T], Coroutine[object, object, None]]) -> None:
        """Close each resource on its own loop; the next use creates new ones."""
        with self._lock:
            resources = list(self._resources.items())
            self._resources.clear()
        for loop, resource in resources:
            if loop is asyncio.get_running_loop():
                await close(resource)
            elif loop.is_running():
                await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(close(resource), loop))
