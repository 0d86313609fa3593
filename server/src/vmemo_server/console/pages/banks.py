"""The list of banks, and the creation of one."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from vmemo.errors import NotFound, VmemoError
from vmemo.models.requests import CreateBankRequest
from vmemo_server.console.dependencies import ReadPage, SignedIn
from vmemo_server.console.flash import redirect
from vmemo_server.console.render import bank_path, is_fragment, render
from vmemo_server.console.route import ConsoleRoute
from vmemo_server.console.session import checked_form
from vmemo_server.dependencies import AppState, open_session

router = APIRouter(include_in_schema=False, prefix="/console", route_class=ConsoleRoute)
PAGE = 50


@router.get("")
@router.get("/")
async def banks(request: Request, principal: SignedIn, q: str = "", after: str = "") -> Response:
    """List the banks that the principal may read, by name."""
    names = principal.readable(await AppState.of(request).memory.banks())
    wanted = q.strip().casefold()
    found = [name for name in names if wanted in name.casefold() and name > after]
    values = {
        "banks": found[:PAGE],
        "more": found[PAGE - 1] if len(found) > PAGE else None,
        "total": len(names),
        "q": q,
        "can_create": principal.permission != "read",
    }
    return render(request, "banks_rows.html" if is_fragment(request) else "banks.html", values)


@router.get("/banks/{bank}/summary")
async def summary(page: ReadPage) -> Response:
    """Return the counts of one bank, for its row in the list."""
    try:
        status = await page.memory.status()
    except NotFound:
        raise
    except VmemoError as error:
        # A bank of another embedder must not hide the others.
        return page.render("bank_summary.html", status=None, problem=str(error))
    return page.render("bank_summary.html", status=status, problem="")


@router.post("/banks")
async def create(request: Request, principal: SignedIn) -> Response:
    """Create a bank unless it exists."""
    form = await checked_form(request)
    name = form.text("name").strip()
    session = await open_session(request, principal, name, "write", create=True, interface="console")
    await session.memory.run(CreateBankRequest())
    return redirect(bank_path(name), "created")
