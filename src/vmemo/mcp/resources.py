"""Resources: the banks, what each holds and who it is, and single facts."""

from __future__ import annotations

from urllib.parse import quote, unquote

import mcp_types as wire

from vmemo.errors import NotFound
from vmemo.mcp.principal import Visitor
from vmemo.mcp.serializers import Remembered
from vmemo.mcp.tool import NOTICE, Told
from vmemo.mcp.tools.banks import Banks, Character, State

BANKS = "vmemo://banks"
_JSON = "application/json"
_LISTED = 100
"""Banks that are listed as resources of their own; the rest are reached by the template."""


class Described(Told):
    """A bank: what it holds, and who it is."""

    status: State
    profile: Character


class Quoted(Told):
    """A fact, with the notice that goes before it."""

    notice: str = NOTICE
    fact: Remembered


TEMPLATES = (
    wire.ResourceTemplate(
        name="bank",
        title="A bank",
        uri_template=f"{BANKS}/{{bank}}",
        description="What a bank holds, what is unread, and its profile.",
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
    """The URI of a bank."""
    return f"{BANKS}/{quote(bank, safe='')}"


async def listed(visitor: Visitor) -> list[wire.Resource]:
    """The list of banks, and the first of the banks themselves."""
    first = wire.Resource(
        name="banks", title="Banks", uri=BANKS, description="Names of the banks of this connection.", mime_type=_JSON
    )
    names = (await visitor.banks())[:_LISTED]
    return [first, *(wire.Resource(name=name, uri=uri_of(name), mime_type=_JSON) for name in names)]


async def read(visitor: Visitor, uri: str) -> wire.TextResourceContents:
    """What a URI names, as JSON."""
    found = await _found(visitor, uri)
    return wire.TextResourceContents(uri=uri, mime_type=_JSON, text=found.model_dump_json(exclude_none=True, indent=2))


async def _found(visitor: Visitor, uri: str) -> Told:
    if uri == BANKS:
        return Banks(banks=await visitor.banks(), home=visitor.home)
    match [unquote(part) for part in uri.removeprefix(f"{BANKS}/").split("/")]:
        case [bank] if bank and uri.startswith(f"{BANKS}/"):
            memory = await visitor.enter(bank, "read")
            who = Character.of(bank, await memory.profile())
            return Described(status=State.of(await memory.status()), profile=who)
        case [bank, "facts", id] if bank and id and uri.startswith(f"{BANKS}/"):
            memory = await visitor.enter(bank, "read")
            return Quoted(fact=Remembered.of((await memory.why(id)).fact))
        case _:
            raise NotFound(f"There is no resource {uri!r:.120}; there is {BANKS}, and what its templates name.")
