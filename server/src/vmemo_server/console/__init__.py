"""The web console under /console: pages for people over the same verbs, principals and permissions as REST.

Pages are rendered here, with scripts and styles from this package only. One module of `pages` serves each group of
pages.
"""

from fastapi import APIRouter, Request, Response

from vmemo_server.console.dependencies import SignedIn
from vmemo_server.console.pages import admin, banks, entities, facts, messages, recall, static
from vmemo_server.console.route import console_router, unexpected_error_page
from vmemo_server.problems import HttpProblem

router = APIRouter(include_in_schema=False)
for pages in (static, admin, banks, facts, entities, messages, recall):
    router.routes.extend(pages.router.routes)

_rest = console_router()


@_rest.get("/{path:path}")
async def missing(request: Request, principal: SignedIn) -> Response:
    """Answer any other address with a page."""
    raise HttpProblem(404, "NotFound", "There is no such page.")


router.routes.extend(_rest.routes)

__all__ = ["router", "unexpected_error_page"]
