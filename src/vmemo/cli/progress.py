"""Progress bar for long-running work."""

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
"""Seconds between two queries of the remaining count."""


async def with_progress(
    work: Coroutine[Any, Any, R], left: Callable[[], Awaitable[int]], *, what: str, shown: bool
) -> R:
    """Await work while a progress bar shows the remaining count that `left` returns."""
    with progress(shown=shown) as bar:
        updates = asyncio.create_task(_update(left, bar, what))
        try:
            return await work
        finally:
            updates.cancel()


async def _update(left: Callable[[], Awaitable[int]], bar: Progress, what: str) -> None:
    task, most = bar.add_task(what, total=None), 0
    while not bar.disable:
        await asyncio.sleep(_POLL)
        # The store may be busy or closed already; the work itself raises errors.
        with suppress(VmemoError):
            count = await left()
            most = max(most, count)
            bar.update(task, total=most or None, completed=most - count)
