"""ASGI middleware: request ids and security headers, methods, hosts and origins, media types, and the audit log.

Plain ASGI, so that streamed responses pass through unbuffered.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Collection
from typing import TypedDict

from fastapi import Request
from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from vmemo.errors import InvalidInput
from vmemo_server.auth import AccessControl
from vmemo_server.observability import METHODS
from vmemo_server.paths import is_console, is_hindsight_upload, is_upload
from vmemo_server.problems import HttpProblem, problem_response
from vmemo_server.request_body import has_body
from vmemo_server.state import AuditEntry

_SECURITY_HEADERS = {
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
    "cross-origin-resource-policy": "same-origin",
}
_JSON_LINES = frozenset({"application/x-ndjson", "application/jsonl", "application/octet-stream"})
_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")


class RequestIdMiddleware:
    """Gives every request an id, the client's own if it is well formed, and every response the security headers."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        given = Request(scope).headers.get("x-request-id", "")
        id = given if _REQUEST_ID.fullmatch(given) else secrets.token_hex(6)
        scope.setdefault("state", {})["request_id"] = id

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers["x-request-id"] = id
                for name, value in _SECURITY_HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        await self._app(scope, receive, send_with_headers)


class CheckMiddleware:
    """Answers a request with the problem that a check finds in it."""

    def __init__(self, app: ASGIApp, check: Callable[[Request], HttpProblem | None]) -> None:
        self._app, self._check = app, check

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and (problem := self._check(Request(scope))) is not None:
            await problem_response(Request(scope), problem)(scope, receive, send)
            return
        await self._app(scope, receive, send)


def check_method(request: Request) -> HttpProblem | None:
    """Reject a method that no route has, so that neither logs nor metrics repeat it."""
    if request.method in METHODS:
        return None
    allowed = {"Allow": ", ".join(METHODS)}
    return HttpProblem(405, "HttpError", "This server knows no such method. Nothing was changed.", allowed)


def check_framing(request: Request) -> HttpProblem | None:
    """Reject a request with both Content-Length and Transfer-Encoding, and close its connection (RFC 9112, 6.1).

    A proxy may find the end of such a body elsewhere, and the rest of it would be served as another request.
    """
    if not {"content-length", "transfer-encoding"} <= set(request.headers):
        return None
    detail = "A request may have Content-Length or Transfer-Encoding, not both. Nothing was changed."
    return HttpProblem(400, "HttpError", detail, {"Connection": "close"})


def check_host(allowed: Collection[str], origins: Collection[str]) -> Callable[[Request], HttpProblem | None]:
    """Return a check that rejects another Host or Origin; `origins` may be of any host.

    This keeps web pages from reaching a server without keys, by DNS rebinding or by a cross-site request.
    """

    def check(request: Request) -> HttpProblem | None:
        if "*" in allowed:
            return None
        if _host(request.headers.get("host", "")) not in allowed:
            return HttpProblem(
                421, "HostNotAllowed", "This server answers to localhost only; --allow-host adds a host name."
            )
        origin = request.headers.get("origin")
        if origin is None or origin in origins or _host(origin.partition("://")[2]) in allowed:
            return None
        return HttpProblem(
            403,
            "OriginNotAllowed",
            "Web pages of another host can't use this server; --cors-origin allows an origin.",
        )

    return check


def _host(address: str) -> str:
    return re.sub(r":\d+$", "", address).lower()


def check_content_type(request: Request) -> HttpProblem | None:
    """Reject a body that is not declared as JSON, which a web page could send to any server without asking.

    Only the console takes forms, which have a token against requests of other pages.
    """
    scope = request.scope
    if not has_body(scope) or is_hindsight_upload(scope):
        return None
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    form = "application/x-www-form-urlencoded" if is_console(scope) else "application/json"
    if kind in _JSON_LINES if is_upload(scope) else kind == form:
        return None
    wanted = "application/x-ndjson" if is_upload(scope) else "application/json"
    return HttpProblem(415, "UnsupportedMediaType", f"Send the body with Content-Type: {wanted}. Nothing was changed.")


class AuditMiddleware:
    """Completes the audit entry of a write before its response is sent; a write that is cut off has no status."""

    def __init__(self, app: ASGIApp, access: AccessControl) -> None:
        self._app, self._access = app, access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_audited(message: Message) -> None:
            if message["type"] == "http.response.start":
                await self._finish(scope, message["status"])
            await send(message)

        try:
            await self._app(scope, receive, send_audited)
        except Exception:
            await self._finish(scope, 500)
            raise

    async def _finish(self, scope: Scope, status: int) -> None:
        entry: AuditEntry | None = scope.get("state", {}).pop("audit_entry", None)
        if entry is not None:
            await self._access.finish_write(entry, status)


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
