"""Sign-in sessions of the console.

The browser holds a random token. The API key that it stands for stays in this process, so sessions end with it; every
request authenticates that key again, as REST does.
"""

from __future__ import annotations

import re
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field

from fastapi import Request, Response

from vmemo.auth.service import digest

COOKIE = "vmemo_console"
LIFETIME_SECONDS = 12 * 3600
"""Seconds after which a person must sign in again."""
MAX_SESSIONS = 10_000
"""Sessions that are kept; the oldest ends when another begins."""
_TOKEN = re.compile(r"[A-Za-z0-9_-]{43}")


@dataclass
class _SignedIn:
    secret: str
    until: float


@dataclass(eq=False)
class ConsoleSessions:
    """The sessions of one server, by the hash of their tokens."""

    clock: Callable[[], float] = time.monotonic
    csrf_key: bytes = field(default_factory=lambda: secrets.token_bytes(32), repr=False)
    _sessions: OrderedDict[str, _SignedIn] = field(default_factory=OrderedDict[str, _SignedIn], repr=False)

    @staticmethod
    def of(request: Request) -> ConsoleSessions:
        """Return the sessions of the application that a request came to."""
        return request.app.state.console_sessions

    def begin(self, secret: str) -> str:
        """Begin a session of an API key and return its token."""
        token = secrets.token_urlsafe(32)
        while len(self._sessions) >= MAX_SESSIONS:
            self._sessions.popitem(last=False)
        self._sessions[digest(token)] = _SignedIn(secret, self.clock() + LIFETIME_SECONDS)
        return token

    def end(self, token: str) -> None:
        """End a session, if there is one."""
        self._sessions.pop(digest(token), None)

    def secret_of(self, token: str) -> str | None:
        """Return the API key of a session, or None if there is no such session any more."""
        found = self._sessions.get(digest(token))
        if found is None or found.until <= self.clock():
            self.end(token)
            return None
        return found.secret


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
