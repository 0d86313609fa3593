"""How a server is started on an address, and what is refused there."""

from __future__ import annotations

import ipaddress
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from functools import cached_property

import uvicorn

from vmemo import Memory
from vmemo.errors import InvalidInput
from vmemo.server.app import LOCAL, ServerOptions, create_app
from vmemo.server.house import House
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
        server = self.server()
        with server.config.bind_socket() as listening:
            self.log.say("listening", url=f"http://{self.address.host}:{listening.getsockname()[1]}")
            await server.serve([listening])
        self.log.say("stopped")

    async def demand_keys(self) -> None:
        """Refuse an address that others reach while there is no key."""
        if not self.address.local and not any(key.revoked_at is None for key in await self.memory.gate.keys()):
            raise InvalidInput(
                f"{self.address.host} is reached by other machines, so that keys are needed, and there is none. "
                "Make one with `vmemo keys create NAME --right admin`, or listen on 127.0.0.1."
            )

    def server(self) -> uvicorn.Server:
        """The server, not yet running. A first signal lets what runs finish, a second one ends it at once."""
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
        return uvicorn.Server(config)
