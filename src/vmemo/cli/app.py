"""The `vmemo` command: registration of all commands."""

from __future__ import annotations

from importlib.metadata import EntryPoint, entry_points, version
from typing import Annotated

import typer

from vmemo.cli.banks import bank, profile
from vmemo.cli.command import Command, CommandGroup, command
from vmemo.cli.demo import demo
from vmemo.cli.doctor import doctor
from vmemo.cli.inspect import entity, fact, inspect, observations, opinions, why
from vmemo.cli.recall import context, recall, reflect
from vmemo.cli.retain import forget, maintain, process, reprocess, retain
from vmemo.cli.transfer import export, import_, migrate, reembed, rekey
from vmemo.cli.worker import jobs, webhook, worker
from vmemo.errors import MissingExtra

EXTENSIONS = "vmemo.commands"
"""Entry point group: other distributions add commands, or groups of them, to `vmemo` under it."""
OTHERS = {
    "serve": ("vmemo[server]", "Serve REST, MCP and the web console over HTTP."),
    "mcp": ("vmemo[mcp]", "Serve a bank to an agent as an MCP server on stdin and stdout."),
    "keys": ("vmemo[server]", "Create, list and revoke the API keys of a server."),
    "benchmark": ("vmemo-bench", "Measure retrieval quality, question answering, speed and cost."),
    "install": ("vmemo[agents]", "Add memory to a coding agent: hooks and an MCP server in its configuration."),
    "uninstall": ("vmemo[agents]", "Remove what `vmemo install` added to a coding agent."),
    "replay": ("vmemo[replay]", "Show what a memory would have given at each turn of a conversation."),
    "test": ("vmemo[replay]", "Run cases: what a memory must and must not recall."),
    "code": ("vmemo[agents]", "Recall what was said about a repository, and run the server of hooks."),
    "fork": ("vmemo[sync]", "Copy a bank under a new name, as a branch that can be merged."),
    "diff": ("vmemo[sync]", "Show what only one of two banks holds."),
    "merge": ("vmemo[sync]", "Add the messages and decisions of one bank to another one."),
    "sync": ("vmemo[sync]", "Synchronize banks with other machines through a shared folder."),
}
"""Commands of other distributions: what installs each, and its help."""
_GROUPS = (bank, entity, fact, webhook)
_COMMANDS = (
    *(demo, retain, process, recall, context, reflect, inspect, why, opinions, observations, profile),
    *(forget, reprocess, reembed, maintain, worker, jobs, export, import_, migrate, rekey, doctor),
)
COMMANDS = (*_COMMANDS, *(each for group in _GROUPS for each in group.commands))
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


def load_extension(point: EntryPoint) -> typer.Typer:
    try:
        loaded = point.load()
    except ImportError as error:
        raise _missing(point.name) from error
    if isinstance(loaded, CommandGroup):
        return _typer_of(loaded)
    if not isinstance(loaded, Command):
        raise TypeError(f"The entry point {point.value} of {EXTENSIONS} must be a Command or CommandGroup.")
    made = typer.Typer(rich_markup_mode="rich", add_completion=False)
    _add(made, loaded)
    return made


def _missing(name: str) -> MissingExtra:
    return MissingExtra(f"`vmemo {name}` needs another package. Install it with: pip install '{OTHERS[name][0]}'")


def extensions() -> dict[str, EntryPoint]:
    """Return the entry points of installed commands of other distributions by name."""
    return {point.name: point for point in entry_points(group=EXTENSIONS)}


def _add_extension(name: str, point: EntryPoint | None) -> None:
    """Add a command that another distribution provides; it is imported when it runs."""
    _, text = OTHERS.get(name, ("", point.dist.metadata["Summary"] if point and point.dist else ""))

    @command(name=name)
    def run(arguments: Annotated[list[str] | None, typer.Argument()] = None) -> None:
        if point is None:
            raise _missing(name)
        load_extension(point)(arguments or [], prog_name=f"vmemo {name}")

    # Options, --help among them, are those of the commands that are loaded.
    raw = {"ignore_unknown_options": True, "allow_interspersed_args": False, "help_option_names": ()}
    app.command(name, help=text, context_settings=raw)(run.run)


for each in _COMMANDS:
    _add(app, each)
for each_group in _GROUPS:
    app.add_typer(_typer_of(each_group), name=each_group.name)
_found = extensions()
for each_name in dict.fromkeys((*OTHERS, *_found)):
    _add_extension(each_name, _found.get(each_name))
