"""The browser's cookie and the forms of the console.

The cookie holds a random token. Signing in replaces it by the token of a session, which the server stores with its API
key (`ServerState`); a session ends at sign-out, with its key, or after `SESSION_LIFETIME`. Forms hold a digest of the
cookie against cross-site request forgery: another site can neither read the cookie nor send the form with it.
"""

from __future__ import annotations

import hmac
import re
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import parse_qs, urlsplit

from fastapi import Request, Response

from vmemo.errors import InvalidInput
from vmemo_server.problems import HttpProblem
from vmemo_server.state import SESSION_LIFETIME, digest

COOKIE = "vmemo_console"
FIELD = "csrf_token"
HEADER = "x-csrf-token"
MAX_FIELDS = 1000
_TOKEN = re.compile(r"[A-Za-z0-9_-]{43}")


def browser_token(request: Request) -> str:
    """Return the token of the browser's cookie, or a new one, which `keep_token` sends to the browser."""
    token: str | None = getattr(request.state, "console_token", None)
    if token is None:
        given = request.cookies.get(COOKIE, "")
        token = given if _TOKEN.fullmatch(given) else replace_token(request)
    request.state.console_token = token
    return token


def replace_token(request: Request, token: str | None = None) -> str:
    """Give the browser another token, a new one by default."""
    request.state.console_token = token or secrets.token_urlsafe(32)
    return request.state.console_token


def keep_token(request: Request, response: Response) -> None:
    """Set the cookie if the browser does not have it yet."""
    token = browser_token(request)
    if request.cookies.get(COOKIE) == token:
        return
    # A proxy that terminates TLS forwards plain HTTP; the header can only make the cookie stricter.
    secure = request.url.scheme == "https" or request.headers.get("x-forwarded-proto") == "https"
    age = round(SESSION_LIFETIME.total_seconds())
    response.set_cookie(COOKIE, token, max_age=age, path="/console", secure=secure, httponly=True, samesite="strict")


@dataclass(frozen=True)
class Form:
    """The fields of a submitted form; browsers send line breaks as CR LF."""

    fields: Mapping[str, Sequence[str]]

    def text(self, name: str, default: str = "") -> str:
        """Return the last value of a field, or the default."""
        return self.fields[name][-1].replace("\r\n", "\n") if name in self.fields else default

    def optional(self, name: str) -> str | None:
        """Return a value, or None if it is blank or missing."""
        return self.text(name).strip() or None

    def all(self, name: str) -> tuple[str, ...]:
        """Return the values of a repeated field that are not blank."""
        return tuple(value for value in self.fields.get(name, ()) if value.strip())


def csrf_token(request: Request) -> str:
    """Return the token that forms of this browser must send."""
    return digest(f"form {browser_token(request)}")


async def checked_form(request: Request) -> Form:
    """Return the submitted form; raise HttpProblem unless a page of this console sent it."""
    body = (await request.body()).decode("utf-8", "replace")
    try:
        form = Form(parse_qs(body, keep_blank_values=True, max_num_fields=MAX_FIELDS))
    except ValueError as error:
        raise InvalidInput(f"A form may have at most {MAX_FIELDS:,} fields. Nothing was changed.") from error
    check_token(request, form.text(FIELD))
    return form


def check_token(request: Request, field: str = "") -> None:
    """Raise HttpProblem unless the token of a form, or of the header, is that of a page of this console."""
    _check_origin(request)
    given = request.headers.get(HEADER) or field
    if not hmac.compare_digest(given.encode(), csrf_token(request).encode()):
        raise HttpProblem(
            403, "InvalidCsrfToken", "This page has expired. Nothing was changed: reload the page and try again."
        )


def _check_origin(request: Request) -> None:
    """Raise HttpProblem if the browser states that another site sent the form.

    No page of another site can set the headers that are compared here. A proxy may change Host and keep the name that
    the browser used in X-Forwarded-Host.
    """
    headers = request.headers
    origin = headers.get("origin")
    if origin is None or headers.get("sec-fetch-site") == "same-origin":
        return
    own = {headers.get(name, "").lower() for name in ("host", "x-forwarded-host")}
    if urlsplit(origin).netloc.lower() not in own - {""}:
        raise HttpProblem(403, "OriginNotAllowed", "Another site sent this form. Nothing was changed.")
