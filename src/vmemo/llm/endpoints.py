"""URLs and keys of services: what can be used, and what is said of what can't."""

from __future__ import annotations

from urllib.parse import SplitResult, urlsplit

from vmemo.errors import InvalidInput


def address(url: str, whose: str) -> SplitResult:
    """A URL's parts. No message repeats them, because some people write a key into it."""
    # Parsers drop or misread such characters, each in its own way.
    if not url.isascii() or not url.isprintable() or " " in url:
        raise InvalidInput(f"{whose} holds characters that no URL has")
    try:
        parts = urlsplit(url)
        host, port = (parts.hostname or "").encode("idna"), parts.port
    except ValueError as error:
        raise InvalidInput(f"{whose} has a host or a port that can't be read") from error
    if parts.scheme not in ("http", "https") or not host or port == 0:
        raise InvalidInput(f"{whose} must be an http:// or https:// address with a host")
    if parts.username is not None:
        raise InvalidInput(f"{whose} holds a user or a password; pass api_key instead")
    return parts


def sendable(api_key: str, whose: str) -> str:
    """A key that a header can carry."""
    if not api_key.isascii() or not api_key.isprintable() or " " in api_key:
        raise InvalidInput(f"{whose} holds a character that no header can carry, such as a line's end")
    return api_key
