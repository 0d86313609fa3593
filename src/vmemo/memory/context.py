"""The verb that returns memories as one block for a system prompt."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from heapq import merge
from itertools import pairwise

from vmemo.errors import InvalidInput
from vmemo.memory.recall import recall, sessions_of
from vmemo.memory.session import MemorySession
from vmemo.models import Entity, EntityId, Fact, FactId, Hit, Message, MessageId, utc_now
from vmemo.models.prompt_context import ContextLog, ContextPrompt, PromptContext, Section
from vmemo.models.recalled import Recalled
from vmemo.models.records import ended_behind
from vmemo.models.requests import ContextRequest, RecallRequest
from vmemo.models.search import Vector
from vmemo.models.select import EntitySelect, FactSelect, MessageSelect
from vmemo.recall.answerable import answer_weights, constraint_direction, towards_constraints
from vmemo.recall.load import choose_instructions
from vmemo.recall.rank import MAX_INSTRUCTIONS
from vmemo.recall.run import RELEVANT
from vmemo.text.names.compare import fold_name, folded_names
from vmemo.text.questions import MAX_QUERY_CHARS

PINNED = FactSelect(pinned=True, current=True, newest_first=True, limit=100)
MAX_OBSERVATIONS = 50
MAX_CONSTRAINTS = 6
LEAST_CONSTRAINT, LEAST_ADVISED = 0.0, 0.2
"""Least cosine of a constraint with their direction, and with a question for advice that is moved towards it."""
MAX_SESSIONS = 256
"""Sessions whose blocks are kept; the one not used for longest is dropped, and begins anew."""
MAX_RECENT = 4
"""Newest facts that are considered."""
RECENT = FactSelect(current=True, networks=("world", "experience"), newest_first=True, limit=MAX_RECENT)
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
    """Return memories in sections of a fixed order that fit into the budget.

    Of several banks, each section joins the facts of all.
    """
    settings = session.context.settings
    sessions = sessions_of(session, request)
    found = await _relevant(session, request)
    direction = await _direction(session, request)
    gathered = await asyncio.gather(*(_gather(each, request, direction) for each in sessions))
    # What a session shows in its first turn must not depend on the question of that turn.
    question = "" if request.session else request.query or ""
    relevant = {hit.id for hit in found.hits} if found and not request.session else set[FactId]()
    tokens = min(settings.instruction_tokens, request.max_tokens)
    instructions = _newest([each.instructions for each in gathered])
    constraints = sorted((hit for each in gathered for hit in each.constraints), key=lambda hit: -hit.score)
    users = {each.user.name for each in gathered if each.user.name is not None}
    user = users.pop() if len(users) == 1 else None
    candidates: dict[Section, Sequence[Hit]] = {
        "profile": [hit for each in gathered for hit in each.profile],
        "instructions": _as_hits(choose_instructions(instructions, relevant, tokens, question=question)),
        "constraints": constraints[:MAX_CONSTRAINTS],
        "pinned": _as_hits(_newest([each.pinned for each in gathered])),
        "changes": _open_changes(found.hits) if found else (),
        "relevant": found.hits if found else (),
        "recent": _as_hits(_latest_session(_newest([each.recent for each in gathered]), settings.episode_gap_minutes)),
    }
    banks = tuple(each.bank for each in sessions) if request.banks else ()
    prompt = ContextPrompt(candidates=candidates, user=user, query=request.query, banks=banks)
    count = session.context.counter
    # In a thread, because the text is counted many times.
    if request.session is None:
        return await asyncio.to_thread(prompt.fit, request.max_tokens, count)
    log = await _session_log(sessions, request.session, user)
    return await asyncio.to_thread(log.next_turn, prompt, request.max_tokens, count)


@dataclass(frozen=True)
class _Gathered:
    """The facts of one bank for the sections that do not follow from a recall."""

    user: _User
    profile: Sequence[Hit]
    instructions: Sequence[Fact]
    constraints: Sequence[Hit]
    pinned: Sequence[Fact]
    recent: Sequence[Fact]


async def _gather(session: MemorySession, request: ContextRequest, direction: Vector | None) -> _Gathered:
    bank, reads = session.bank, session.reads
    instructions = await reads.facts(
        bank, FactSelect(instructions=True, current=True, newest_first=True, limit=MAX_INSTRUCTIONS)
    )
    recent = await reads.facts(bank, RECENT)
    shown = _latest_session(recent, session.context.settings.episode_gap_minutes)
    ids = list(dict.fromkeys(id for fact in (*instructions, *shown) for id in fact.messages))
    sources = await reads.messages(bank, MessageSelect(ids=ids))
    user = await _user(session, request.user, sources)
    said = {message.id for message in sources if user.may_have_said(message)}
    return _Gathered(
        user=user,
        profile=await _profile(session, user, request.now or utc_now()),
        instructions=[fact for fact in instructions if not fact.messages or said.intersection(fact.messages)],
        constraints=[] if direction is None else await _constraints(session, direction, for_all=bool(request.session)),
        pinned=await reads.facts(bank, PINNED),
        recent=shown,
    )


def _newest(banks: Sequence[Sequence[Fact]]) -> list[Fact]:
    """Return the facts of several banks, the newest first; those of one bank keep their order."""
    return list(merge(*banks, key=lambda fact: fact.mentioned_at, reverse=True))


async def _relevant(session: MemorySession, request: ContextRequest) -> Recalled | None:
    if request.query is None:
        return None
    values = {"query": request.query, "max_tokens": request.max_tokens, "now": request.now, "precise": request.precise}
    query = RecallRequest.of({**values, "banks": request.banks, "explain": True})
    found = await recall(session, query, share=RELEVANT)
    hits = tuple(hit.model_copy(update={"path": (), "reranking": None}) for hit in found.hits)
    return found.model_copy(update={"hits": hits, "explanation": None})


def _open_changes(hits: Sequence[Hit]) -> list[Hit]:
    """Return the hits that a newer one may have outdated, and those newer ones, the newest first."""
    known = {hit.id: hit for hit in hits}
    pairs = [(newer.fact, hit.id) for hit in hits if hit.status == "maybe_outdated" for newer in hit.newer]
    ids = {id for pair in pairs if pair[0] in known for id in pair}
    return sorted((known[id] for id in ids), key=lambda hit: hit.fact.mentioned_at, reverse=True)


async def _profile(session: MemorySession, user: _User, at: datetime) -> list[Hit]:
    """Return the observations about the user, and then those about others, of whom the user speaks.

    One that rests on a fact that has ended by then, wholly or in part, may be outdated.
    """
    observed = FactSelect(current=True, networks=("observation",), newest_first=True, limit=MAX_OBSERVATIONS)
    if (entity := user.entity) is None:
        return []
    facts = await session.reads.facts(session.bank, observed)
    ids = list({id for fact in facts for id in fact.basis})
    basis = {fact.id: fact for fact in await session.reads.facts(session.bank, FactSelect(ids=ids))}
    facts = sorted(facts, key=lambda fact: all(mention.id != entity.id for mention in fact.entities))
    return [
        Hit(fact=fact, score=0.0, status="maybe_outdated" if ended_behind(fact, basis, at) else "current")
        for fact in facts
    ]


async def _direction(session: MemorySession, request: ContextRequest) -> Vector | None:
    """Return a vector that constraints are near to: those for any question in a session, else for the query.

    Without a session, only a query for advice has any.
    """
    embedder = session.context.embedder
    if request.session:
        weights = answer_weights(embedder)
        return None if weights is None else constraint_direction(weights)
    if request.query is None:
        return None
    [question] = await embedder.embed([request.query[:MAX_QUERY_CHARS]], "query")
    return towards_constraints(question, embedder)


async def _constraints(session: MemorySession, direction: Vector, *, for_all: bool) -> list[Hit]:
    """Return the facts that limit what can be advised, the nearest first."""
    floor = LEAST_CONSTRAINT if for_all else LEAST_ADVISED
    [found] = await session.reads.nearest(session.bank, direction[None], limit=MAX_CONSTRAINTS, floor=floor)
    facts = await session.reads.facts(session.bank, FactSelect(ids=[each.id for each in found], current=True))
    by_id = {fact.id: fact for fact in facts}
    return [Hit(fact=by_id[each.id], score=each.score) for each in found if each.id in by_id]


def _latest_session(newest: Sequence[Fact], gap_minutes: float) -> Sequence[Fact]:
    """Return the first of the newest facts: those without a pause before them that would begin a new episode."""
    newest = newest[:MAX_RECENT]
    gaps = [later.mentioned_at - earlier.mentioned_at for later, earlier in pairwise(newest)]
    gap = timedelta(minutes=gap_minutes)
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


async def _session_log(sessions: Sequence[MemorySession], name: str, user: str | None) -> ContextLog:
    """Return the log of a session; a new one if it has none, or if a fact in it was changed, closed or forgotten."""
    logs = sessions[0].runtime.context_logs
    key = (tuple(each.bank for each in sessions), user, name)
    log = logs.pop(key, None) or ContextLog()
    ids = list(log.facts)
    known: dict[FactId, datetime | None] = {}
    for each in sessions:
        known |= {fact.id: fact.expired_at for fact in await each.reads.facts(each.bank, FactSelect(ids=ids))}
        lines = [MessageId(id) for id in ids if id not in known]
        known |= {FactId(m.id): None for m in await each.reads.messages(each.bank, MessageSelect(ids=lines))}
    if any(id not in known or known[id] != fact.expired_at for id, fact in log.facts.items()):
        log = ContextLog()
    logs[key] = log
    while len(logs) > MAX_SESSIONS:
        del logs[next(iter(logs))]
    return log
