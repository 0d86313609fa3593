"""Errors as doors tell them: problem+json (RFC 9457) with a stable type, what happened, and whether to try again."""

from __future__ import annotations

import re
from collections.abc import Mapping

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException

from vmemo.errors import (
    EmbedderMismatch,
    EmbeddingFailed,
    InvalidInput,
    LLMFailed,
    LLMUnavailable,
    NotFound,
    RerankFailed,
    ScrubDelayed,
    StoreBusy,
    StoreError,
    Unsupported,
    VmemoError,
    public_name,
)

MEDIA = "application/problem+json"
_STATUS: Mapping[type[VmemoError], int] = {
    InvalidInput: 422,
    NotFound: 404,
    EmbedderMismatch: 409,
    Unsupported: 409,
    LLMUnavailable: 503,
    EmbeddingFailed: 503,
    RerankFailed: 503,
    LLMFailed: 502,
    ScrubDelayed: 503,
    StoreBusy: 503,
    StoreError: 500,
    VmemoError: 500,
}
"""How an error is told over HTTP; the first of an error's kinds that stands here counts."""
_TITLES = {
    400: "Bad request",
    401: "No key",
    403: "Not allowed",
    404: "Not found",
    405: "Method not allowed",
    406: "Not acceptable",
    409: "Conflict",
    411: "Length required",
    413: "Too large",
    415: "Unsupported media type",
    421: "Wrong host",
    422: "Not valid",
    429: "Too many requests",
    500: "Failed",
    501: "Not there",
    502: "The model failed",
    503: "Not now",
}
_QUOTED = re.compile(r"^(['\"]).*\1 is ", re.DOTALL)
AGAIN = 1
"""Seconds after which a request that may succeed later should be repeated."""


class Problem(BaseModel):
    """What went wrong. `type` names the kind, `retryable` tells whether the same request may succeed later."""

    type: str = Field(examples=["urn:vmemo:problem:NotFound"])
    title: str = Field(examples=["Not found"])
    status: int = Field(examples=[404])
    detail: str = Field(examples=["There is no bank 'alice' here."])
    retryable: bool = Field(default=False, examples=[False])
    request_id: str = Field(default="", examples=["0199f0c1d3e2"])


class Refused(Exception):
    """A request that is answered with a problem before any verb was called."""

    def __init__(self, status: int, kind: str, detail: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(detail)
        self.status, self.kind, self.headers = status, kind, headers or {}


def status_of(error: VmemoError) -> int:
    """The HTTP status of an error."""
    return next(_STATUS[kind] for kind in type(error).__mro__ if kind in _STATUS)


def request_id(request: Request) -> str:
    """The id under which this request stands in logs and in the record of writes."""
    return str(getattr(request.state, "request_id", ""))


def told(
    request: Request, status: int, kind: str, detail: str, headers: Mapping[str, str] | None = None
) -> JSONResponse:
    """A problem as response."""
    # Whoever sent half a character is told of it in whole ones.
    problem = _problem(request, status, kind, detail.encode("utf-8", "replace").decode("utf-8"))
    again = {"Retry-After": str(AGAIN)} if problem.retryable else {}
    return JSONResponse(problem.model_dump(), status, {**again, **(headers or {})}, MEDIA)


def problem_of(request: Request, error: VmemoError) -> Problem:
    """An error that vmemo raised on purpose; its text quotes no other bank and no secret."""
    return _problem(request, status_of(error), public_name(error), str(error))


def _problem(request: Request, status: int, kind: str, detail: str) -> Problem:
    return Problem(
        type=f"urn:vmemo:problem:{kind}",
        title=_TITLES.get(status, "Failed"),
        status=status,
        detail=detail,
        retryable=status in (429, 503),
        request_id=request_id(request),
    )


async def of_vmemo(request: Request, error: Exception) -> JSONResponse:
    """An error that vmemo raised on purpose."""
    assert isinstance(error, VmemoError)
    return told(request, status_of(error), public_name(error), str(error))


async def of_refusal(request: Request, error: Exception) -> JSONResponse:
    """A request that was refused at the door."""
    assert isinstance(error, Refused)
    return told(request, error.status, error.kind, str(error), error.headers)


async def of_validation(request: Request, error: Exception) -> JSONResponse:
    """A body or parameter of another shape; what was sent is not repeated."""
    assert isinstance(error, RequestValidationError)
    lines = [f"{'.'.join(map(str, e['loc'])):.200}: {_in_words(str(e['msg']))}" for e in error.errors()]
    return told(request, 422, "InvalidInput", "; ".join(lines[:10]))


def _in_words(message: str) -> str:
    """What is wrong, without the value itself."""
    return _QUOTED.sub("it is ", message.removeprefix("Value error, "))


async def of_http(request: Request, error: Exception) -> JSONResponse:
    """What the framework refuses: no such path, no such method."""
    assert isinstance(error, HTTPException)
    kind = "NotFound" if error.status_code == 404 else "Http"
    headers = {**(error.headers or {}), **(_allowed(request) if error.status_code == 405 else {})}
    return told(request, error.status_code, kind, str(error.detail), headers)


def _allowed(request: Request) -> dict[str, str]:
    """Every method of a path: the framework names those of one route alone."""
    app: FastAPI = request.app
    path = getattr(request.scope.get("route"), "path", None)
    methods = app.openapi()["paths"].get(path, {})
    return {"Allow": ", ".join(method.upper() for method in methods)} if methods else {}


async def of_surprise(request: Request, error: Exception) -> JSONResponse:
    """An error that nobody foresaw. Its text may hold anything, so only its name is told; the log has the place."""
    return told(request, 500, type(error).__name__, f"An error that was not foreseen: {type(error).__name__}.")
