"""How requests of Hindsight's client come into a bank."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated

from fastapi import Depends, Request

from vmemo.models.auth import Permission
from vmemo.server.dependencies import AnyGuest, Visit

PREFIX = "/v1/default"
"""Hindsight's tenant; its client knows no other."""
BANK = f"{PREFIX}/banks/{{bank_id}}"
DOOR = "hindsight"


def _entering(right: Permission, *, makes: bool = False) -> Callable[[Request, AnyGuest, str], Awaitable[Visit]]:
    async def enter(request: Request, guest: AnyGuest, bank_id: str) -> Visit:
        request.state.door, request.state.bank = DOOR, bank_id
        visit = await guest.visit(bank_id, right, creates=makes)
        if right != "read":
            request.state.writes = (DOOR, bank_id)
        return visit

    return enter


async def _arriving(request: Request, guest: AnyGuest, bank_id: str) -> Visit:
    """As in Hindsight, whoever asks a bank that is not there finds an empty one, if the key may make it."""
    request.state.door, request.state.bank = DOOR, bank_id
    guest.demand("read", bank_id)
    memory = guest.house.memory.bank(bank_id)
    if guest.may("write", bank_id) and not await memory.exists():
        request.state.writes = (DOOR, bank_id)
        await memory.open()
    return await guest.visit(bank_id, "read")


Reading = Annotated[Visit, Depends(_entering("read"))]
Arriving = Annotated[Visit, Depends(_arriving)]
Writing = Annotated[Visit, Depends(_entering("write"))]
Making = Annotated[Visit, Depends(_entering("write", makes=True))]
Ruling = Annotated[Visit, Depends(_entering("admin"))]
