"""Formats of recalled facts in a response: all fields, the fields that an agent uses, or text for a prompt."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Annotated, Any, Literal

from fastapi import Depends, Query, Request, Response

from vmemo.models.prompt_context import PromptContext
from vmemo.models.recalled import Recalled
from vmemo_server.responses import JSON, record

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
