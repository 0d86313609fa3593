"""Random writes to banks, and what a bank holds, for the tests of branches and synchronization."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import wraps
from typing import Literal, ParamSpec

from hypothesis import Phase, strategies as st

from vmemo import InvalidInput, Memory
from vmemo.models.select import EntitySelect, FactSelect, MessageSelect

P = ParamSpec("P")
PHASES = (Phase.explicit, Phase.reuse, Phase.generate)
"""An example takes seconds, so that one that fails is not shrunk."""


def run_async(test: Callable[P, Coroutine[object, object, None]]) -> Callable[P, None]:
    """Return a test that runs on an event loop of its own."""

    @wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        asyncio.run(test(*args, **kwargs))

    return run


START = datetime(2024, 3, 1, 9, tzinfo=UTC)
LINES = (
    "I moved to Lisbon last week.",
    "My sister Ana works at Siemens.",
    "Tom lives in Berlin with his dog Rex.",
    "I work at Google now.",
    "I no longer work at Google, I joined Anthropic.",
    "Ana left Siemens and joined Bosch.",
    "Tom Baker moved to Paris.",
    "I prefer tea over coffee.",
    "Always answer briefly.",
    "I moved from Lisbon to Porto yesterday.",
    "Dr. Ana Silva called me about the test.",
    "I sold my car.",
    "My car is a red Toyota.",
)
QUESTIONS = ("Where does Ana work?", "Where do I live?", "What does Tom do?", "Which car do I have?")
PAIRS = (("Eve", "Max"), ("Ana", "Rex"), ("Tom", "Anthropic"))
"""Entities that the user merges: no two merges have a name in common."""
Kind = Literal["say", "edit", "pin", "unpin", "forget", "delete", "merge", "split"]


@dataclass(frozen=True)
class Action:
    """One write; `place` selects its target among what the bank holds."""

    kind: Kind
    place: int = 0
    minutes: int = 0
    speaker: str = "Eve"


def _sayings(kind: st.SearchStrategy[Kind]) -> st.SearchStrategy[Action]:
    return st.builds(
        Action,
        kind=kind,
        place=st.integers(0, 100),
        minutes=st.integers(0, 3000),
        speaker=st.sampled_from(["Eve", "Max"]),
    )


say = _sayings(st.just("say"))
actions = st.lists(
    _sayings(st.sampled_from(["say", "say", "say", "edit", "pin", "unpin", "forget", "delete", "merge", "split"])),
    max_size=6,
)


async def apply_to(memory: Memory, chosen: Sequence[Action]) -> None:
    """Apply writes to a bank; one whose target does not exist does nothing."""
    await memory.open()
    for action in chosen:
        await _apply(memory, action)


async def _apply(memory: Memory, action: Action) -> None:
    if action.kind == "say":
        line, at = LINES[action.place % len(LINES)], START + timedelta(minutes=action.minutes)
        await memory.retain(line, speaker=action.speaker, timestamp=at)
    elif action.kind == "forget":
        messages = await memory.store.messages(memory.name, MessageSelect())
        if messages:
            await memory.forget(messages=[messages[action.place % len(messages)].id])
    elif action.kind in ("merge", "split"):
        await _apply_to_entities(memory, action)
    else:
        await _apply_to_fact(memory, action)


async def _apply_to_entities(memory: Memory, action: Action) -> None:
    entities = await memory.store.entities(memory.name, EntitySelect())
    known = {each.name: each.id for each in entities}
    if action.kind == "merge":
        keep, absorb = PAIRS[action.place % len(PAIRS)]
        if keep in known and absorb in known:
            await memory.merge_entities(known[keep], known[absorb])
        return
    made = [each for each in await memory.merges() if each.undone_at is None and each.absorbed is not None]
    held = [each for each in made if each.entity in known.values()]
    if held:
        # After a forget, or a deleted fact, the entity may have no other name left, so that it can't be divided.
        with suppress(InvalidInput):
            await memory.undo_merge(held[action.place % len(held)].id)


async def _apply_to_fact(memory: Memory, action: Action) -> None:
    facts = await memory.store.facts(memory.name, FactSelect(current=True, networks=("world", "experience")))
    if not facts:
        return
    fact = facts[action.place % len(facts)]
    if action.kind == "edit":
        await memory.update(fact.id, f"{action.speaker}: edited {LINES[action.minutes % len(LINES)]}")
    elif action.kind == "delete":
        await memory.delete(fact.id)
    else:
        await memory.pin(fact.id, pinned=action.kind == "pin")


async def content_of(memory: Memory) -> Mapping[str, object]:
    """Return what copies of a bank must have in common."""
    await memory.open()
    messages = await memory.store.messages(memory.name, MessageSelect())
    facts = await memory.store.facts(memory.name, FactSelect())
    recalls = {question: await memory.recall(question) for question in QUESTIONS}
    return {
        "messages": sorted((m.id, m.content, m.timestamp, m.state) for m in messages),
        "facts": sorted(
            (
                fact.text,
                sorted(fact.messages),
                str(fact.valid_at),
                str(fact.invalid_at),
                fact.expired_at is None,
                sorted((mention.name, mention.name_in_text) for mention in fact.entities),
                fact.pinned and fact.expired_at is None,
            )
            for fact in facts
        ),
        "recalls": {
            question: [(hit.fact.text, hit.status) for hit in recalled.hits] for question, recalled in recalls.items()
        },
    }
