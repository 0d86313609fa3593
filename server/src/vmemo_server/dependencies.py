"""Server state and the FastAPI dependencies that authorize requests."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Annotated, TypeVar

from fastapi import Depends, Header, Request, Response, Security
from fastapi.security import APIKeyHeader, HTTPBearer

from vmemo import Memory
from vmemo.errors import InvalidInput
from vmemo.models.records import BankId, Permission
from vmemo.models.requests import DeleteFactRequest, ForgetContentRequest, MaintainRequest, Returns
from vmemo.ports import Store
from vmemo_server.auth import AccessControl, Limits, Principal
from vmemo_server.errors import Unauthenticated
from vmemo_server.idempotency import StoredResponse, run_once
from vmemo_server.problems import request_id
from vmemo_server.state import AuditEntry, IdempotentRequest, Interface, ServerState

REPLAYED = "Idempotent-Replayed"
R = TypeVar("R")
ERASING = (ForgetContentRequest, DeleteFactRequest, MaintainRequest)
"""Requests that delete text of a bank."""


@dataclass(eq=False)
class AppState:
    """The memory that a server offers, and its access control.

    `keyless` accepts requests without a key until the first key is created; use it on the local machine only.
    """

    memory: Memory
    keyless: bool
    limits: Limits = field(default_factory=Limits)
    access: AccessControl = field(init=False)

    def __post_init__(self) -> None:
        self.access = AccessControl(state=ServerState(self.memory.store), keyless=self.keyless, limits=self.limits)

    @property
    def auth(self) -> ServerState:
        """The API keys, the audit log and the idempotent responses."""
        return self.access.state

    @staticmethod
    def of(request: Request) -> AppState:
        """Return the state of the application that a request came to."""
        return request.app.state.vmemo


@dataclass(frozen=True)
class RequestSession:
    """The principal, bank and memory of one request."""

    principal: Principal
    bank: BankId
    memory: Memory
    state: ServerState

    @property
    def store(self) -> Store:
        return self.memory.store

    def erasing(self) -> AbstractAsyncContextManager[None]:
        """Delete stored responses about the bank while text of it is deleted."""
        return self.state.erasing(self.bank)

    async def run(self, request: Returns[R]) -> R:
        """Execute a request; one that deletes text also deletes stored responses."""
        if type(request) not in ERASING:
            return await self.memory.run(request)
        async with self.erasing():
            return await self.memory.run(request)


def secret_of(request: Request) -> str | None:
    """Return the API key that a request carries, or None; raise Unauthenticated for another scheme."""
    scheme, _, secret = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer" and secret.strip():
        return secret.strip()
    if scheme:
        raise Unauthenticated("Send the API key as Authorization: Bearer vmemo_…")
    return request.headers.get("x-api-key") or None


async def authenticate(request: Request) -> Principal:
    """Return the principal of a request and count the request against its rate limit, both once."""
    principal: Principal | None = getattr(request.state, "principal", None)
    if principal is None:
        principal = await AppState.of(request).access.authenticate(secret_of(request))
        request.state.principal = principal
    return principal


_BEARER = HTTPBearer(
    scheme_name="bearer",
    description="A key created with `vmemo keys create`. A server on the local machine requires none until the first "
    "one is created.",
    auto_error=False,
)
_HEADER = APIKeyHeader(name="X-Api-Key", scheme_name="header", description="The same key.", auto_error=False)


async def _documented(
    principal: Annotated[Principal, Depends(authenticate)],
    _bearer: Annotated[object, Security(_BEARER)],
    _header: Annotated[object, Security(_HEADER)],
) -> Principal:
    """Add the security schemes to the OpenAPI description."""
    return principal


AnyPrincipal = Annotated[Principal, Depends(_documented)]


async def open_session(
    request: Request,
    principal: Principal,
    bank: str,
    permission: Permission,
    *,
    create: bool = False,
    interface: Interface = "rest",
) -> RequestSession:
    """Open a bank for a request, and write the audit entry of a write."""
    request.state.interface, request.state.bank = interface, bank
    memory = await principal.open_bank(AppState.of(request).memory, bank, permission, create=create)
    if permission != "read" and request.method not in ("GET", "HEAD"):
        await begin_write(request, interface, bank)
    return RequestSession(principal, memory.name, memory, AppState.of(request).auth)


async def begin_write(request: Request, interface: Interface, bank: str | None) -> None:
    """Write an audit entry before a request changes anything; AuditMiddleware completes it."""
    principal: Principal = request.state.principal
    path = getattr(request.scope.get("route"), "path", request.url.path)
    entry = AuditEntry(
        key=principal.key_id,
        interface=interface,
        verb=f"{request.method} {path}",
        bank=bank,
        request=request_id(request),
    )
    request.state.audit_entry = await AppState.of(request).access.state.begin_write(entry)


def _bank(
    permission: Permission, *, create: bool = False
) -> Callable[[Request, AnyPrincipal, str], Awaitable[RequestSession]]:
    async def dependency(request: Request, principal: AnyPrincipal, bank: str) -> RequestSession:
        return await open_session(request, principal, bank, permission, create=create)

    return dependency


async def _searched_bank(request: Request, principal: AnyPrincipal, bank: str) -> RequestSession:
    request.state.interface, request.state.bank = "rest", bank
    state = AppState.of(request)
    return RequestSession(principal, BankId(bank), await principal.open_for_search(state.memory, bank), state.auth)


SearchBank = Annotated[RequestSession, Depends(_searched_bank)]
"""A bank that is read by a verb which raises NotFound if it does not exist."""
ReadBank = Annotated[RequestSession, Depends(_bank("read"))]
WriteBank = Annotated[RequestSession, Depends(_bank("write"))]
CreateBank = Annotated[RequestSession, Depends(_bank("write", create=True))]
AdminBank = Annotated[RequestSession, Depends(_bank("admin"))]
ImportBank = Annotated[RequestSession, Depends(_bank("admin", create=True))]
DeleteBank = Annotated[RequestSession, Depends(_bank("admin", create=True))]
"""A bank that an earlier request with the same idempotency key may have deleted."""


async def _admin(request: Request, principal: AnyPrincipal) -> Principal:
    principal.require("admin")
    if request.method not in ("GET", "HEAD"):
        await begin_write(request, "rest", None)
    return principal


AdminPrincipal = Annotated[Principal, Depends(_admin)]
"""A principal with admin permission for every bank."""


@dataclass(frozen=True)
class Idempotency:
    """The Idempotency-Key header of a request."""

    request: Request
    key: str | None

    async def run(
        self,
        session: RequestSession,
        request: Returns[R],
        respond: Callable[[R], Response],
        *,
        has_effect: Callable[[R], bool] = lambda _: True,
    ) -> Response:
        """Execute a write; if it was sent before with the same key, return the stored response instead."""
        return await self.execute(session, lambda _: session.run(request), respond, has_effect=has_effect)

    async def execute(
        self,
        session: RequestSession,
        execute: Callable[[IdempotentRequest | None], Awaitable[R]],
        respond: Callable[[R], Response],
        *,
        content: bytes | None = None,
        has_effect: Callable[[R], bool] = lambda _: True,
    ) -> Response:
        """Call a function, whose repetition must be harmless, or return the stored response.

        `content` stands for a body that was read already. A result without an effect is not stored.
        """
        if self.key is None:
            return respond(await execute(None))
        fingerprint = self._fingerprint(await self.request.body() if content is None else content)
        same = IdempotentRequest(owner=session.principal.name, key=self.key, fingerprint=fingerprint, bank=session.bank)

        async def execute_claimed() -> StoredResponse:
            result = await execute(same)
            response = respond(result)
            body = bytes(response.body).decode("utf-8")
            return StoredResponse(response.status_code, body, has_effect=has_effect(result))

        stored = await run_once(session.state, same, execute_claimed)
        headers = {REPLAYED: "true"} if stored.replayed else {}
        return Response(stored.body, stored.status, headers, "application/json")

    def _fingerprint(self, content: bytes) -> str:
        """Hash the request as it was sent: two paths may differ in nothing but an encoded slash."""
        scope = self.request.scope
        target: bytes = scope.get("raw_path") or scope["path"].encode()
        head = b" ".join((self.request.method.encode(), target, scope["query_string"]))
        return sha256(head + b"\n" + content).hexdigest()


async def _idempotency(
    request: Request,
    idempotency_key: Annotated[
        str | None, Header(max_length=255, description="Requests with the same key run once.")
    ] = None,
) -> Idempotency:
    if idempotency_key is not None and not idempotency_key.strip():
        raise InvalidInput("An Idempotency-Key must not be blank.")
    return Idempotency(request, idempotency_key)


Idempotent = Annotated[Idempotency, Depends(_idempotency)]
