"""`vmemo serve`: the memory behind HTTP, until it is told to stop."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from importlib.util import find_spec
from typing import Annotated, Literal

import typer

from vmemo import Memory
from vmemo.cli.command import command
from vmemo.cli.options import DEFAULT_DB, AsJson, Db, Model
from vmemo.cli.output import stderr
from vmemo.cli.target import Place
from vmemo.errors import MissingExtra
from vmemo.stores.postgres.embedded import EmbeddedPostgres

_LIMITS = "Limits"
_NETWORK = "Network"


@command(
    "vmemo serve",
    "vmemo serve --db postgresql://vmemo@db/vmemo --host 0.0.0.0 --port 8000 --llm openai:gpt-5-mini",
    "vmemo serve --postgres embedded",
    "vmemo serve --no-worker --json   logs as JSON, and other processes do the queued work",
)
def serve(  # noqa: PLR0913 - each is an option of the command line
    host: Annotated[
        str, typer.Option(help="The address to listen on; one that others reach needs keys.", rich_help_panel=_NETWORK)
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="The port; 0 is a free one.", rich_help_panel=_NETWORK)
    ] = 8000,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="A name of this server in requests; repeatable.", rich_help_panel=_NETWORK),
    ] = None,
    works: Annotated[bool, typer.Option("--worker/--no-worker", help="Do queued work in this process.")] = True,
    mcp: Annotated[bool, typer.Option("--mcp/--no-mcp", help="Answer MCP clients under /mcp.")] = True,
    maintain_every: Annotated[
        float, typer.Option(min=0.0, metavar="HOURS", help="Hours from one maintenance to the next; 0 is never.")
    ] = 24.0,
    grace: Annotated[float, typer.Option(min=1, help="Seconds to finish what runs when told to stop.")] = 30.0,
    rate: Annotated[
        float | None, typer.Option(min=0, help="Requests per minute of a key; 0 is no limit.", rich_help_panel=_LIMITS)
    ] = None,
    body_bytes: Annotated[
        int | None, typer.Option(min=1, help="Bytes that a request may have.", rich_help_panel=_LIMITS)
    ] = None,
    postgres: Annotated[
        Literal["embedded"] | None,
        typer.Option(help="Start a PostgreSQL from pip for this run, in place of --db; its data goes with it."),
    ] = None,
    db: Db = DEFAULT_DB,
    llm: Model = None,
    as_json: AsJson = False,
) -> None:
    """Serve the memory over HTTP: REST, MCP and Hindsight's paths. SIGTERM lets what runs finish."""
    if find_spec("fastapi") is None or find_spec("uvicorn") is None:
        raise MissingExtra("A server needs more packages. Install them: pip install 'vmemo[server]'")
    from vmemo.server import Limits, ServerOptions  # noqa: PLC0415 - an extra
    from vmemo.server.launch import Address, Launch  # noqa: PLC0415 - an extra

    given = {"rate": rate, "body_bytes": body_bytes}
    with _database(db, postgres) as url:
        place = Place(url, "default", llm)
        settings = place.settings()
        settings = replace(settings, upkeep=replace(settings.upkeep, every=maintain_every))
        launch = Launch(
            memory=Memory(place.url, settings=settings),
            address=Address(host=host, port=port, names=tuple(allow_host or ())),
            limits=Limits(**{name: value for name, value in given.items() if value is not None}),  # pyright: ignore[reportArgumentType]
            options=ServerOptions(works=works, mcp=mcp, grace=grace),
            logs="json" if as_json else "text",
        )
        asyncio.run(launch.run())


@contextmanager
def _database(db: str, postgres: Literal["embedded"] | None) -> Generator[str]:
    """The database's URL; an embedded server lives as long as this."""
    server = nullcontext() if postgres is None else EmbeddedPostgres()
    with server as running:
        if isinstance(running, EmbeddedPostgres):
            stderr().print("A PostgreSQL for this run was started; all it holds goes when it stops.")
            yield running.url()
        else:
            yield db
