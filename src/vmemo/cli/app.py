"""The `vmemo` command: registration of all commands."""

from __future__ import annotations

from importlib.metadata import entry_points, version
from typing import Annotated

import typer

from vmemo.cli import entity, keys
from vmemo.cli.command import Command, command
from vmemo.cli.demo import demo
from vmemo.cli.doctor import doctor
from vmemo.cli.forget import forget
from vmemo.cli.inspect import inspect
from vmemo.cli.jobs import jobs
from vmemo.cli.mcp import mcp
from vmemo.cli.migrate import migrate
from vmemo.cli.opinions import observations, opinions
from vmemo.cli.process import maintain, process, reprocess
from vmemo.cli.profile import profile
from vmemo.cli.recall import recall
from vmemo.cli.reembed import reembed
from vmemo.cli.reflect import reflect
from vmemo.cli.retain import retain
from vmemo.cli.serve import serve
from vmemo.cli.transfer import export, import_
from vmemo.cli.why import why
from vmemo.cli.worker import worker
from vmemo.errors import MissingExtra

EXTENSIONS = "vmemo.commands"
"""Entry point group: other distributions add commands to `vmemo` under it."""


@command(name="benchmark")
def missing_benchmark() -> None:
    """Run benchmarks. Needs the package vmemo-bench."""
    raise MissingExtra("vmemo benchmark is in a package of its own; install it with: pip install vmemo-bench")


def _extensions() -> list[Command]:
    found = [point.load() for point in entry_points(group=EXTENSIONS)]
    commands = [each for each in found if isinstance(each, Command)]
    return commands if any(each.name == "benchmark" for each in commands) else [*commands, missing_benchmark]


COMMANDS = (
    *(demo, retain, process, recall, reflect, inspect, why, opinions, observations, profile),
    *(entity.entities, entity.merges, entity.merge, entity.undo),
    *(serve, mcp, keys.create, keys.list_keys, keys.revoke),
    *(forget, reprocess, reembed, maintain, worker, jobs, export, import_, migrate, doctor),
    *_extensions(),
)
app = typer.Typer(no_args_is_help=True, rich_markup_mode="rich", pretty_exceptions_enable=False)
_groups = {
    "entity": "List, merge and separate entities.",
    "keys": "Create, list and revoke API keys.",
}
"""Help texts of command groups."""


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"vmemo {version('vmemo')}")
        raise typer.Exit


@app.callback(epilog="Start with [bold]vmemo demo[/bold]; it needs no configuration.")
def root(
    show_version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Long-term memory for AI agents: retain messages, recall facts, reflect on questions."""


_subcommands = {
    name: typer.Typer(no_args_is_help=True, rich_markup_mode="rich", help=text) for name, text in _groups.items()
}
for each in COMMANDS:
    group, _, name = each.name.rpartition(" ")
    (_subcommands[group] if group else app).command(name, epilog=each.epilog)(each.run)
for name, subcommand in _subcommands.items():
    app.add_typer(subcommand, name=name)
