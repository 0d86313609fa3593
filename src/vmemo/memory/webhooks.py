"""The verbs that configure webhooks."""

from __future__ import annotations

import base64
import secrets

from vmemo.errors import InvalidInput, NotFound, Unsupported
from vmemo.memory.session import MemorySession
from vmemo.models import new_id
from vmemo.models.changes import Changes, Deletions
from vmemo.models.requests import AddWebhookRequest, DeleteWebhookRequest, WebhooksRequest
from vmemo.models.webhooks import (
    MAX_WEBHOOKS,
    SignedWebhook,
    Webhook,
    names_private_host,
    split_webhook_url,
)
from vmemo.ports import WebhookStore


async def list_webhooks(session: MemorySession, _: WebhooksRequest) -> list[Webhook]:
    """Return the webhooks without their secrets."""
    return [webhook.public() for webhook in await _stored(session)]


async def add(session: MemorySession, request: AddWebhookRequest) -> SignedWebhook:
    """Add a webhook with a new secret."""
    host = split_webhook_url(request.url).hostname or ""
    if names_private_host(host) and not session.context.settings.webhook_private:
        raise InvalidInput(
            f"A webhook can't reach the private host {host!r}. Nothing was stored. Use a public one, or set "
            "VMEMO_WEBHOOK_PRIVATE=true (Settings(webhook_private=True)) where workers may call private addresses."
        )
    stored = await _stored(session)
    if (known := next((each for each in stored if each.id == request.id), None)) is not None:
        return known
    if len(stored) >= MAX_WEBHOOKS:
        raise InvalidInput(f"A bank has at most {MAX_WEBHOOKS} webhooks. Nothing was stored. Delete one first.")
    secret = f"whsec_{base64.b64encode(secrets.token_bytes(32)).decode()}"
    events = tuple(dict.fromkeys(request.events))
    new = SignedWebhook(id=request.id or new_id(), url=request.url, events=events, secret=secret)
    await session.store.commit(Changes(bank=session.bank, webhooks=[new]))
    return new


async def delete(session: MemorySession, request: DeleteWebhookRequest) -> Webhook:
    """Delete a webhook with its queued deliveries."""
    found = next((each.public() for each in await _stored(session) if each.id == request.webhook), None)
    if found is None:
        raise NotFound(f"There is no webhook {request.webhook!r} in bank {session.bank!r}.")
    queued = await session.store.jobs(session.bank, ["webhook"])
    gone = Deletions(webhooks=[found.id], jobs=[job.id for job in queued if job.detail["webhook"] == found.id])
    await session.store.commit(Changes(bank=session.bank, deleted=gone))
    return found


async def _stored(session: MemorySession) -> list[SignedWebhook]:
    await session.open()
    if not isinstance(session.store, WebhookStore):
        raise Unsupported(
            f"{type(session.store).__name__} can't store webhooks: it does not implement the WebhookStore port."
        )
    return await session.store.webhooks(session.bank)
