"""Texts and examples of the OpenAPI description besides the routes, and the router of REST paths."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from fastapi.routing import APIRoute
from pydantic import JsonValue

from vmemo_server.paths import ExactRoute

DESCRIPTION = """Messages are stored in a bank. Facts, entities and opinions are derived from them and recalled.

Errors are problem details (RFC 9457): `type` identifies the error, `retryable` shows if the same request may succeed
later. A write with an `Idempotency-Key` runs once, however often it is sent within a day. Lists are paged: pass `next`
as `cursor` to get the next page. Times are ISO 8601 with a time zone.
"""
TAGS: list[dict[str, str]] = [
    {"name": "banks", "description": "Create, configure, export, import and delete banks."},
    {"name": "messages", "description": "Retain and forget messages, derive facts from them, and maintain the bank."},
    {"name": "query", "description": "Recall facts by relevance, or get an answer with citations."},
    {"name": "facts", "description": "Read, edit, pin, judge and delete one fact."},
    {"name": "inspect", "description": "List facts, episodes, entities, opinions and jobs, and trace their sources."},
    {"name": "webhooks", "description": "Notify other systems of retained, revised and forgotten facts."},
    {"name": "server", "description": "Health, API keys, metrics and the audit log."},
]


def operation_id(route: APIRoute) -> str:
    """Return an operation id that does not depend on the path."""
    return "_".join([*map(str, route.tags[:1]), route.name])


def rest_router(tag: str, prefix: str = "") -> APIRouter:
    return APIRouter(generate_unique_id_function=operation_id, prefix=prefix, tags=[tag], route_class=ExactRoute)


def _examples(**values: dict[str, JsonValue]) -> dict[str, Any]:
    named = {name: {"value": value} for name, value in values.items()}
    return {"requestBody": {"content": {"application/json": {"examples": named}}}}


RETAIN = _examples(
    conversation={
        "messages": [
            {"content": "I moved to Lisbon last week.", "speaker": "Ana", "document": "chat-2026-11-15"},
            {"content": "How do you like it there?", "role": "assistant", "document": "chat-2026-11-15"},
        ]
    },
    chat_api={
        "messages": [
            {"role": "user", "name": "Ana", "content": [{"type": "text", "text": "I moved to Lisbon last week."}]},
            {"role": "assistant", "content": None, "tool_calls": [{"id": "call_1", "type": "function"}]},
        ]
    },
)
RECALL = _examples(question={"query": "Where does Ana live?", "max_tokens": 1000, "budget": "low"})
RETRIEVE = _examples(past={"query": "Where did Ana live?", "top_k": 5, "at_time": "2026-01-01T00:00:00Z"})
CONTEXT = _examples(
    question={"query": "What shall we cook tonight?", "user": "Ana", "max_tokens": 800}, profile={"user": "Ana"}
)
REFLECT = _examples(question={"query": "What should we do when Ana visits?", "max_lookups": 1, "opinions": False})
FORGET = _examples(document={"document": "chat-2026-11-15"}, entity={"entity": "Ana"})
PROFILE = _examples(profile={"name": "Mira", "disposition": {"skepticism": 4}, "background": "I teach history."})
BACKGROUND = _examples(background={"snippet": "You grew up in Colorado."})
UPDATE_FACT = _examples(correction={"text": "Ana lives in Porto.", "reason": "She moved."})
MERGE_ENTITIES = _examples(entities={"keep": "Ana Sousa", "absorb": "Ana", "reason": "She said so."})
ADD_WEBHOOK = _examples(webhook={"url": "https://app.example/hooks/vmemo", "events": ["retained", "forgotten"]})
CREATE_KEY = _examples(agent={"name": "the support agent", "banks": ["support-*"], "permission": "write"})
