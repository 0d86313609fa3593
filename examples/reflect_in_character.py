"""Two characters answer from the same memories: the facts are the same, what they make of them is not.

It runs offline: the model is a script behind a real HTTP server. With a model of your own the rest stays the same:
`Memory(url, llm="openai:gpt-5-mini")`, or `llm="http://localhost:8000/v1#your-model"`.
"""

from __future__ import annotations

import asyncio
import tempfile
from datetime import UTC, datetime
from pathlib import Path

from pydantic import JsonValue

from vmemo import Answer, Disposition, Memory, MemoryLookup, Profile, Settings, TextDelta
from vmemo.testing import ReceivedRequest, ScriptedServer

SAID = datetime(2024, 1, 8, 9, tzinfo=UTC)
QUESTION = "What do you think of remote work?"
CHARACTERS = {
    "trusting": Disposition(skepticism=1, literalism=2, empathy=5),
    "skeptical": Disposition(skepticism=5, literalism=5, empathy=1),
}


def model(asked: ReceivedRequest) -> JsonValue:
    """Stands for a language model: it judges by the character that it is told to have."""
    trusting = "You take people at their word" in asked.system
    kind = "a net positive, because no time is lost" if trusting else "a risk, because routines are lost"
    opinion: JsonValue = {
        "text": f"I think remote work is {kind}.",
        "confidence": 0.8 if trusting else 0.7,
        "facts": ["F1", "F2"],
    }
    text = f"Nobody commutes any more [F1], and teams meet rarely [F2]. To me remote work is {kind}."
    return {"look_for": [], "steps": [], "found": True, "text": text, "opinions": [opinion], "revised": []}


async def main(file: Path, llm: str) -> None:
    """Tell two banks the same, ask both, and look at what they rest on and what they think now."""
    for name, disposition in CHARACTERS.items():
        async with Memory(f"sqlite:///{file}", bank=name) as memory:
            await memory.profile(Profile(name=name.capitalize(), disposition=disposition, bias=0.8))
            for line in (
                "Since we do remote work, nobody commutes any more.",
                "Since remote work came, teams meet rarely.",
            ):
                await memory.retain(line, speaker="Alice", timestamp=SAID)
        async with Memory(f"sqlite:///{file}", bank=name, llm=llm, settings=Settings(background=False)) as memory:
            print(f"--- {name}")
            await ask(memory)
            for opinion in await memory.opinions():
                print(f"held with {opinion.confidence:.2f}: {opinion.text}")
                for behind in (await memory.why(opinion.id)).basis:
                    print(f"  because of: {behind.fact.text}")


async def ask(memory: Memory) -> None:
    """Show the answer while it is written, and then what it rests on."""
    async for event in memory.reflect_stream(QUESTION):
        match event:
            case MemoryLookup(query=query):
                print(f"(looking for: {query})")
            case Answer():
                print(f"\n{event.footnotes()}")
            case TextDelta(text=text):
                print(text, end="")
            case _:
                print("\n(once more)")


if __name__ == "__main__":
    with ScriptedServer({"reflect": model}) as server, tempfile.TemporaryDirectory() as folder:
        asyncio.run(main(Path(folder) / "memory.db", f"{server.url}#scripted"))
