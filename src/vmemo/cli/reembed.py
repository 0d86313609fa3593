"""`vmemo reembed`."""

from __future__ import annotations

from vmemo.cli.command import command
from vmemo.cli.options import DEFAULT_BANK, DEFAULT_DB, AsJson, BankName, Db, EmbedderName
from vmemo.cli.output import counted, print_json, stderr, stdout
from vmemo.cli.target import Target, run


@command(
    "vmemo reembed --embedder openai:text-embedding-3-small",
    "vmemo reembed   with the packaged embedder",
    "vmemo reembed --bank alice --db sqlite:///team.db --json",
    resume="vmemo reembed",
)
def reembed(
    db: Db = DEFAULT_DB, bank: BankName = DEFAULT_BANK, embedder: EmbedderName = None, as_json: AsJson = False
) -> None:
    """Switch a bank to another embedder; the bank stays readable meanwhile."""
    with stderr().status("embedding facts"):
        count = run(Target(db, bank, embedder=embedder), lambda memory: memory.reembed())
    if as_json:
        print_json({"bank": bank, "facts": count})
    else:
        stdout().print(f"{counted(count, 'fact')} embedded.")
