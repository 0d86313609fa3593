"""Routes of the server itself (health, metrics, API keys and the audit log) and of the webhooks of a bank.

Webhooks need admin permission, because one outlives the key that added it.
"""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import Query, Request, Response
from pydantic import BaseModel, Field

from vmemo.errors import VmemoError
from vmemo.models import BankId
from vmemo.models.records import Name, Permission
from vmemo.models.requests import AddWebhookRequest, CreateKeyRequest, DeleteWebhookRequest
from vmemo.models.webhooks import SignedWebhook, Webhook
from vmemo_server import openapi
from vmemo_server.background import BackgroundWorker
from vmemo_server.dependencies import AdminBank, AdminPrincipal, AnyPrincipal, AppState, Idempotent, RequestSession
from vmemo_server.problems import HttpProblem, ProblemDetails
from vmemo_server.responses import (
    BODY_ERRORS,
    READ_ERRORS,
    CursorPage,
    IdResponse,
    Limit,
    one_more,
    page,
    page_up_to,
    problems,
    record,
)
from vmemo_server.state import ApiKey, AuditEntry, IdempotentRequest

router = openapi.rest_router("server")
NO_BANK = BankId("")
"""The bank of requests that concern the whole server."""
BankFilter = Annotated[Name | None, Query(description="Only writes to this bank.")]


class Health(BaseModel):
    """The state of the server."""

    status: Literal["ok"] = "ok"


class KeyAccess(BaseModel):
    """The access that an API key gives, or that a request without a key has."""

    banks: list[str] = Field(examples=[["alice"]], description="Names of banks, and prefixes that end in an asterisk.")
    permission: Permission
    default_bank: str | None = Field(description="The only bank of the key; `default` without a key; else null.")


class CreatedKey(BaseModel):
    """A new API key with its secret, which is shown only once."""

    id: str
    secret: str | None = Field(examples=["vmemo_…"], description="Null in the response to a repeated request.")


@router.get("/health", response_model=Health)
@router.head("/health", include_in_schema=False)
async def health() -> Response:
    """Report that the process runs, without using the database."""
    return record(Health())


@router.get("/health/ready", response_model=Health, responses={503: {**problems(503)[503], "model": ProblemDetails}})
async def ready(request: Request) -> Response:
    """Report that the database answers, queued jobs are run, and the server is not shutting down."""
    try:
        await AppState.of(request).auth.keys()
    except VmemoError as error:
        raise HttpProblem(503, "NotReady", f"The database does not answer: {type(error).__name__}.") from error
    worker: BackgroundWorker | None = request.app.state.background_worker
    if worker is not None and worker.problem is not None:
        raise HttpProblem(503, "NotReady", worker.problem)
    return record(Health())


@router.get("/metrics", response_class=Response, responses={**READ_ERRORS, 200: {"content": {"text/plain": {}}}})
async def metrics(request: Request, principal: AnyPrincipal) -> Response:
    """Return Prometheus metrics."""
    principal.require("admin")
    metrics = request.app.state.metrics
    if metrics is None:
        raise HttpProblem(501, "MissingExtra", "Metrics need another package: pip install 'vmemo[metrics]'.")
    return Response(metrics.exposition(), media_type=metrics.media_type)


@router.get("/v1/key", response_model=KeyAccess, responses=READ_ERRORS)
async def key_access(principal: AnyPrincipal) -> Response:
    """Describe the API key of the request: its banks, its permission, and the bank to use if none is named."""
    default = principal.default_bank
    return record(KeyAccess(banks=list(principal.banks), permission=principal.permission, default_bank=default))


@router.get("/v1/keys", response_model=CursorPage[ApiKey], responses=READ_ERRORS)
async def keys(request: Request, principal: AdminPrincipal) -> Response:
    """List every API key ever created, without secrets."""
    return page(CursorPage[ApiKey], await AppState.of(request).auth.keys())


@router.post(
    "/v1/keys", response_model=CreatedKey, status_code=201, responses=BODY_ERRORS, openapi_extra=openapi.CREATE_KEY
)
async def create_key(
    request: Request, principal: AdminPrincipal, body: CreateKeyRequest, idempotency: Idempotent
) -> Response:
    """Create an API key and return its secret, which is shown only once."""
    state, created = AppState.of(request), list[CreatedKey]()

    async def execute(same: IdempotentRequest | None) -> str:
        id = None if same is None else same.new_id().replace("-", "")[:12]
        if id is not None and any(key.id == id for key in await state.auth.keys()):
            return id
        key, secret = await state.auth.create_key(
            body.name, banks=body.banks, permission=body.permission, expires_at=body.expires_at, id=id
        )
        created.append(CreatedKey(id=key.id, secret=secret))
        return key.id

    def without_secret(id: str) -> Response:
        return record(CreatedKey(id=id, secret=None), 201)

    # No secret is stored, so a repetition can't return it.
    session = RequestSession(principal, NO_BANK, state.memory, state.auth)
    response = await idempotency.execute(session, execute, without_secret)
    return record(created[0], 201) if created else response


@router.delete("/v1/keys/{key}", response_model=IdResponse, responses=BODY_ERRORS)
async def revoke_key(request: Request, principal: AdminPrincipal, key: Name) -> Response:
    """Revoke an API key at once."""
    await AppState.of(request).auth.revoke(key)
    return record(IdResponse(id=key))


@router.get("/v1/audit", response_model=CursorPage[AuditEntry], responses=READ_ERRORS)
async def audit_log(
    request: Request,
    principal: AdminPrincipal,
    bank: BankFilter = None,
    before: Annotated[int | None, Query(ge=0, le=2**53)] = None,
    limit: Limit = 100,
) -> Response:
    """List audit entries, newest first; pass `next` as `before` to get the next page."""
    banks = None if bank is None else [bank]
    found = await AppState.of(request).auth.audit_entries(banks=banks, before=before, limit=one_more(limit))
    return page_up_to(CursorPage[AuditEntry], found, limit, lambda entry: str(entry.id))


webhooks_router = openapi.rest_router("webhooks", "/v1/banks/{bank}/webhooks")


@webhooks_router.get("", name="list", response_model=CursorPage[Webhook], responses=READ_ERRORS)
async def list_webhooks(session: AdminBank) -> Response:
    """List the webhooks, oldest first, without their secrets."""
    return page(CursorPage[Webhook], await session.memory.webhooks())


@webhooks_router.post("", response_model=SignedWebhook, responses=BODY_ERRORS, openapi_extra=openapi.ADD_WEBHOOK)
async def add(session: AdminBank, body: AddWebhookRequest, idempotency: Idempotent) -> Response:
    """Add a webhook, and return it with its signing secret, which is shown only once."""

    async def execute(same: IdempotentRequest | None) -> SignedWebhook:
        id = body.id or (None if same is None else same.new_id())
        return await session.run(body.model_copy(update={"id": id}))

    return await idempotency.execute(session, execute, record)


@webhooks_router.delete("/{webhook}", response_model=Webhook, responses=BODY_ERRORS)
async def delete(session: AdminBank, webhook: Name, idempotency: Idempotent) -> Response:
    """Delete a webhook with its queued deliveries."""
    return await idempotency.run(session, DeleteWebhookRequest(webhook=webhook), record)
