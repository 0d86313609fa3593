"""A program that synchronizes in children which kill themselves before their n-th commit or change of a file.

It makes two machines that wrote apart, forks a child for each step until one ends by itself, compares both machines,
and prints how many children were killed.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from itertools import count
from pathlib import Path

from sqlalchemy import Engine, event
from sync_banks import content_of

from vmemo import Memory
from vmemo.models.select import MessageSelect
from vmemo_conformance.embedders import HashEmbedder
from vmemo_sync import sync


def machine(folder: Path, name: str) -> Memory:
    return Memory(folder / f"{name}.db", embedder=HashEmbedder())


async def prepare(folder: Path) -> None:
    one, two = machine(folder, "one"), machine(folder, "two")
    await one.retain(["I live in Porto.", "My code is 7031."], speaker="Eve")
    await sync(one, folder / "shared")
    await sync(two, folder / "shared")
    [code] = await two.store.messages(two.name, MessageSelect(containing=["7031"]))
    await two.forget(messages=[code.id])
    await two.retain("I prefer tea.", speaker="Eve")
    [fact] = [each for each in await two.facts() if "Porto" in each.text]
    await two.update(fact.id, "Eve: I live in Braga.")
    await sync(two, folder / "shared")
    await one.retain("I sold my car.", speaker="Eve")
    await one.close()
    await two.close()


async def check(folder: Path) -> None:
    one, two = machine(folder, "one"), machine(folder, "two")
    for memory in (two, one, two):
        await sync(memory, folder / "shared")
    first, second = await content_of(one), await content_of(two)
    assert first == second, (first, second)
    messages = await one.store.messages(one.name, MessageSelect())
    assert sorted(message.content for message in messages) == ["I live in Porto.", "I prefer tea.", "I sold my car."]
    await one.close()
    await two.close()


async def run(folder: Path) -> None:
    memory = machine(folder, "one")
    await sync(memory, folder / "shared")
    await memory.close()


def kill_before(step: int, shared: str) -> None:
    """Have this process kill itself before its n-th commit or change of a file in the folder."""
    steps = count(1)

    def on_step(*_: object) -> None:
        if next(steps) == step:
            os.kill(os.getpid(), signal.SIGKILL)

    def on_audit(name: str, arguments: tuple[object, ...]) -> None:
        if name in ("os.rename", "os.remove") and str(arguments[0]).startswith(shared):
            on_step()

    event.listen(Engine, "commit", on_step)
    sys.addaudithook(on_audit)


def killed(step: int, folder: Path) -> bool:
    """Run the machine in a child to a step, and return True if that killed it."""
    child = os.fork()
    if child == 0:
        kill_before(step, str(folder / "shared"))
        asyncio.run(run(folder))
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert not os.WIFEXITED(status) or os.WEXITSTATUS(status) == 0
    return os.WIFSIGNALED(status)


def main(folder: Path) -> None:
    """Kill children until one gets through."""
    asyncio.run(prepare(folder))
    for number, step in enumerate(range(1, 40, 3)):
        if not killed(step, folder):
            asyncio.run(check(folder))
            print(number)
            return
    sys.exit("the last child was killed too")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
