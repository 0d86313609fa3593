"""Sign-in sessions of the console.

The browser holds a random token. The hash of the API key that it stands for is in memory, so sessions end with the
server; every request authenticates that key again, as REST does.
"""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from struct import Struct

from fastapi import Request, Response

from vmemo_server.auth.records import LocalRecords, Records
from vmemo_server.state import digest

COOKIE = "vmemo_console"
LIFETIME_SECONDS = 12 * 3600
"""Seconds after which a person must sign in again."""
_TOKEN = re.compile(r"[A-Za-z0-9_-]{43}")


_SIGNED_IN = Struct("<32sd")
"""The hash of an API key, and the time when its session ends."""


@dataclass(eq=False)
class ConsoleSessions:
    """The sessions of one server, by the hash of their tokens; its processes share `records` and `csrf_key`."""

    clock: Callable[[], float] = time.monotonic
    csrf_key: bytes = field(default_factory=lambda: secrets.token_bytes(32), repr=False)
    records: Records = field(default_factory=LocalRecords, repr=False)

    @staticmethod
    def of(request: Request) -> ConsoleSessions:
        """Return the sessions of the application that a request came to."""
        return request.app.state.console_sessions

    def begin(self, secret: str) -> str:
        """Begin a session of an API key and return its token."""
        token = secrets.token_urlsafe(32)
        signed_in = _SIGNED_IN.pack(bytes.fromhex(digest(secret)), self.clock() + LIFETIME_SECONDS)
        with self.records.locked():
            self.records.put(digest(token), signed_in)
        return token

    def end(self, token: str) -> None:
        """End a session, if there is one."""
        with self.records.locked():
            self.records.delete(digest(token))

    def key_of(self, token: str) -> str | None:
        """Return the hash of a session's API key, or None if there is no such session any more."""
        with self.records.locked():
            found = self.records.get(digest(token))
        if found is None:
            return None
        hashed, until = _SIGNED_IN.unpack_from(found)
        if until <= self.clock():
            self.end(token)
            return None
        return hashed.hex()


def browser_token(request: Request) -> str:
    """Return the token of the browser's cookie, or a new one, which `keep_token` sends to the browser."""
    token: str | None = getattr(request.state, "console_token", None)
    if token is None:
        given = request.cookies.get(COOKIE, "")
        token = given if _TOKEN.fullmatch(given) else secrets.token_urlsafe(32)
        request.state.console_token = token
    return token


def keep_token(request: Request, response: Response) -> None:
    """Set the cookie if the browser does not have it yet."""
    token = browser_token(request)
    if request.cookies.get(COOKIE) == token:
        return
    # A proxy that terminates TLS forwards plain HTTP; the header can only make the cookie stricter.
    secure = request.url.scheme == "https" or request.headers.get("x-forwarded-proto") == "https"
    response.set_cookie(
        COOKIE, token, max_age=LIFETIME_SECONDS, path="/console", secure=secure, httponly=True, samesite="strict"
    )
