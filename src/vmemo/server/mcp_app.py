"""MCP over streamable HTTP, with the keys, limits and audit log of the other interfaces.

Requests are stateless: there are no sessions, so any of several processes may answer.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Collection
from contextlib import asynccontextmanager
from typing import cast

from fastapi import FastAPI, Request
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings
from starlette.applications import Starlette
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from vmemo.mcp.caller import ToolCaller
from vmemo.mcp.server import make_server
from vmemo.server.dependencies import AppState, secret_of
from vmemo.server.problems import HttpProblem, request_id

PATH = "/mcp"


class McpApp:
    """The ASGI application under `/mcp`; it answers while `running`."""

    path = PATH
    """The route in logs and metrics; this application is its own route."""

    def __init__(self, state: AppState, hosts: Collection[str], origins: Collection[str]) -> None:
        self._state = state
        self._security = _security(hosts, origins)
        self._sessions: StreamableHTTPSessionManager | None = None

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """Answer requests inside this context."""
        sessions = StreamableHTTPSessionManager(
            make_server(self._caller),
            json_response=True,
            stateless=True,
            security_settings=self._security,
            max_request_body_size=self._state.limits.body_bytes,
        )
        async with sessions.run():
            self._sessions = sessions
            try:
                yield
            finally:
                self._sessions = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Authenticate and handle a request. Without sessions there is nothing to GET or DELETE."""
        request, scope["route"] = Request(scope), self
        if request.method != "POST":
            raise HttpProblem(405, "HttpError", "Send MCP requests with POST.", {"Allow": "POST"})
        request.state.interface = "mcp"
        request.state.principal = await self._state.access.authenticate(secret_of(request))
        if self._sessions is None:
            raise HttpProblem(503, "NotReady", "The server is starting or shutting down.")
        await self._sessions.handle_request(scope, receive, send)

    def _caller(self, request: object) -> ToolCaller:
        incoming = cast("Request", request)
        return ToolCaller(
            principal=incoming.state.principal,
            memory=self._state.memory,
            access=self._state.access,
            request_id=request_id(incoming),
            request_state=incoming.scope["state"],
        )


def mount(app: FastAPI, state: AppState, hosts: Collection[str], origins: Collection[str]) -> None:
    """Serve MCP under `/mcp` during the lifespan of the application; `origins` may be of any host."""
    mcp, outer = McpApp(state, hosts, origins), app.router.lifespan_context

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncGenerator[None]:
        async with outer(app), mcp.running():
            yield

    app.router.lifespan_context = lifespan
    app.router.routes.append(Route(PATH, mcp, include_in_schema=False))


def _security(hosts: Collection[str], origins: Collection[str]) -> TransportSecuritySettings:
    """Return the allowed hosts and origins; a server that allows every host requires keys."""
    if "*" in hosts:
        return TransportSecuritySettings(enable_dns_rebinding_protection=False)
    own = [f"{scheme}://{host}" for scheme in ("http", "https") for host in hosts]
    return TransportSecuritySettings(allowed_hosts=_any_port(hosts), allowed_origins=[*_any_port(own), *origins])


def _any_port(names: Collection[str]) -> list[str]:
    return [each for name in names for each in (name, f"{name}:*")]
