"""Responses: records and pages of them as JSON, written once and not checked a second time."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Generic, TypeVar

from fastapi import Response
from pydantic import BaseModel, TypeAdapter

from vmemo.memory.reads import LARGEST_PAGE
from vmemo.server.problems import MEDIA, Problem

Item = TypeVar("Item")


class Page(BaseModel, Generic[Item]):
    """Some records; `next` is the cursor of the page after this one, null on the last."""

    items: tuple[Item, ...]
    next: str | None = None


def record(found: BaseModel, status: int = 200) -> Response:
    """A record as response."""
    return Response(found.model_dump_json(by_alias=True), status, media_type="application/json")


async def recorded(found: Awaitable[BaseModel]) -> Response:
    """A record as response, once it is there."""
    return record(await found)


def listed(kind: type[Page[Item]], items: Sequence[Item], next: str | None = None) -> Response:
    """A page as response."""
    return record(kind.model_construct(items=tuple(items), next=next))


def paged(kind: type[Page[Item]], items: Sequence[Item], limit: int, cursor: Callable[[Item], str]) -> Response:
    """A page of what was read with `one_more`; that one tells whether another page follows."""
    rest = len(items) >= one_more(limit)
    return listed(kind, items[:limit], cursor(items[limit - 1]) if rest else None)


def one_more(limit: int) -> int:
    """How many records are read for a page: one that is not shown, unless no more can be read at once."""
    return min(limit + 1, LARGEST_PAGE)


def plain(value: object) -> Response:
    """Any value as response."""
    return Response(TypeAdapter(Any).dump_json(value), media_type="application/json")


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The problems that a route may answer with, for its description."""
    return {status: {"model": Problem, "content": {MEDIA: {}}, "description": "A problem"} for status in statuses}


LOOKS = problems(401, 403, 404, 409, 422, 429, 503)
"""Of routes that take no body. 409 is a bank of another embedder."""
READS = problems(400, 401, 403, 404, 409, 413, 415, 422, 429, 503)
WRITES = READS
MODELS = problems(400, 401, 403, 404, 409, 413, 415, 422, 429, 502, 503)
