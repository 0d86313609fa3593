"""`vmemo reembed`."""

from __future__ import annotations

from vmemo.cli.command import command
from vmemo.cli.options import DEFAULT_BANK, DEFAULT_DB, AsJson, BankName, Db
from vmemo.cli.output import many, print_json, stderr, stdout
from vmemo.cli.target import Place, run


@command("vmemo reembed", "vmemo reembed --bank alice --db sqlite:///team.db --json")
def reembed(db: Db = DEFAULT_DB, bank: BankName = DEFAULT_BANK, as_json: AsJson = False) -> None:
    """Switch a bank to this installation's embedder; others can read it until the moment of the switch."""
    with stderr().status("embedding facts"):
        count = run(Place(db, bank), lambda memory: memory.reembed())
    if as_json:
        print_json({"bank": bank, "facts": count})
    else:
        stdout().print(f"{many(count, 'fact')} embedded.")
