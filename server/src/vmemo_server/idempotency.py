"""Requests with an idempotency key: executed once, answered again from the stored response.

The key is claimed, the request executed, and its response stored. A process that dies in between leaves a claim, which
a repetition takes over when its lease has ended, and then the request is executed again. So execution is harmless when
repeated: new messages, webhooks and API keys have ids that are derived from the request.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass

from vmemo.errors import StoreError
from vmemo.models.requests import RetainRequest
from vmemo.models.results import Retained
from vmemo.ports import renewed
from vmemo_server.errors import IdempotencyKeyReused, RequestInProgress
from vmemo_server.state import IdempotentRequest, ServerState

RENEW_SECONDS = 3.0
"""Seconds between two renewals of a claim; its lease is about three times as long."""


@dataclass(frozen=True)
class StoredResponse:
    status: int
    body: str
    replayed: bool = False
    has_effect: bool = True
    """False if the request has changed nothing, so that it may be executed again."""


async def run_once(
    state: ServerState, request: IdempotentRequest, execute: Callable[[], Awaitable[StoredResponse]]
) -> StoredResponse:
    """Execute a request and store its response, or return the response stored by an earlier one.

    If it raises, the key is released, and the request may be sent again.
    """
    known = await state.claim(request)
    if known is not None:
        if known.fingerprint != request.fingerprint:
            raise IdempotencyKeyReused("This Idempotency-Key was used for another request; use a new one.")
        if known.status is None:
            raise RequestInProgress("The request with this Idempotency-Key is still running.")
        return StoredResponse(known.status, known.body, replayed=True)
    try:
        async with renewed(lambda: state.renew(request), RENEW_SECONDS):
            response = await execute()
    except BaseException:
        # A claim that can't be released now is free when its lease ends.
        with suppress(StoreError):
            await state.release(request)
        raise
    # Without the stored response a repetition is executed again, when the lease has ended.
    with suppress(StoreError):
        if response.has_effect:
            await state.save_response(request, response.status, response.body)
        else:
            await state.release(request)
    return response


async def retain_once(
    run: Callable[[RetainRequest], Awaitable[Retained]], request: RetainRequest, same: IdempotentRequest
) -> Retained:
    """Store messages under ids that a repetition gives them again; those of an earlier execution count as stored.

    A line of a document needs none, because a document never stores a line twice.
    """
    ids = {
        number: same.new_id(number)
        for number, message in enumerate(request.messages)
        if message is not None and message.id is None and message.document is None
    }
    messages = tuple(
        message.model_copy(update={"id": ids[number]}) if message is not None and number in ids else message
        for number, message in enumerate(request.messages)
    )
    retained = await run(request.model_copy(update={"messages": messages}))
    earlier = [each for each in retained.skipped if each.what in ids.values()]
    skipped = tuple(each for each in retained.skipped if each not in earlier)
    return retained.model_copy(
        update={"stored": (*retained.stored, *(each.what for each in earlier)), "skipped": skipped}
    )
