"""Cross-origin requests: the origins of web pages that may use the server, and what they may send and read."""

from __future__ import annotations

import re
from typing import TypedDict

from vmemo.errors import InvalidInput

_ORIGIN = re.compile(r"https?://[a-z0-9._-]+(:\d{1,5})?|https?://\[[0-9a-f:]+\](:\d{1,5})?")


class _Cors(TypedDict):
    allow_methods: list[str]
    allow_headers: list[str]
    expose_headers: list[str]
    max_age: int


CORS: _Cors = {
    "allow_methods": ["GET", "POST", "PUT", "PATCH", "DELETE"],
    "allow_headers": [
        *("Authorization", "X-Api-Key", "Content-Type", "Idempotency-Key", "X-Request-Id"),
        *("Mcp-Protocol-Version", "Mcp-Session-Id"),
    ],
    "expose_headers": ["X-Request-Id", "Retry-After", "Idempotent-Replayed"],
    "max_age": 600,
}
"""The options of the middleware. Cookies are never used, so credentials are not allowed."""


def checked_origin(text: str) -> str:
    """Return an origin as browsers send it, or raise InvalidInput."""
    origin = text.lower()
    if _ORIGIN.fullmatch(origin) is None:
        raise InvalidInput(
            "A CORS origin is a scheme and a host, such as https://app.example or http://localhost:5173, "
            f"not {text!r:.80}. Name each origin; * and paths are not allowed."
        )
    return origin
