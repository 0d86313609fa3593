"""Wall-clock time of awaited work, in milliseconds."""

from __future__ import annotations

import time
from collections.abc import Awaitable
from typing import TypeVar

T = TypeVar("T")


async def timed(work: Awaitable[T]) -> tuple[T, float]:
    """The result, and how long it took."""
    began = time.perf_counter()
    result = await work
    return result, (time.perf_counter() - began) * 1000
