"""Write docs/cli.md from the commands: `python scripts/cli_reference.py`. A test compares them."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import cast

import typer
from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption

from vmemo.cli.app import app, extensions, load_extension

TARGET = Path(__file__).parents[1] / "docs" / "cli.md"
_HEAD = """# Command line

`vmemo COMMAND --help` shows the same. `--json` prints a JSON document for scripts. Errors are explained on stderr; the
exit code is then 1, and 2 for wrong usage.
"""


def reference() -> str:
    """Return the page: each command with its help, options and examples."""
    return _HEAD + "".join(_section(path, command) for path, command in _commands(all_commands(), "vmemo"))


@cache
def all_commands() -> TyperGroup:
    """Return the commands of all distributions, with their options."""
    root = cast("TyperGroup", typer.main.get_command(app))
    for name, point in extensions().items():
        root.commands[name] = typer.main.get_command(load_extension(point))
        root.commands[name].name = name
    return root


def _commands(group: TyperGroup, path: str) -> Iterator[tuple[str, TyperCommand]]:
    for name, command in sorted(group.commands.items()):
        # Distributions with pages of their own.
        if command.hidden or name in ("benchmark", "install", "uninstall", "code"):
            continue
        if isinstance(command, TyperGroup):
            yield from _commands(command, f"{path} {name}")
        else:
            yield f"{path} {name}", cast("TyperCommand", command)


def _section(path: str, command: TyperCommand) -> str:
    arguments = [_argument(each) for each in command.params if isinstance(each, TyperArgument)]
    options = [each for each in command.params if isinstance(each, TyperOption) and not each.hidden]
    rows = [f"| `{_flags(each)}` | {_cell(each.help or '')} |" for each in options if each.name != "help"]
    lines = [line.strip() for line in (command.epilog or "").splitlines()]
    # Words after two spaces explain an example; pasted into a shell they would be arguments.
    examples = [re.sub(r"  +", "  # ", line, count=1) for line in lines if line.startswith("vmemo")]
    parts = [
        f"\n## {path}",
        inspect.cleandoc(command.help or ""),
        "```text",
        " ".join([path, *arguments, "[OPTIONS]"]),
        "```",
        *(["", "| option | meaning |", "|---|---|", *rows] if rows else []),
        *(["", "```console", *(f"$ {each}" for each in examples), "```"] if examples else []),
    ]
    return "\n".join(parts) + "\n"


def _argument(argument: TyperArgument) -> str:
    name = argument.metavar or str(argument.name).upper()
    return name if argument.required else f"[{name}]"


def _flags(option: TyperOption) -> str:
    names = ", ".join(option.opts)
    if option.secondary_opts:
        return f"{names} / {', '.join(option.secondary_opts)}"
    # A vertical bar would end the cell of the table.
    return names if option.is_flag else f"{names} {(option.metavar or 'VALUE').replace('|', '/')}"


def _cell(text: str) -> str:
    """Return one line without the markup of the terminal."""
    return " ".join(re.sub(r"\[/?[a-z]+\]", "", text).replace("|", "/").split())


if __name__ == "__main__":
    TARGET.write_text(reference(), encoding="utf-8")
