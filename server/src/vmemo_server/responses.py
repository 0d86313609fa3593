"""Responses: records, pages of records, and recalled facts in the format that a client asks for.

Records are serialized once and not validated again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Generic, Literal, TypeVar

from fastapi import Depends, Query, Request, Response
from pydantic import BaseModel, TypeAdapter

from vmemo.models.prompt_context import PromptContext
from vmemo.models.recalled import Recalled
from vmemo.models.records import Name
from vmemo.models.requests import LARGEST_PAGE
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
    return Response(found.model_dump_json(by_alias=True), status, media_type=JSON)


def page(kind: type[CursorPage[Item]], items: Sequence[Item], next: str | None = None) -> Response:
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
    return Response(TypeAdapter(Any).dump_json(value), media_type=JSON)


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Describe the error responses of a route by a reference: a model for each would delay the start."""
    schema = {"$ref": f"#/components/schemas/{ProblemDetails.__name__}"}
    return {status: {"content": {MEDIA_TYPE: {"schema": schema}}, "description": "An error"} for status in statuses}


READ_ERRORS = problems(401, 403, 404, 409, 422, 429, 503)
"""Errors of routes without a body; 409 is a bank of another embedder."""
BODY_ERRORS = problems(400, 401, 403, 404, 408, 409, 413, 415, 422, 429, 503)
"""Errors of routes with a body."""
LLM_ERRORS = problems(400, 401, 403, 404, 408, 409, 413, 415, 422, 429, 502, 503)
"""Errors of routes that call a language model."""


FactFormat = Literal["full", "lean", "prompt"]
PLAIN_TEXT = "text/plain"
_FACT = {
    *("context", "context_from", "messages", "episodes", "basis"),
    *("valid_at", "recorded_at", "importance", "access_count", "engine"),
}
_HIT = {"fact": _FACT, "channels": True, "path": True, "reranking": True, "newer": True}
_LEFT_OUT: dict[str, Any] = {
    "hits": {"__all__": _HIT},
    "relevant": {"__all__": _HIT},
    **{section: {"__all__": _FACT} for section in ("instructions", "profile", "pinned", "recent")},
    "timings": True,
}
"""Fields that explain where a fact comes from and how it was found, and that `lean` leaves out."""
PROMPT_RESPONSE: dict[int | str, dict[str, Any]] = {
    200: {"content": {PLAIN_TEXT: {"schema": {"type": "string"}}}, "description": "The facts, or a prompt with them"}
}
"""The responses of routes that have formats."""


async def _format(
    request: Request,
    format: Annotated[
        FactFormat | None,
        Query(
            description="`full`: every field. `lean`: no sources, no scores of channels, and no fields that have their "
            "defaults. `prompt`: plain text for a prompt, also with `Accept: text/plain`."
        ),
    ] = None,
) -> FactFormat:
    # Some HTTP libraries accept both by default.
    accepted = request.headers.get("accept", "")
    asks_for_text = PLAIN_TEXT in accepted and JSON not in accepted
    return format or ("prompt" if asks_for_text else "full")


Format = Annotated[FactFormat, Depends(_format)]


async def formatted(found: Recalled | PromptContext, format: FactFormat, to_prompt: Callable[[], str]) -> Response:
    """Return recalled facts in a format; `to_prompt` returns their text."""
    if format == "prompt":
        # In a thread, because fitting facts into a budget counts their tokens several times.
        return Response(await asyncio.to_thread(to_prompt), media_type=PLAIN_TEXT)
    if format == "full":
        return record(found)
    lean = found.model_dump_json(by_alias=True, exclude_defaults=True, exclude=_LEFT_OUT)
    return Response(lean, media_type=JSON)


Limit = Annotated[int, Query(ge=1, le=LARGEST_PAGE, description="Records per page.")]
Cursor = Annotated[Name | None, Query(description="`next` of the previous page; omit it for the first page.")]
Document = Annotated[Name | None, Query(description="Only messages of this document.")]
