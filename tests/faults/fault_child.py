"""A program that runs verbs in children which are killed or run out of disk.

Each line of input is a JSON object: `verb`, `folder`, and `kill_at`, the number of the commit before which the child
kills itself, or `limit`, the largest size of a file in bytes. Each line of output is the outcome: `done`, `killed`, or
the names of the raised error's classes.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import signal
import sys
from itertools import count
from pathlib import Path

from sqlalchemy import Engine, event
from verbs import VERBS, fill, memory_at

from vmemo.lifecycle import forget

LEASE_SECONDS = 0.5
"""Seconds after which a bank that a killed child held is free again."""


async def run(verb: str, folder: Path) -> None:
    """Run a verb on the bank in a folder."""
    async with memory_at(folder / "memory.db", llm=VERBS[verb].llm) as memory:
        await VERBS[verb].run(memory, folder)


def kill_before_commit(number: int) -> None:
    """Have this process kill itself before its n-th commit."""
    commits = count(1)

    def on_commit(_: object) -> None:
        if next(commits) == number:
            os.kill(os.getpid(), signal.SIGKILL)

    event.listen(Engine, "commit", on_commit)


def child(order: dict[str, object], say: int) -> None:
    """Run one order and write its outcome."""
    verb, folder = str(order["verb"]), Path(str(order["folder"]))
    if isinstance(order.get("kill_at"), int):
        kill_before_commit(int(str(order["kill_at"])))
    if isinstance(order.get("limit"), int):
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (int(str(order["limit"])), resource.RLIM_INFINITY))
    try:
        asyncio.run(run(verb, folder))
        outcome = "done"
    except BaseException as error:
        outcome = " ".join(each.__name__ for each in type(error).__mro__)
        outcome += f": {error!r:.300}"
    os.write(say, outcome.replace("\n", " ").encode())
    os._exit(0)


def main() -> None:
    """Import everything once, then fork a child for each order."""
    warm = Path(sys.argv[1])
    forget.LEASE_SECONDS = LEASE_SECONDS
    asyncio.run(fill(warm / "memory.db"))
    print("ready", flush=True)
    for line in sys.stdin:
        read, write = os.pipe()
        pid = os.fork()
        if pid == 0:
            child(json.loads(line), write)
        os.close(write)
        with os.fdopen(read) as pipe:
            outcome = pipe.read()
        _, status = os.waitpid(pid, 0)
        print(outcome if outcome else f"killed {os.WTERMSIG(status)}", flush=True)


if __name__ == "__main__":
    main()
