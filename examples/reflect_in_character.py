"""Two banks with different dispositions answer the same question from the same facts.

It runs offline with a scripted model behind an HTTP server. With your own model the rest stays the same:
`Memory(url, llm="openai:gpt-5-mini")`, or `llm="http://localhost:8000/v1#your-model"`.
"""

from __future__ import annotations

import asyncio
import tempfile
from datetime import UTC, datetime
from pathlib import Path

from pydantic import JsonValue

from vmemo import Answer, Disposition, Memory, MemoryLookup, Profile, Settings, TextDelta
from vmemo_conformance.fake_llm import ReceivedRequest
from vmemo_conformance.llm_server import ScriptedServer

TIMESTAMP = datetime(2024, 1, 8, 9, tzinfo=UTC)
QUESTION = "What do you think of remote work?"
MESSAGES = (
    "Since we do remote work, nobody commutes any more.",
    "Since remote work came, teams meet rarely.",
)
DISPOSITIONS = {
    "trusting": Disposition(skepticism=1, literalism=2, empathy=5),
    "skeptical": Disposition(skepticism=5, literalism=5, empathy=1),
}


def scripted_model(request: ReceivedRequest) -> JsonValue:
    """Answer as a language model would, according to the character in the prompt."""
    trusting = "You trust people" in request.system
    view = "a net positive, because no time is lost" if trusting else "a risk, because routines are lost"
    opinion: JsonValue = {
        "text": f"I think remote work is {view}.",
        "confidence": 0.8 if trusting else 0.7,
        "facts": ["F1", "F2"],
    }
    text = f"Nobody commutes any more [F1], and teams meet rarely [F2]. To me remote work is {view}."
    return {"calls": [], "steps": [], "found": True, "text": text, "opinions": [opinion], "revised": []}


async def main(file: Path, llm: str) -> None:
    """Retain the same messages in two banks, ask both, and print their opinions with the evidence."""
    for name, disposition in DISPOSITIONS.items():
        async with Memory(f"sqlite:///{file}", bank=name) as memory:
            await memory.profile(Profile(name=name.capitalize(), disposition=disposition, bias=0.8))
            for message in MESSAGES:
                await memory.retain(message, speaker="Alice", timestamp=TIMESTAMP)
        async with Memory(f"sqlite:///{file}", bank=name, llm=llm, settings=Settings(background=False)) as memory:
            print(f"--- {name}")
            await print_answer(memory)
            for opinion in await memory.opinions():
                print(f"held with {opinion.confidence:.2f}: {opinion.text}")
                for supporting in (await memory.why(opinion.id)).basis:
                    print(f"  because of: {supporting.fact.text}")


async def print_answer(memory: Memory) -> None:
    """Print the answer as it is generated, then its footnotes."""
    async for event in memory.reflect_stream(QUESTION):
        match event:
            case TextDelta(text=text):
                print(text, end="")
            case MemoryLookup(tool=tool, query=query):
                print(f"({tool}: {query})")
            case Answer():
                print(f"\n{event.footnotes()}")
            case _:
                print("\n(retracted)")


if __name__ == "__main__":
    with ScriptedServer({"reflect": scripted_model}) as server, tempfile.TemporaryDirectory() as folder:
        asyncio.run(main(Path(folder) / "memory.db", f"{server.url}#scripted"))
