"""What every request passes on its way in and out: an id, a limit on its body, security headers, the record of writes.

Plain ASGI, so that streams pass through piece by piece.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Collection

from fastapi import Request
from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from vmemo.errors import VmemoError
from vmemo.models.auth import AuditEntry
from vmemo.server.dependencies import House
from vmemo.server.paths import imports, uploads
from vmemo.server.problems import Refused, of_refusal

_SAFE = {
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
    "cross-origin-resource-policy": "same-origin",
}
_LINES = frozenset({"application/x-ndjson", "application/jsonl", "application/octet-stream"})
_GIVEN_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
Lost = Callable[[AuditEntry, Exception], None]


class Named:
    """Gives every request an id, its caller's own where it is a plain one, and every response the safe headers."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        given = Request(scope).headers.get("x-request-id", "")
        id = given if _GIVEN_ID.fullmatch(given) else secrets.token_hex(6)
        scope.setdefault("state", {})["request_id"] = id

        async def named(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers["x-request-id"] = id
                for name, value in _SAFE.items():
                    headers.setdefault(name, value)
            await send(message)

        await self._app(scope, receive, named)


class Hosts:
    """Refuses requests for another host's name and from pages of another host.

    So no page of the web can reach a server that asks for no key, neither by rebinding a name nor by sending blindly.
    """

    def __init__(self, app: ASGIApp, allowed: Collection[str]) -> None:
        self._app, self._allowed = app, frozenset(allowed)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on if it is meant for this server."""
        if scope["type"] == "http" and "*" not in self._allowed:
            request = Request(scope)
            if (refused := self._refused(request)) is not None:
                await (await of_refusal(request, refused))(scope, receive, send)
                return
        await self._app(scope, receive, send)

    def _refused(self, request: Request) -> Refused | None:
        if _host(request.headers.get("host", "")) not in self._allowed:
            return Refused(421, "WrongHost", "This server is reached as localhost only; see --allow-host.")
        origin = request.headers.get("origin")
        if origin is not None and _host(origin.partition("://")[2]) not in self._allowed:
            return Refused(403, "WrongOrigin", "Pages of another host may not use this server; see --allow-host.")
        return None


def _host(address: str) -> str:
    return re.sub(r":\d+$", "", address).lower()


class Typed:
    """Refuses bodies that are not called JSON: a page of the web can send all others to any server, unasked."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on if it has no body, or one of the right kind."""
        if scope["type"] == "http" and not _well_typed(scope):
            wanted = "application/x-ndjson" if imports(scope) else "application/json"
            refused = Refused(415, "WrongType", f"Send the body with Content-Type: {wanted}. Nothing was changed.")
            await (await of_refusal(Request(scope), refused))(scope, receive, send)
            return
        await self._app(scope, receive, send)


def _well_typed(scope: Scope) -> bool:
    headers = Request(scope).headers
    if (headers.get("content-length", "0") == "0" and "transfer-encoding" not in headers) or uploads(scope):
        return True
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    return kind in _LINES if imports(scope) else kind == "application/json"


class Sized:
    """Refuses bodies over the limit, be their length announced or not."""

    def __init__(self, app: ASGIApp, house: House) -> None:
        self._app, self._limits = app, house.limits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on and count what is read of it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        most = self._limits.import_bytes if imports(scope) else self._limits.body_bytes
        request = Request(scope)
        announced = request.headers.get("content-length", "0")
        if announced.isdecimal() and int(announced) > most:
            await (await of_refusal(request, _too_large(most)))(scope, receive, send)
            return
        read, begun = 0, False

        async def counted() -> Message:
            nonlocal read
            message = await receive()
            read += len(message.get("body", b""))
            if read > most:
                raise _too_large(most)
            return message

        async def answered(message: Message) -> None:
            nonlocal begun
            # The framework takes what goes wrong while it reads a body for a body that can't be read.
            if read <= most:
                await send(message)
            elif not begun:
                begun = True
                await (await of_refusal(request, _too_large(most)))(scope, receive, send)

        await self._app(scope, counted, answered)


def _too_large(most: int) -> Refused:
    return Refused(413, "TooLarge", f"The body of a request may have {most:,} bytes here. Nothing was changed.")


class Recorded:
    """Keeps a record of every write that was let in, before its answer leaves."""

    def __init__(self, app: ASGIApp, house: House, lost: Lost) -> None:
        self._app, self._house, self._lost = app, house, lost

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on; a record that can't be kept is told to `lost`."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def noted(message: Message) -> None:
            state = scope.get("state", {})
            if message["type"] == "http.response.start" and "writes" in state:
                await self._note(scope, message["status"])
            await send(message)

        await self._app(scope, receive, noted)

    async def _note(self, scope: Scope, status: int) -> None:
        state = scope["state"]
        door, bank = state["writes"]
        guest = state["guest"]
        written = AuditEntry(
            key=None if guest.key is None else guest.key.id,
            door=door,
            verb=f"{scope['method']} {getattr(scope.get('route'), 'path', scope['path'])}",
            bank=bank,
            request=state["request_id"],
            status=status,
        )
        try:
            await self._house.gate.note(written)
        except VmemoError as error:
            self._lost(written, error)
