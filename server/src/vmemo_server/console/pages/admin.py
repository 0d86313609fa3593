"""API keys and the audit log, for administrators of every bank."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from vmemo.models.base import Name
from vmemo.models.requests import CreateKeyRequest
from vmemo_server.console.dependencies import AdminPage, ServerForm
from vmemo_server.console.flash import redirect
from vmemo_server.console.render import is_fragment, path_to, render
from vmemo_server.console.route import ConsoleRoute
from vmemo_server.dependencies import AppState

router = APIRouter(include_in_schema=False, prefix="/console", route_class=ConsoleRoute)
PAGE = 100


@router.get("/keys")
async def keys(request: Request, principal: AdminPage) -> Response:
    """List every API key, newest first."""
    found = await AppState.of(request).auth.keys()
    return render(request, "keys.html", {"keys": found[::-1], "secret": None})


@router.post("/keys")
async def create_key(request: Request, form: ServerForm) -> Response:
    """Create a key and show its secret once."""
    banks = tuple(part.strip() for part in form.text("banks").split(",") if part.strip()) or ("*",)
    values = {"name": form.text("name"), "banks": banks, "permission": form.text("permission", "read")}
    body = CreateKeyRequest.of({**values, "expires_at": form.optional("expires_at")})
    auth = AppState.of(request).auth
    _, secret = await auth.create_key(
        body.name, banks=body.banks, permission=body.permission, expires_at=body.expires_at
    )
    return render(request, "keys.html", {"keys": (await auth.keys())[::-1], "secret": secret})


@router.post("/keys/{key}/revoke")
async def revoke_key(request: Request, form: ServerForm, key: Name) -> Response:
    """Revoke a key at once."""
    await AppState.of(request).auth.revoke(key)
    return redirect(path_to("keys"), "revoked")


@router.get("/audit")
async def audit_log(request: Request, principal: AdminPage, bank: str = "", before: int | None = None) -> Response:
    """List the writes of all interfaces, newest first."""
    auth = AppState.of(request).auth
    banks = [bank.strip()] if bank.strip() else None
    found = await auth.audit_entries(banks=banks, before=before, limit=PAGE + 1)
    values = {
        "entries": found[:PAGE],
        "names": {key.id: key.name for key in await auth.keys()},
        "more": found[PAGE - 1].id if len(found) > PAGE else None,
        "only": bank,
    }
    return render(request, "audit_rows.html" if is_fragment(request) else "audit.html", values)
