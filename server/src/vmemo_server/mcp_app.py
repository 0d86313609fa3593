"""MCP over streamable HTTP, with the keys, limits and audit log of the other interfaces.

Requests are stateless: there are no sessions, so any of several processes may answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Collection
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, cast

from fastapi import FastAPI, Request
from starlette.applications import Starlette
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from vmemo_server.dependencies import AppState, secret_of
from vmemo_server.mcp.caller import ToolCaller
from vmemo_server.problems import HttpProblem, request_id

if TYPE_CHECKING:
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

PATH = "/mcp"


class McpApp:
    """The ASGI application under `/mcp`; it answers while `running`."""

    path = PATH
    """The route in logs and metrics; this application is its own route."""

    def __init__(self, state: AppState, hosts: Collection[str], origins: Collection[str]) -> None:
        self._state, self._hosts, self._origins = state, hosts, origins
        self._requested = asyncio.Event()
        self._sessions: asyncio.Future[StreamableHTTPSessionManager] | None = None

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """Answer requests inside this context. The first one loads the package, which most servers never need."""
        self._requested, self._sessions = asyncio.Event(), asyncio.get_running_loop().create_future()
        serving = asyncio.create_task(self._serve(self._sessions))
        try:
            yield
        finally:
            self._sessions = None
            serving.cancel()
            with suppress(asyncio.CancelledError):
                await serving

    async def _serve(self, ready: asyncio.Future[StreamableHTTPSessionManager]) -> None:
        await self._requested.wait()
        try:
            sessions = await asyncio.to_thread(self._load)
        except Exception as error:
            # It is the error of every request.
            ready.set_exception(error)
            return
        async with sessions.run():
            ready.set_result(sessions)
            await asyncio.Event().wait()

    def _load(self) -> StreamableHTTPSessionManager:
        from vmemo_server.mcp.server import new_sessions  # noqa: PLC0415 - an extra, and as large as the server

        return new_sessions(self._caller, self._hosts, self._origins, body_bytes=self._state.limits.body_bytes)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Authenticate and handle a request. Without sessions there is nothing to GET or DELETE."""
        request, scope["route"] = Request(scope), self
        if request.method != "POST":
            raise HttpProblem(405, "HttpError", "Send MCP requests with POST.", {"Allow": "POST"})
        request.state.interface = "mcp"
        request.state.principal = await self._state.access.authenticate(secret_of(request))
        if self._sessions is None:
            raise HttpProblem(503, "NotReady", "The server is starting or shutting down.")
        self._requested.set()
        sessions = await asyncio.shield(self._sessions)
        await sessions.handle_request(scope, receive, send)

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
