"""Responses: records and pages of records, serialized once and not validated again."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Generic, TypeVar

from fastapi import Response
from pydantic import BaseModel, TypeAdapter

from vmemo.models.request_fields import LARGEST_PAGE
from vmemo_server.problems import MEDIA_TYPE, ProblemDetails

Item = TypeVar("Item")
JSON = "application/json"


class CursorPage(BaseModel, Generic[Item]):
    """One page of a list; `next` is the cursor of the next page, null on the last one."""

    items: tuple[Item, ...]
    next: str | None = None


class IdResponse(BaseModel):
    """The id of a record that was created or changed."""

    id: str


def record(found: BaseModel, status: int = 200) -> Response:
    """Return a record as a JSON response."""
    return Response(found.model_dump_json(by_alias=True), status, media_type=JSON)


async def record_of(found: Awaitable[BaseModel]) -> Response:
    """Await a record and return it as a JSON response."""
    return record(await found)


def page(kind: type[CursorPage[Item]], items: Sequence[Item], next: str | None = None) -> Response:
    """Return a page as a JSON response."""
    return record(kind.model_construct(items=tuple(items), next=next))


def page_up_to(
    kind: type[CursorPage[Item]], items: Sequence[Item], limit: int, cursor: Callable[[Item], str]
) -> Response:
    """Return the first `limit` of the records that were read with `one_more`, and a cursor if there are more."""
    has_more = len(items) >= one_more(limit)
    return page(kind, items[:limit], cursor(items[limit - 1]) if has_more else None)


def one_more(limit: int) -> int:
    """Return the number of records to read for a page: one extra shows that another page follows."""
    return min(limit + 1, LARGEST_PAGE)


def json_response(value: object) -> Response:
    """Return any value as a JSON response."""
    return Response(TypeAdapter(Any).dump_json(value), media_type=JSON)


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Describe the error responses of a route."""
    return {
        status: {"model": ProblemDetails, "content": {MEDIA_TYPE: {}}, "description": "An error"} for status in statuses
    }


READ_ERRORS = problems(401, 403, 404, 409, 422, 429, 503)
"""Errors of routes without a body; 409 is a bank of another embedder."""
BODY_ERRORS = problems(400, 401, 403, 404, 408, 409, 413, 415, 422, 429, 503)
"""Errors of routes with a body."""
LLM_ERRORS = problems(400, 401, 403, 404, 408, 409, 413, 415, 422, 429, 502, 503)
"""Errors of routes that call a language model."""
