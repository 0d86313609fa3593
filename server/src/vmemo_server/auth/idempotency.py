"""Requests with an idempotency key: executed once, answered again from the stored response.

A response is stored in the transaction of the request's effect, and replaced by the final one. A process that dies
before the effect leaves a claim, which a repetition takes over when its lease has ended; one that dies after it leaves
the response. A process that stalls so long that it loses its claim can't write any more.
"""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass

from vmemo.errors import StoreError
from vmemo.models.auth import CompletedRequest, IdempotencyClaim
from vmemo.ports.renewal import renewed
from vmemo_server.auth.errors import IdempotencyKeyReused, RequestInProgress
from vmemo_server.auth.service import AuthService

RENEW_SECONDS = 3.0
"""Seconds between two renewals of a claim; its lease is about three times as long."""


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
    has_effect: bool = True
    """False if the request has changed nothing, so that it may be executed again."""


async def run_once(
    service: AuthService,
    request: IdempotentRequest,
    execute: Callable[[IdempotencyClaim], Awaitable[StoredResponse]],
) -> StoredResponse:
    """Execute a request and store its response, or return the response stored by an earlier one.

    If it raises before it takes effect, the key is released, and the request may be sent again.
    """
    claim = IdempotencyClaim(owner=request.owner, key=request.key, holder=secrets.token_hex(8))
    known = await service.claim_idempotency_key(claim, request.fingerprint, bank=request.bank)
    if known is not None:
        if known.fingerprint != request.fingerprint:
            raise IdempotencyKeyReused("This Idempotency-Key was used for another request; use a new one.")
        if known.status is None:
            raise RequestInProgress("The request with this Idempotency-Key is still running.")
        return StoredResponse(known.status, known.body, replayed=True)
    try:
        async with renewed(lambda: service.renew_idempotency_claim(claim), RENEW_SECONDS):
            response = await execute(claim)
    except BaseException:
        # A claim that can't be released now is free when its lease ends.
        with suppress(StoreError):
            await service.release_idempotency_key(claim)
        raise
    # The effect has been stored; without the final response a repetition returns the one stored with the effect.
    with suppress(StoreError):
        if response.has_effect:
            await service.save_reply(CompletedRequest(claim=claim, status=response.status, body=response.body))
        else:
            await service.release_idempotency_key(claim)
    return response
