"""Routes of the console: error pages, the content security policy, and the session cookie."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from http import HTTPStatus
from typing import Any
from urllib.parse import urlencode, urlsplit

from fastapi import APIRouter, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import RedirectResponse

from vmemo.errors import VmemoError
from vmemo_server.console.render import is_fragment, path_to, render
from vmemo_server.console.session import keep_token
from vmemo_server.errors import RateLimited, Unauthenticated, http_status
from vmemo_server.paths import ExactRoute
from vmemo_server.problems import HttpProblem, request_id, unexpected_problem

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_HINTS = {
    403: "Sign in with a key that has the permission, or ask an administrator for one.",
    404: "It may have been forgotten, or the address is wrong.",
    409: "The bank was written by another embedder; the server's log and `vmemo doctor` show what to do.",
    422: "Correct the value and try again.",
    429: "Wait a moment and try again.",
    500: "Try again. If it fails again, look for the request in the server's log, and run `vmemo doctor`.",
    502: "The language model failed. The server's log has the reason.",
    503: "The database or a model does not answer now. Try again in a moment.",
}


class ConsoleRoute(ExactRoute):
    """A route of a page: errors are pages too, and every response has the console's policy and cookie."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def handle_page(request: Request) -> Response:
            try:
                response = await handle(request)
            except (VmemoError, HttpProblem, RequestValidationError) as error:
                response = error_page(request, error)
            return _with_policy(request, response)

        return handle_page


def console_router(path: str = "") -> APIRouter:
    return APIRouter(include_in_schema=False, prefix=f"/console{path}", route_class=ConsoleRoute)


def unexpected_error_page(request: Request, error: BaseException) -> Response:
    """Return the page of an unexpected error, without the error's text."""
    return _with_policy(request, error_page(request, unexpected_problem(error)))


def _with_policy(request: Request, response: Response) -> Response:
    response.headers.setdefault("content-security-policy", POLICY)
    # Without a referrer browsers would send "null" as the origin of a form, which is refused.
    response.headers.setdefault("referrer-policy", "same-origin")
    keep_token(request, response)
    return response


def error_page(request: Request, error: Exception) -> Response:
    """Return the page of an error; a browser that is not signed in goes to the sign-in page."""
    if isinstance(error, Unauthenticated):
        return sign_in_redirect(request)
    status, detail = _described(error)
    values = {
        "status": status,
        "title": HTTPStatus(status).phrase,
        "detail": detail,
        "hint": _HINTS.get(status, ""),
        "request_id": request_id(request),
        "bank": request.path_params.get("bank"),
    }
    template = "error_part.html" if is_fragment(request) else "error.html"
    response = render(request, template, values, status)
    if isinstance(error, RateLimited):
        response.headers["Retry-After"] = str(int(error.retry_after) + 1)
    return response


def _described(error: Exception) -> tuple[int, str]:
    if isinstance(error, HttpProblem):
        return error.status, str(error)
    if isinstance(error, RequestValidationError):
        fields = ", ".join(str(each["loc"][-1]) for each in error.errors()[:5])
        return 422, f"The address has an invalid value: {fields:.200}."
    return http_status(error), str(error).encode("utf-8", "replace").decode("utf-8")


def sign_in_redirect(request: Request) -> Response:
    """Return a redirect to the sign-in page, which comes back to the page that the browser shows."""
    raw: bytes = request.scope.get("raw_path") or b""
    back = f"{raw.decode('ascii', 'replace')}?{request.url.query}" if request.method == "GET" else path_to()
    if is_fragment(request):
        shown = urlsplit(request.headers.get("hx-current-url", ""))
        back = f"{shown.path}?{shown.query}"
    page = f"{path_to('sign-in')}?{urlencode({'next': back.removesuffix('?')})}"
    # htmx would follow a redirect itself and put the page into a part of this one.
    return (
        Response(status_code=204, headers={"HX-Redirect": page})
        if is_fragment(request)
        else RedirectResponse(page, 303)
    )
