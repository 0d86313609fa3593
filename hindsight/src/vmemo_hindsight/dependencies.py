"""FastAPI dependencies that open a bank for Hindsight's client."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated

from fastapi import Depends, Request

from vmemo.models.records import Permission
from vmemo_server.dependencies import AnyPrincipal, RequestSession, begin_write, open_session

PREFIX = "/v1/default"
"""Hindsight's tenant; its client uses no other."""
BANK = f"{PREFIX}/banks/{{bank_id}}"


def _bank(
    permission: Permission, *, create: bool = False
) -> Callable[[Request, AnyPrincipal, str], Awaitable[RequestSession]]:
    async def dependency(request: Request, principal: AnyPrincipal, bank_id: str) -> RequestSession:
        return await open_session(request, principal, bank_id, permission, create=create, interface="hindsight")

    return dependency


async def _read_or_create(request: Request, principal: AnyPrincipal, bank_id: str) -> RequestSession:
    """Open a bank for reading; as in Hindsight, create it if it does not exist and the key may write."""
    create = principal.allows("write", bank_id)
    session = await open_session(request, principal, bank_id, "read", create=create, interface="hindsight")
    if create and not await session.memory.exists():
        await begin_write(request, "hindsight", bank_id)
        await session.memory.open()
    return session


ReadBank = Annotated[RequestSession, Depends(_bank("read"))]
ReadOrCreateBank = Annotated[RequestSession, Depends(_read_or_create)]
WriteBank = Annotated[RequestSession, Depends(_bank("write"))]
CreateBank = Annotated[RequestSession, Depends(_bank("write", create=True))]
AdminBank = Annotated[RequestSession, Depends(_bank("admin"))]
