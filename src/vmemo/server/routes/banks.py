"""Routes of banks themselves: making, describing, carrying and deleting them."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Annotated

import anyio
from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import FileResponse
from starlette.background import BackgroundTask

from vmemo.errors import InvalidInput
from vmemo.models import FormerProfile, Profile
from vmemo.models.base import Text
from vmemo.models.results import Forgotten, Status
from vmemo.server import requests
from vmemo.server.dependencies import AnyGuest, Founding, Making, Reading, Ruling, Token, Visit, Writing
from vmemo.server.paging import Cursor, Limit
from vmemo.server.paths import ExactRoute
from vmemo.server.responses import LOOKS, MODELS, WRITES, Page, listed, one_more, paged, record, recorded

router = APIRouter(prefix="/v1/banks", tags=["banks"], route_class=ExactRoute)
_LINES = "application/x-ndjson"
Prefix = Annotated[Text, Query(max_length=512, description="Only banks whose names begin so.")]


@router.get("", name="list", response_model=Page[str], responses=LOOKS)
async def banks(guest: AnyGuest, prefix: Prefix = "", cursor: Cursor = None, limit: Limit = 100) -> Response:
    """Names of the banks that the key reaches, in order."""
    names = [name for name in await guest.house.memory.banks() if name.startswith(prefix) and guest.may("read", name)]
    rest = [name for name in names if cursor is None or name > cursor]
    return paged(Page[str], rest[: one_more(limit)], limit, str)


@router.put("/{bank}", response_model=Status, responses=WRITES)
async def make(request: Request, visit: Making, token: Token, body: requests.NewProfile | None = None) -> Response:
    """Make a bank unless it is there; with a profile it gets that."""
    return await visit.once(request, token, lambda: _make(visit, body))


async def _make(visit: Visit, body: requests.NewProfile | None) -> Response:
    await visit.memory.open()
    if body is not None:
        await visit.memory.profile(body.profile())
    return record(await visit.memory.status())


@router.get("/{bank}", response_model=Status, responses=LOOKS)
async def status(visit: Reading) -> Response:
    """What the bank holds, what is unread, and which errors keep it so."""
    return record(await visit.memory.status())


@router.delete("/{bank}", response_model=Forgotten, responses=WRITES)
async def delete(visit: Ruling) -> Response:
    """Forget the whole bank."""
    return record(await visit.memory.forget(bank=True))


@router.get("/{bank}/profile", response_model=Profile, responses=LOOKS)
async def profile(visit: Reading) -> Response:
    """The bank's character."""
    return record(await visit.memory.profile())


@router.put("/{bank}/profile", response_model=Profile, responses=WRITES)
async def set_profile(request: Request, visit: Writing, body: requests.NewProfile, token: Token) -> Response:
    """Give the bank another character; the one before stays in its history."""
    return await visit.once(request, token, lambda: recorded(visit.memory.profile(body.profile())))


@router.get("/{bank}/profile/history", response_model=Page[FormerProfile], responses=LOOKS)
async def former_profiles(visit: Reading) -> Response:
    """The profiles that the bank had before, oldest first."""
    return listed(Page[FormerProfile], await visit.memory.former_profiles())


@router.post("/{bank}/profile/background", response_model=Profile, responses=MODELS)
async def add_background(request: Request, visit: Writing, body: requests.MoreBackground, token: Token) -> Response:
    """Work a new piece of background into the profile's. This needs a language model."""
    return await visit.once(request, token, lambda: recorded(visit.memory.add_background(body.snippet)))


@router.get(
    "/{bank}/export",
    responses={**LOOKS, 200: {"content": {_LINES: {}}, "description": "The bank, a record a line"}},
    response_class=Response,
)
async def export(visit: Reading) -> Response:
    """The whole bank as JSON Lines, vectors included."""
    folder = tempfile.TemporaryDirectory()
    file = Path(folder.name) / "bank.jsonl"
    try:
        await visit.memory.export(file)
    except BaseException:
        folder.cleanup()
        raise
    return FileResponse(file, media_type=_LINES, background=BackgroundTask(folder.cleanup))


@router.post(
    "/{bank}/import",
    response_model=Status,
    responses=WRITES,
    openapi_extra={"requestBody": {"required": True, "content": {_LINES: {"schema": {"type": "string"}}}}},
)
async def import_bank(request: Request, visit: Founding) -> Response:
    """Load an exported bank under a name that is free, whole or not at all."""
    with tempfile.TemporaryDirectory() as folder:
        file = anyio.Path(folder) / "bank.jsonl"
        await _save(request.stream(), file)
        try:
            await visit.memory.import_bank(Path(file))
        except InvalidInput as error:
            # Where the body lay in the meantime concerns nobody.
            raise InvalidInput(str(error).replace(str(file), "The body")) from error
    return record(await visit.memory.status())


async def _save(body: AsyncGenerator[bytes], file: anyio.Path) -> None:
    async with await file.open("wb") as to:
        async for piece in body:
            await to.write(piece)
