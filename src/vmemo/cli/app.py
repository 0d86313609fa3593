"""The `vmemo` command: registration of all commands."""

from __future__ import annotations

from importlib.metadata import EntryPoint, entry_points, version
from typing import Annotated

import typer

from vmemo.cli import bank, entity, fact, keys, webhook
from vmemo.cli.command import Command, CommandGroup, command
from vmemo.cli.context import context
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


_EXTENSIONS = entry_points(group=EXTENSIONS)
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
        "fact",
        "Read, edit, pin and delete one fact.",
        (fact.get, fact.history, fact.update, fact.delete, fact.pin, fact.unpin),
    ),
    CommandGroup(
        "keys", "Create, list and revoke the API keys of a server.", (keys.create, keys.list_keys, keys.revoke)
    ),
    CommandGroup(
        "webhook",
        "Add, list and delete webhooks: addresses that are notified of changed facts.",
        (webhook.add, webhook.list_webhooks, webhook.delete),
    ),
)
_COMMANDS = (
    *(demo, retain, process, recall, context, reflect, inspect, why, opinions, observations, profile),
    *(serve, mcp, forget, reprocess, reembed, maintain, worker, jobs, export, import_, migrate, rekey, doctor),
)
COMMANDS = (*_COMMANDS, *(each for group in _GROUPS for each in group.commands))
"""All commands of this distribution."""
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


def _add(to: typer.Typer, each: Command, **settings: bool) -> None:
    to.command(each.name.rpartition(" ")[2], epilog=each.epilog, context_settings=settings)(each.run)


def _typer_of(group: CommandGroup) -> typer.Typer:
    made = typer.Typer(no_args_is_help=True, rich_markup_mode="rich", help=group.help, add_completion=False)
    for each in group.commands:
        _add(made, each)
    return made


def _add_extension(point: EntryPoint) -> None:
    """Add a group of commands that another distribution provides; it is imported when one of them runs."""

    def run(arguments: Annotated[list[str] | None, typer.Argument()] = None) -> None:
        group = point.load()
        if not isinstance(group, CommandGroup):
            raise TypeError(f"The entry point {point.value} of {EXTENSIONS} must be a CommandGroup, not {group!r:.40}.")
        _typer_of(group)(arguments or [], prog_name=f"vmemo {point.name}")

    # Options, --help among them, are those of the commands in the group.
    raw = {"ignore_unknown_options": True, "allow_interspersed_args": False, "help_option_names": ()}
    app.command(point.name, help=point.dist and point.dist.metadata["Summary"], context_settings=raw)(run)


for each in _COMMANDS:
    _add(app, each)
for each_group in _GROUPS:
    app.add_typer(_typer_of(each_group), name=each_group.name)
for each_point in _EXTENSIONS:
    _add_extension(each_point)
if all(point.name != "benchmark" for point in _EXTENSIONS):
    # Every option of a benchmark leads to the command that installs it.
    _add(app, missing_benchmark, ignore_unknown_options=True)
