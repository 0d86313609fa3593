"""The server: one ASGI application over one memory."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from importlib.util import find_spec

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from vmemo.errors import VmemoError
from vmemo.server import hindsight, problems
from vmemo.server.dependencies import House
from vmemo.server.lifespan import living
from vmemo.server.middleware import Hosts, Named, Recorded, Sized, Typed
from vmemo.server.observability import Everyone, Watched, Watcher
from vmemo.server.openapi import ABOUT, TAGS, operation
from vmemo.server.routes import banks, inspect, messages, query, system

LOCAL = frozenset({"localhost", "127.0.0.1", "[::1]"})
"""The names by which a machine reaches itself."""


@dataclass(frozen=True, kw_only=True)
class ServerOptions:
    """How a server runs."""

    hosts: Collection[str] = ("*",)
    """The names it answers to; an asterisk is every name."""
    works: bool = True
    """Whether queued work is done in this process."""
    mcp: bool = True
    """Whether MCP clients are answered, where the extra is installed."""
    grace: float = 30.0
    """Seconds that work under way has to end once the server is told to stop."""


def create_app(house: House, options: ServerOptions | None = None, watchers: Sequence[Watcher] = ()) -> FastAPI:
    """The application; its lifespan opens the memory, does the queued work and closes it."""
    chosen = options or ServerOptions()
    metrics = _metrics()
    watcher = Everyone([*watchers, *([] if metrics is None else [metrics])])
    app = FastAPI(
        title="vmemo",
        summary="Long-term memory for AI agents.",
        description=ABOUT,
        version="1",
        openapi_tags=TAGS,
        generate_unique_id_function=operation,
        lifespan=lambda app: living(house.memory, watcher, works=chosen.works, grace=chosen.grace),
        docs_url=None,
        redoc_url=None,
    )
    app.state.house, app.state.metrics, app.state.works = house, metrics, chosen.works
    for routes in (banks, messages, query, inspect, system, hindsight):
        app.include_router(routes.router)
    if chosen.mcp:
        _answer_agents(app, house, chosen, watcher)
    for kind, tell in (
        (VmemoError, problems.of_vmemo),
        (problems.Refused, problems.of_refusal),
        (RequestValidationError, problems.of_validation),
        (HTTPException, problems.of_http),
    ):
        app.add_exception_handler(kind, tell)
    # The last one added is the first that a request meets.
    app.add_middleware(Sized, house=house)
    app.add_middleware(Typed)
    app.add_middleware(Recorded, house=house, lost=lambda written, error: watcher.trouble("audit", error))
    app.add_middleware(Hosts, allowed=chosen.hosts)
    app.add_middleware(Watched, watcher=watcher)
    _trace(app)
    app.add_middleware(Named)
    return app


def _metrics():
    if find_spec("prometheus_client") is None:
        return None
    from vmemo.server.metrics import Metrics  # noqa: PLC0415 - an extra

    return Metrics()


def _answer_agents(app: FastAPI, house: House, options: ServerOptions, watcher: Watcher) -> None:
    if find_spec("mcp") is None:
        return
    from vmemo.server.mcp_app import mount  # noqa: PLC0415 - an extra

    mount(app, house, options.hosts, lambda written, error: watcher.trouble("audit", error))


def _trace(app: FastAPI) -> None:
    if find_spec("opentelemetry") is None:
        return
    from vmemo.server.tracing import Traced  # noqa: PLC0415 - an extra

    app.add_middleware(Traced)
