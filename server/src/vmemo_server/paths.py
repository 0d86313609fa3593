"""Matching of paths whose names may hold any character, slashes included."""

from __future__ import annotations

import re
from collections.abc import Callable, Coroutine
from typing import Any
from urllib.parse import unquote

from fastapi import Request, Response
from fastapi.routing import APIRoute
from starlette.routing import Match
from starlette.types import Scope

from vmemo_server.dependencies import authenticate

_STAYS_ENCODED = re.compile(rb"%(2f|25)", re.IGNORECASE)
_DECODED = "vmemo.decoded_path"
_UPLOAD = re.compile(r"/v1/banks/[^/]+/import|/console/banks/[^/]+/[a-z]+/upload")
_HINDSIGHT_UPLOAD = re.compile(r"/v1/default/banks/[^/]+/(files/retain|document-transfer|transfer/import)")


class ExactRoute(APIRoute):
    """A route in which `%2F` is part of a name and only a plain slash ends one.

    Requests with a body are authenticated before the body is read; FastAPI would read and parse it first.
    """

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the handler, behind authentication if the route has a body."""
        handle = super().get_route_handler()
        if self.body_field is None:
            return handle

        async def authenticate_first(request: Request) -> Response:
            await authenticate(request)
            return await handle(request)

        return authenticate_first

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Match the path as it was sent, and decode each name afterwards."""
        path = _raw_path(scope)
        # Most routes of a server do not match; this saves them a copy of the scope.
        if not scope.get("root_path") and self.path_regex.match(path) is None:
            return Match.NONE, {}
        match, child = super().matches({**scope, "path": path})
        if "path_params" in child:
            child["path_params"] = {name: unquote(value) for name, value in child["path_params"].items()}
        return match, child


def _raw_path(scope: Scope) -> str:
    """Return the path with everything but slashes and percent signs decoded."""
    raw: bytes | None = scope.get("raw_path")
    if raw is None:
        return scope["path"]
    # Each route asks for it.
    if _DECODED not in scope:
        scope[_DECODED] = unquote(_STAYS_ENCODED.sub(rb"%25\1", raw).decode("ascii", "replace"))
    return scope[_DECODED]


def is_upload(scope: Scope) -> bool:
    """Return True for an import of a bank or a file of the console, which are larger than other bodies and not JSON."""
    return scope["method"] == "POST" and _UPLOAD.fullmatch(_raw_path(scope)) is not None


def is_hindsight_upload(scope: Scope) -> bool:
    """Return True for a file upload of Hindsight's client; these calls answer 501 for any media type."""
    return scope["method"] == "POST" and _HINDSIGHT_UPLOAD.fullmatch(_raw_path(scope)) is not None


def is_console(scope: Scope) -> bool:
    """Return True for a request to the console, whose bodies are forms."""
    return scope["path"] == "/console" or scope["path"].startswith("/console/")
