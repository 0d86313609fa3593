"""Responses: records and pages of them as JSON, written once and not checked a second time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

from fastapi import Response
from pydantic import BaseModel, TypeAdapter

from vmemo.server.problems import MEDIA, Problem

Item = TypeVar("Item")


class Page(BaseModel, Generic[Item]):
    """Some records; `next` is the cursor of the page after this one, null on the last."""

    items: tuple[Item, ...]
    next: str | None = None


def record(found: BaseModel, status: int = 200) -> Response:
    """A record as response."""
    return Response(found.model_dump_json(by_alias=True), status, media_type="application/json")


def listed(kind: type[Page[Item]], items: Sequence[Item], next: str | None = None) -> Response:
    """A page as response."""
    return record(kind.model_construct(items=tuple(items), next=next))


def paged(kind: type[Page[Item]], items: Sequence[Item], limit: int, cursor: Callable[[Item], str]) -> Response:
    """A page that was read with one record more than fits; that one tells whether another page follows."""
    rest = len(items) > limit
    return listed(kind, items[:limit], cursor(items[limit - 1]) if rest else None)


def plain(value: object) -> Response:
    """Any value as response."""
    return Response(TypeAdapter(Any).dump_json(value), media_type="application/json")


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The problems that a route may answer with, for its description."""
    return {status: {"model": Problem, "content": {MEDIA: {}}, "description": "A problem"} for status in statuses}


READS = problems(401, 403, 404, 422, 429, 503)
WRITES = problems(401, 403, 404, 409, 413, 422, 429, 503)
MODELS = problems(401, 403, 404, 409, 413, 422, 429, 502, 503)
