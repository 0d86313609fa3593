"""Errors of authentication, authorization and idempotency, and the HTTP status of every error."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from vmemo.errors import (
    EmbedderMismatch,
    EmbeddingFailed,
    ExtractionFailed,
    InvalidInput,
    LLMFailed,
    LLMUnavailable,
    NotFound,
    ProcessingDelayed,
    RerankFailed,
    StoreBusy,
    StoreError,
    Unsupported,
    VmemoError,
    public_name,
)

_STATUS: Mapping[type[VmemoError], int] = {
    InvalidInput: 422,
    NotFound: 404,
    EmbedderMismatch: 409,
    Unsupported: 409,
    LLMUnavailable: 503,
    EmbeddingFailed: 503,
    RerankFailed: 503,
    ExtractionFailed: 502,
    LLMFailed: 502,
    StoreBusy: 503,
    ProcessingDelayed: 503,
    StoreError: 500,
    VmemoError: 500,
}
"""The HTTP status of each error; the first class of an error's MRO that is listed decides."""


class AccessError(VmemoError):
    """A request that is rejected before any verb is called. Nothing was changed."""

    status: ClassVar[int] = 403


class Unauthenticated(AccessError):
    """The API key is missing, unknown, expired or revoked."""

    status: ClassVar[int] = 401


class PermissionDenied(AccessError):
    """The principal lacks the permission, or the bank is not one of its banks."""


class RateLimited(AccessError):
    """The principal sent too many requests; the next one is accepted after `retry_after` seconds."""

    status: ClassVar[int] = 429

    def __init__(self, retry_after: float) -> None:
        super().__init__(f"Too many requests; the next one is accepted in {retry_after:.1f} seconds.")
        self.retry_after = retry_after


class IdempotencyKeyReused(AccessError):
    """The idempotency key belongs to another request."""

    status: ClassVar[int] = 422


class RequestInProgress(AccessError):
    """The request with this idempotency key is still running."""

    status: ClassVar[int] = 409


def http_status(error: Exception | type[Exception]) -> int:
    """Return the HTTP status of an error or its class; 500 for one that vmemo does not raise on purpose."""
    kind = error if isinstance(error, type) else type(error)
    if issubclass(kind, AccessError):
        return kind.status
    return next((_STATUS[each] for each in kind.__mro__ if each in _STATUS), 500)


def error_code(error: VmemoError) -> str:
    """Return the stable, machine-readable name of an error."""
    return type(error).__name__ if isinstance(error, AccessError) else public_name(error)
