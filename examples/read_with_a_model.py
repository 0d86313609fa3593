"""Extract facts with a language model, and recall what is true now and what was true before.

This example runs offline: the model is a script behind a real HTTP server. With a real model, only this changes:
`Memory(url, llm="openai:gpt-5-mini")`, or `llm="http://localhost:8000/v1#your-model"`.
"""

from __future__ import annotations

import asyncio
import tempfile
from datetime import UTC, datetime
from pathlib import Path

from pydantic import JsonValue

from vmemo import Memory, Settings
from vmemo_conformance.fake_llm import ReceivedRequest
from vmemo_conformance.llm_server import ScriptedServer

JANUARY, APRIL = datetime(2024, 1, 8, 9, tzinfo=UTC), datetime(2024, 4, 2, 9, tzinfo=UTC)


def model(asked: ReceivedRequest) -> JsonValue:
    """Answer like a language model for the two messages of this example."""
    if asked.step != "extract":
        raise AssertionError(f"unexpected step {asked.step!r}")
    if "Globex" in asked.user:
        return _extraction("Alice works at Globex as an engineer.", "Globex", since="2024-03-01", replaces=["K1"])
    return _extraction("Alice works at Acme as an engineer.", "Acme", since="2023-06-01")


def _extraction(what: str, employer: str, *, since: str, replaces: list[str] | None = None) -> JsonValue:
    fact: JsonValue = {"what": what, "since": since, "lines": [1], "ends": [{"id": id} for id in replaces or ()]}
    topics: JsonValue = {"Alice's work": [1]}
    return {"topics": topics, "facts": [fact], "names": {"person": ["Alice"], "organization": [employer]}}


async def main(file: Path, llm: str) -> None:
    """Retain two messages, recall at three times, and print the costs."""
    settings = Settings(background=False)
    async with Memory(f"sqlite:///{file}", llm=llm, settings=settings) as memory:
        await memory.retain("I work at Acme as an engineer, since June.", speaker="Alice", timestamp=JANUARY)
        done = await memory.retain("I started at Globex on 1 March.", speaker="Alice", timestamp=APRIL)
        print(f"{len(done.derived)} fact derived, {len(done.revised)} revised")

        question = "Where does Alice work as an engineer?"
        for at_time in (None, datetime(2024, 2, 1, tzinfo=UTC), datetime(2024, 3, 15, tzinfo=UTC)):
            found = await memory.recall(question, at_time=at_time)
            print(f"{'now' if at_time is None else at_time.date()}: {found.hits[0].text}")

        for fact in await memory.facts():
            until = "" if fact.invalid_at is None else f" until {fact.invalid_at.date()}"
            print(f"{fact.text} True from {fact.valid_at:%Y-%m-%d}{until}. Read by {fact.engine.rpartition('#')[2]}")
        for spent in (await memory.status()).spending:
            print(f"{spent.step}: {spent.calls} calls, {spent.failures} failures")


if __name__ == "__main__":
    with ScriptedServer(model) as server, tempfile.TemporaryDirectory() as folder:
        asyncio.run(main(Path(folder) / "memory.db", f"{server.url}#scripted"))
