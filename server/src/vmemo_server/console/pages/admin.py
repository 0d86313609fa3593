"""Sign-in and sign-out, API keys and the audit log, and benchmark reports."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import cast

import anyio.to_thread
from fastapi import Request, Response
from fastapi.responses import FileResponse, RedirectResponse

from vmemo.errors import InvalidInput, NotFound
from vmemo.models.records import Name
from vmemo.models.requests import CreateKeyRequest
from vmemo_server.console.dependencies import AdminPage, ServerForm, SignedIn
from vmemo_server.console.render import is_fragment, path_to, redirect, render
from vmemo_server.console.route import console_router
from vmemo_server.console.session import browser_token, checked_form, replace_token
from vmemo_server.dependencies import AppState
from vmemo_server.errors import Unauthenticated
from vmemo_server.problems import HttpProblem

router = console_router()
MAX_BODY = 8192
"""Bytes of the form, which is read before anybody is authenticated."""
MAX_NEXT = 2000
"""Characters of the address to continue with; the form encodes each in at most 3 bytes."""


@router.get("/sign-in")
async def form(request: Request, next: str = "") -> Response:
    return render(request, "sign_in.html", {"next": _local(next), "problem": ""})


@router.post("/sign-in")
async def sign_in(request: Request) -> Response:
    """Begin a session of an API key."""
    _check_size(request)
    form = await checked_form(request)
    secret, back = form.text("key").strip(), _local(form.text("next"))
    try:
        principal = await AppState.of(request).access.authenticate(secret or None)
    except Unauthenticated:
        problem = "This is not an active API key." if secret else "Enter an API key."
        return render(request, "sign_in.html", {"next": back, "problem": problem}, 401)
    if principal.key_id is not None:
        replace_token(request, await AppState.of(request).auth.begin_session(principal.key_id))
    return RedirectResponse(back or path_to(), 303)


@router.post("/sign-out")
async def sign_out(request: Request) -> Response:
    """End the session, and give the browser a token of none."""
    _check_size(request)
    await checked_form(request)
    await AppState.of(request).auth.end_session(browser_token(request))
    replace_token(request)
    return RedirectResponse(path_to("sign-in"), 303)


def _check_size(request: Request) -> None:
    length = request.headers.get("content-length", "")
    if not length.isdecimal() or int(length) > MAX_BODY:
        raise HttpProblem(413, "ContentTooLarge", f"A sign-in has at most {MAX_BODY:,} bytes.")


def _local(next: str) -> str:
    """Return the page to continue with, and its query, if it is one of this console and fits into the form."""
    own = next.startswith(("/console/", "/console?")) and "\\" not in next and next.isprintable()
    return next if own and len(next) <= MAX_NEXT else ""


ENTRIES = 100


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
    await AppState.of(request).auth.revoke(key)
    return redirect(path_to("keys"), "revoked")


@router.get("/audit")
async def audit_log(request: Request, principal: AdminPage, bank: str = "", before: int | None = None) -> Response:
    """List the writes of all interfaces, newest first."""
    auth = AppState.of(request).auth
    banks = [bank.strip()] if bank.strip() else None
    found = await auth.audit_entries(banks=banks, before=before, limit=ENTRIES + 1)
    values = {
        "entries": found[:ENTRIES],
        "names": {key.id: key.name for key in await auth.keys()},
        "more": found[ENTRIES - 1].id if len(found) > ENTRIES else None,
        "only": bank,
    }
    return render(request, "audit_rows.html" if is_fragment(request) else "audit.html", values)


SUFFIXES = (".json", ".html")
MAX_FILES = 500
MAX_BYTES = 5_000_000
"""Size of a JSON report that is shown as a table."""
MAX_VALUES = 2000
_SANDBOX = (
    "sandbox allow-scripts; default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:; "
    "form-action 'none'; base-uri 'none'; frame-ancestors 'none'"
)
"""An HTML report has its own scripts and styles: it runs without the console's origin and reaches no host."""


@router.get("/reports")
async def reports(request: Request, principal: SignedIn) -> Response:
    """List the reports, newest first."""
    folder: Path | None = request.app.state.reports
    values = {"reports": await anyio.to_thread.run_sync(_files, folder), "folder": folder}
    return render(request, "reports.html", values)


@router.get("/reports/{name}")
async def report(request: Request, principal: SignedIn, name: Name) -> Response:
    folder: Path | None = request.app.state.reports
    # Only names of the listing: no path leads out of the folder.
    if folder is None or name not in await anyio.to_thread.run_sync(_files, folder):
        raise NotFound(f"There is no report {name!r:.80}.")
    path = folder / name
    if path.suffix == ".html":
        return FileResponse(path, media_type="text/html", headers={"content-security-policy": _SANDBOX})
    values = await anyio.to_thread.run_sync(_values, path)
    return render(request, "report.html", {"name": name, "values": values[:MAX_VALUES], "count": len(values)})


def _files(folder: Path | None) -> dict[str, tuple[int, datetime]]:
    """Return the sizes and times of the reports by name, newest first."""
    if folder is None or not folder.is_dir():
        return {}
    stats = [(path.name, path.stat()) for path in folder.iterdir() if path.suffix in SUFFIXES and path.is_file()]
    stats.sort(key=lambda each: each[1].st_mtime, reverse=True)
    return {name: (stat.st_size, datetime.fromtimestamp(stat.st_mtime, UTC)) for name, stat in stats[:MAX_FILES]}


def _values(path: Path) -> list[tuple[str, str]]:
    if path.stat().st_size > MAX_BYTES:
        raise InvalidInput(f"The report is larger than {MAX_BYTES:,} bytes; open the file itself.")
    try:
        content: object = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise InvalidInput("The file is not valid JSON.") from error
    return list(_flat("", content))


def _flat(prefix: str, value: object) -> Iterator[tuple[str, str]]:
    """Yield the values of nested objects with their paths."""
    if isinstance(value, dict):
        for name, inner in cast("dict[str, object]", value).items():
            yield from _flat(f"{prefix}.{name}" if prefix else name, inner)
    else:
        shown = f"{value:.4g}" if isinstance(value, float) else json.dumps(value)[:400]
        yield prefix, value if isinstance(value, str) else shown
