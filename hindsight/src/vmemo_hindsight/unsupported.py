"""Calls of Hindsight that vmemo does not support."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from vmemo_hindsight.dependencies import BANK, PREFIX
from vmemo_server.dependencies import AnyPrincipal
from vmemo_server.paths import ExactRoute
from vmemo_server.problems import HttpProblem

METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE"]
router = APIRouter(include_in_schema=False, route_class=ExactRoute)
"""Every path that no other router matches; include it last."""
entity_graph = APIRouter(include_in_schema=False, route_class=ExactRoute)
"""A path that the route of a single entity would match; include it first."""


@entity_graph.get(f"{BANK}/entities/graph")
@router.api_route("/v1/bank-template-schema", methods=METHODS)
@router.api_route(f"{PREFIX}/{{rest:path}}", methods=METHODS)
async def not_implemented(request: Request, principal: AnyPrincipal) -> Response:
    """Answer 501."""
    call = f"{request.method} {request.url.path[:200]}"
    detail = f"vmemo does not support {call}; docs/hindsight.md lists the supported calls."
    raise HttpProblem(501, "NotImplemented", detail)
