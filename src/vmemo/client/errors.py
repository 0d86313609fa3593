"""What a server says of a failure, as the library's own errors."""

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
"""An earlier try of the same write has come through and is still being worked on."""


class Problem(BaseModel):
    """A problem (RFC 9457) as far as it is read here."""

    type: str
    status: int
    detail: str
    request_id: str = ""

    @property
    def kind(self) -> str:
        """What the problem is of."""
        return self.type.rpartition(":")[2]


@dataclass(frozen=True)
class Failure:
    """An answer that tells of a failure."""

    status: int
    retry_after: float | None
    problem: Problem | None
    host: str

    @staticmethod
    def of(response: httpx2.Response, host: str) -> Failure:
        """What a response that was read to its end tells."""
        try:
            problem = Problem.model_validate_json(response.content)
        except ValidationError:
            problem = None
        return Failure(response.status_code, _seconds(response.headers.get("retry-after", "")), problem, host)

    def passing(self, *, repeatable: bool) -> bool:
        """Whether the request may be sent again: the server did nothing, or can tell that it is the same one."""
        running = self.problem is not None and self.problem.kind == _RUNNING
        return self.status == 429 or (repeatable and (self.status == 503 or running))

    def error(self) -> VmemoError:
        """The error to raise."""
        if self.problem is not None:
            return raised(self.problem, self.status)
        said = f"{self.host} answered with status {self.status} and without the reason that a vmemo server gives"
        if self.status in _BUSY:
            return ServerUnavailable(f"{said}. Try again later.")
        if self.status in _DENIED:
            return ServerDenied(f"{said}. Check the address and the key.")
        return ServerFailed(f"{said}. Check the address.")


def raised(problem: Problem, status: int | None = None) -> VmemoError:
    """The error that a problem tells of; one that this library does not know is told by its status."""
    error = _class_of(problem.kind, status or problem.status)(problem.detail)
    if problem.request_id:
        error.add_note(f"The server knows this request as {problem.request_id}.")
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
    """A wish in seconds; one for a date counts as none."""
    return float(retry_after) if retry_after.isascii() and retry_after.isdigit() else None
