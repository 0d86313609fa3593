"""Resources: the list of banks, each bank's status and profile, and single facts."""

from __future__ import annotations

from urllib.parse import quote, unquote

import mcp_types as wire
from pydantic import BaseModel

from vmemo.errors import NotFound
from vmemo.models import Fact, Profile
from vmemo.models.results import Status
from vmemo_server.mcp.caller import ToolCaller
from vmemo_server.mcp.render import NOTICE

BANKS = "vmemo://banks"
_JSON = "application/json"
_MAX_LISTED = 100
"""Banks listed as resources; the template reaches the rest."""


class BankNames(BaseModel):
    """Names of banks."""

    banks: list[str]
    default: str | None


class BankResource(BaseModel):
    """A bank's status and profile."""

    status: Status
    profile: Profile


class FactResource(BaseModel):
    """A fact, with the notice that it is data."""

    notice: str = NOTICE
    fact: Fact


TEMPLATES = (
    wire.ResourceTemplate(
        name="bank",
        title="A bank",
        uri_template=f"{BANKS}/{{bank}}",
        description="A bank's counts, pending messages and profile.",
        mime_type=_JSON,
    ),
    wire.ResourceTemplate(
        name="fact",
        title="A fact",
        uri_template=f"{BANKS}/{{bank}}/facts/{{id}}",
        description="One remembered fact, opinion or observation by its id.",
        mime_type=_JSON,
    ),
)


def uri_of(bank: str) -> str:
    return f"{BANKS}/{quote(bank, safe='')}"


async def list_resources(caller: ToolCaller) -> list[wire.Resource]:
    banks = wire.Resource(
        name="banks", title="Banks", uri=BANKS, description="Names of the banks of this connection.", mime_type=_JSON
    )
    names = (await caller.banks())[:_MAX_LISTED]
    return [banks, *(wire.Resource(name=name, uri=uri_of(name), mime_type=_JSON) for name in names)]


async def read(caller: ToolCaller, uri: str) -> wire.TextResourceContents:
    found = await _find(caller, uri)
    text = found.model_dump_json(exclude_none=True, exclude={"fact": {"embedding"}})
    return wire.TextResourceContents(uri=uri, mime_type=_JSON, text=text)


async def _find(caller: ToolCaller, uri: str) -> BaseModel:
    if uri == BANKS:
        return BankNames(banks=await caller.banks(), default=caller.principal.default_bank)
    match [unquote(part) for part in uri.removeprefix(f"{BANKS}/").split("/")]:
        case [bank] if bank and uri.startswith(f"{BANKS}/"):
            memory = await caller.open_bank(bank, "read")
            return BankResource(status=await memory.status(), profile=await memory.profile())
        case [bank, "facts", id] if bank and id and uri.startswith(f"{BANKS}/"):
            memory = await caller.open_bank(bank, "read")
            return FactResource(fact=(await memory.why(id)).fact)
        case _:
            raise NotFound(f"There is no resource {uri!r:.120}; read {BANKS} or a URI of the resource templates.")
