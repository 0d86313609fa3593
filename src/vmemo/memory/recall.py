"""The verbs that search a bank, and that return memories as one block for a system prompt."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import pairwise

from vmemo.errors import InvalidInput
from vmemo.memory.session import MemorySession
from vmemo.models import Entity, EntityId, Fact, FactId, Hit, Message, QuestionTense
from vmemo.models.prompt_context import ContextPrompt, PromptContext, Section
from vmemo.models.recalled import Recalled
from vmemo.models.requests import ContextRequest, RecallRequest
from vmemo.models.select import EntitySelect, FactSelect, MessageSelect
from vmemo.recall import pipeline
from vmemo.recall.load import choose_instructions
from vmemo.recall.rank import MAX_INSTRUCTIONS
from vmemo.recall.run import RecallQuery
from vmemo.text.names.compare import fold_name, folded_names


async def recall(
    session: MemorySession,
    request: RecallQuery,
    *,
    tense: QuestionTense | None = None,
    with_questions: bool = False,
) -> Recalled:
    """Return facts by relevance, and count them as accessed."""
    runtime = session.runtime
    found = await pipeline.recall(
        request, session.bank, runtime.reading, runtime.time_resolver, tense=tense, with_questions=with_questions
    )
    runtime.access.add(session.bank, [hit.fact.id for hit in found.hits if not hit.verbatim])
    return found


PINNED = FactSelect(pinned=True, current=True, newest_first=True, limit=100)
"""The newest pinned facts that hold."""
MAX_RECENT = 10
"""Newest facts that are considered."""
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
    """Return the profile, instructions, pinned, recent and relevant facts that fit into the budget."""
    bank, reads = session.bank, session.reads
    found = None
    if request.query is not None:
        found = await recall(session, RecallRequest(query=request.query, max_tokens=request.max_tokens))
    instructions = await reads.facts(
        bank, FactSelect(instructions=True, current=True, newest_first=True, limit=MAX_INSTRUCTIONS)
    )
    recent = await _recent(session)
    ids = list(dict.fromkeys(id for fact in (*instructions, *recent) for id in fact.messages))
    sources = await reads.messages(bank, MessageSelect(ids=ids))
    user = await _user(session, request.user, sources)
    said = {message.id for message in sources if user.may_have_said(message)}
    own = [fact for fact in instructions if not fact.messages or said.intersection(fact.messages)]
    tokens = min(session.context.settings.instruction_tokens, request.max_tokens)
    relevant = {hit.id for hit in found.hits} if found else set[FactId]()
    chosen = choose_instructions(own, relevant, tokens, question=request.query or "")
    about = [user.entity.id] if user.entity else []
    observed = FactSelect(entities=about, current=True, networks=("observation",))
    candidates: dict[Section, Sequence[Hit]] = {
        "profile": _as_hits(await reads.facts(bank, observed) if user.entity else []),
        "instructions": _as_hits(chosen),
        "pinned": _as_hits(await reads.facts(bank, PINNED)),
        "recent": _as_hits(recent),
        "relevant": found.hits if found else (),
    }
    prompt = ContextPrompt(
        candidates=candidates, user=user.name, query=request.query, titles=found.titles if found else {}
    )
    # In a thread, because the text is counted many times.
    return await asyncio.to_thread(prompt.fit, request.max_tokens, session.context.counter)


async def _recent(session: MemorySession) -> list[Fact]:
    """Return the facts of the latest session, newest first: those without a pause that would begin a new episode."""
    select = FactSelect(current=True, networks=("world", "experience"), newest_first=True, limit=MAX_RECENT)
    newest = await session.reads.facts(session.bank, select)
    gaps = [later.mentioned_at - earlier.mentioned_at for later, earlier in pairwise(newest)]
    gap = session.context.settings.episode_gap
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
