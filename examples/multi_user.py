"""One bank per user: separate memories that share one database, its connections and the models."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

from vmemo import Memory

ANA, BEN = "ana@example.com", "6f1c2d8e-9b1d-4f0c-8a57-2f6a1c0e3b44"
"""Any text can be a user's id."""


async def answer(memory: Memory, user_id: str, message: str) -> str:
    """Answer one message of a user from that user's memories, and retain it."""
    own = memory.bank(user_id)
    context = await own.context(message, max_tokens=500)
    await own.retain(message)
    # Call your own model here, with the context as the system prompt.
    return f"{user_id}: {message}\n{context}\n"


async def main(file: Path) -> None:
    """Serve two users at the same time, each from memories of their own."""
    async with Memory(file) as memory:
        await asyncio.gather(
            answer(memory, ANA, "I'm allergic to peanuts. Always answer in French."),
            answer(memory, BEN, "I collect vinyl records."),
        )
        print(await answer(memory, ANA, "What can I cook tonight?"))
        print(await answer(memory, BEN, "What do I collect?"))
        await memory.bank(ANA).forget(bank=True)
        print("left:", await memory.banks())


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(main(Path(folder) / "memory.db"))
