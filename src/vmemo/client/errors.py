"""Conversion of a server's problem responses to the library's errors."""

from __future__ import annotations

from dataclasses import dataclass

import httpx2
from pydantic import BaseModel, ValidationError

from vmemo import errors
from vmemo.errors import InvalidInput, ServerDenied, ServerFailed, ServerUnavailable, VmemoError

_DENIED = (401, 403, 421)
_REFUSED = (400, 406, 411, 413, 415, 422)
_BUSY = (429, 503)
_RUNNING = "RequestInProgress"
"""An earlier attempt of the same write is still running."""


class Problem(BaseModel):
    """The fields of a problem (RFC 9457) that the client uses."""

    type: str
    status: int
    detail: str
    request_id: str = ""

    @property
    def kind(self) -> str:
        """The name of the error."""
        return self.type.rpartition(":")[2]


@dataclass(frozen=True)
class Failure:
    """A response with an error status."""

    status: int
    retry_after: float | None
    problem: Problem | None
    host: str

    @staticmethod
    def of(response: httpx2.Response, host: str) -> Failure:
        """Return the failure that a complete response reports."""
        try:
            problem = Problem.model_validate_json(response.content)
        except ValidationError:
            problem = None
        return Failure(response.status_code, _seconds(response.headers.get("retry-after", "")), problem, host)

    def passing(self, *, repeatable: bool) -> bool:
        """Return True if the request may be sent again: nothing was done, or the server recognises the repetition."""
        running = self.problem is not None and self.problem.kind == _RUNNING
        return self.status == 429 or (repeatable and (self.status == 503 or running))

    def error(self) -> VmemoError:
        """Return the error to raise."""
        if self.problem is not None:
            return raised(self.problem, self.status)
        said = f"{self.host} answered with status {self.status} but without the problem details of a vmemo server"
        if self.status in _BUSY:
            return ServerUnavailable(f"{said}. Try again later.")
        if self.status in _DENIED:
            return ServerDenied(f"{said}. Check the address and the key.")
        return ServerFailed(f"{said}. Check the address.")


def raised(problem: Problem, status: int | None = None) -> VmemoError:
    """Return the error of a problem; an unknown name is mapped by the status."""
    error = _class_of(problem.kind, status or problem.status)(problem.detail)
    if problem.request_id:
        error.add_note(f"Request id on the server: {problem.request_id}.")
    return error


def _class_of(kind: str, status: int) -> type[VmemoError]:
    known: object = getattr(errors, kind, None)
    if isinstance(known, type) and issubclass(known, VmemoError):
        return known
    if status in _DENIED:
        return ServerDenied
    if status in _BUSY:
        return ServerUnavailable
    return InvalidInput if status in _REFUSED else ServerFailed


def _seconds(retry_after: str) -> float | None:
    """Return a `Retry-After` in seconds; a date is ignored."""
    return float(retry_after) if retry_after.isascii() and retry_after.isdigit() else None
