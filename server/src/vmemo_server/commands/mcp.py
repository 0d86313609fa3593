"""`vmemo mcp`: an MCP server over stdin and stdout."""

from __future__ import annotations

import asyncio
import sys
from importlib.util import find_spec
from typing import Annotated

import typer

from vmemo import Memory
from vmemo.cli.command import command
from vmemo.cli.options import DatabaseWithModels
from vmemo.cli.output import stderr
from vmemo.cli.target import require_banks
from vmemo.errors import MissingExtra


@command(
    "vmemo mcp",
    "vmemo mcp --db memory.db --bank alice --llm openai:gpt-5-mini",
    "vmemo mcp --read-only   only tools that read",
)
def mcp(
    bank: Annotated[
        str | None,
        typer.Option("--bank", metavar="NAME", help="Restrict the tools to this bank. Default: all banks."),
    ] = None,
    read_only: Annotated[bool, typer.Option("--read-only", help="Offer only tools that read.")] = False,
    *,
    target: DatabaseWithModels,
) -> None:
    """Run an MCP server over stdin and stdout; logs go to stderr.

    docs/mcp.md has configurations for Claude Desktop, Claude Code, Cursor and VS Code.
    """
    if find_spec("mcp") is None:
        raise MissingExtra("vmemo mcp needs the extra `mcp`. Install it with: pip install 'vmemo[mcp]'")
    from vmemo_server.mcp.caller import ToolCaller  # noqa: PLC0415 - an extra
    from vmemo_server.mcp.stdio import serve  # noqa: PLC0415 - an extra

    if read_only:
        asyncio.run(require_banks(target, *([bank] if bank else [])))
    memory = Memory(target.url, bank or target.bank, settings=target.settings())
    if sys.stdin.isatty():
        stderr().print("Waiting for an MCP client on stdin; docs/mcp.md describes how to register this command.")
    # The local engine processes messages within the call that retains them; it needs no worker.
    worker = bool(target.llm) and not read_only
    permission = "read" if read_only else "admin"
    asyncio.run(serve(ToolCaller.local(memory, bank=bank, permission=permission, worker=worker)))
