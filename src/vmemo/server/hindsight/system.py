"""Routes of the server itself, as Hindsight's client expects them."""

from __future__ import annotations

import time
from importlib.metadata import version

from fastapi import APIRouter, Request, Response

from vmemo.server.dependencies import House
from vmemo.server.hindsight.schemas import Features, Liveness, Version
from vmemo.server.paths import ExactRoute
from vmemo.server.responses import record

router = APIRouter(route_class=ExactRoute)
SPEAKS = "1.1.0"
"""The version of Hindsight whose calls are answered."""
_STARTED = time.monotonic()


@router.get("/version")
async def speaks(request: Request) -> Response:
    """Which of Hindsight's calls are answered."""
    house: House = request.app.state.house
    works: bool = request.app.state.works
    agents = any(getattr(route, "path", "") == "/mcp" for route in request.app.routes)
    features = Features(observations=house.memory.lookup.models, worker=works, mcp=agents)
    return record(Version(api_version=SPEAKS, features=features))


@router.get("/health/live")
async def live() -> Response:
    """That the process runs."""
    return record(Liveness(version=version("vmemo"), uptime_seconds=round(time.monotonic() - _STARTED, 3)))
