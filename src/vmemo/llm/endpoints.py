"""Service URLs, API keys and certificates."""

from __future__ import annotations

import ssl
from functools import cache
from urllib.parse import SplitResult, urlsplit

import httpx2

from vmemo.errors import InvalidInput


def parse_url(url: str, label: str) -> SplitResult:
    """Return the parts of an HTTP URL. Errors name `label`, never the URL, because it may contain a key."""
    # URL parsers drop or misread these characters in different ways.
    if not url.isascii() or not url.isprintable() or " " in url:
        raise InvalidInput(f"{label} contains characters that are not allowed in a URL; percent-encode them")
    try:
        parts = urlsplit(url)
        host, port = (parts.hostname or "").encode("idna"), parts.port
    except ValueError as error:
        raise InvalidInput(f"{label} has an invalid host or port") from error
    if parts.scheme not in ("http", "https") or not host or port == 0:
        raise InvalidInput(f"{label} must be an http:// or https:// URL with a host")
    if parts.username is not None:
        raise InvalidInput(f"{label} contains a user name or password. Remove it, and give the API key on its own")
    return parts


def check_api_key(api_key: str, label: str) -> str:
    """Return the key, or raise InvalidInput if it cannot be sent in an HTTP header."""
    if not api_key.isascii() or not api_key.isprintable() or " " in api_key:
        raise InvalidInput(f"{label} contains a character that is not allowed in an HTTP header, such as a line break")
    return api_key


@cache
def default_certificates(*, trust_env: bool) -> ssl.SSLContext:
    """Return the trusted certificates. The clients of a process share them, because loading them takes 20 ms."""
    return httpx2.create_ssl_context(trust_env=trust_env)
