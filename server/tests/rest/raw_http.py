"""HTTP over a plain socket, for requests that no client library sends."""

from __future__ import annotations

import re
import socket
from contextlib import suppress
from urllib.parse import urlsplit

from max_wait import MAX_WAIT


def connect(url: str, sent: bytes = b"") -> socket.socket:
    """Return a connection to a server, on which some bytes were sent."""
    address = urlsplit(url)
    connection = socket.create_connection((address.hostname or "", address.port or 0), timeout=MAX_WAIT)
    connection.sendall(sent)
    return connection


def head(path: str, length: int = 0, *headers: str, method: str = "POST") -> bytes:
    """Return the head of a request with a JSON body."""
    lines = [f"{method} {path} HTTP/1.1", "Host: 127.0.0.1", "Content-Type: application/json", *headers]
    return "\r\n".join([*lines, f"Content-Length: {length}", "", ""]).encode()


def read_all(connection: socket.socket) -> bytes:
    """Return what the server sends until it closes the connection."""
    received = b""
    with suppress(ConnectionResetError):
        while more := connection.recv(65536):
            received += more
    return received


def read_response(connection: socket.socket) -> bytes:
    """Return the next response of the server, which declares its length."""
    received, length = b"", 0
    while b"\r\n\r\n" not in received or len(received.partition(b"\r\n\r\n")[2]) < length:
        more = connection.recv(65536)
        assert more, f"the connection was closed after {received!r}"
        received += more
        if found := re.search(rb"content-length: (\d+)", received, re.IGNORECASE):
            length = int(found[1])
    return received


def status_of(response: bytes) -> int:
    """Return the status of a response."""
    return int(response.split(b" ", 2)[1])
