"""Routes of banks: making, describing, configuring and deleting them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, ClassVar

from fastapi import APIRouter, Query, Response
from pydantic import Field, JsonValue

from vmemo.errors import InvalidInput
from vmemo.models import Disposition, Profile
from vmemo.server.dependencies import AnyGuest, Visit
from vmemo.server.hindsight import schemas
from vmemo.server.hindsight.dependencies import BANK, PREFIX, Arriving, Making, Reading, Ruling, Writing
from vmemo.server.hindsight.unsupported import Page, Wish, absent, unset
from vmemo.server.paths import ExactRoute
from vmemo.server.responses import record

router = APIRouter(route_class=ExactRoute)
_MISSION = "reflect_mission"
_TRAITS = {f"disposition_{name}": name for name in Disposition.model_fields}
CONFIGURED = (_MISSION, *_TRAITS)
"""What of Hindsight's configuration of a bank there is."""
ALWAYS: Mapping[str, Sequence[object]] = {
    "enable_observations": (True,),
    "enable_text_search": (True,),
    "enable_temporal_retrieval": (True,),
    "enable_graph_retrieval": (True,),
    "enable_reranking": (True,),
    "store_document_text": (True,),
}
"""What is always switched on."""


class NewBank(Wish):
    """A bank to make or to change; what is left out stays. `mission`, `reflect_mission`, `background` are one text."""

    harmless: ClassVar[Mapping[str, Sequence[object]]] = ALWAYS

    name: str | None = None
    mission: str | None = None
    reflect_mission: str | None = None
    background: str | None = None
    disposition: schemas.Traits | None = None
    disposition_skepticism: int | None = None
    disposition_literalism: int | None = None
    disposition_empathy: int | None = None

    def changes(self) -> dict[str, JsonValue]:
        """The fields of a profile that were given, in Hindsight's names for its configuration."""
        texts = {text for text in (self.mission, self.reflect_mission, self.background) if text is not None}
        if len(texts) > 1:
            raise InvalidInput("mission, reflect_mission and background are one text here; give one of them.")
        whole = self.disposition.model_dump() if self.disposition else {}
        traits = {field: whole.get(name) for field, name in _TRAITS.items()}
        own = {field: value for field in _TRAITS if (value := getattr(self, field)) is not None}
        found = {_MISSION: next(iter(texts), None), "name": self.name, **traits, **own}
        return {field: value for field, value in found.items() if value is not None}


class Updates(Wish):
    """Changes of a bank's configuration; null takes one back."""

    updates: dict[str, JsonValue] = Field(max_length=200)

    def changes(self) -> dict[str, JsonValue]:
        """Those that can be honoured; another is refused."""
        named = {name.removeprefix("HINDSIGHT_API_").lower(): value for name, value in self.updates.items()}
        for name, value in named.items():
            if name not in CONFIGURED and not unset(value, ALWAYS.get(name, ())):
                raise absent(name, f"A bank's configuration has {', '.join(CONFIGURED)}.")
        return {name: value for name, value in named.items() if name in CONFIGURED}


class NewTraits(Wish):
    """Another disposition."""

    disposition: schemas.Traits


class MoreBackground(Wish):
    """A piece of background; that the disposition follows from it was given up in Hindsight."""

    harmless: ClassVar[Mapping[str, Sequence[object]]] = {"update_disposition": (True, False)}
    content: str


class BankPage(Page):
    """Some banks; `q` stands in their ids or names."""

    q: str = ""


def changed(profile: Profile, changes: Mapping[str, JsonValue]) -> Profile:
    """A profile with other values in Hindsight's names; null is the default."""
    plain = Profile()
    traits = profile.disposition.model_dump()
    for field, name in _TRAITS.items():
        if field in changes:
            value = changes[field]
            traits[name] = getattr(plain.disposition, name) if value is None else value
    values = {**profile.model_dump(), "disposition": Disposition.of(traits)}
    if _MISSION in changes:
        values["background"] = changes[_MISSION] or ""
    if "name" in changes:
        values["name"] = changes["name"]
    return Profile.of(values)


async def _change(visit: Visit, changes: Mapping[str, JsonValue]) -> Profile:
    now = await visit.memory.profile()
    return await visit.memory.profile(changed(now, changes)) if changes else now


@router.get(f"{PREFIX}/banks")
async def listed(guest: AnyGuest, page: Annotated[BankPage, Query()]) -> Response:
    """The banks that the key reaches."""
    memory, wanted = guest.house.memory, page.q.casefold()
    seen = [
        bank
        for bank in await memory.lookup.banks()
        if guest.may("read", bank.id) and (wanted in bank.id.casefold() or wanted in bank.profile.name.casefold())
    ]
    items = [
        schemas.BankItem(
            bank_id=bank.id,
            name=bank.profile.name,
            disposition=schemas.Traits.of(bank.profile),
            mission=bank.profile.background,
            created_at=bank.created_at.isoformat(),
            fact_count=(await memory.bank(bank.id).status()).facts,
        )
        for bank in page.of(seen)
    ]
    return record(schemas.Banks(banks=items, total=len(seen), limit=page.limit, offset=page.offset))


@router.put(BANK)
async def make(visit: Making, body: NewBank | None = None) -> Response:
    """Make a bank unless it is there, and change what is given."""
    changes = body.changes() if body else {}
    changed(Profile(), changes)
    await visit.memory.open()
    return record(schemas.BankProfile.of(visit.bank, await _change(visit, changes)))


@router.patch(BANK)
async def change(visit: Writing, body: NewBank) -> Response:
    """Change what is given."""
    return record(schemas.BankProfile.of(visit.bank, await _change(visit, body.changes())))


@router.delete(BANK)
async def delete(visit: Ruling) -> Response:
    """Forget the whole bank."""
    gone = await visit.memory.forget(bank=True)
    return record(schemas.Deleted(message=f"Bank {visit.bank!r} is forgotten.", deleted_count=gone.facts))


@router.get(f"{BANK}/profile")
async def profile(visit: Arriving) -> Response:
    """The bank's character."""
    return record(schemas.BankProfile.of(visit.bank, await visit.memory.profile()))


@router.put(f"{BANK}/profile")
async def set_traits(visit: Writing, body: NewTraits) -> Response:
    """Give the bank another disposition."""
    traits = {f"disposition_{name}": value for name, value in body.disposition.model_dump().items()}
    return record(schemas.BankProfile.of(visit.bank, await _change(visit, traits)))


@router.post(f"{BANK}/background")
async def add_background(visit: Writing, body: MoreBackground) -> Response:
    """Work a piece of background into the bank's. This needs a language model."""
    now = await visit.memory.add_background(body.content)
    text = now.background
    return record(schemas.Background(mission=text, background=text, disposition=schemas.Traits.of(now)))


@router.get(f"{BANK}/config")
async def config(visit: Reading) -> Response:
    """What of the bank can be configured."""
    return record(_config(visit.bank, await visit.memory.profile()))


@router.patch(f"{BANK}/config")
async def update_config(visit: Writing, body: Updates) -> Response:
    """Change what can be configured."""
    return record(_config(visit.bank, await _change(visit, body.changes())))


@router.delete(f"{BANK}/config")
async def reset_config(visit: Writing) -> Response:
    """Take all changes back; the bank's name stays."""
    return record(_config(visit.bank, await _change(visit, dict.fromkeys(CONFIGURED))))


def _config(bank: str, profile: Profile) -> schemas.Config:
    now, plain = _values(profile), _values(Profile())
    return schemas.Config(bank_id=bank, config=now, overrides={k: v for k, v in now.items() if v != plain[k]})


def _values(profile: Profile) -> dict[str, JsonValue]:
    traits: dict[str, JsonValue] = {field: getattr(profile.disposition, name) for field, name in _TRAITS.items()}
    return {_MISSION: profile.background or None, **traits}
