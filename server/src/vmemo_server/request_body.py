"""ASGI middleware for request bodies: their size, the time to send one, the memory of all together, and unread ones."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from http import HTTPStatus
from typing import NoReturn

from fastapi import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from vmemo_server.auth import Limits
from vmemo_server.connections import ConnectionLimits
from vmemo_server.paths import is_hindsight_upload, is_import
from vmemo_server.problems import HttpProblem, problem_response

MAX_JSON_VALUES = 100_000
"""JSON values of a body. Millions of small ones, or of errors in them, would keep the event loop busy for seconds."""


class BodyLimitMiddleware:
    """Rejects bodies that are too large, with and without a Content-Length, too slow, or too many at a time."""

    def __init__(self, app: ASGIApp, limits: Limits, connections: ConnectionLimits) -> None:
        self._app, self._limits, self._connections = app, limits, connections
        self._buffered = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request and limit its body while it is read."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        streamed = is_import(scope)
        limit = self._limits.import_bytes if streamed else self._limits.body_bytes
        declared = Request(scope).headers.get("content-length", "0")
        if declared.isdecimal() and int(declared) > limit:
            await problem_response(Request(scope), _too_large(limit))(scope, receive, send)
            return
        body, held = _LimitedBody(scope, receive, send, limit=limit, slowest=self._connections), 0
        values = None if streamed or is_hindsight_upload(scope) else JsonValueCounter()

        async def receive_limited() -> Message:
            nonlocal held
            message = await body.receive()
            # The body of an import goes to a file while it is read.
            size = 0 if streamed else len(message.get("body", b""))
            held, self._buffered = held + size, self._buffered + size
            if self._buffered > self._connections.buffered_bytes:
                body.fail(_busy())
            if values is not None and values.feed(message.get("body", b"")) > MAX_JSON_VALUES:
                body.fail(_too_many_values())
            if values is not None and b"\x00" in message.get("body", b""):
                # Parsers accept UTF-16 and UTF-32 too, whose values are not counted.
                body.fail(HttpProblem(400, "HttpError", "The body must be JSON in UTF-8. Nothing was changed."))
            return message

        try:
            await self._app(scope, receive_limited, body.send)
        finally:
            self._buffered -= held


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


class BodyFramingMiddleware:
    """Rejects requests with both Content-Length and Transfer-Encoding, and closes their connection (RFC 9112, 6.1).

    A proxy may find the end of such a body elsewhere, and the rest of it would be served as another request.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        if scope["type"] == "http" and {"content-length", "transfer-encoding"} <= set(Request(scope).headers):
            await problem_response(Request(scope), _ambiguous_length())(scope, receive, send)
            return
        await self._app(scope, receive, send)


class DrainMiddleware:
    """Reads and discards the rest of a body after its response, for a limited time and up to the largest body.

    Closing the connection while the client still sends would reset it, and the client would lose the response.
    """

    def __init__(self, app: ASGIApp, limits: Limits, connections: ConnectionLimits) -> None:
        self._app, self._bytes, self._seconds = app, limits.body_bytes, connections.header_seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        # A client that waits for 100 Continue sends no body after another response.
        if scope["type"] != "http" or not has_body(scope) or "expect" in Request(scope).headers:
            await self._app(scope, receive, send)
            return
        complete = False

        async def receive_noted() -> Message:
            nonlocal complete
            message = await receive()
            complete = not message.get("more_body", False)
            return message

        async def drain() -> None:
            left = self._bytes
            with suppress(TimeoutError):
                async with asyncio.timeout(self._seconds):
                    while not complete and left > 0:
                        left -= len((await receive_noted()).get("body", b""))

        async def send_and_drain(message: Message) -> None:
            nonlocal complete
            if message.get("status") == HTTPStatus.REQUEST_TIMEOUT:
                complete = True  # The rest has been waited for.
            is_last = message["type"] == "http.response.body" and not message.get("more_body", False)
            if is_last and not complete:
                await send({**message, "more_body": True})
                await drain()
                message = {"type": "http.response.body"}
            await send(message)

        await self._app(scope, receive_noted, send_and_drain)


class _LimitedBody:
    """The body of one request. Its first problem is raised to the reader, and sent in place of any other response."""

    def __init__(self, scope: Scope, receive: Receive, send: Send, *, limit: int, slowest: ConnectionLimits) -> None:
        self._scope, self._receive, self._send = scope, receive, send
        self._limit, self._slowest = limit, slowest
        self._waited = 0.0
        self._complete = self._responded = False
        self._problem: HttpProblem | None = None
        self._received = 0

    async def receive(self) -> Message:
        """Return the next part of the body; after the last one, wait for the client to disconnect."""
        if self._complete:
            return await self._receive()
        began = time.monotonic()
        allowed = self._slowest.body_seconds + self._received / self._slowest.bytes_per_second
        try:
            async with asyncio.timeout(allowed - self._waited):
                message = await self._receive()
        except TimeoutError:
            self.fail(_too_slow())
        self._waited += time.monotonic() - began
        self._complete = not message.get("more_body", False)
        self._received += len(message.get("body", b""))
        if self._received > self._limit:
            self.fail(_too_large(self._limit))
        return message

    def fail(self, problem: HttpProblem) -> NoReturn:
        """Raise a problem, and send it even if the reader answers otherwise: FastAPI turns any exception into 400."""
        self._problem = problem
        raise problem

    async def send(self, message: Message) -> None:
        """Send a part of the response, or the problem of the body."""
        if self._problem is None:
            await self._send(message)
        elif not self._responded:
            self._responded = True
            await problem_response(Request(self._scope), self._problem)(self._scope, self._receive, self._send)


def has_body(scope: Scope) -> bool:
    """Return True if a request declares a body."""
    headers = Request(scope).headers
    return headers.get("content-length", "0") != "0" or "transfer-encoding" in headers


def _ambiguous_length() -> HttpProblem:
    detail = "A request may have Content-Length or Transfer-Encoding, not both. Nothing was changed."
    return HttpProblem(400, "HttpError", detail, {"Connection": "close"})


def _too_large(limit: int) -> HttpProblem:
    # The rest of the body may stay unread, so that the connection can't be used again.
    detail = f"A request body may have {limit:,} bytes here. Nothing was changed."
    return HttpProblem(413, "BodyTooLarge", detail, {"Connection": "close"})


def _too_many_values() -> HttpProblem:
    detail = f"A request body may hold {MAX_JSON_VALUES:,} JSON values. Nothing was changed; send several requests."
    return HttpProblem(413, "BodyTooLarge", detail, {"Connection": "close"})


def _too_slow() -> HttpProblem:
    detail = "The request body did not arrive in time. Nothing was changed."
    return HttpProblem(408, "RequestTimeout", detail, {"Connection": "close"})


def _busy() -> HttpProblem:
    return HttpProblem(503, "ServerBusy", "Bodies of other requests use all memory for bodies. Nothing was changed.")
