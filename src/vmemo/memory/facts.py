"""The verbs of one fact: get, history, update, delete and pin."""

from __future__ import annotations

from vmemo.lifecycle.edit_facts import FactEditor, versions_of
from vmemo.memory.administration import forget_target
from vmemo.memory.inspect import by_any_id
from vmemo.memory.session import MemorySession
from vmemo.models import Fact
from vmemo.models.changes import ForgetTarget
from vmemo.models.requests import (
    DeleteFactRequest,
    FactHistoryRequest,
    FactRequest,
    PinFactRequest,
    UpdateFactRequest,
)
from vmemo.models.results import Forgotten
from vmemo.retain.redact import redact_text


async def get(session: MemorySession, request: FactRequest) -> Fact:
    """Return a fact, or a message that was recalled verbatim as one."""
    await session.open()
    found = await by_any_id(session, request.fact)
    return found if isinstance(found, Fact) else Fact.in_own_words(found, session.bank, session.context.counter)


async def update(session: MemorySession, request: UpdateFactRequest) -> Fact:
    """Write a new version of a fact."""
    fact = await _stored_fact(session, request.fact)
    redactor = session.context.redactor
    reason = await redact_text(request.reason, redactor) if request.reason else ""
    text = await redact_text(request.text, redactor)
    return await _editor(session).update(fact.id, text, reason=reason, valid_at=request.valid_at)


async def delete(session: MemorySession, request: DeleteFactRequest) -> Forgotten:
    """Delete a fact, or a message that was recalled verbatim."""
    await session.open()
    found = await by_any_id(session, request.fact)
    if isinstance(found, Fact):
        return await forget_target(session, ForgetTarget(fact=found.id))
    return await forget_target(session, ForgetTarget(messages=[found.id]))


async def pin(session: MemorySession, request: PinFactRequest) -> Fact:
    """Pin or unpin a fact."""
    fact = await _stored_fact(session, request.fact)
    return await _editor(session).pin(fact.id, pinned=request.pinned)


def _editor(session: MemorySession) -> FactEditor:
    return FactEditor(session.bank, session.context)


async def _stored_fact(session: MemorySession, id: str) -> Fact:
    """Return the fact with an id; a message that was recalled verbatim becomes one."""
    await session.open()
    found = await by_any_id(session, id)
    return found if isinstance(found, Fact) else await _editor(session).make_fact(found)


async def history(session: MemorySession, request: FactHistoryRequest) -> list[Fact]:
    """Return all versions of a fact, oldest first."""
    await session.open()
    found = await by_any_id(session, request.fact)
    if not isinstance(found, Fact):
        return [Fact.in_own_words(found, session.bank, session.context.counter)]
    return await versions_of(session.store, found)
