"""The ASGI application over one memory."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware

from vmemo.errors import VmemoError
from vmemo.memory.session import ConcurrencyLimits
from vmemo_server import console, pages, problems
from vmemo_server.background import BackgroundWorker, lifespan
from vmemo_server.console.extension import extensions
from vmemo_server.dependencies import AppState
from vmemo_server.middleware import (
    CORS,
    AuditMiddleware,
    CheckMiddleware,
    RequestIdMiddleware,
    check_content_type,
    check_framing,
    check_host,
    check_method,
    checked_origin,
)
from vmemo_server.observability import CompositeObserver, Observer, ObserverMiddleware
from vmemo_server.openapi import DESCRIPTION, TAGS, operation_id
from vmemo_server.paths import is_console
from vmemo_server.request_body import BodyLimitMiddleware
from vmemo_server.routes import banks, inspect, messages, query, system

LOCAL_HOSTS = frozenset({"localhost", "127.0.0.1", "[::1]"})
"""The names by which a machine reaches itself."""

ROUTERS = "vmemo_server.routers"
"""Entry point group: other distributions add routes to the server."""


@dataclass(frozen=True, kw_only=True)
class ServerOptions:
    """Options of a server."""

    hosts: Collection[str] = ("*",)
    """Host names that requests may use; an asterisk allows every name."""
    worker: bool = True
    """Run queued jobs in this process."""
    mcp: bool = True
    """Serve MCP under /mcp if the extra is installed."""
    cors_origins: Collection[str] = ()
    """Origins of web pages that may use the server, such as https://app.example."""
    connections: int = 1_000
    """Open connections beyond which `vmemo serve` answers 503."""
    reports: Path | None = None
    """Folder of benchmark reports that the console shows."""
    requests: ConcurrencyLimits = field(default_factory=ConcurrencyLimits)
    """Recalls and writes that run at a time, and that wait."""
    grace: float = 30.0
    """Seconds for running requests and jobs to finish after the server is asked to stop."""


def create_app(state: AppState, options: ServerOptions | None = None, observers: Sequence[Observer] = ()) -> FastAPI:
    """Return the application; its lifespan opens the memory, runs queued jobs and closes the memory."""
    given = options or ServerOptions()
    chosen = replace(given, cors_origins=tuple(map(checked_origin, given.cors_origins)))
    state.memory.limit_requests(chosen.requests)
    metrics = _metrics()
    observer = CompositeObserver([*observers, *([] if metrics is None else [metrics])])
    worker = BackgroundWorker(state.memory, observer) if chosen.worker else None
    state.access.on_audit_failure = lambda entry, error: observer.background_error("audit", error)
    app = FastAPI(
        title="vmemo",
        summary="Long-term memory for AI agents.",
        description=DESCRIPTION,
        version="1",
        openapi_tags=TAGS,
        generate_unique_id_function=operation_id,
        lifespan=lambda app: lifespan(state.memory, state.auth, observer, worker=worker, grace=chosen.grace),
        docs_url=None,
        redoc_url=None,
        # FastAPI's own spans hold the query of a URL, and its logs the messages of exceptions.
        telemetry={"tracing": False, "metrics": False, "logs": False},
    )
    app.state.vmemo, app.state.metrics, app.state.worker = state, metrics, chosen.worker
    app.state.mcp = chosen.mcp and find_spec("mcp") is not None
    app.state.background_worker = worker
    app.state.reports = chosen.reports
    own = [banks.router, messages.router, query.router, inspect.facts_router, inspect.router]
    own += [system.webhooks_router, system.router]
    others = [point.load() for point in entry_points(group=ROUTERS)]
    for extension in extensions():
        extension.start(state)
        others.append(extension.router)
    for router in (*own, *others, pages.router, console.router):
        # Included routers are prepared again at the first request and match each route in several steps.
        app.router.routes.extend(router.routes)
    if chosen.mcp:
        _add_mcp(app, state, chosen)
    for kind, handle in (
        (VmemoError, problems.handle_vmemo_error),
        (problems.HttpProblem, problems.handle_http_problem),
        (RequestValidationError, problems.handle_validation_error),
        (HTTPException, problems.handle_http_exception),
    ):
        app.add_exception_handler(kind, handle)
    # Starlette runs the middleware that was added last first.
    app.add_middleware(BodyLimitMiddleware, limits=state.limits)
    app.add_middleware(CheckMiddleware, check=check_content_type)
    app.add_middleware(AuditMiddleware, access=state.access)
    app.add_middleware(CheckMiddleware, check=check_host(frozenset(chosen.hosts), frozenset(chosen.cors_origins)))
    app.add_middleware(CheckMiddleware, check=check_method)
    app.add_middleware(ObserverMiddleware, observer=observer, respond=_unexpected_error)
    _add_tracing(app)
    if chosen.cors_origins:
        app.add_middleware(CORSMiddleware, allow_origins=chosen.cors_origins, **CORS)
    app.add_middleware(CheckMiddleware, check=check_framing)
    app.add_middleware(RequestIdMiddleware)
    return app


def _unexpected_error(request: Request, error: BaseException) -> Response:
    respond = console.unexpected_error_page if is_console(request.scope) else problems.unexpected_error
    return respond(request, error)


def _metrics():
    if find_spec("prometheus_client") is None:
        return None
    from vmemo_server.metrics import Metrics  # noqa: PLC0415 - an extra

    return Metrics()


def _add_mcp(app: FastAPI, state: AppState, options: ServerOptions) -> None:
    if find_spec("mcp") is None:
        app.add_route("/mcp", _missing_mcp, methods=["POST"], include_in_schema=False)
        return
    from vmemo_server.mcp_app import mount  # noqa: PLC0415 - an extra

    mount(app, state, options.hosts, options.cors_origins)


async def _missing_mcp(request: Request) -> Response:
    raise problems.HttpProblem(501, "MissingExtra", "MCP needs another package: pip install 'vmemo[mcp]'.")


def _add_tracing(app: FastAPI) -> None:
    if find_spec("opentelemetry") is None:
        return
    from vmemo_server.tracing import TracingMiddleware  # noqa: PLC0415 - an extra

    app.add_middleware(TracingMiddleware)
