"""`vmemo serve`: the HTTP server."""

from __future__ import annotations

import asyncio
import os
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from vmemo import Memory
from vmemo.cli.command import command
from vmemo.cli.options import AsJson, DatabaseWithModels, MaintainEvery
from vmemo.cli.target import Target
from vmemo.errors import Unsupported
from vmemo_server.app import ServerOptions
from vmemo_server.auth import Limits
from vmemo_server.launch import Address, ServerLauncher
from vmemo_server.state import ADMIN_KEY_VARIABLE

_LIMITS = "Limits"
_NETWORK = "Network"


@command(
    "vmemo serve",
    "vmemo serve --db postgresql://vmemo@db/vmemo --host 0.0.0.0 --port 8000 --llm openai:gpt-5-mini",
    "vmemo serve --workers 4   four processes on one port",
    "vmemo serve --no-worker --json   JSON logs; other processes run the jobs",
)
def serve(  # noqa: PLR0913 - each is an option of the command line
    host: Annotated[
        str,
        typer.Option(
            help="The address to listen on; a non-loopback address requires API keys.", rich_help_panel=_NETWORK
        ),
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="The port; 0 selects a free one.", rich_help_panel=_NETWORK)
    ] = 8000,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="A host name to accept in requests; repeatable.", rich_help_panel=_NETWORK),
    ] = None,
    cors_origin: Annotated[
        list[str] | None,
        typer.Option(
            envvar="VMEMO_CORS_ORIGIN",
            metavar="ORIGIN",
            help="The origin of a web page that may use the server, such as https://app.example; repeatable.",
            rich_help_panel=_NETWORK,
        ),
    ] = None,
    workers: Annotated[
        int, typer.Option(min=1, metavar="N", help="Server processes that share the port and the database.")
    ] = 1,
    works: Annotated[bool, typer.Option("--worker/--no-worker", help="Run queued jobs in this process.")] = True,
    mcp: Annotated[bool, typer.Option("--mcp/--no-mcp", help="Serve MCP under /mcp.")] = True,
    maintain_every: MaintainEvery = 24.0,
    grace: Annotated[
        float, typer.Option(min=1, help="Seconds to finish running requests and jobs on shutdown.")
    ] = 30.0,
    rate: Annotated[
        float | None,
        typer.Option(min=0, help="Requests per minute and key; 0 disables the limit.", rich_help_panel=_LIMITS),
    ] = None,
    body_bytes: Annotated[
        int | None, typer.Option(min=1, help="Maximum size of a request body in bytes.", rich_help_panel=_LIMITS)
    ] = None,
    connections: Annotated[
        int, typer.Option(min=1, help="Open connections beyond which requests get 503.", rich_help_panel=_LIMITS)
    ] = 1_000,
    reports: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Benchmark reports to show in the console.")
    ] = None,
    *,
    target: DatabaseWithModels,
    as_json: AsJson = False,
) -> None:
    """Serve REST, MCP and Hindsight-compatible paths over HTTP. SIGTERM shuts down gracefully.

    VMEMO_ADMIN_KEY in the environment is the secret of an admin key, which is created if it does not exist.
    """
    limits = Limits(**_given(rate=rate, body_bytes=body_bytes))
    open_memory = partial(_open_memory, target, maintain_every)
    launcher = ServerLauncher(
        address=Address(host=host, port=port, names=tuple(allow_host or ())),
        limits=limits,
        options=ServerOptions(
            worker=works,
            mcp=mcp,
            grace=grace,
            connections=connections,
            cors_origins=tuple(cors_origin or ()),
            reports=reports,
        ),
        log_format="json" if as_json else "text",
        admin_key=os.environ.get(ADMIN_KEY_VARIABLE),
    )
    if workers == 1:
        asyncio.run(launcher.run(open_memory()))
    elif target.url.endswith(":memory:"):
        raise Unsupported("A database in memory belongs to one process. Give a file, or leave --workers at 1.")
    else:
        launcher.run_workers(open_memory, workers)


def _open_memory(target: Target, maintain_every: float) -> Memory:
    return Memory(target.url, settings=target.settings(maintenance_every=maintain_every))


def _given(**options: float | None) -> dict[str, Any]:
    """Return the options that were given; the others keep the defaults of their class."""
    return {name: value for name, value in options.items() if value is not None}
