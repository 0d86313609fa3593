"""Version and liveness, as Hindsight's client expects them."""

from __future__ import annotations

import time
from importlib.metadata import version

from fastapi import APIRouter, Request, Response

from vmemo_hindsight.schemas import Features, Liveness, VersionResponse
from vmemo_server.dependencies import AppState
from vmemo_server.paths import ExactRoute
from vmemo_server.responses import record

router = APIRouter(include_in_schema=False, route_class=ExactRoute)
API_VERSION = "1.1.0"
"""The version of Hindsight whose calls are supported."""
_STARTED = time.monotonic()


@router.get("/version")
async def api_version(request: Request) -> Response:
    """Return the supported version and features."""
    worker: bool = request.app.state.worker
    mcp = any(getattr(route, "path", "") == "/mcp" for route in request.app.routes)
    features = Features(observations=AppState.of(request).memory.forms_opinions, worker=worker, mcp=mcp)
    return record(VersionResponse(api_version=API_VERSION, features=features))


@router.get("/health/live")
async def liveness() -> Response:
    """Report that the process runs."""
    return record(Liveness(version=version("vmemo"), uptime_seconds=round(time.monotonic() - _STARTED, 3)))
