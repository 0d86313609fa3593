"""`vmemo why`."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.text import Text
from rich.tree import Tree

from vmemo import Provenance
from vmemo.cli.command import command
from vmemo.cli.options import DEFAULT_BANK, DEFAULT_DB, AsJson, BankName, Db
from vmemo.cli.output import clipped, day, print_json, stdout
from vmemo.cli.target import Place, run


@command(
    "vmemo why 0f9a3c52-7d1e-5b6f-9c3d-1e2f3a4b5c6d   an id as recall and inspect show it",
    "vmemo why 0f9a3c52-7d1e-5b6f-9c3d-1e2f3a4b5c6d --json",
)
def why(
    fact: Annotated[str, typer.Argument(metavar="FACT", help="A fact's id.")],
    db: Db = DEFAULT_DB,
    bank: BankName = DEFAULT_BANK,
    as_json: AsJson = False,
) -> None:
    """Show where a fact comes from: its episode, the messages behind it, and what replaced it."""
    chain = run(Place(db, bank), lambda memory: memory.why(fact))
    if as_json:
        print_json(chain.model_dump(mode="json"))
    else:
        stdout().print(tree(chain))


def tree(chain: Provenance) -> Tree:
    """The chain behind a fact, the fact on top."""
    fact = chain.fact
    root = Tree(Text.assemble((clipped(fact.text), "bold"), f"\n{fact.network}, {fact.engine} engine, {fact.id}"))
    for episode in chain.episodes:
        root.add(Text(f"episode of {day(episode.started_at)}: {clipped(episode.title)}", style="cyan"))
    for message in chain.messages:
        said = Text.assemble((f"message of {day(message.timestamp)}, {message.id}", "green"), "\n")
        root.add(said.append(f"{clipped(message.voice)}: {clipped(message.content)}"))
    for behind in chain.basis:
        root.add(tree(behind))
    for move in chain.moves:
        step = f"{move.stance} on {day(move.at)}, {move.before:.2f} → {move.after:.2f}: {clipped(move.reason)}"
        root.add(Text(step, style="magenta"))
    for newer in chain.superseded_by:
        root.add(Text(f"replaced by {newer.id}: {clipped(newer.text)}", style="yellow"))
    return root
