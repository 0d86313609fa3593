"""Routes that create, configure and delete banks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, ClassVar

from fastapi import APIRouter, Query, Request, Response
from pydantic import Field, JsonValue

from vmemo.errors import InvalidInput
from vmemo.models import Disposition, Profile
from vmemo_hindsight import schemas
from vmemo_hindsight.dependencies import (
    BANK,
    PREFIX,
    AdminBank,
    CreateBank,
    ReadBank,
    ReadOrCreateBank,
    WriteBank,
)
from vmemo_hindsight.schemas import HindsightRequest, OffsetPage, is_unset, unsupported_option
from vmemo_server.dependencies import AnyPrincipal, AppState, RequestSession
from vmemo_server.paths import ExactRoute
from vmemo_server.responses import record

router = APIRouter(include_in_schema=False, route_class=ExactRoute)
_MISSION = "reflect_mission"
_TRAITS = {f"disposition_{name}": name for name in Disposition.model_fields}
SUPPORTED_FIELDS = (_MISSION, *_TRAITS)
"""The fields of Hindsight's bank configuration that vmemo supports."""
ALWAYS_ON: Mapping[str, Sequence[object]] = {
    "enable_observations": (True,),
    "enable_text_search": (True,),
    "enable_temporal_retrieval": (True,),
    "enable_graph_retrieval": (True,),
    "enable_reranking": (True,),
    "store_document_text": (True,),
}
"""Features that can't be switched off."""


class BankUpdate(HindsightRequest):
    """A bank to create or change. `mission`, `reflect_mission` and `background` are the same text here."""

    harmless: ClassVar[Mapping[str, Sequence[object]]] = ALWAYS_ON

    name: str | None = None
    mission: str | None = None
    reflect_mission: str | None = None
    background: str | None = None
    disposition: schemas.DispositionTraits | None = None
    disposition_skepticism: int | None = None
    disposition_literalism: int | None = None
    disposition_empathy: int | None = None

    def changes(self) -> dict[str, JsonValue]:
        """Return the given fields by their names in Hindsight's configuration."""
        texts = {text for text in (self.mission, self.reflect_mission, self.background) if text is not None}
        if len(texts) > 1:
            raise InvalidInput("mission, reflect_mission and background are the same text here; send one of them.")
        whole = self.disposition.model_dump() if self.disposition else {}
        traits = {field: whole.get(name) for field, name in _TRAITS.items()}
        own = {field: value for field in _TRAITS if (value := getattr(self, field)) is not None}
        found = {_MISSION: next(iter(texts), None), "name": self.name, **traits, **own}
        return {field: value for field, value in found.items() if value is not None}


class ConfigUpdate(HindsightRequest):
    """Changes of a bank's configuration; null restores the default."""

    updates: dict[str, JsonValue] = Field(max_length=200)

    def changes(self) -> dict[str, JsonValue]:
        """Return the supported fields; raise a problem for any other."""
        named = {name.removeprefix("HINDSIGHT_API_").lower(): value for name, value in self.updates.items()}
        for name, value in named.items():
            if name not in SUPPORTED_FIELDS and not is_unset(value, ALWAYS_ON.get(name, ())):
                raise unsupported_option(name, f"A bank's configuration has {', '.join(SUPPORTED_FIELDS)}.")
        return {name: value for name, value in named.items() if name in SUPPORTED_FIELDS}


class DispositionUpdate(HindsightRequest):
    """A new disposition."""

    disposition: schemas.DispositionTraits


class BackgroundUpdate(HindsightRequest):
    """A text to merge into the background; `update_disposition` has no effect, as in Hindsight today."""

    harmless: ClassVar[Mapping[str, Sequence[object]]] = {"update_disposition": (True, False)}
    content: str


class BankListRequest(OffsetPage):
    """Query of a list of banks; `q` matches part of their ids or names."""

    q: str = ""


def apply_changes(profile: Profile, changes: Mapping[str, JsonValue]) -> Profile:
    """Return a profile with changed fields of Hindsight's configuration; null restores the default."""
    default = Profile()
    traits = profile.disposition.model_dump()
    for field, name in _TRAITS.items():
        if field in changes:
            value = changes[field]
            traits[name] = getattr(default.disposition, name) if value is None else value
    values = {**profile.model_dump(), "disposition": Disposition.of(traits)}
    if _MISSION in changes:
        values["background"] = changes[_MISSION] or ""
    if "name" in changes:
        values["name"] = changes["name"]
    return Profile.of(values)


async def _update(session: RequestSession, changes: Mapping[str, JsonValue]) -> Profile:
    current = await session.memory.profile()
    return await session.memory.profile(apply_changes(current, changes)) if changes else current


@router.get(f"{PREFIX}/banks")
async def list_banks(
    request: Request, principal: AnyPrincipal, options: Annotated[BankListRequest, Query()]
) -> Response:
    """List the banks that the key may read."""
    memory, part = AppState.of(request).memory, options.q.casefold()
    found = [
        bank
        for bank in await memory.store.banks()
        if principal.allows("read", bank.id) and (part in bank.id.casefold() or part in bank.profile.name.casefold())
    ]
    items = [
        schemas.BankItem(
            bank_id=bank.id,
            name=bank.profile.name,
            disposition=schemas.DispositionTraits.of(bank.profile),
            mission=bank.profile.background,
            created_at=bank.created_at.isoformat(),
            fact_count=(await memory.bank(bank.id).status()).facts,
        )
        for bank in options.of(found)
    ]
    return record(schemas.BankList(banks=items, total=len(found), limit=options.limit, offset=options.offset))


@router.put(BANK)
async def create(session: CreateBank, body: BankUpdate | None = None) -> Response:
    """Create a bank if it does not exist, and change the given fields."""
    changes = body.changes() if body else {}
    # Invalid values must not leave an empty bank.
    apply_changes(Profile(), changes)
    await session.memory.open()
    return record(schemas.BankProfile.of(session.bank, await _update(session, changes)))


@router.patch(BANK)
async def update(session: WriteBank, body: BankUpdate) -> Response:
    """Change the given fields."""
    return record(schemas.BankProfile.of(session.bank, await _update(session, body.changes())))


@router.delete(BANK)
async def delete(session: AdminBank) -> Response:
    """Delete the whole bank."""
    async with session.erasing():
        deleted = await session.memory.forget(bank=True)
    return record(schemas.DeleteResponse(message=f"Deleted bank {session.bank!r}.", deleted_count=deleted.facts))


@router.get(f"{BANK}/profile")
async def profile(session: ReadOrCreateBank) -> Response:
    """Return the bank's profile."""
    return record(schemas.BankProfile.of(session.bank, await session.memory.profile()))


@router.put(f"{BANK}/profile")
async def set_disposition(session: WriteBank, body: DispositionUpdate) -> Response:
    """Replace the bank's disposition."""
    traits = {f"disposition_{name}": value for name, value in body.disposition.model_dump().items()}
    return record(schemas.BankProfile.of(session.bank, await _update(session, traits)))


@router.post(f"{BANK}/background")
async def add_background(session: WriteBank, body: BackgroundUpdate) -> Response:
    """Merge a text into the bank's background; this needs a language model."""
    updated = await session.memory.add_background(body.content)
    traits = schemas.DispositionTraits.of(updated)
    return record(
        schemas.BackgroundResponse(mission=updated.background, background=updated.background, disposition=traits)
    )


@router.get(f"{BANK}/config")
async def config(session: ReadBank) -> Response:
    """Return the bank's configuration."""
    return record(_config(session.bank, await session.memory.profile()))


@router.patch(f"{BANK}/config")
async def update_config(session: WriteBank, body: ConfigUpdate) -> Response:
    """Change the bank's configuration."""
    return record(_config(session.bank, await _update(session, body.changes())))


@router.delete(f"{BANK}/config")
async def reset_config(session: WriteBank) -> Response:
    """Restore the default configuration; the bank keeps its name."""
    return record(_config(session.bank, await _update(session, dict.fromkeys(SUPPORTED_FIELDS))))


def _config(bank: str, profile: Profile) -> schemas.BankConfig:
    current, default = _values(profile), _values(Profile())
    overrides = {name: value for name, value in current.items() if value != default[name]}
    return schemas.BankConfig(bank_id=bank, config=current, overrides=overrides)


def _values(profile: Profile) -> dict[str, JsonValue]:
    traits: dict[str, JsonValue] = {field: getattr(profile.disposition, name) for field, name in _TRAITS.items()}
    return {_MISSION: profile.background or None, **traits}
