"""A wire to a database server that breaks, or reports an error, when told to, just after a commit has gone through."""

from __future__ import annotations

import socket
from collections.abc import Generator
from contextlib import contextmanager, suppress
from threading import Event, Thread
from urllib.parse import urlsplit


class Wire:
    """Carries bytes between clients and a server."""

    def __init__(self, server: tuple[str, int], commit: bytes) -> None:
        self._server = server
        self._commit = commit
        self._cutting = Event()
        self._reply = b""
        self._door = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = []
        self.cuts = 0

    @property
    def port(self) -> int:
        """The address that accepts clients."""
        return int(self._door.getsockname()[1])

    def cut(self, reply: bytes = b"") -> None:
        """Let the next commit reach the server, and its answer no client.

        A reply is what the client gets instead, and afterwards the server is away.
        """
        self._reply = reply
        self._cutting.set()

    def run(self) -> None:
        """Take clients until it is closed."""
        with suppress(OSError):
            while True:
                client, server = self._door.accept()[0], socket.create_connection(self._server)
                self._open += [client, server]
                cut = Event()
                Thread(target=self._forth, args=(client, server, cut), daemon=True).start()
                Thread(target=self._back, args=(server, client, cut), daemon=True).start()

    def _forth(self, client: socket.socket, server: socket.socket, cut: Event) -> None:
        with suppress(OSError):
            while data := client.recv(65536):
                if data.endswith(self._commit) and self._cutting.is_set():
                    self._cutting.clear()
                    cut.set()
                server.sendall(data)
        server.close()

    def _back(self, server: socket.socket, client: socket.socket, cut: Event) -> None:
        with suppress(OSError):
            while data := server.recv(65536):
                if cut.is_set():
                    self.cuts += 1
                    self._answer(client)
                    break
                client.sendall(data)
        with suppress(OSError):
            client.shutdown(socket.SHUT_RDWR)
        client.close()

    def _answer(self, client: socket.socket) -> None:
        if self._reply:
            client.sendall(self._reply)
            self.close()

    def close(self) -> None:
        """Break everything off."""
        with suppress(OSError):
            self._door.shutdown(socket.SHUT_RDWR)
        self._door.close()
        for each in self._open:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()


POSTGRES_COMMIT = b"COMMIT;\0"
"""The end of a message that commits a transaction of PostgreSQL."""
BOLT_COMMIT = bytes.fromhex("0002 b012 0000")
"""The message that commits a transaction of Neo4j."""


def bolt_failure(code: str) -> bytes:
    """The message with which Neo4j reports an error."""
    values = {"neo4j_code": code, "gql_status": "50N42", "description": "error", "message": "failed"}
    packed = b"".join(b"\xd0" + bytes([len(text)]) + text.encode() for pair in values.items() for text in pair)
    message = b"\xb1\x7f" + bytes([0xA0 + len(values)]) + packed
    return len(message).to_bytes(2, "big") + message + b"\0\0"


@contextmanager
def wire(url: str, commit: bytes = POSTGRES_COMMIT) -> Generator[tuple[Wire, str]]:
    """A wire to the server of a URL, and the URL through it."""
    parts = urlsplit(url)
    assert parts.hostname is not None
    assert parts.port is not None
    held = Wire((parts.hostname, parts.port), commit)
    taking = Thread(target=held.run, daemon=True)
    taking.start()
    try:
        yield held, parts._replace(netloc=f"{parts.username}:{parts.password}@127.0.0.1:{held.port}").geturl()
    finally:
        held.close()
        taking.join()
