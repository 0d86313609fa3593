"""`vmemo context`."""

from __future__ import annotations

from typing import Annotated

import typer

from vmemo.cli.command import command
from vmemo.cli.options import DEFAULT_BANK, DEFAULT_DB, AsJson, BankName, Db
from vmemo.cli.output import plain, print_json
from vmemo.cli.target import Target, run


@command(
    'vmemo context "What shall we cook tonight?"',
    'vmemo context "What shall we cook tonight?" --user Maya --max-tokens 800',
    "vmemo context --user Maya",
)
def context(
    query: Annotated[str | None, typer.Argument(help="What the next answer is about.")] = None,
    user: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="The user whose profile and instructions are meant. Default: the only one."),
    ] = None,
    max_tokens: Annotated[int, typer.Option(min=1, help="Maximum tokens of the whole text.")] = 2048,
    db: Db = DEFAULT_DB,
    bank: BankName = DEFAULT_BANK,
    as_json: AsJson = False,
) -> None:
    """Print memories as one block for a system prompt: profile, instructions, pinned, recent and relevant facts."""
    found = run(Target(db, bank), lambda memory: memory.context(query, user, max_tokens))
    if as_json:
        print_json(found.model_dump(mode="json"))
    else:
        typer.echo(plain(found.text))
