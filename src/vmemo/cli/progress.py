"""Work that takes a while, with a bar that tells how far it is."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from typing import Any, TypeVar

from rich.progress import Progress

from vmemo.cli.output import progress
from vmemo.errors import VmemoError

R = TypeVar("R")
_POLL = 0.2
"""Seconds between two looks at how much is left."""


async def watched(work: Coroutine[Any, Any, R], left: Callable[[], Awaitable[int]], *, what: str, shown: bool) -> R:
    """Do work while a bar shows how what is left gets less."""
    with progress(shown=shown) as bar:
        watcher = asyncio.create_task(_watch(left, bar, what))
        try:
            return await work
        finally:
            watcher.cancel()


async def _watch(left: Callable[[], Awaitable[int]], bar: Progress, what: str) -> None:
    task, most = bar.add_task(what, total=None), 0
    while not bar.disable:
        await asyncio.sleep(_POLL)
        # What is looked at may be busy, or gone because all is done; the work itself tells of errors.
        with suppress(VmemoError):
            count = await left()
            most = max(most, count)
            bar.update(task, total=most or None, completed=most - count)
