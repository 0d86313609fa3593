"""Limits of connections: their number, in all and per address, and the time that a client may take.

uvicorn closes idle connections between two requests and limits the size of a request's head. `limited_protocol` also
limits the time in which a head arrives or a response is read, and the connections that are open meanwhile.
"""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address
from typing import Any, ClassVar, Literal

import h11
from uvicorn.config import Config
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from vmemo.errors import InvalidInput

if sys.platform == "win32":

    def _max_open_files() -> float:
        return float("inf")

else:
    import resource

    def _max_open_files() -> float:
        files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        return float("inf") if files == resource.RLIM_INFINITY else files


ACCEPT_BATCH = 16
"""Connections that the event loop accepts before it handles them, and so opens beyond the limit."""
RESERVED_FILES = 128
"""Open files that connections leave free: databases, models, log, connections to model providers, accept batches."""
_UNAVAILABLE = b"HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nRetry-After: 1\r\nContent-Length: 0\r\n\r\n"


@dataclass(frozen=True, kw_only=True)
class ConnectionLimits:
    """Limits of a server's connections and of the request bodies that arrive on them, with their defaults."""

    connections: int = 1_000
    """Open connections; fewer if the process may not open that many files."""
    connections_per_address: int = 500
    """Open connections of one IPv4 address or IPv6 /64 network; a proxy counts as one address."""
    header_seconds: float = 10.0
    """Seconds to send the head of a request, counted from the connection or the previous response."""
    body_seconds: float = 20.0
    """Seconds to send the body of a request, besides the time that its bytes take at `bytes_per_second`."""
    bytes_per_second: float = 500.0
    """The slowest rate at which a client may send a body or read a response."""
    buffered_bytes: int = 100_000_000
    """Bytes of request bodies in memory at a time, of all requests together."""

    def __post_init__(self) -> None:
        if min(self.connections, self.connections_per_address, self.buffered_bytes) < 1:
            raise InvalidInput("connections, connections_per_address and buffered_bytes must be at least 1.")
        if min(self.header_seconds, self.body_seconds, self.bytes_per_second) <= 0:
            raise InvalidInput("header_seconds, body_seconds and bytes_per_second must be positive.")

    @property
    def usable_connections(self) -> int:
        """The number of connections within the limit of open files of this process."""
        return int(min(self.connections, max(ACCEPT_BATCH, _max_open_files() - RESERVED_FILES)))


WaitsFor = Literal["request", "body"]
"""Part of a request that a connection waits for; a client that does not read its response delays the next request."""


class OpenConnections:
    """The open connections of a server.

    Over the limit, a new one displaces the one that has waited longest for a request, or else for a body.
    """

    def __init__(self, limits: ConnectionLimits) -> None:
        self.limits = limits
        self._most = limits.usable_connections
        self._open: dict[LimitedProtocol, str] = {}
        self._per_address = Counter[str]()
        self._waiting: dict[LimitedProtocol, WaitsFor] = {}

    def add(self, connection: LimitedProtocol) -> bool:
        """Count a connection; return False if there are too many and each is being answered."""
        address = _network(connection.client[0] if connection.client else "")
        if self._per_address[address] >= self.limits.connections_per_address and not self._displace(address):
            return False
        if len(self._open) >= self._most and not self._displace(None):
            return False
        self._open[connection] = address
        self._per_address[address] += 1
        return True

    def remove(self, connection: LimitedProtocol) -> None:
        """Forget a connection that is closed."""
        self._waiting.pop(connection, None)
        address = self._open.pop(connection, None)
        if address is not None:
            self._per_address[address] -= 1
            if not self._per_address[address]:
                del self._per_address[address]

    def set_waiting(self, connection: LimitedProtocol, waits_for: WaitsFor | None) -> None:
        """Note what the server waits for on a connection from now on; None if it is the server's turn."""
        if self._waiting.get(connection) != waits_for:
            self._waiting.pop(connection, None)
            if waits_for is not None and connection in self._open:
                self._waiting[connection] = waits_for

    def _displace(self, address: str | None) -> bool:
        """Close a waiting connection, of an address if one is given; return False if there is none."""
        waiting = [each for each in self._waiting if address in (None, self._open[each])]
        chosen = min(waiting, key=lambda each: self._waiting[each] == "body", default=None)
        if chosen is None:
            return False
        self.remove(chosen)
        chosen.transport.abort()
        return True


class LimitedProtocol(H11Protocol):
    """HTTP/1.1 on one connection, closed when its client takes too long.

    One timer runs whenever the server waits for the complete head of the next request, or for the client to read a
    response. The middleware in `request_body` limits the time of bodies.
    """

    open_connections: ClassVar[OpenConnections]

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._limits = self.open_connections.limits
        self._timer: asyncio.TimerHandle | None = None
        self._unsent = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Start to read, or answer 503 if there are too many connections."""
        super().connection_made(transport)
        if self.open_connections.add(self):
            self._watch()
        else:
            self.logger.warning("Too many connections are open and none of them is idle.")
            transport.write(_UNAVAILABLE)
            transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the timer."""
        super().connection_lost(exc)
        self.open_connections.remove(self)
        self._stop_timer()

    def data_received(self, data: bytes) -> None:
        """Read what the client sent; its bytes do not prolong the timer."""
        super().data_received(data)
        self._watch()

    def on_response_complete(self) -> None:
        """Wait for the next request, or close if the rest of a body that nobody reads is still to come."""
        # Afterwards, the state may be that of the next request, whose head has arrived.
        if self.conn.their_state is h11.SEND_BODY:
            self.transport.close()
        super().on_response_complete()
        self._watch()

    def pause_writing(self) -> None:
        """Wait for the client to read."""
        super().pause_writing()
        self._watch()

    def resume_writing(self) -> None:
        """Continue with the response."""
        super().resume_writing()
        self._watch()

    def _watch(self) -> None:
        """Start the timer if the server now waits for the client, and stop it if it does not."""
        answering = bool(self.cycle) and not self.cycle.response_complete
        if answering and not self.flow.write_paused:
            self.open_connections.set_waiting(self, "body" if self.cycle.more_body else None)
            self._stop_timer()
        else:
            self.open_connections.set_waiting(self, "request")
            if self._timer is None:
                self._start_timer()

    def _start_timer(self) -> None:
        self._unsent = self.transport.get_write_buffer_size()
        self._timer = self.loop.call_later(self._limits.header_seconds, self._time_out)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _time_out(self) -> None:
        """Close the connection, unless its client reads a response fast enough."""
        read = self._unsent - self.transport.get_write_buffer_size()
        if read >= self._limits.bytes_per_second * self._limits.header_seconds:
            self._start_timer()
        else:
            self._timer = None
            self.transport.abort()


def limited_protocol(limits: ConnectionLimits) -> type[LimitedProtocol]:
    """Return a protocol class for one server, whose connections share the limits."""

    class ServerProtocol(LimitedProtocol):
        open_connections = OpenConnections(limits)

    return ServerProtocol


def _network(address: str) -> str:
    """Return an IPv4 address, or the /64 network of an IPv6 address, of which one client has every address."""
    try:
        parsed = ip_address(address)
    except ValueError:
        return address
    return parsed.exploded[:19] if isinstance(parsed, IPv6Address) else address
