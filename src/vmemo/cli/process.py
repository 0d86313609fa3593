"""`vmemo process`, `vmemo reprocess` and `vmemo maintain`."""

from __future__ import annotations

from collections import Counter

from vmemo import Memory, Retained
from vmemo.cli.command import command
from vmemo.cli.options import DEFAULT_BANK, DEFAULT_DB, AsJson, BankName, Db, EmbedderName, Model
from vmemo.cli.output import counted, print_json, stderr, stdout
from vmemo.cli.progress import with_progress
from vmemo.cli.retain import pending_messages, show
from vmemo.cli.target import Target, run
from vmemo.models.results import Job


@command("vmemo process", "vmemo process --llm ollama:qwen3:8b --bank alice", "vmemo process --json")
def process(
    db: Db = DEFAULT_DB,
    bank: BankName = DEFAULT_BANK,
    llm: Model = None,
    embedder: EmbedderName = None,
    as_json: AsJson = False,
) -> None:
    """Derive facts from pending messages, failed ones included, and say which jobs are left to a worker."""

    async def verb(memory: Memory) -> tuple[Retained, list[Job]]:
        done = await with_progress(
            memory.process(), lambda: pending_messages(memory), what="processing messages", shown=not as_json
        )
        return done, await memory.jobs()

    done, left = run(Target(db, bank, llm, embedder), verb)
    kinds = Counter(job.kind for job in left)
    if as_json:
        print_json({**done.model_dump(mode="json"), "left": dict(kinds)})
        return
    show(done, stored=False)
    if left:
        listed = ", ".join(f"{count:,} {kind}" for kind, count in kinds.items())
        stdout().print(
            f"{counted(len(left), 'job')} left to a worker: {listed}. `vmemo worker --once` runs those that are due; "
            "`vmemo jobs` lists them.",
            markup=False,
        )


@command(
    "vmemo reprocess --llm openai:gpt-5-mini",
    "vmemo reprocess   with the local engine",
    "vmemo reprocess --bank alice --json",
    resume="vmemo reprocess",
)
def reprocess(
    db: Db = DEFAULT_DB,
    bank: BankName = DEFAULT_BANK,
    llm: Model = None,
    embedder: EmbedderName = None,
    as_json: AsJson = False,
) -> None:
    """Derive all facts from the messages again with this engine; the bank stays available meanwhile."""

    async def verb(memory: Memory) -> Retained:
        work = memory.reprocess()
        return await with_progress(work, memory.left_to_reprocess, what="reprocessing messages", shown=not as_json)

    _print_result(run(Target(db, bank, llm, embedder), verb), as_json)


def _print_result(done: Retained, as_json: bool) -> None:
    if as_json:
        print_json(done.model_dump(mode="json"))
    else:
        show(done, stored=False)


@command("vmemo maintain", "vmemo maintain --bank alice --llm openai:gpt-5-mini --json")
def maintain(
    db: Db = DEFAULT_DB,
    bank: BankName = DEFAULT_BANK,
    llm: Model = None,
    embedder: EmbedderName = None,
    as_json: AsJson = False,
) -> None:
    """Join related episodes, shorten old ones, close faded facts and optimise the indexes."""
    with stderr().status("maintaining"):
        done = run(Target(db, bank, llm, embedder), lambda memory: memory.maintain())
    if as_json:
        print_json(done.model_dump(mode="json"))
    else:
        episodes = f"{counted(done.joined, 'episode')} joined, {done.shortened:,} shortened"
        expired = f"{counted(done.forgotten, 'expired message')} forgotten, " if done.forgotten else ""
        stdout().print(f"{expired}{episodes}, {counted(done.pruned, 'fact')} closed, indexes optimised")
