"""`vmemo mcp`: memory for an MCP host that starts this command and speaks to it over stdin and stdout."""

from __future__ import annotations

import asyncio
import sys
from importlib.util import find_spec
from typing import Annotated

import typer

from vmemo import Memory
from vmemo.cli.command import command
from vmemo.cli.options import DEFAULT_DB, AsJson, Db, Model
from vmemo.cli.output import stderr
from vmemo.cli.target import Place, demand
from vmemo.errors import MissingExtra


@command(
    "vmemo mcp",
    "vmemo mcp --db memory.db --bank alice --llm openai:gpt-5-mini",
    "vmemo mcp --read-only   tools that only look",
    resume="vmemo process",
)
def mcp(
    bank: Annotated[
        str | None,
        typer.Option("--bank", metavar="NAME", help="The one bank that tools reach; all of them, if left out."),
    ] = None,
    read_only: Annotated[bool, typer.Option("--read-only", help="Offer no tool that changes anything.")] = False,
    db: Db = DEFAULT_DB,
    llm: Model = None,
    as_json: AsJson = False,
) -> None:
    """Serve tools and resources to an MCP host over stdin and stdout; logs go to stderr."""
    if find_spec("mcp") is None:
        raise MissingExtra("MCP needs one more package. Install it: pip install 'vmemo[mcp]'")
    from vmemo.mcp.principal import Local  # noqa: PLC0415 - an extra
    from vmemo.mcp.stdio import serve  # noqa: PLC0415 - an extra

    place = Place(db, bank or "default", llm)
    if read_only:
        asyncio.run(demand(place, *([bank] if bank else [])))
    memory = Memory(place.url, place.bank, settings=place.settings())
    if sys.stdin.isatty():
        stderr().print("Waiting for an MCP host on stdin; see docs/mcp.md for how to add this command to one.")
    # The local engine reads at once, within the call that brings something.
    works = bool(llm) and not read_only
    asyncio.run(serve(Local(memory=memory, only=bank, right="read" if read_only else "admin", works=works)))
