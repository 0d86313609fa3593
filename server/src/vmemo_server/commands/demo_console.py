"""`vmemo demo --console`: the console on sample data."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from vmemo import Disposition, Memory, Message, Profile
from vmemo.cli.output import stdout
from vmemo.models import ConfidenceChange, Fact, FactId, Network, Stance
from vmemo.models.base import new_fact_id
from vmemo.models.changes import Changes, NewFact
from vmemo.models.search import Vector
from vmemo.models.select import FactSelect
from vmemo.ports import TokenCounter
from vmemo_server.launch import Address, ServerLauncher

_PROFILES = (
    Profile(name="Juno", disposition=Disposition(empathy=4), background="I help Maya plan her days."),
    Profile(
        name="Juno",
        disposition=Disposition(skepticism=2, literalism=2, empathy=5),
        background="I help Maya plan her days. I know her family, her dog Biscuit and her training.",
    ),
)


@dataclass(frozen=True)
class _Change:
    """A change of an opinion's confidence, and the message whose facts are its evidence."""

    message: str
    stance: Stance
    after: float
    reason: str


@dataclass(frozen=True)
class _Belief:
    """An opinion or an observation; the facts of the messages are its basis."""

    network: Network
    text: str
    messages: tuple[str, ...]
    about: tuple[str, ...] = ()
    changes: tuple[_Change, ...] = ()


BELIEFS = (
    _Belief(
        "opinion",
        "Changing to machine learning was the right step for Maya.",
        ("demo-10", "demo-14", "demo-22"),
        ("Maya",),
        (
            _Change("demo-10", "neutral", 0.55, "She is nervous about the maths."),
            _Change("demo-14", "reinforce", 0.7, "It went better than she feared."),
            _Change("demo-22", "reinforce", 0.88, "She was promoted within a year."),
        ),
    ),
    _Belief(
        "opinion",
        "A flat on the third floor is too much for Biscuit.",
        ("demo-05", "demo-17"),
        ("Biscuit",),
        (
            _Change("demo-05", "neutral", 0.6, "He is afraid of the stairs."),
            _Change("demo-17", "contradict", 0.2, "He has learned the stairs."),
        ),
    ),
    _Belief(
        "opinion",
        "Maya will be ready for the half marathon in May.",
        ("demo-19", "demo-20"),
        ("Maya",),
        (
            _Change("demo-19", "neutral", 0.5, "She set herself the goal."),
            _Change("demo-20", "reinforce", 0.65, "She trains before breakfast."),
        ),
    ),
    _Belief(
        "observation",
        "Maya is a machine learning engineer who leads the perception team at Fernhill Robotics in Edinburgh. She "
        "lives in Marchmont with Tom and their greyhound Biscuit, eats no meat, is allergic to hazelnuts, and trains "
        "for a half marathon.",
        ("demo-07", "demo-17", "demo-20", "demo-22"),
        ("Maya",),
    ),
    _Belief(
        "observation",
        "Ines is Maya's sister. She bakes a lot and marries in Porto in April 2025.",
        ("demo-03", "demo-24"),
        ("Ines",),
    ),
)
"""Opinions and observations such as a language model forms from the sample conversation."""


async def fill(memory: Memory, conversation: Sequence[Message]) -> None:
    """Store the conversation with profiles, opinions and observations, unless it is stored already."""
    retained = await memory.retain(conversation, document="demo")
    if not retained.stored:
        return
    for profile in _PROFILES:
        await memory.profile(profile)
    lookup = memory.lookup
    stated = await lookup.select_facts(FactSelect(with_embeddings=True))
    made = [_believe(belief, stated, lookup.tokens) for belief in BELIEFS]
    changes = [change for _, changes in made for change in changes]
    await lookup.store.commit(Changes(bank=lookup.name, facts=[new for new, _ in made], confidence_history=changes))


def _believe(belief: _Belief, stated: Sequence[Fact], count: TokenCounter) -> tuple[NewFact, list[ConfidenceChange]]:
    """Return a belief as a fact near those that it rests on, and the changes of its confidence."""
    basis = [fact for fact in stated if set(fact.messages) & set(belief.messages)]
    mentions = {mention.name: mention for fact in basis for mention in fact.entities}
    at = min(fact.mentioned_at for fact in basis) if belief.changes else max(fact.mentioned_at for fact in basis)
    fact = Fact(
        id=FactId(new_fact_id()),
        bank=basis[0].bank,
        network=belief.network,
        text=belief.text,
        tokens=count(belief.text),
        mentioned_at=at,
        valid_at=at,
        confidence=belief.changes[-1].after if belief.changes else None,
        entities=tuple(mentions[name] for name in belief.about if name in mentions),
        basis=tuple(fact.id for fact in basis),
        engine="demo",
    )
    return NewFact(fact=fact, embedding=_mean(basis)), _changes(belief, fact.id, basis)


def _changes(belief: _Belief, opinion: FactId, basis: Sequence[Fact]) -> list[ConfidenceChange]:
    before, made = 0.5, list[ConfidenceChange]()
    for change in belief.changes:
        evidence = [fact for fact in basis if change.message in fact.messages]
        made.append(
            ConfidenceChange(
                opinion=opinion,
                stance=change.stance,
                before=before,
                after=change.after,
                evidence=tuple(fact.id for fact in evidence),
                reason=change.reason,
                at=evidence[0].mentioned_at,
            )
        )
        before = change.after
    return made


def _mean(facts: Sequence[Fact]) -> Vector:
    """Return the direction in the middle of the facts' vectors, which every embedder has."""
    vectors = np.array([fact.embedding for fact in facts], dtype=np.float32)
    summed: Vector = vectors.sum(axis=0)
    return summed / np.float32(np.linalg.norm(summed))


def serve_console(memory: Memory, conversation: Sequence[Message], port: int) -> None:
    """Fill the bank and serve the console until the process is stopped."""

    async def run() -> None:
        await fill(memory, conversation)
        address = f"http://127.0.0.1:{port}/console/banks/{memory.lookup.name}"
        stdout().print(f"The console: {address}\nIt ends with Ctrl+C.", soft_wrap=True)
        await ServerLauncher(address=Address(port=port)).run(memory)

    asyncio.run(run())
