"""The verbs that list what a bank holds and where it comes from, and that read, edit and pin one fact."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Literal, TypeVar

from vmemo.errors import InvalidInput, NotFound
from vmemo.lifecycle.edit_facts import FactEditor, versions_of
from vmemo.memory.session import MemorySession
from vmemo.models import (
    BankId,
    ConfidenceChange,
    Entity,
    EntityId,
    Episode,
    EpisodeId,
    Fact,
    FactId,
    FormerProfile,
    Merge,
    Message,
    MessageId,
    NewerFact,
    Profile,
    Provenance,
)
from vmemo.models.changes import Changes, ProfileChange
from vmemo.models.records import parse_short_id
from vmemo.models.requests import (
    LARGEST_PAGE,
    CreateBankRequest,
    EntitiesRequest,
    EpisodesRequest,
    FactHistoryRequest,
    FactRequest,
    FactsRequest,
    MessagesRequest,
    ObservationsRequest,
    PinFactRequest,
    ProfileUpdate,
    TrajectoryRequest,
    UpdateFactRequest,
    WhyRequest,
)
from vmemo.models.results import Job, Status
from vmemo.models.search import SUSPECT, Scope
from vmemo.models.select import EntitySelect, EpisodeSelect, FactSelect, MessageSelect
from vmemo.ports import BankNotFound, Store
from vmemo.ports.store import paged
from vmemo.retain.pipeline import redact_text

Id = TypeVar("Id", bound=str)
MAX_AMBIGUOUS = 3
"""Ids that the error of an ambiguous short id lists."""


async def why(session: MemorySession, request: WhyRequest) -> Provenance:
    """Return the provenance of a fact, or of a message that was recalled verbatim."""
    await session.open()
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
    """Return the records that a fact was derived from, and those that replaced it.

    Facts that have outdated it with at least the probability `SUSPECT` are among the newer ones.
    """
    basis = await store.facts(bank, FactSelect(ids=fact.basis)) if fact.basis else []
    newer = await _newer(bank, fact.id, store)
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


async def _newer(bank: BankId, fact: FactId, store: Store) -> tuple[NewerFact, ...]:
    """Return the facts that the revision model found to replace this one, or to make it outdated."""
    scope = Scope(bank=bank, include_expired=True)
    edges = await store.read(bank, lambda reader: reader.revisions(scope, [fact]))
    newer = [edge for edge in edges if edge.older == fact and edge.probability >= SUSPECT]
    return tuple(NewerFact(fact=edge.newer, kind=edge.kind, probability=edge.probability) for edge in newer)


async def trajectory(session: MemorySession, request: TrajectoryRequest) -> list[ConfidenceChange]:
    """Return the confidence changes of an opinion and of those that it replaced, oldest first."""
    await session.open()
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
    """Return the bank's counts, backlog and problems."""
    await session.open()
    found = await session.store.status(session.bank)
    return found.model_copy(update={"engine": session.context.engine})


async def banks(session: MemorySession) -> list[str]:
    """Return the names of all banks; none is created."""
    await session.store.open()
    return [bank.id for bank in await session.store.banks()]


async def profile(session: MemorySession) -> Profile:
    """Return the bank's profile."""
    await session.open()
    return await bank_profile(session)


async def update_profile(session: MemorySession, request: ProfileUpdate) -> Profile:
    """Replace the bank's profile."""
    await session.open()
    await _replace_profile(session, request.profile)
    return await bank_profile(session)


async def create_bank(session: MemorySession, request: CreateBankRequest) -> Status:
    """Create the bank unless it exists, and replace its profile if one is given."""
    found = await status(session)
    if request.profile is not None:
        await _replace_profile(session, request.profile)
    return found


async def _replace_profile(session: MemorySession, profile: Profile) -> None:
    await session.store.commit(Changes(bank=session.bank, profile=ProfileChange(profile=profile)))


async def bank_profile(session: MemorySession) -> Profile:
    """Return the profile of an open bank."""
    stored = await session.store.bank(session.bank)
    if stored is None:
        raise BankNotFound(session.bank)
    return stored.profile


async def former_profiles(session: MemorySession) -> list[FormerProfile]:
    """Return the profiles that the bank had before, oldest first."""
    await session.open()
    return await session.store.former_profiles(session.bank)


async def messages(session: MemorySession, request: MessagesRequest) -> list[Message]:
    """Return a page of messages."""
    await session.open()
    after = await _cursor(
        request.after, MessageId, lambda ids: session.reads.messages(session.bank, MessageSelect(ids=ids))
    )
    return await session.reads.messages(
        session.bank, MessageSelect(document=request.document, after=after, limit=request.limit)
    )


async def episodes(session: MemorySession, request: EpisodesRequest) -> list[Episode]:
    """Return a page of episodes."""
    await session.open()
    after = await _cursor(
        request.after, EpisodeId, lambda ids: session.reads.episodes(session.bank, EpisodeSelect(ids=ids))
    )
    return await session.reads.episodes(session.bank, EpisodeSelect(after=after, limit=request.limit))


async def facts(session: MemorySession, request: FactsRequest) -> list[Fact]:
    """Return a page of facts."""
    await session.open()
    after = await _cursor(request.after, FactId, lambda ids: session.reads.facts(session.bank, FactSelect(ids=ids)))
    select = FactSelect(
        after=after,
        instructions=request.instructions,
        pinned=request.pinned,
        limit=request.limit,
        with_embeddings=request.with_embeddings,
    )
    return await session.reads.facts(session.bank, select)


async def entities(session: MemorySession, request: EntitiesRequest) -> list[Entity]:
    """Return a page of entities."""
    await session.open()
    after = await _cursor(
        request.after, EntityId, lambda ids: session.reads.entities(session.bank, EntitySelect(ids=ids))
    )
    return await session.reads.entities(session.bank, EntitySelect(after=after, limit=request.limit))


async def _cursor(
    after: str | None, id_type: Callable[[str], Id], find: Callable[[list[Id]], Awaitable[Sequence[object]]]
) -> Id | None:
    """Return the id that a page follows; a missing record is an error, so that no reader starts over unnoticed."""
    if after is None:
        return None
    if not await find([id_type(after)]):
        raise NotFound(f"There is no {after!r} to continue after; it may be forgotten. Start from the first page.")
    return id_type(after)


async def opinions(session: MemorySession) -> list[Fact]:
    """Return the current opinions."""
    return await _current(session, "opinion")


async def observations(session: MemorySession, request: ObservationsRequest) -> list[Fact]:
    """Return the current observations of one entity, or of all."""
    found = await _current(session, "observation")
    if request.entity is None:
        return found
    wanted = await entity_id(session, request.entity)
    return [fact for fact in found if any(mention.id == wanted for mention in fact.entities)]


async def _current(session: MemorySession, network: Literal["opinion", "observation"]) -> list[Fact]:
    await session.open()
    found = await session.reads.facts(session.bank, FactSelect.believed(network))
    return [fact.model_copy(update={"embedding": None}) for fact in found]


async def merges(session: MemorySession) -> list[Merge]:
    """Return the merges of entities, oldest first."""
    await session.open()
    return [merge.public() for merge in await session.reads.merges(session.bank)]


async def jobs(session: MemorySession) -> list[Job]:
    """Return the queued jobs, oldest first."""
    await session.open()
    return await session.store.jobs(session.bank)


async def entity_id(session: MemorySession, name: str) -> EntityId:
    """Return the id of the entity with this id, name or alias; raise InvalidInput if several have the name."""
    store, bank = session.store, session.bank
    if await store.entities(bank, EntitySelect(ids=[EntityId(name)])):
        return EntityId(name)
    wanted = name.casefold()
    every = paged(lambda after: store.entities(bank, EntitySelect(after=after, limit=LARGEST_PAGE)))
    matches = [e.id async for e in every if wanted in (n.casefold() for n in (e.name, *e.aliases))]
    if not matches:
        raise NotFound(f"There is no entity {name!r} in bank {bank!r}.")
    if len(matches) > 1:
        raise InvalidInput(f"{len(matches)} entities are called {name!r}; give the id of one: {', '.join(matches)}.")
    return matches[0]


async def get_fact(session: MemorySession, request: FactRequest) -> Fact:
    """Return a fact, or a message that was recalled verbatim as one."""
    await session.open()
    found = await by_any_id(session, request.fact)
    return found if isinstance(found, Fact) else Fact.in_own_words(found, session.bank, session.context.counter)


async def update_fact(session: MemorySession, request: UpdateFactRequest) -> Fact:
    """Write a new version of a fact."""
    fact = await _stored_fact(session, request.fact)
    redactor = session.context.redactor
    reason = await redact_text(request.reason, redactor) if request.reason else ""
    text = await redact_text(request.text, redactor)
    return await _editor(session).update(fact.id, text, reason=reason, valid_at=request.valid_at)


async def pin_fact(session: MemorySession, request: PinFactRequest) -> Fact:
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


async def fact_history(session: MemorySession, request: FactHistoryRequest) -> list[Fact]:
    """Return all versions of a fact, oldest first."""
    await session.open()
    found = await by_any_id(session, request.fact)
    if not isinstance(found, Fact):
        return [Fact.in_own_words(found, session.bank, session.context.counter)]
    return await versions_of(session.store, found)
