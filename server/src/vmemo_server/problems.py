"""Error responses: problem details (RFC 9457) with a stable type, a detail, and a hint whether to retry."""

from __future__ import annotations

import re
from asyncio import CancelledError
from collections.abc import Mapping
from http import HTTPStatus

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException

from vmemo.errors import VmemoError, error_class
from vmemo.models.results import DerivationProblem
from vmemo_server.errors import RateLimited, Unauthenticated, error_code, http_status

MEDIA_TYPE = "application/problem+json"
_STOPPING = (
    "The server stopped before this request was finished. What it had committed is stored: retained messages stay, "
    "and their facts are derived after the restart. Repeat the request: with the same Idempotency-Key it takes effect "
    "once; without a key, check first what is stored."
)
RETRY_SECONDS = 1
"""The Retry-After of errors that are expected to pass soon."""
_QUOTED = re.compile(r"^(['\"]).*\1 is ", re.DOTALL)


class ProblemDetails(BaseModel):
    """An error. `type` identifies it, and `retryable` shows if the same request may succeed later."""

    type: str = Field(examples=["urn:vmemo:problem:NotFound"])
    title: str = Field(examples=["Not Found"])
    status: int = Field(examples=[404])
    detail: str = Field(examples=["There is no bank 'alice' here."])
    retryable: bool = Field(default=False, examples=[False])
    request_id: str = Field(default="", examples=["0199f0c1d3e2"])


class HttpProblem(Exception):
    """A request that HTTP rules reject: host, method, media type, size, or a call that is not implemented."""

    def __init__(self, status: int, code: str, detail: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(detail)
        self.status, self.code, self.headers = status, code, headers or {}


def request_id(request: Request) -> str:
    return str(getattr(request.state, "request_id", ""))


def problem_of(request: Request, error: VmemoError) -> ProblemDetails:
    """Describe an error of vmemo; its text quotes no other bank and no secret."""
    return _problem(request, http_status(error), error_code(error), str(error))


def derivation_problem(request: Request, problem: DerivationProblem) -> ProblemDetails:
    """Describe a failure to derive facts from messages that are stored."""
    return _problem(request, http_status(error_class(problem.error)), problem.error, problem.detail)


def _problem(request: Request, status: int, code: str, detail: str) -> ProblemDetails:
    return ProblemDetails(
        type=f"urn:vmemo:problem:{code}",
        title=HTTPStatus(status).phrase,
        status=status,
        # The detail may repeat a lone surrogate that the client sent, which JSON can't encode.
        detail=detail.encode("utf-8", "replace").decode("utf-8"),
        retryable=status in (429, 503),
        request_id=request_id(request),
    )


def _response(problem: ProblemDetails, headers: Mapping[str, str] | None = None) -> JSONResponse:
    retry = {"Retry-After": str(RETRY_SECONDS)} if problem.retryable else {}
    return JSONResponse(problem.model_dump(), problem.status, {**retry, **(headers or {})}, MEDIA_TYPE)


def problem_response(request: Request, problem: HttpProblem) -> JSONResponse:
    return _response(_problem(request, problem.status, problem.code, str(problem)), problem.headers)


def unexpected_error(request: Request, error: BaseException) -> JSONResponse:
    return problem_response(request, unexpected_problem(error))


def unexpected_problem(error: BaseException) -> HttpProblem:
    """Describe an unexpected error by its type only, for its text may hold anything."""
    if isinstance(error, CancelledError):
        return HttpProblem(503, "ServerStopping", _STOPPING)
    name = type(error).__name__
    return HttpProblem(500, name, f"Unexpected error {name}; the server's log shows where.")


async def handle_vmemo_error(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, VmemoError)
    headers: dict[str, str] = {}
    if isinstance(error, Unauthenticated):
        headers["WWW-Authenticate"] = "Bearer"
    elif isinstance(error, RateLimited):
        headers["Retry-After"] = str(int(error.retry_after) + 1)
    return _response(problem_of(request, error), headers)


async def handle_http_problem(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HttpProblem)
    return problem_response(request, error)


async def handle_validation_error(request: Request, error: Exception) -> JSONResponse:
    """Return the response to an invalid body or parameter; the values sent are not repeated."""
    assert isinstance(error, RequestValidationError)
    lines = [f"{'.'.join(map(str, e['loc'])):.200}: {_without_value(str(e['msg']))}" for e in error.errors()]
    return _response(_problem(request, 422, "InvalidInput", "; ".join(lines[:10])))


def _without_value(message: str) -> str:
    return _QUOTED.sub("it is ", message.removeprefix("Value error, "))


async def handle_http_exception(request: Request, error: Exception) -> JSONResponse:
    """Return the response to an unknown path or method."""
    assert isinstance(error, HTTPException)
    code = "NotFound" if error.status_code == 404 else "HttpError"
    headers = {**(error.headers or {}), **(_allow(request) if error.status_code == 405 else {})}
    return _response(_problem(request, error.status_code, code, str(error.detail)), headers)


def _allow(request: Request) -> dict[str, str]:
    """Return the Allow header with every method of a path; Starlette lists those of the first route only."""
    app: FastAPI = request.app
    path = getattr(request.scope.get("route"), "path", None)
    methods = app.openapi()["paths"].get(path, {})
    return {"Allow": ", ".join(method.upper() for method in methods)} if methods else {}
