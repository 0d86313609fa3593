"""`vmemo demo --console`: the console on sample data."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from importlib.resources import files

import numpy as np

from vmemo import Memory, Message, Profile
from vmemo.cli.output import stdout
from vmemo.models import ConfidenceChange, Fact, FactId, Network, Stance
from vmemo.models.changes import Changes, NewFact
from vmemo.models.records import Record, new_fact_id
from vmemo.models.search import Vector
from vmemo.models.select import FactSelect
from vmemo.providers import count_tokens
from vmemo_server.launch import Address, ServerLauncher


class BeliefChange(Record):
    """A change of an opinion's confidence, and the message whose facts are its evidence."""

    message: str
    stance: Stance
    after: float
    reason: str


class SampleBelief(Record):
    """An opinion or an observation; the facts of the messages are its basis."""

    network: Network
    text: str
    messages: tuple[str, ...]
    about: tuple[str, ...] = ()
    changes: tuple[BeliefChange, ...] = ()


class ConsoleSample(Record):
    """Profiles, and opinions and observations such as a language model forms from the sample conversation."""

    profiles: tuple[Profile, ...]
    beliefs: tuple[SampleBelief, ...]


async def fill(memory: Memory, conversation: Sequence[Message]) -> None:
    """Store the conversation with profiles, opinions and observations, unless it is stored already."""
    retained = await memory.retain(conversation, document="demo")
    if not retained.stored:
        return
    data = (files("vmemo_server.commands") / "demo_console.json").read_text("utf-8")
    sample = ConsoleSample.of(json.loads(data))
    for profile in sample.profiles:
        await memory.profile(profile)
    stated = await memory.store.facts(memory.name, FactSelect(with_embeddings=True))
    made = [_believe(belief, stated) for belief in sample.beliefs]
    changes = [change for _, changes in made for change in changes]
    facts = [new for new, _ in made]
    await memory.store.commit(Changes(bank=memory.name, facts=facts, confidence_history=changes))


def _believe(belief: SampleBelief, stated: Sequence[Fact]) -> tuple[NewFact, list[ConfidenceChange]]:
    """Return a belief as a fact near those that it rests on, and the changes of its confidence."""
    basis = [fact for fact in stated if set(fact.messages) & set(belief.messages)]
    mentions = {mention.name: mention for fact in basis for mention in fact.entities}
    at = min(fact.mentioned_at for fact in basis) if belief.changes else max(fact.mentioned_at for fact in basis)
    fact = Fact(
        id=FactId(new_fact_id()),
        bank=basis[0].bank,
        network=belief.network,
        text=belief.text,
        tokens=count_tokens(belief.text),
        mentioned_at=at,
        valid_at=at,
        confidence=belief.changes[-1].after if belief.changes else None,
        entities=tuple(mentions[name] for name in belief.about if name in mentions),
        basis=tuple(fact.id for fact in basis),
        engine="demo",
    )
    return NewFact(fact=fact, embedding=_mean(basis)), _changes(belief, fact.id, basis)


def _changes(belief: SampleBelief, opinion: FactId, basis: Sequence[Fact]) -> list[ConfidenceChange]:
    before, made = 0.5, list[ConfidenceChange]()
    for change in belief.changes:
        evidence = [fact for fact in basis if change.message in fact.messages] or basis[-1:]
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
        address = f"http://127.0.0.1:{port}/console/banks/{memory.name}"
        stdout().print(f"The console: {address}\nIt ends with Ctrl+C.", soft_wrap=True)
        await ServerLauncher(address=Address(port=port)).run(memory)

    asyncio.run(run())
