"""Resources: the list of banks, each bank's status and profile, and single facts."""

from __future__ import annotations

from urllib.parse import quote, unquote

import mcp_types as wire

from vmemo.errors import NotFound
from vmemo.mcp.caller import ToolCaller
from vmemo.mcp.serializers import FactItem, QuotedResult
from vmemo.mcp.tool import ToolResult
from vmemo.mcp.tools.banks import BankListResult, ProfileResult, StatusResult

BANKS = "vmemo://banks"
_JSON = "application/json"
_MAX_LISTED = 100
"""Banks listed as resources; the template reaches the rest."""


class BankResource(ToolResult):
    """A bank's status and profile."""

    status: StatusResult
    profile: ProfileResult


class FactResource(QuotedResult):
    """A fact, with the notice that it is data."""

    fact: FactItem


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
    """Return the URI of a bank."""
    return f"{BANKS}/{quote(bank, safe='')}"


async def list_resources(caller: ToolCaller) -> list[wire.Resource]:
    """Return the list of banks and the first banks as resources."""
    banks = wire.Resource(
        name="banks", title="Banks", uri=BANKS, description="Names of the banks of this connection.", mime_type=_JSON
    )
    names = (await caller.banks())[:_MAX_LISTED]
    return [banks, *(wire.Resource(name=name, uri=uri_of(name), mime_type=_JSON) for name in names)]


async def read(caller: ToolCaller, uri: str) -> wire.TextResourceContents:
    """Return the resource of a URI as JSON."""
    found = await _find(caller, uri)
    return wire.TextResourceContents(uri=uri, mime_type=_JSON, text=found.model_dump_json(exclude_none=True, indent=2))


async def _find(caller: ToolCaller, uri: str) -> ToolResult:
    if uri == BANKS:
        return BankListResult(banks=await caller.banks(), default_bank=caller.principal.default_bank)
    match [unquote(part) for part in uri.removeprefix(f"{BANKS}/").split("/")]:
        case [bank] if bank and uri.startswith(f"{BANKS}/"):
            memory = await caller.open_bank(bank, "read")
            profile = ProfileResult.of(bank, await memory.profile())
            return BankResource(status=StatusResult.of(await memory.status()), profile=profile)
        case [bank, "facts", id] if bank and id and uri.startswith(f"{BANKS}/"):
            memory = await caller.open_bank(bank, "read")
            return FactResource(fact=FactItem.of((await memory.why(id)).fact))
        case _:
            raise NotFound(f"There is no resource {uri!r:.120}; read {BANKS} or a URI of the resource templates.")
