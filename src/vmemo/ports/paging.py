"""Reads of all records of a listing, page by page."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from typing import Any, Protocol, TypeVar

Id = TypeVar("Id", covariant=True)


class Identified(Protocol[Id]):
    """A record with an id to page by."""

    @property
    def id(self) -> Id: ...


Item = TypeVar("Item", bound=Identified[Any])


async def paged(page: Callable[[Any], Awaitable[Sequence[Item]]]) -> AsyncGenerator[Item]:
    """Yield all records of a listing; `page` returns those after an id, or the first for None."""
    last: Item | None = None
    while items := await page(last.id if last is not None else None):
        for item in items:
            yield item
        last = items[-1]
