"""Texts of the OpenAPI description besides the routes."""

from __future__ import annotations

from fastapi.routing import APIRoute

DESCRIPTION = """Messages are stored in a bank. Facts, entities and opinions are derived from them and recalled.

Errors are problem details (RFC 9457): `type` identifies the error, `retryable` shows if the same request may succeed
later. A write with an `Idempotency-Key` runs once, however often it is sent within a day. Lists are paged: pass `next`
as `cursor` to get the next page. Times are ISO 8601 with a time zone.
"""
TAGS: list[dict[str, str]] = [
    {"name": "banks", "description": "Create, configure, export, import and delete banks."},
    {"name": "messages", "description": "Retain and forget messages, derive facts from them, and maintain the bank."},
    {"name": "query", "description": "Recall facts by relevance, or get an answer with citations."},
    {"name": "facts", "description": "Read, edit, pin and delete one fact."},
    {"name": "inspect", "description": "List facts, episodes, entities, opinions and jobs, and trace their sources."},
    {"name": "webhooks", "description": "Notify other systems of retained, revised and forgotten facts."},
    {"name": "server", "description": "Health, API keys, metrics and the audit log."},
]


def operation_id(route: APIRoute) -> str:
    """Return an operation id that does not depend on the path."""
    return "_".join([*map(str, route.tags[:1]), route.name])
