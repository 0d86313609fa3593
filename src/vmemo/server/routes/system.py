"""Routes of the server itself: keys, the record of writes, health and version."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request, Response
from pydantic import BaseModel

from vmemo.errors import VmemoError
from vmemo.models.auth import ApiKey, AuditEntry
from vmemo.models.base import Name
from vmemo.server import requests
from vmemo.server.dependencies import AnyGuest, House, Ruler
from vmemo.server.paging import Limit
from vmemo.server.paths import ExactRoute
from vmemo.server.problems import Refused
from vmemo.server.responses import LOOKS, WRITES, Page, listed, one_more, paged, problems, record

router = APIRouter(tags=["server"], route_class=ExactRoute)
BankNamed = Annotated[Name | None, Query(description="Only writes to this bank.")]


class Health(BaseModel):
    """That the server answers."""

    status: Literal["ok"] = "ok"


@router.get("/health", response_model=Health)
@router.head("/health", include_in_schema=False)
async def health() -> Response:
    """Whether the process runs; no database is asked."""
    return record(Health())


@router.get("/health/ready", response_model=Health, responses=problems(503))
async def ready(request: Request) -> Response:
    """Whether the database answers, and the server is not shutting down."""
    house: House = request.app.state.house
    try:
        await house.gate.keys()
    except VmemoError as error:
        raise Refused(503, "NotReady", f"The database does not answer: {type(error).__name__}.") from error
    return record(Health())


@router.get("/metrics", response_class=Response, responses={**LOOKS, 200: {"content": {"text/plain": {}}}})
async def metrics(request: Request, guest: AnyGuest) -> Response:
    """What Prometheus reads; where there are keys it takes one with every right to the whole database."""
    guest.demand("admin")
    counted = request.app.state.metrics
    if counted is None:
        raise Refused(501, "MissingExtra", "Metrics need one more package: pip install 'vmemo[metrics]'.")
    return Response(counted.told(), media_type=counted.media)


@router.get("/v1/keys", response_model=Page[ApiKey], responses=LOOKS)
async def keys(ruler: Ruler) -> Response:
    """Every key that was ever made, without its secret."""
    return listed(Page[ApiKey], await ruler.house.gate.keys())


@router.post("/v1/keys", response_model=requests.MadeKey, status_code=201, responses=WRITES)
async def make_key(ruler: Ruler, body: requests.NewKey) -> Response:
    """Make a key; its secret is told this once."""
    made = await ruler.house.gate.create_key(body.name, banks=body.banks, right=body.right, expires_at=body.expires_at)
    return record(requests.MadeKey(id=made[0].id, secret=made[1]), 201)


@router.delete("/v1/keys/{key}", response_model=requests.Named, responses=WRITES)
async def revoke_key(ruler: Ruler, key: Name) -> Response:
    """End a key at once."""
    await ruler.house.gate.revoke(key)
    return record(requests.Named(id=key))


@router.get("/v1/audit", response_model=Page[AuditEntry], responses=LOOKS)
async def audited(
    ruler: Ruler,
    bank: BankNamed = None,
    before: Annotated[int | None, Query(ge=0, le=2**53)] = None,
    limit: Limit = 100,
) -> Response:
    """Writes that came through a door, newest first; `next` is the next page's `before`."""
    banks = None if bank is None else [bank]
    found = await ruler.house.gate.audited(banks=banks, before=before, limit=one_more(limit))
    return paged(Page[AuditEntry], found, limit, lambda write: str(write.id))
