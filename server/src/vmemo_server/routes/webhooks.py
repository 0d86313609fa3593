"""Routes for the webhooks of a bank. They need admin permission, because a webhook outlives the key that added it."""

from __future__ import annotations

from fastapi import APIRouter, Response

from vmemo.models.base import Name
from vmemo.models.requests import AddWebhookRequest, DeleteWebhookRequest
from vmemo.models.webhooks import SignedWebhook, Webhook
from vmemo_server import examples
from vmemo_server.dependencies import AdminBank, Idempotent
from vmemo_server.openapi import operation_id
from vmemo_server.paths import ExactRoute
from vmemo_server.responses import BODY_ERRORS, READ_ERRORS, CursorPage, page, record
from vmemo_server.state import IdempotentRequest

router = APIRouter(
    generate_unique_id_function=operation_id,
    prefix="/v1/banks/{bank}/webhooks",
    tags=["webhooks"],
    route_class=ExactRoute,
)


@router.get("", name="list", response_model=CursorPage[Webhook], responses=READ_ERRORS)
async def list_webhooks(session: AdminBank) -> Response:
    """List the webhooks, oldest first, without their secrets."""
    return page(CursorPage[Webhook], await session.memory.webhooks())


@router.post("", response_model=SignedWebhook, responses=BODY_ERRORS, openapi_extra=examples.ADD_WEBHOOK)
async def add(session: AdminBank, body: AddWebhookRequest, idempotency: Idempotent) -> Response:
    """Add a webhook, and return it with its signing secret, which is shown only once."""

    async def execute(same: IdempotentRequest | None) -> SignedWebhook:
        id = body.id or (None if same is None else same.new_id())
        return await session.run(body.model_copy(update={"id": id}))

    return await idempotency.execute(session, execute, record)


@router.delete("/{webhook}", response_model=Webhook, responses=BODY_ERRORS)
async def delete(session: AdminBank, webhook: Name, idempotency: Idempotent) -> Response:
    """Delete a webhook with its queued deliveries."""
    return await idempotency.run(session, DeleteWebhookRequest(webhook=webhook), record)
