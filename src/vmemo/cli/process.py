"""`vmemo process`, `vmemo reprocess` and `vmemo maintain`: reading what is unread, reading all again, tidying up."""

from __future__ import annotations

from vmemo import Memory, Retained
from vmemo.cli.command import command
from vmemo.cli.options import DEFAULT_BANK, DEFAULT_DB, AsJson, BankName, Db, Model
from vmemo.cli.output import many, print_json, stderr, stdout
from vmemo.cli.progress import watched
from vmemo.cli.retain import show, unread
from vmemo.cli.target import Place, run


@command("vmemo process", "vmemo process --llm ollama:qwen3:8b --bank alice", "vmemo process --json")
def process(db: Db = DEFAULT_DB, bank: BankName = DEFAULT_BANK, llm: Model = None, as_json: AsJson = False) -> None:
    """Read what is unread now, also what failed before, and do the other queued work that is due."""

    async def verb(memory: Memory) -> Retained:
        return await watched(memory.process(), lambda: unread(memory), what="reading messages", shown=not as_json)

    _told(run(Place(db, bank, llm), verb), as_json)


@command(
    "vmemo reprocess --llm openai:gpt-5-mini",
    "vmemo reprocess   back to the local engine",
    "vmemo reprocess --bank alice --json",
    resume="vmemo reprocess",
)
def reprocess(db: Db = DEFAULT_DB, bank: BankName = DEFAULT_BANK, llm: Model = None, as_json: AsJson = False) -> None:
    """Derive everything from the messages again with this engine; the bank answers as before until all is read."""

    async def verb(memory: Memory) -> Retained:
        work = memory.reprocess()
        return await watched(work, memory.left_to_reprocess, what="reading messages again", shown=not as_json)

    _told(run(Place(db, bank, llm), verb), as_json)


def _told(done: Retained, as_json: bool) -> None:
    if as_json:
        print_json(done.model_dump(mode="json"))
    else:
        show(done, stored=False)


@command("vmemo maintain", "vmemo maintain --bank alice --llm openai:gpt-5-mini --json")
def maintain(db: Db = DEFAULT_DB, bank: BankName = DEFAULT_BANK, llm: Model = None, as_json: AsJson = False) -> None:
    """Join episodes that belong together, shorten old ones, close what has faded, and tidy the indexes."""
    with stderr().status("tidying up"):
        done = run(Place(db, bank, llm), lambda memory: memory.maintain())
    if as_json:
        print_json(done.model_dump(mode="json"))
    else:
        episodes = f"{many(done.joined, 'episode')} joined, {done.shortened:,} shortened"
        stdout().print(f"{episodes}, {many(done.pruned, 'fact')} faded, indexes in order")
