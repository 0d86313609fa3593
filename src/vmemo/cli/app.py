"""The `vmemo` command: registration of all commands."""

from __future__ import annotations

from importlib.metadata import entry_points, version
from typing import Annotated

import typer

from vmemo.cli import bank, entity, keys
from vmemo.cli.command import CommandGroup, command
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
from vmemo.cli.rekey import rekey
from vmemo.cli.retain import retain
from vmemo.cli.serve import serve
from vmemo.cli.transfer import export, import_
from vmemo.cli.why import why
from vmemo.cli.worker import worker
from vmemo.errors import MissingExtra

EXTENSIONS = "vmemo.commands"
"""Entry point group: other distributions add groups of commands to `vmemo` under it."""


@command(name="benchmark")
def missing_benchmark(
    arguments: Annotated[list[str] | None, typer.Argument(help="The benchmark and its options.")] = None,
) -> None:
    """Run benchmarks. Needs the package vmemo-bench."""
    raise MissingExtra("`vmemo benchmark` needs the package vmemo-bench. Install it with: pip install vmemo-bench")


def _extensions() -> list[CommandGroup]:
    """Load the groups of commands that other distributions provide."""
    found = [point.load() for point in entry_points(group=EXTENSIONS)]
    return [each for each in found if isinstance(each, CommandGroup)]


_GROUPS = (
    CommandGroup(
        "bank",
        "List, create, show, configure and delete banks.",
        (bank.list_banks, bank.create, bank.show, bank.set_profile, bank.delete),
    ),
    CommandGroup(
        "entity",
        "List, merge and separate entities.",
        (entity.entities, entity.merges, entity.merge, entity.undo),
    ),
    CommandGroup(
        "keys", "Create, list and revoke the API keys of a server.", (keys.create, keys.list_keys, keys.revoke)
    ),
    *_extensions(),
)
_HAS_BENCHMARK = any(group.name == "benchmark" for group in _GROUPS)
COMMANDS = (
    *(demo, retain, process, recall, reflect, inspect, why, opinions, observations, profile),
    *(serve, mcp, forget, reprocess, reembed, maintain, worker, jobs, export, import_, migrate, rekey, doctor),
    *(each for group in _GROUPS for each in group.commands),
    *(() if _HAS_BENCHMARK else (missing_benchmark,)),
)
app = typer.Typer(no_args_is_help=True, rich_markup_mode="rich", pretty_exceptions_enable=False)


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


_typers = {group.name: typer.Typer(no_args_is_help=True, rich_markup_mode="rich", help=group.help) for group in _GROUPS}
for each in COMMANDS:
    group, _, name = each.name.rpartition(" ")
    # Without the package, every option of a benchmark leads to the command that installs it.
    any_option = {"ignore_unknown_options": each is missing_benchmark}
    (_typers[group] if group else app).command(name, epilog=each.epilog, context_settings=any_option)(each.run)
for name, each_typer in _typers.items():
    app.add_typer(each_typer, name=name)
