"""The verb that returns memories as one block for a system prompt."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import pairwise

import numpy as np

from vmemo.errors import InvalidInput
from vmemo.memory.recall import recall
from vmemo.memory.session import MemorySession
from vmemo.models import Entity, EntityId, Fact, FactId, Hit, Message, MessageId
from vmemo.models.prompt_context import ContextLog, ContextPrompt, PromptContext, Section
from vmemo.models.recalled import Recalled
from vmemo.models.requests import ContextRequest, RecallRequest
from vmemo.models.select import EntitySelect, FactSelect, MessageSelect
from vmemo.recall.answerable import LEAST_ADVICE, advice, answer_weights, constraint_direction
from vmemo.recall.load import choose_instructions
from vmemo.recall.rank import MAX_INSTRUCTIONS
from vmemo.recall.run import RELEVANT
from vmemo.text.names.compare import fold_name, folded_names
from vmemo.text.questions import MAX_QUERY_CHARS

PINNED = FactSelect(pinned=True, current=True, newest_first=True, limit=100)
MAX_OBSERVATIONS = 50
MAX_LIMITS = 64
"""Facts nearest to the direction of constraints that are considered."""
MAX_CONSTRAINTS = 8
LEAST_CONSTRAINT = 0.05
MAX_SESSIONS = 256
"""Sessions whose blocks are kept; the one not used for longest is dropped, and begins anew."""
MAX_RECENT = 4
SAMPLED_MESSAGES = 100
"""First messages of the bank whose speakers are its users, with those of the latest facts and of instructions."""


@dataclass(frozen=True)
class _User:
    """The user that a context is for: a name, the entity that has it, and all folded names of that entity."""

    name: str | None
    entity: Entity | None = None

    def may_have_said(self, message: Message) -> bool:
        """Return True unless another user said it; a message without a speaker is anybody's."""
        if self.name is None or message.speaker is None:
            return True
        aliases = (self.entity.name, *self.entity.aliases) if self.entity else ()
        return fold_name(message.speaker) in folded_names(self.name, aliases)


async def context(session: MemorySession, request: ContextRequest) -> PromptContext:
    """Return memories in sections of a fixed order that fit into the budget."""
    bank, reads, settings = session.bank, session.reads, session.context.settings
    found = await _relevant(session, request)
    instructions = await reads.facts(
        bank, FactSelect(instructions=True, current=True, newest_first=True, limit=MAX_INSTRUCTIONS)
    )
    recent = await _recent(session)
    ids = list(dict.fromkeys(id for fact in (*instructions, *recent) for id in fact.messages))
    sources = await reads.messages(bank, MessageSelect(ids=ids))
    user = await _user(session, request.user, sources)
    said = {message.id for message in sources if user.may_have_said(message)}
    own = [fact for fact in instructions if not fact.messages or said.intersection(fact.messages)]
    # What a session shows in its first turn must not depend on the question of that turn.
    question = "" if request.session else request.query or ""
    relevant = {hit.id for hit in found.hits} if found and not request.session else set[FactId]()
    tokens = min(settings.instruction_tokens, request.max_tokens)
    changes = _open_changes(found.hits) if found else []
    changing = {hit.id for hit in changes}
    candidates: dict[Section, Sequence[Hit]] = {
        "profile": _as_hits(await _profile(session, user)),
        "instructions": _as_hits(choose_instructions(own, relevant, tokens, question=question)),
        "constraints": _as_hits(await _constraints(session, request)),
        "pinned": _as_hits(await reads.facts(bank, PINNED)),
        "changes": changes,
        "relevant": [hit for hit in found.hits if hit.id not in changing] if found else (),
        "recent": _as_hits(recent),
    }
    prompt = ContextPrompt(candidates=candidates, user=user.name, query=request.query)
    count = session.context.counter
    # In a thread, because the text is counted many times.
    if request.session is None:
        return await asyncio.to_thread(prompt.fit, request.max_tokens, count)
    log = await _session_log(session, request.session, user)
    return await asyncio.to_thread(log.next_turn, prompt, request.max_tokens, count)


async def _relevant(session: MemorySession, request: ContextRequest) -> Recalled | None:
    if request.query is None:
        return None
    values = {"query": request.query, "max_tokens": request.max_tokens, "now": request.now, "precise": request.precise}
    found = await recall(session, RecallRequest.of({**values, "explain": True}), precision=RELEVANT)
    hits = tuple(hit.model_copy(update={"path": (), "reranking": None}) for hit in found.hits)
    return found.model_copy(update={"hits": hits, "explanation": None})


def _open_changes(hits: Sequence[Hit]) -> list[Hit]:
    """Return the hits that a newer one may have outdated, and those newer ones, the newest first."""
    known = {hit.id: hit for hit in hits}
    pairs = [(newer.fact, hit.id) for hit in hits if hit.status == "maybe_outdated" for newer in hit.newer]
    ids = {id for pair in pairs if pair[0] in known for id in pair}
    return sorted((known[id] for id in ids), key=lambda hit: hit.fact.mentioned_at, reverse=True)


async def _profile(session: MemorySession, user: _User) -> list[Fact]:
    """Return the observations about the user, and then those about others, of whom the user speaks."""
    observed = FactSelect(current=True, networks=("observation",), newest_first=True, limit=MAX_OBSERVATIONS)
    if user.entity is None:
        return []
    facts = await session.reads.facts(session.bank, observed)
    own = [fact for fact in facts if any(mention.id == user.entity.id for mention in fact.entities)]
    return [*own, *(fact for fact in facts if fact not in own)]


async def _constraints(session: MemorySession, request: ContextRequest) -> list[Fact]:
    """Return the facts that limit what can be advised, nearest to the query first; without a session, for advice."""
    embedder = session.context.embedder
    weights = answer_weights(embedder)
    if weights is None or not (request.session or request.query):
        return []
    direction, asked = constraint_direction(weights), None
    if request.query is not None and not request.session:
        [question] = await embedder.embed([request.query[:MAX_QUERY_CHARS]], "query")
        if advice(question, weights) < LEAST_ADVICE:
            return []
        asked = question
    vectors = np.stack([direction] if asked is None else [direction, asked])
    found = await session.reads.nearest(session.bank, vectors, limit=MAX_LIMITS, floor=LEAST_CONSTRAINT)
    ids = [hit.id for hit in found[0]]
    if asked is not None:
        near = {hit.id: place for place, hit in enumerate(found[1])}
        ids.sort(key=lambda id: near.get(id, MAX_LIMITS))
    facts = await session.reads.facts(session.bank, FactSelect(ids=ids[:MAX_CONSTRAINTS], current=True))
    by_id = {fact.id: fact for fact in facts}
    return [by_id[id] for id in ids if id in by_id]


async def _recent(session: MemorySession) -> list[Fact]:
    """Return the facts of the latest session, newest first: those without a pause that would begin a new episode."""
    select = FactSelect(current=True, networks=("world", "experience"), newest_first=True, limit=MAX_RECENT)
    newest = await session.reads.facts(session.bank, select)
    gaps = [later.mentioned_at - earlier.mentioned_at for later, earlier in pairwise(newest)]
    gap = timedelta(minutes=session.context.settings.episode_gap_minutes)
    last = next((n for n, pause in enumerate([*gaps, timedelta.max]) if pause > gap), 0)
    return newest[: last + 1]


async def _user(session: MemorySession, given: str | None, sources: Sequence[Message]) -> _User:
    """Return the user with a name or an entity's id, or the only one who speaks in the bank.

    If several entities have the name of the one who speaks, none of their profiles is certain to be the user's.
    """
    store, bank = session.reads, session.bank
    if given is None:
        first = await store.messages(bank, MessageSelect(limit=SAMPLED_MESSAGES))
        names = {message.speaker for message in (*first, *sources) if message.role == "user" and message.speaker}
        if len(names) != 1:
            return _User(None)
        [name] = names
        people = _people(await store.entities(bank, EntitySelect(names=[name])))
        return _User(name, people[0] if len(people) == 1 else None)
    by_id = await store.entities(bank, EntitySelect(ids=[EntityId(given)]))
    named = by_id or await store.entities(bank, EntitySelect(names=[given]))
    people = _people(named)
    if len(people) > 1:
        ids = ", ".join(entity.id for entity in people)
        raise InvalidInput(f"{len(people)} entities are called {given!r}; give the id of one as user: {ids}.")
    return _User(by_id[0].name if by_id else given, people[0] if people else None)


def _people(named: list[Entity]) -> list[Entity]:
    return [entity for entity in named if entity.type == "PERSON"] or named


def _as_hits(facts: Sequence[Fact]) -> list[Hit]:
    return [Hit(fact=fact, score=0.0) for fact in facts]


async def _session_log(session: MemorySession, name: str, user: _User) -> ContextLog:
    """Return the log of a session; a new one if it has none, or if a fact in it was changed, closed or forgotten."""
    logs, key = session.runtime.context_logs, (session.bank, user.name, name)
    log = logs.pop(key, None) or ContextLog()
    ids = list(log.facts)
    known = {fact.id: fact.expired_at for fact in await session.reads.facts(session.bank, FactSelect(ids=ids))}
    lines = [MessageId(id) for id in ids if id not in known]
    known |= {FactId(each.id): None for each in await session.reads.messages(session.bank, MessageSelect(ids=lines))}
    if any(id not in known or known[id] != fact.expired_at for id, fact in log.facts.items()):
        log = ContextLog()
    logs[key] = log
    while len(logs) > MAX_SESSIONS:
        del logs[next(iter(logs))]
    return log
