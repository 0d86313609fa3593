"""Concurrent work of a run."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import TypeVar, cast

T = TypeVar("T")
R = TypeVar("R")


async def run_limited(limit: int, work: Callable[[T], Awaitable[R]], items: Sequence[T]) -> list[R]:
    """Do the work for each item, at most `limit` at a time; return the results in order of the items."""
    slots = asyncio.Semaphore(limit)

    async def run(item: T) -> R:
        async with slots:
            return await work(item)

    async with plain_errors(), asyncio.TaskGroup() as group:
        tasks = [group.create_task(run(item)) for item in items]
    return [task.result() for task in tasks]


@asynccontextmanager
async def plain_errors() -> AsyncGenerator[None]:
    """Raise the first error of a task group by itself; callers do not expect an exception group."""
    try:
        yield
    except BaseExceptionGroup as errors:
        raise _first(errors) from errors


def _first(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = cast("BaseExceptionGroup[BaseException]", error).exceptions[0]
    return error
