"""The verbs that show what a bank holds and where it comes from, and that read, edit and pin one fact.

`Verbs` documents them; `Memory` has opened the bank.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Literal, TypeVar

from vmemo.errors import InvalidInput, NotFound
from vmemo.lifecycle.edit_facts import FactEditor, versions_of
from vmemo.memory.session import MemorySession
from vmemo.models import Fact, Message, NewerFact, Profile, Provenance, requests as r
from vmemo.models.changes import Changes, ProfileChange
from vmemo.models.records import BankId, ConfidenceChange, EntityId, FactId, MessageId, parse_short_id
from vmemo.models.results import Status
from vmemo.models.search import Scope
from vmemo.models.select import EntitySelect, EpisodeSelect, FactSelect, MessageSelect
from vmemo.ports import BankNotFound, Store, fact_revisions, paged
from vmemo.retain.pipeline import redact_text

R = TypeVar("R")
S = TypeVar("S")
MAX_AMBIGUOUS = 3
"""Ids that the error of an ambiguous short id lists."""


async def why(session: MemorySession, request: r.WhyRequest) -> Provenance:
    found = await by_any_id(session, request.fact)
    if isinstance(found, Fact):
        return await provenance(session.bank, found, session.store)
    fact = Fact.in_own_words(found, session.bank, session.context.counter)
    return Provenance(fact=fact, messages=(found,))


async def by_any_id(session: MemorySession, id: str) -> Fact | Message:
    """Return the fact or message with an id or short id; raise NotFound, or InvalidInput if several have it."""
    bank, store, short = session.bank, session.store, parse_short_id(id)
    found: list[Fact | Message] = [*await store.facts(bank, FactSelect(ids=[FactId(id)]))]
    found = found or [*await store.messages(bank, MessageSelect(ids=[MessageId(id)]))]
    if not found and short is not None:
        found += await store.facts(bank, FactSelect(short_id=short, limit=MAX_AMBIGUOUS))
        # A message that was pinned or edited by hand is a fact with the same id.
        known = {each.id for each in found}
        short_messages = await store.messages(bank, MessageSelect(short_id=short, limit=MAX_AMBIGUOUS))
        found += [message for message in short_messages if message.id not in known]
    if not found:
        raise NotFound(f"There is no fact or message {id!r} in bank {bank!r}.")
    if len(found) > 1:
        ids = ", ".join(each.id for each in found[:MAX_AMBIGUOUS])
        raise InvalidInput(f"The short id {id!r} is ambiguous in bank {bank!r}: use a full id, such as {ids}.")
    return found[0]


async def provenance(bank: BankId, fact: Fact, store: Store) -> Provenance:
    """Return the records that a fact was derived from, and those that replaced it or outdated a claim of it."""
    scope = Scope(bank=bank, include_expired=True)
    edges = await store.read(bank, lambda reader: fact_revisions(reader, scope, [fact.id]))
    marking = {claim.replaced_by for claim in fact.claims}
    newer = tuple(
        NewerFact(fact=edge.newer, kind=edge.kind, probability=edge.probability)
        for edge in edges
        if edge.older == fact.id and (edge.kind == "replaces" or edge.newer in marking)
    )
    basis = await store.facts(bank, FactSelect(ids=fact.basis)) if fact.basis else []
    replaced_by = await store.facts(bank, FactSelect(supersedes=[fact.id]))
    more = {each.fact for each in newer if each.kind == "replaces"} - {each.id for each in replaced_by}
    return Provenance(
        fact=fact,
        episodes=tuple(await store.episodes(bank, EpisodeSelect(ids=fact.episodes))),
        messages=tuple(await store.messages(bank, MessageSelect(ids=fact.messages))),
        basis=tuple([await provenance(bank, behind, store) for behind in basis]),
        confidence_changes=tuple(await _confidence_changes(bank, fact.id, store)) if fact.network == "opinion" else (),
        superseded_by=(*replaced_by, *(await store.facts(bank, FactSelect(ids=sorted(more))) if more else ())),
        newer=newer,
    )


async def trajectory(session: MemorySession, request: r.TrajectoryRequest) -> list[ConfidenceChange]:
    given = request.opinion
    opinion = given if parse_short_id(given) is None else (await by_any_id(session, given)).id
    return await _confidence_changes(session.bank, FactId(opinion), session.store)


async def _confidence_changes(bank: BankId, opinion: FactId, store: Store) -> list[ConfidenceChange]:
    changes: dict[FactId, list[ConfidenceChange]] = {}
    version: FactId | None = opinion
    while version is not None and version not in changes:
        changes[version] = await store.confidence_changes(bank, version)
        found = await store.facts(bank, FactSelect(ids=[version]))
        version = found[0].supersedes if found else None
    return [change for version in reversed(changes.values()) for change in version]


async def status(session: MemorySession) -> Status:
    found = await session.store.status(session.bank)
    return found.model_copy(update={"engine": session.context.engine})


async def banks(session: MemorySession) -> list[str]:
    await session.store.open()
    return [bank.id for bank in await session.store.banks()]


async def create_bank(session: MemorySession, request: r.CreateBankRequest) -> Status:
    found = await status(session)
    if request.profile is not None:
        await update_profile(session, request.profile)
    return found


async def update_profile(session: MemorySession, new: Profile) -> Profile:
    await session.store.commit(Changes(bank=session.bank, profile=ProfileChange(profile=new)))
    return await bank_profile(session)


async def bank_profile(session: MemorySession) -> Profile:
    stored = await session.store.bank(session.bank)
    if stored is None:
        raise BankNotFound(session.bank)
    return stored.profile


async def page(
    session: MemorySession,
    request: r.PageRequest,
    read: Callable[[BankId, S], Awaitable[list[R]]],
    select: Callable[..., S],
) -> list[R]:
    """Return a page of records; a missing record before it raises NotFound, so that no reader starts over unnoticed."""
    after, filters = request.after, request.model_dump(exclude={"after"})
    if after and not await read(session.bank, select(ids=[after])):
        raise NotFound(f"There is no {after!r} to continue after; it may be forgotten. Start from the first page.")
    return await read(session.bank, select(after=after or None, **filters))


async def observations(session: MemorySession, request: r.ObservationsRequest) -> list[Fact]:
    found = await current_facts(session, "observation")
    if request.entity is None:
        return found
    wanted = await entity_id(session, request.entity)
    return [fact for fact in found if any(mention.id == wanted for mention in fact.entities)]


async def current_facts(session: MemorySession, network: Literal["opinion", "observation"]) -> list[Fact]:
    return await session.reads.facts(session.bank, FactSelect(current=True, networks=(network,)))


async def entity_id(session: MemorySession, name: str) -> EntityId:
    """Return the id of the entity with this id, name or alias; raise InvalidInput if several have the name."""
    store, bank = session.store, session.bank
    if await store.entities(bank, EntitySelect(ids=[EntityId(name)])):
        return EntityId(name)
    wanted = name.casefold()
    every = paged(lambda after: store.entities(bank, EntitySelect(after=after, limit=r.LARGEST_PAGE)))
    matches = [e.id async for e in every if wanted in (n.casefold() for n in (e.name, *e.aliases))]
    if not matches:
        raise NotFound(f"There is no entity {name!r} in bank {bank!r}.")
    if len(matches) > 1:
        raise InvalidInput(f"{len(matches)} entities are called {name!r}; give the id of one: {', '.join(matches)}.")
    return matches[0]


async def get_fact(session: MemorySession, request: r.FactRequest) -> Fact:
    found = await by_any_id(session, request.fact)
    return found if isinstance(found, Fact) else Fact.in_own_words(found, session.bank, session.context.counter)


async def update_fact(session: MemorySession, request: r.UpdateFactRequest) -> Fact:
    editor = FactEditor(session.bank, session.context)
    fact = await _stored_fact(session, request.fact, editor)
    redactor = session.context.redactor
    reason = await redact_text(request.reason, redactor) if request.reason else ""
    text = await redact_text(request.text, redactor)
    return await editor.update(fact.id, text, reason=reason, valid_at=request.valid_at)


async def pin_fact(session: MemorySession, request: r.PinFactRequest) -> Fact:
    editor = FactEditor(session.bank, session.context)
    fact = await _stored_fact(session, request.fact, editor)
    return await editor.pin(fact.id, pinned=request.pinned)


async def feedback(session: MemorySession, request: r.FeedbackRequest) -> Fact:
    editor, redactor = FactEditor(session.bank, session.context), session.context.redactor
    fact = await _stored_fact(session, request.fact, editor)
    question = await redact_text(request.question, redactor)
    reason = await redact_text(request.reason, redactor) if request.reason else ""
    return await editor.judge(fact.id, question, request.useful, reason=reason)


async def _stored_fact(session: MemorySession, id: str, editor: FactEditor) -> Fact:
    """Return the fact with an id; a message that was recalled verbatim becomes one."""
    found = await by_any_id(session, id)
    return found if isinstance(found, Fact) else await editor.make_fact(found)


async def fact_history(session: MemorySession, request: r.FactHistoryRequest) -> list[Fact]:
    found = await by_any_id(session, request.fact)
    if not isinstance(found, Fact):
        return [Fact.in_own_words(found, session.bank, session.context.counter)]
    return await versions_of(session.store, found)
