"""MCP over streamable HTTP, with the same keys, limits and records as every other door of the server.

Each request stands for itself: there is no session, so that any of several processes may answer it.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import cast

from fastapi import FastAPI, Request
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings
from starlette.applications import Starlette
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from vmemo import Memory
from vmemo.errors import VmemoError
from vmemo.mcp.principal import Denied
from vmemo.mcp.server import make_server
from vmemo.models.auth import AuditEntry, Permission
from vmemo.server.dependencies import Guest, House, secret_of
from vmemo.server.problems import Refused, request_id, status_of

PATH = "/mcp"
Lost = Callable[[AuditEntry, Exception], None]


@dataclass(frozen=True)
class Caller:
    """A guest of the server who calls tools."""

    guest: Guest
    request: Request
    lost: Lost

    @property
    def right(self) -> Permission:
        """The key's right; every right where no key is asked for."""
        return "admin" if self.guest.key is None else self.guest.key.right

    @property
    def home(self) -> str | None:
        """The one bank that a key is for, or the default bank where no key is asked for."""
        if self.guest.key is None:
            return "default"
        banks = self.guest.key.banks
        return banks[0] if len(banks) == 1 and not banks[0].endswith("*") else None

    @property
    def batch(self) -> int:
        """Messages of one call."""
        return self.guest.house.limits.batch

    @property
    def max_tokens(self) -> int:
        """Tokens that one call may ask for."""
        return self.guest.house.limits.max_tokens

    @property
    def works(self) -> bool:
        """A server's worker, in this process or in another, does queued work."""
        return True

    async def enter(self, bank: str, right: Permission, *, creates: bool = False) -> Memory:
        """The bank, if the guest may."""
        try:
            visit = await self.guest.visit(bank, right, creates=creates)
        except Refused as error:
            raise Denied(str(error)) from error
        self.request.state.bank = bank
        return visit.memory

    async def banks(self) -> list[str]:
        """Names of the banks that the guest may read."""
        return [name for name in await self.guest.house.memory.banks() if self.guest.may("read", name)]

    async def note(self, verb: str, bank: str, error: Exception | None) -> None:
        """Keep a record of a write; one that can't be kept is told to `lost`."""
        key = self.guest.key
        written = AuditEntry(
            key=None if key is None else key.id,
            door="mcp",
            verb=verb,
            bank=bank,
            request=request_id(self.request),
            status=_status(error),
        )
        try:
            await self.guest.house.gate.note(written)
        except VmemoError as trouble:
            self.lost(written, trouble)


def _status(error: Exception | None) -> int:
    if error is None:
        return 200
    return status_of(error) if isinstance(error, VmemoError) else 500


class McpDoor:
    """The ASGI application under `/mcp`; it answers while `running`."""

    path = PATH
    """How watchers call it, for it is its own route."""

    def __init__(self, house: House, hosts: Collection[str], lost: Lost) -> None:
        self._house, self._lost = house, lost
        self._security = _security(hosts)
        self._sessions: StreamableHTTPSessionManager | None = None

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """Answer requests until the end of this."""
        sessions = StreamableHTTPSessionManager(
            make_server(self._whose),
            json_response=True,
            stateless=True,
            security_settings=self._security,
            max_request_body_size=self._house.limits.body_bytes,
        )
        async with sessions.run():
            self._sessions = sessions
            try:
                yield
            finally:
                self._sessions = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a guest in and answer; without sessions there is nothing to listen to and nothing to delete."""
        request, scope["route"] = Request(scope), self
        if request.method != "POST":
            raise Refused(405, "Http", "MCP requests are sent with POST.", {"Allow": "POST"})
        request.state.guest = await self._house.guest(secret_of(request))
        request.state.door = "mcp"
        if self._sessions is None:
            raise Refused(503, "NotReady", "The server is starting or shutting down.")
        await self._sessions.handle_request(scope, receive, send)

    def _whose(self, request: object) -> Caller:
        came = cast("Request", request)
        return Caller(came.state.guest, came, self._lost)


def mount(app: FastAPI, house: House, hosts: Collection[str], lost: Lost) -> None:
    """Answer MCP clients as long as the application lives."""
    door, outer = McpDoor(house, hosts, lost), app.router.lifespan_context

    @asynccontextmanager
    async def living(app: Starlette) -> AsyncGenerator[None]:
        async with outer(app), door.running():
            yield

    app.router.lifespan_context = living
    app.router.routes.append(Route(PATH, door, include_in_schema=False))


def _security(hosts: Collection[str]) -> TransportSecuritySettings:
    """Which names and pages may reach the door: all, where all names are let in, for keys are asked for there."""
    if "*" in hosts:
        return TransportSecuritySettings(enable_dns_rebinding_protection=False)
    origins = [f"{scheme}://{host}" for scheme in ("http", "https") for host in hosts]
    return TransportSecuritySettings(allowed_hosts=_any_port(hosts), allowed_origins=_any_port(origins))


def _any_port(names: Collection[str]) -> list[str]:
    return [each for name in names for each in (name, f"{name}:*")]
