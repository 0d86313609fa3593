"""Known facts that new messages touch: those that they may outdate or repeat, and those about entities they name."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from vmemo.models import BankId, Entity, EntityId, Fact, Message
from vmemo.models.search import StatementPair, Vectors
from vmemo.models.select import EntitySelect, FactSelect
from vmemo.retain.context import RetainContext
from vmemo.retain.revise import is_current
from vmemo.retain.revise_by_model import is_past_event
from vmemo.retain.write_plan import MESSAGE_CHARACTERS, stack_vectors
from vmemo.text.names import find_names

KNOWN_FACTS = 10
"""Known facts that are shown, at most."""
NEAREST, MIN_COSINE = 8, 0.3
"""Facts near each message that are considered, and their least cosine."""
NAMED_ENTITIES, FACTS_PER_ENTITY = 8, 4
"""Entities named in the messages, and facts of each, that are considered as well."""
COMPARED_MESSAGES = 4
"""Messages nearest to a fact that may outdate it."""
NAMED, PAST_EVENT, TOUCHED = 0.2, 0.3, 0.15
"""Weight of a named entity, which falls with its mentions; factor for past events, which only a correction outdates;
least score with which a fact is shown: the probability that it is outdated, the weight of its entities, and how much
nearer it is to one of the messages than facts are on average."""
FEW_FACTS = 5
"""Facts up to which all are shown: what is usual in a bank is not known yet."""
REPEATED_COSINE = 0.65
"""Cosine from which a message probably repeats a known fact: news of the same people is mostly below .6."""


@dataclass(frozen=True, kw_only=True)
class KnownFacts:
    """Known facts in the order of their relevance, and the known entities that the messages name.

    `repeats` is set if most messages probably repeat known facts.
    """

    facts: tuple[Fact, ...] = ()
    names: tuple[str, ...] = ()
    repeats: bool = False


async def known_facts(bank: BankId, messages: Sequence[Message], context: RetainContext) -> KnownFacts:
    """Return the current facts that messages touch.

    Facts that a message may outdate, by the revision model, or that are about a rare entity it names come first, then
    those that it may repeat. Without such a model these are all facts near the messages or about their entities, the
    most similar first.
    """
    speakers = {message.voice for message in messages}
    entities = await _named(bank, messages, speakers, context)
    names = tuple(entity.name for entity in entities if entity.name not in speakers)
    vectors = await _vectors(messages, context)
    facts = await _candidates(bank, vectors, entities, messages, context)
    if not facts:
        return KnownFacts(names=names)
    cosines = _by_message(vectors @ np.stack([np.array(fact.embedding, np.float32) for fact in facts]).T)
    best: list[float] = cosines.max(axis=0).tolist()
    outdated = await _outdated(messages, facts, cosines, context)
    if outdated is None:
        chosen = sorted(range(len(facts)), key=lambda at: -best[at])
    else:
        distinct: list[float] = (cosines - cosines.mean(axis=1, keepdims=True)).max(axis=0).tolist()
        named = {entity.id: NAMED / max(1, entity.mentions) ** 0.5 for entity in entities if entity.name in names}
        score = [
            (p + near + _named_weight(fact, named)) * (PAST_EVENT if is_past_event(fact) else 1)
            for p, near, fact in zip(outdated, distinct, facts, strict=True)
        ]
        few = len(facts) <= FEW_FACTS
        touched = [at for at in range(len(facts)) if few or score[at] >= TOUCHED or best[at] >= REPEATED_COSINE]
        chosen = sorted(touched, key=lambda at: (score[at] < TOUCHED, -score[at], -best[at]))
    repeated = float((cosines.max(axis=1) >= REPEATED_COSINE).mean())
    return KnownFacts(
        facts=tuple(facts[at].model_copy(update={"embedding": None}) for at in chosen[:KNOWN_FACTS]),
        names=names,
        repeats=repeated >= 0.5,
    )


def _named_weight(fact: Fact, named: Mapping[EntityId, float]) -> float:
    return max((named.get(mention.id, 0.0) for mention in fact.entities), default=0.0)


async def _vectors(messages: Sequence[Message], context: RetainContext) -> Vectors:
    """Return the embedding of each message, and of each with the message before it, which it may answer."""
    texts = [_said(message) for message in messages]
    pairs = [f"{before}\n{text}" for before, text in pairwise(texts)]
    found = await context.embedder.embed([*texts, *pairs], "document")
    return stack_vectors(list(found), context.embedder.dimension)


def _by_message(cosines: Vectors) -> Vectors:
    """Return the cosines of each message, alone or with the message before it, and of all facts."""
    alone, together = cosines[: (len(cosines) + 1) // 2], cosines[(len(cosines) + 1) // 2 :]
    alone[1:] = np.maximum(alone[1:], together)
    return alone


def _said(message: Message) -> str:
    return f"{message.voice}: {message.content[:MESSAGE_CHARACTERS]}"


async def _named(bank: BankId, messages: Sequence[Message], speakers: set[str], context: RetainContext) -> list[Entity]:
    """Return the known entities that the messages name, and the speakers."""
    found = await asyncio.to_thread(
        lambda: {name.name for message in messages for name in find_names(message.content, speakers=speakers)}
    )
    names = [*sorted(speakers), *sorted(found - speakers)]
    return list(await context.store.entities(bank, EntitySelect(names=names)))[:NAMED_ENTITIES]


async def _candidates(
    bank: BankId, vectors: Vectors, entities: Sequence[Entity], messages: Sequence[Message], context: RetainContext
) -> list[Fact]:
    """Return current facts near the messages and about the entities, with their embeddings."""
    near = await _nearest(bank, vectors, context)
    about = [
        fact
        for entity in entities
        for fact in await context.store.facts(
            bank, replace(FactSelect.about(entity.id, limit=FACTS_PER_ENTITY), with_embeddings=True)
        )
    ]
    own = {message.id for message in messages}
    known = {fact.id: fact for fact in (*near, *about)}
    return [fact for fact in known.values() if is_current(fact) and own.isdisjoint(fact.messages)]


async def _nearest(bank: BankId, vectors: Vectors, context: RetainContext) -> list[Fact]:
    """Return the facts nearest to each vector. Opinions and profiles are among them and repeat what facts say."""
    found = await context.store.nearest(bank, vectors, limit=2 * NEAREST, floor=MIN_COSINE)
    ids = list(dict.fromkeys(hit.id for hits in found for hit in hits))
    loaded = await context.store.facts(bank, FactSelect(ids=ids, with_embeddings=True)) if ids else []
    facts = {fact.id: fact for fact in loaded if fact.network in ("world", "experience")}
    near = (hit.id for hits in found for hit in [hit for hit in hits if hit.id in facts][:NEAREST])
    return [facts[id] for id in dict.fromkeys(near)]


async def _outdated(
    messages: Sequence[Message], facts: Sequence[Fact], cosines: Vectors, context: RetainContext
) -> list[float] | None:
    """Return for each fact the probability that one of the messages nearest to it makes it outdated.

    None without a revision model.
    """
    model = context.revision_model
    if model is None:
        return None
    nearest: list[list[int]] = np.argsort(-cosines, axis=0)[:COMPARED_MESSAGES].T.tolist()
    pairs = [
        _pair(fact, messages[n], float(cosines[n, at]))
        for at, (fact, near) in enumerate(zip(facts, nearest, strict=True))
        for n in near
    ]
    scores = np.array(await model.score(pairs)).reshape(len(facts), -1)
    return scores.max(axis=1).tolist()


def _pair(fact: Fact, message: Message, cosine: float) -> StatementPair:
    days = (message.timestamp.date() - fact.mentioned_at.date()).days
    return StatementPair(fact.text, f"{message.voice}: {message.content}", days, cosine)
