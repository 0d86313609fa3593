"""Sign-in sessions of the console.

The browser holds a cookie with the hash of its API key and the end of the session, signed by the server. Every request
authenticates that key again, as REST does, so a session ends with its key, and all sessions end with the server.
"""

from __future__ import annotations

import hmac
import re
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from fastapi import Request, Response

from vmemo_server.state import digest

COOKIE = "vmemo_console"
LIFETIME_SECONDS = 12 * 3600
"""Seconds after which a person must sign in again."""
_TOKEN = re.compile(r"[A-Za-z0-9_.-]{43,200}")
"""A random token of a browser that is not signed in, or a signed one."""


@dataclass(frozen=True)
class ConsoleSessions:
    """Signs the sessions of one server, and the forms of each."""

    key: bytes = field(repr=False)
    clock: Callable[[], float] = time.time

    @staticmethod
    def of(request: Request) -> ConsoleSessions:
        """Return the sessions of the application that a request came to."""
        return request.app.state.console_sessions

    def begin(self, secret: str) -> str:
        """Return the token of a new session of an API key."""
        signed = f"{secrets.token_hex(8)}.{digest(secret)}.{self.clock() + LIFETIME_SECONDS:.0f}"
        return f"{signed}.{self.sign('session', signed)}"

    def key_of(self, token: str) -> str | None:
        """Return the hash of a session's API key, or None if the token is not signed or the session is over."""
        signed, _, signature = token.rpartition(".")
        if not hmac.compare_digest(signature, self.sign("session", signed)):
            return None
        _, hashed, until = signed.split(".")
        return hashed if self.clock() < int(until) else None

    def sign(self, purpose: str, text: str) -> str:
        """Return a signature that only this server can make, and that is valid for one purpose."""
        return hmac.new(self.key, f"{purpose} {text}".encode(), "sha256").hexdigest()


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
