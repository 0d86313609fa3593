"""Definition of a command: its name, examples in its help, and errors printed without a traceback."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import NoReturn, ParamSpec

import typer
from rich.text import Text

from vmemo.cli.output import plain, stderr
from vmemo.errors import LLMFailed, VmemoError, public_name

P = ParamSpec("P")


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
) -> Callable[[Callable[P, None]], Command]:
    """Turn a function into a command: its docstring is the help text, followed by the examples.

    `resume` is the command that completes the work after a model failed; empty if there is none.
    """

    def wrap(run: Callable[P, None]) -> Command:
        @wraps(run)
        def guarded(*args: P.args, **kwargs: P.kwargs) -> None:
            try:
                run(*args, **kwargs)
            except BrokenPipeError:
                raise
            except (VmemoError, OSError) as error:
                _fail(error, resume, as_json=kwargs.get("as_json") is True)

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
