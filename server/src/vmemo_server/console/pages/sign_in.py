"""Sign-in with an API key, and sign-out."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response
from fastapi.responses import RedirectResponse

from vmemo_server.auth.errors import Unauthenticated
from vmemo_server.console.render import path_to, render
from vmemo_server.console.route import ConsoleRoute
from vmemo_server.console.session import browser_token, checked_form, replace_token
from vmemo_server.dependencies import AppState
from vmemo_server.problems import HttpProblem

router = APIRouter(include_in_schema=False, prefix="/console", route_class=ConsoleRoute)
MAX_BODY = 8192
"""Bytes of the form, which is read before anybody is authenticated."""
MAX_NEXT = 2000
"""Characters of the address to continue with; the form encodes each in at most 3 bytes."""


@router.get("/sign-in")
async def form(request: Request, next: str = "") -> Response:
    """Show the form."""
    return render(request, "sign_in.html", {"next": _local(next), "problem": ""})


@router.post("/sign-in")
async def sign_in(request: Request) -> Response:
    """Begin a session of an API key."""
    _check_size(request)
    form = await checked_form(request)
    secret, back = form.text("key").strip(), _local(form.text("next"))
    try:
        principal = await AppState.of(request).access.authenticate(secret or None)
    except Unauthenticated:
        problem = "This is not an active API key." if secret else "Enter an API key."
        return render(request, "sign_in.html", {"next": back, "problem": problem}, 401)
    if principal.key_id is not None:
        replace_token(request, await AppState.of(request).auth.begin_session(principal.key_id))
    return RedirectResponse(back or path_to(), 303)


@router.post("/sign-out")
async def sign_out(request: Request) -> Response:
    """End the session, and give the browser a token of none."""
    _check_size(request)
    await checked_form(request)
    await AppState.of(request).auth.end_session(browser_token(request))
    replace_token(request)
    return RedirectResponse(path_to("sign-in"), 303)


def _check_size(request: Request) -> None:
    length = request.headers.get("content-length", "")
    if not length.isdecimal() or int(length) > MAX_BODY:
        raise HttpProblem(413, "ContentTooLarge", f"A sign-in has at most {MAX_BODY:,} bytes.")


def _local(next: str) -> str:
    """Return the page to continue with, and its query, if it is one of this console and fits into the form."""
    own = next.startswith(("/console/", "/console?")) and "\\" not in next and next.isprintable()
    return next if own and len(next) <= MAX_NEXT else ""
