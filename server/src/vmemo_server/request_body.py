"""ASGI middleware for request bodies: size, time to send, and memory of all together."""

from __future__ import annotations

import asyncio
from typing import NoReturn

from fastapi import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from vmemo_server.auth import Limits
from vmemo_server.paths import is_hindsight_upload, is_upload
from vmemo_server.problems import HttpProblem, problem_response

MAX_JSON_VALUES = 100_000
"""JSON values of a body. Millions of small ones, or of errors in them, would keep the event loop busy for seconds."""
BODY_SECONDS = 20.0
"""Seconds to send a body, besides the time that its bytes take at `BYTES_PER_SECOND`."""
BYTES_PER_SECOND = 500.0
"""The slowest rate at which a client may send a body."""
BUFFERED_BYTES = 100_000_000
"""Bytes of request bodies in memory at a time, of all requests together."""


class BodyLimitMiddleware:
    """Rejects bodies that are too large, with and without a Content-Length, too slow, or too many at a time."""

    def __init__(self, app: ASGIApp, limits: Limits) -> None:
        self._app, self._limits = app, limits
        self._buffered = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request and limit its body while it is read."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        # The body of an import goes to a file while it is read.
        streamed = is_upload(scope)
        limit = self._limits.import_bytes if streamed else self._limits.body_bytes
        declared = Request(scope).headers.get("content-length", "0")
        if declared.isdecimal() and int(declared) > limit:
            await problem_response(Request(scope), _too_large(limit))(scope, receive, send)
            return
        is_json = not streamed and not is_hindsight_upload(scope)
        body = _LimitedBody(receive, limit=limit, values=JsonValueCounter() if is_json else None)
        held = 0
        responded = False

        async def receive_limited() -> Message:
            nonlocal held
            message = await body.receive()
            size = 0 if streamed else len(message.get("body", b""))
            held, self._buffered = held + size, self._buffered + size
            if self._buffered > BUFFERED_BYTES:
                body.fail(_busy())
            return message

        async def send_problem_first(message: Message) -> None:
            nonlocal responded
            if body.problem is None:
                await send(message)
            elif not responded:
                responded = True
                await problem_response(Request(scope), body.problem)(scope, receive, send)

        try:
            await self._app(scope, receive_limited, send_problem_first)
        finally:
            self._buffered -= held


class _LimitedBody:
    """The body of one request. Its problem is raised to the reader, and sent in place of any other response."""

    def __init__(self, receive: Receive, *, limit: int, values: JsonValueCounter | None) -> None:
        self._receive, self._limit, self._values = receive, limit, values
        self._received, self._began, self._complete = 0, 0.0, False
        self.problem: HttpProblem | None = None

    async def receive(self) -> Message:
        """Return the next part of the body; after the last one, wait for the client to disconnect."""
        if self._complete:
            return await self._receive()
        self._began = self._began or asyncio.get_running_loop().time()
        try:
            async with asyncio.timeout_at(self._began + BODY_SECONDS + self._received / BYTES_PER_SECOND):
                message = await self._receive()
        except TimeoutError:
            self.fail(_too_slow())
        part = message.get("body", b"")
        self._complete = not message.get("more_body", False)
        self._received += len(part)
        if self._received > self._limit:
            self.fail(_too_large(self._limit))
        if self._values is not None and self._values.feed(part) > MAX_JSON_VALUES:
            self.fail(_too_many_values())
        if self._values is not None and b"\x00" in part:
            # Parsers accept UTF-16 and UTF-32 too, whose values are not counted.
            self.fail(HttpProblem(400, "HttpError", "The body must be JSON in UTF-8. Nothing was changed."))
        return message

    def fail(self, problem: HttpProblem) -> NoReturn:
        """Raise a problem, and keep it: FastAPI and the MCP package answer 400 or 500 to any exception."""
        self.problem = problem
        raise problem


class JsonValueCounter:
    """Counts the values of a JSON text while it arrives, without parsing it: separators outside of strings."""

    def __init__(self) -> None:
        self._count = 0
        self._in_string = False
        self._escape = b""

    def feed(self, chunk: bytes) -> int:
        """Add a part of the text; return the number of values so far, give or take one."""
        text = (self._escape + chunk).replace(b"\\\\", b"")
        # A backslash at the end belongs to the next character.
        self._escape = b"\\" if text.endswith(b"\\") else b""
        parts = text.removesuffix(self._escape).replace(b'\\"', b"").split(b'"')
        outside = parts[1::2] if self._in_string else parts[::2]
        self._count += sum(part.count(b",") + part.count(b"[") + part.count(b"{") for part in outside)
        self._in_string ^= len(parts) % 2 == 0
        return self._count


def has_body(scope: Scope) -> bool:
    """Return True if a request declares a body."""
    headers = Request(scope).headers
    return headers.get("content-length", "0") != "0" or "transfer-encoding" in headers


def _too_large(limit: int) -> HttpProblem:
    # Without "Connection: close", which would reset the connection of a client that still sends, uvicorn reads on.
    return HttpProblem(413, "BodyTooLarge", f"A request body may have {limit:,} bytes here. Nothing was changed.")


def _too_many_values() -> HttpProblem:
    detail = f"A request body may hold {MAX_JSON_VALUES:,} JSON values. Nothing was changed; send several requests."
    return HttpProblem(413, "BodyTooLarge", detail)


def _too_slow() -> HttpProblem:
    detail = "The request body did not arrive in time. Nothing was changed."
    return HttpProblem(408, "RequestTimeout", detail, {"Connection": "close"})


def _busy() -> HttpProblem:
    return HttpProblem(503, "ServerBusy", "Bodies of other requests use all memory for bodies. Nothing was changed.")
