"""Examples of request bodies for the OpenAPI description, as `openapi_extra` of their routes."""

from __future__ import annotations

from typing import Any

from pydantic import JsonValue


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
