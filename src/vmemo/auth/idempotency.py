"""Requests with an idempotency key: run once, answered again from the stored response."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from vmemo.auth.errors import IdempotencyKeyReused, RequestInProgress
from vmemo.auth.service import AuthService


@dataclass(frozen=True, kw_only=True)
class IdempotentRequest:
    """A request and its idempotency key. Two requests are the same if their fingerprints are equal."""

    owner: str
    key: str
    fingerprint: str
    bank: str


@dataclass(frozen=True)
class StoredResponse:
    """The status and body of a response."""

    status: int
    body: str
    replayed: bool = False


async def run_once(
    service: AuthService, request: IdempotentRequest, run: Callable[[], Awaitable[StoredResponse]]
) -> StoredResponse:
    """Run a request and store its response, or return the response stored by an earlier one.

    An exception releases the key: the request changed nothing and may be sent again.
    """
    owner, key = request.owner, request.key
    known = await service.claim_idempotency_key(owner, key, request.fingerprint, bank=request.bank)
    if known is not None:
        if known.fingerprint != request.fingerprint:
            raise IdempotencyKeyReused("This Idempotency-Key was used for another request; use a new one.")
        if known.status is None:
            raise RequestInProgress("The request with this Idempotency-Key is still running.")
        return StoredResponse(known.status, known.body, replayed=True)
    try:
        response = await run()
    except BaseException:
        await service.release_idempotency_key(owner, key)
        raise
    await service.save_reply(owner, key, response.status, response.body)
    return response
