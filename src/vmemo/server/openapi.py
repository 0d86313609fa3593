"""What the OpenAPI description says beside the routes themselves."""

from __future__ import annotations

from fastapi.routing import APIRoute

ABOUT = """Messages go into a bank; facts, entities and opinions are derived from them, and come back by relevance.

Errors are problems (RFC 9457): `type` names the kind, `retryable` tells whether the same request may succeed later.
A write with an `Idempotency-Key` is done once, however often it is sent within a day. Listings come in pages: `next`
is the `cursor` of the page after. Times are ISO 8601 with a time zone.
"""
TAGS: list[dict[str, str]] = [
    {"name": "banks", "description": "Banks themselves: make, describe, carry and delete them."},
    {"name": "keep", "description": "Keep and forget: messages, what is derived from them, and upkeep."},
    {"name": "ask", "description": "Ask a bank: facts by relevance, or an answer with citations."},
    {"name": "look", "description": "Look into a bank: facts, episodes, entities, opinions and where they come from."},
    {"name": "server", "description": "The server itself: health, keys, metrics and the record of writes."},
]


def operation(route: APIRoute) -> str:
    """A name for an operation that stays when its path changes."""
    return "_".join([*map(str, route.tags[:1]), route.name])
