"""Definition of a command: its options, the examples in its help, its output, and errors without a traceback."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Any, NoReturn

import typer
from pydantic_core import to_jsonable_python
from rich.console import RenderableType
from rich.text import Text

from vmemo.cli.options import option_group
from vmemo.cli.output import plain, print_json, stderr, stdout
from vmemo.errors import LLMFailed, VmemoError, public_name


@dataclass(frozen=True)
class Output:
    """The result of a command: a value of JSON and records for --json, and text or a table for people."""

    value: object
    shown: RenderableType
    exit_code: int = 0

    def print(self, *, as_json: bool) -> None:
        """Print the result on stdout. Lines of text are not wrapped."""
        if as_json:
            print_json(to_jsonable_python(self.value, by_alias=False))
        elif isinstance(self.shown, str):
            typer.echo(plain(self.shown))
        else:
            stdout().print(self.shown, soft_wrap=isinstance(self.shown, Text))


@dataclass(frozen=True)
class Command:
    """A command to register; `run` takes the command line's arguments."""

    name: str
    run: Callable[..., None]
    examples: tuple[str, ...]

    @property
    def epilog(self) -> str:
        """The examples as the end of the help text. Typer keeps a line break only before a blank line."""
        return "\n\n".join(["[bold]Examples[/bold]", *(f"  {example}" for example in self.examples)])


@dataclass(frozen=True)
class CommandGroup:
    """Commands of two words that share the first, such as `entity list` and `entity merge`."""

    name: str
    help: str
    commands: tuple[Command, ...]


def command(
    *examples: str, name: str | None = None, resume: str = "vmemo process"
) -> Callable[[Callable[..., Output | None]], Command]:
    """Turn a function into a command: its docstring is the help text, followed by the examples.

    A parameter whose annotation is an `OptionGroup`, such as `target: OnBank`, stands for all options of the group.
    `resume` is the command that completes the work after a model failed; empty if there is none.
    """

    def wrap(run: Callable[..., Output | None]) -> Command:
        own = inspect.signature(run, eval_str=True).parameters
        groups = {name: group for name, each in own.items() if (group := option_group(each.annotation)) is not None}
        grouped = {name for group in groups.values() for name in group.options}
        parameters = [
            option.replace(kind=inspect.Parameter.KEYWORD_ONLY)
            for name, each in own.items()
            if name not in grouped
            for option in (groups[name].options.values() if name in groups else [each])
        ]

        @wraps(run)
        def guarded(**given: Any) -> None:
            as_json = given.get("as_json") is True
            arguments = {name: given[name] for name in own if name in given}
            for name, group in groups.items():
                arguments[name] = group.build(**{option: given[option] for option in group.options})
            try:
                output = run(**arguments)
                if output is not None:
                    output.print(as_json=as_json)
                    raise typer.Exit(output.exit_code)
            except BrokenPipeError:
                raise
            except (VmemoError, OSError) as error:
                _fail(error, resume, as_json=as_json)

        guarded.__dict__["__signature__"] = inspect.Signature(parameters)
        guarded.__annotations__ = {each.name: each.annotation for each in parameters}
        return Command(name or run.__name__, guarded, examples)

    return wrap


def _fail(error: VmemoError | OSError, resume: str, *, as_json: bool) -> NoReturn:
    message = plain(_message(error, resume))
    if as_json:
        typer.echo(json.dumps({"error": public_name(error), "message": message}), err=True)
    else:
        stderr().print(Text(message, style="red"), soft_wrap=True)
    raise typer.Exit(1) from error


def _message(error: VmemoError | OSError, resume: str) -> str:
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    if isinstance(error, VmemoError) and error.stored:
        return f"{error} `{resume}` resumes."
    if isinstance(error, LLMFailed) and not resume:
        return f"{str(error).rstrip('.')}. Nothing was changed; try again."
    if isinstance(error, LLMFailed):
        return f"{str(error).rstrip('.')}. The messages are stored and stay queued; `{resume}` resumes."
    return str(error)
