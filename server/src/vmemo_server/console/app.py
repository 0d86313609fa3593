"""The routes of the console."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from vmemo_server.console.dependencies import SignedIn
from vmemo_server.console.pages import (
    admin,
    banks,
    chat,
    entities,
    facts,
    forget,
    graph,
    messages,
    opinions,
    overview,
    profile,
    recall,
    reports,
    sign_in,
    static,
)
from vmemo_server.console.route import ConsoleRoute
from vmemo_server.problems import HttpProblem

PAGES = (
    *(static, sign_in, banks, admin, reports, overview, facts, entities, graph, opinions),
    *(messages, recall, chat, profile, forget),
)
router = APIRouter(include_in_schema=False)
for pages in PAGES:
    router.routes.extend(pages.router.routes)

_rest = APIRouter(include_in_schema=False, prefix="/console", route_class=ConsoleRoute)


@_rest.get("/{path:path}")
async def missing(request: Request, principal: SignedIn) -> Response:
    """Answer any other address with a page."""
    raise HttpProblem(404, "NotFound", "There is no such page.")


router.routes.extend(_rest.routes)
