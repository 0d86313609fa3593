"""`vmemo why`."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.text import Text
from rich.tree import Tree

from vmemo import Provenance
from vmemo.cli.command import command
from vmemo.cli.options import DEFAULT_BANK, DEFAULT_DB, AsJson, BankName, Db
from vmemo.cli.output import day, one_line, plain, print_json, stdout
from vmemo.cli.target import Target, run


@command(
    "vmemo why 0f9a3c52                               a short id from recall, reflect or a prompt",
    "vmemo why 0f9a3c52-7d1e-5b6f-9c3d-1e2f3a4b5c6d --json",
)
def why(
    fact: Annotated[str, typer.Argument(metavar="FACT", help="A fact's id or short id.")],
    db: Db = DEFAULT_DB,
    bank: BankName = DEFAULT_BANK,
    as_json: AsJson = False,
) -> None:
    """Show the provenance of a fact: episode, source messages, and what replaced it."""
    chain = run(Target(db, bank), lambda memory: memory.why(fact), embeds=False)
    if as_json:
        print_json(chain.model_dump(mode="json"))
    else:
        stdout().print(tree(chain))


def tree(chain: Provenance) -> Tree:
    """Return the provenance as a tree with the fact at its root."""
    fact = chain.fact
    root = Tree(Text.assemble((one_line(fact.text), "bold"), f"\n{fact.network}, {fact.engine} engine, {fact.id}"))
    if fact.reason:
        root.add(Text(f"edited: {one_line(fact.reason)}", style="yellow"))
    for episode in chain.episodes:
        root.add(Text(f"episode of {day(episode.started_at)}: {one_line(episode.title)}", style="cyan"))
    for message in chain.messages:
        said = Text.assemble((f"message of {day(message.timestamp)}, {plain(message.id)}", "green"), "\n")
        root.add(said.append(f"{one_line(message.voice)}: {one_line(message.content)}"))
    for behind in chain.basis:
        root.add(tree(behind))
    for move in chain.confidence_changes:
        step = f"{move.stance} on {day(move.at)}, {move.before:.2f} → {move.after:.2f}: {one_line(move.reason)}"
        root.add(Text(step, style="magenta"))
    judged = {found.fact: f", revision model {found.probability:.2f}" for found in chain.newer}
    for newer in chain.superseded_by:
        reason = f" ({one_line(newer.reason)})" if newer.reason else judged.get(newer.id, "")
        judged.pop(newer.id, None)
        root.add(Text(f"replaced by {newer.id}{reason}: {one_line(newer.text)}", style="yellow"))
    for fact, probability in judged.items():
        root.add(Text(f"maybe outdated by {fact}{probability}", style="yellow"))
    return root
