"""Starting a server: its address, the keys it requires there, logs and shutdown."""

from __future__ import annotations

import asyncio
import gc
import ipaddress
import os
import signal
import socket
import sys
from collections.abc import Callable, Collection, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from threading import current_thread, main_thread
from types import FrameType

import uvicorn

from vmemo import Memory
from vmemo.errors import InvalidInput
from vmemo_server.app import LOCAL_HOSTS, ServerOptions, create_app
from vmemo_server.auth import Limits
from vmemo_server.connections import ACCEPT_BATCH, limited_protocol
from vmemo_server.dependencies import AppState, SharedState
from vmemo_server.logs import LogFormat, ServerLog
from vmemo_server.state import ADMIN_KEY_VARIABLE, SHORTEST_SECRET, ServerState

LISTEN_QUEUE = 2048
"""Connections that the kernel queues before they are accepted."""


@dataclass(frozen=True, kw_only=True)
class Address:
    """The address that a server listens on, and its host names."""

    host: str = "127.0.0.1"
    port: int = 8000
    names: Collection[str] = ()
    """Host names that requests may use besides localhost; an asterisk allows every name."""

    @property
    def local(self) -> bool:
        """True if only this machine can connect."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    def socket(self) -> socket.socket:
        """Return a listening socket, or raise OSError."""
        return self._listen(self.port)

    def sockets(self, count: int) -> list[socket.socket]:
        """Return a listening socket for each of several processes, or raise OSError.

        Linux distributes connections evenly over the sockets of one port; elsewhere all processes accept from one.
        """
        first = self._listen(self.port)
        if count == 1 or not sys.platform.startswith("linux"):
            return [first] * count
        # The first socket shows that the port is free, which sockets that share a port would not.
        port = first.getsockname()[1]
        first.close()
        return [self._listen(port, reuse_port=True) for _ in range(count)]

    def _listen(self, port: int, *, reuse_port: bool = False) -> socket.socket:
        family = socket.AF_INET6 if ":" in self.host else socket.AF_INET
        listening = socket.create_server((self.host, port), family=family, backlog=LISTEN_QUEUE, reuse_port=reuse_port)
        # Connections inherit the option. Without it a response body waits 40 ms for the ACK of its headers.
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return listening

    @property
    def hosts(self) -> frozenset[str]:
        """The allowed host names. A server for other machines requires keys, and allows every name by default."""
        if not self.local and not self.names:
            return frozenset({"*"})
        return LOCAL_HOSTS | {name.lower() for name in self.names}


@dataclass(frozen=True, kw_only=True)
class ServerLauncher:
    """Runs a server over one memory."""

    memory: Memory
    address: Address = field(default_factory=Address)
    limits: Limits = field(default_factory=Limits)
    options: ServerOptions = field(default_factory=ServerOptions)
    log_format: LogFormat = "text"
    admin_key: str | None = field(default=None, repr=False)
    """The secret of an admin key, which is created if it does not exist."""
    shared: SharedState = field(default_factory=SharedState)

    @cached_property
    def log(self) -> ServerLog:
        """The server's log."""
        return ServerLog(self.log_format)

    async def run(self) -> None:
        """Serve until SIGINT or SIGTERM; running requests and jobs finish, or the jobs return to the queue."""
        try:
            await self.require_keys()
        except BaseException:
            await self.memory.close()
            raise
        # What is imported by now stays, so that later garbage collections, which delay requests, need not visit it.
        gc.freeze()
        with self.address.socket() as listening:
            await self.serve(listening)
        self.log.info("stopped")

    async def serve(self, listening: socket.socket, *, supervisor: int | None = None) -> None:
        """Serve on a socket. A process of several also stops when the pipe of its `supervisor` is closed."""
        server = self.server(supervised=supervisor is not None)
        if supervisor is not None:
            _call_at_end(supervisor, server.stop)
        with self.log.capture_standard():
            await server.serve([listening])

    async def check_keys(self) -> None:
        """Open the database once, as `run` does before it serves, and close it."""
        try:
            await self.require_keys()
        finally:
            await self.memory.close()

    async def require_keys(self) -> None:
        """Create the admin key; raise InvalidInput if other machines can connect and there is no active key."""
        state = ServerState(self.memory.store)
        try:
            if self.admin_key:
                await state.ensure_admin_key(self.admin_key)
            keys = await state.keys()
        finally:
            await state.close()
        if not self.address.local and all(key.revoked_at is not None for key in keys):
            raise InvalidInput(
                f"Other machines can reach {self.address.host}, which requires an API key, and there is none. "
                f"Set {ADMIN_KEY_VARIABLE} to at least {SHORTEST_SECRET} random characters (openssl rand -hex 32; in "
                f"Docker: -e {ADMIN_KEY_VARIABLE}=...), create one with `vmemo keys create NAME --permission admin`, "
                "or listen on 127.0.0.1."
            )

    def server(self, *, supervised: bool = False) -> SignalledServer:
        """Return the server, not yet running."""
        state = AppState(self.memory, keyless=self.address.local, limits=self.limits, shared=self.shared)
        config = uvicorn.Config(
            create_app(state, replace(self.options, hosts=self.address.hosts), [self.log]),
            host=self.address.host,
            port=self.address.port,
            http=limited_protocol(self.options.connections),
            ws="none",
            backlog=ACCEPT_BATCH,
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_graceful_shutdown=max(1, round(self.options.grace)),
            lifespan="on",
        )
        return SignalledServer(config, self.log, supervised=supervised)


def _call_at_end(pipe: int, stop: Callable[[], None]) -> None:
    """Call a function once when the other end of a pipe is closed."""
    loop = asyncio.get_running_loop()

    def ended() -> None:
        loop.remove_reader(pipe)
        stop()

    loop.add_reader(pipe, ended)


class SignalledServer(uvicorn.Server):
    """Logs when it listens, and returns after a signal, which uvicorn's own server would raise again.

    A supervised server may get a signal twice, from its supervisor and from the system; only the supervisor ends it at
    once.
    """

    def __init__(self, config: uvicorn.Config, log: ServerLog, *, supervised: bool = False) -> None:
        super().__init__(config)
        self._log, self._supervised = log, supervised

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start to answer."""
        await super().startup(sockets)
        for each in sockets or ():
            # uvicorn uses one number for the queue of the kernel and for the connections accepted at once.
            each.listen(LISTEN_QUEUE)
        for each in sockets or ():
            if self.started:
                host, port, *_ = each.getsockname()
                worker = {"worker": os.getpid()} if self._supervised else {}
                self._log.info("listening", url=f"http://{f'[{host}]' if ':' in host else host}:{port}", **worker)

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        """Handle signals: the first one lets running requests finish, a second one stops at once."""
        if current_thread() is not main_thread():
            yield
            return
        before = {each: signal.signal(each, self.handle_exit) for each in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for each, handler in before.items():
                signal.signal(each, handler)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Stop after running requests, or at once on the second signal."""
        self.force_exit = self.should_exit and not self._supervised
        self.should_exit = True

    def stop(self) -> None:
        """Stop after running requests."""
        self.should_exit = True
