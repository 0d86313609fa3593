"""How a server is started on an address, and what is refused there."""

from __future__ import annotations

import ipaddress
import signal
import socket
from collections.abc import Collection, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from threading import current_thread, main_thread
from types import FrameType

import uvicorn

from vmemo import Memory
from vmemo.errors import InvalidInput
from vmemo.server.app import LOCAL, ServerOptions, create_app
from vmemo.server.dependencies import House
from vmemo.server.limits import Limits
from vmemo.server.logs import Format, Log


@dataclass(frozen=True, kw_only=True)
class Address:
    """Where a server listens, and under which names it is reached."""

    host: str = "127.0.0.1"
    port: int = 8000
    names: Collection[str] = ()
    """Names that requests may use for this server besides localhost; an asterisk is every name."""

    @property
    def local(self) -> bool:
        """Whether only this machine reaches it."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    def socket(self) -> socket.socket:
        """A socket that listens here; OSError if that is not to be had."""
        family = socket.AF_INET6 if ":" in self.host else socket.AF_INET
        listening = socket.create_server((self.host, self.port), family=family, backlog=2048)
        # Connections inherit it. An answer's body would else wait 40 ms until its head is acknowledged.
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return listening

    @property
    def hosts(self) -> frozenset[str]:
        """The names it answers to. One that others reach needs keys, and may be called anything."""
        if not self.local and not self.names:
            return frozenset({"*"})
        return LOCAL | {name.lower() for name in self.names}


@dataclass(frozen=True, kw_only=True)
class Launch:
    """A server to be."""

    memory: Memory
    address: Address = field(default_factory=Address)
    limits: Limits = field(default_factory=Limits)
    options: ServerOptions = field(default_factory=ServerOptions)
    logs: Format = "text"

    @cached_property
    def log(self) -> Log:
        """Where the server's lines go."""
        return Log(self.logs)

    async def run(self) -> None:
        """Serve until told to stop; what runs then is finished, or stays queued."""
        try:
            await self.demand_keys()
        except BaseException:
            await self.memory.close()
            raise
        with self.address.socket() as listening:
            await self.server().serve([listening])
        self.log.say("stopped")

    async def demand_keys(self) -> None:
        """Refuse an address that others reach while there is no key."""
        if not self.address.local and not any(key.revoked_at is None for key in await self.memory.gate.keys()):
            raise InvalidInput(
                f"{self.address.host} is reached by other machines, so that keys are needed, and there is none. "
                "Make one with `vmemo keys create NAME --right admin`, or listen on 127.0.0.1."
            )

    def server(self) -> uvicorn.Server:
        """The server, not yet running."""
        house = House(self.memory, keyless=self.address.local, limits=self.limits)
        config = uvicorn.Config(
            create_app(house, replace(self.options, hosts=self.address.hosts), [self.log]),
            host=self.address.host,
            port=self.address.port,
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_graceful_shutdown=max(1, round(self.options.grace)),
            lifespan="on",
        )
        return _Server(config, self.log)


class _Server(uvicorn.Server):
    """Says when it can be reached, and ends by itself once it was told to: uvicorn's own would die of the signal."""

    def __init__(self, config: uvicorn.Config, log: Log) -> None:
        super().__init__(config)
        self._log = log

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to answer."""
        await super().startup(sockets)
        for each in sockets or ():
            if self.started:
                host, port, *_ = each.getsockname()
                self._log.say("listening", url=f"http://{f'[{host}]' if ':' in host else host}:{port}")

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        """A first signal lets what runs finish, a second one ends it at once."""
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
        """Told to stop."""
        self.force_exit = self.should_exit
        self.should_exit = True
