"""Small readings that several verbs share: provenance, names, pages."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Protocol, TypeVar, cast, runtime_checkable

from vmemo.errors import InvalidInput, NotFound
from vmemo.models import BankId, ConfidenceChange, EntityId, Fact, FactId, MessageId, Profile, Provenance
from vmemo.models.changes import ForgetTarget
from vmemo.ports import Embedder, Store, TokenCounter
from vmemo.recall.query import text_of

LARGEST_PAGE = 1000
Id = TypeVar("Id", bound=str)


async def why(bank: BankId, id: FactId, store: Store, counter: TokenCounter) -> Provenance:
    """The chain behind a fact, or behind a message that was recalled in its own words."""
    found = await store.facts(bank, [id])
    if found:
        return await _behind(bank, found[0], store)
    said = await store.messages(bank, [MessageId(id)])
    if not said:
        raise NotFound(f"There is no fact or message {id!r} in bank {bank!r}.")
    return Provenance(fact=Fact.in_own_words(said[0], bank, counter), messages=tuple(said))


async def _behind(bank: BankId, fact: Fact, store: Store) -> Provenance:
    basis = await store.facts(bank, fact.basis) if fact.basis else []
    return Provenance(
        fact=fact,
        episodes=tuple(await store.episodes(bank, fact.episodes)),
        messages=tuple(await store.messages(bank, fact.messages)),
        basis=tuple([await _behind(bank, behind, store) for behind in basis]),
        moves=tuple(await trajectory(bank, fact.id, store)) if fact.network == "opinion" else (),
        superseded_by=tuple(await store.successors(bank, fact.id)),
    )


async def trajectory(bank: BankId, opinion: FactId, store: Store) -> list[ConfidenceChange]:
    """The steps of an opinion and of those that it replaced, oldest first."""
    line: dict[FactId, list[ConfidenceChange]] = {}
    step: FactId | None = opinion
    while step is not None and step not in line:
        line[step] = await store.moves(bank, step)
        found = await store.facts(bank, [step])
        step = found[0].supersedes if found else None
    return [move for moves in reversed(line.values()) for move in moves]


async def read_from(bank: BankId, messages: Sequence[MessageId | str], store: Store) -> tuple[FactId, ...]:
    """Facts that were read from these messages."""
    told, seen, found = set(messages), set[MessageId | str](), dict[FactId, None]()
    for id in messages:
        episode = None if id in seen else await store.episode_of(bank, MessageId(id))
        if episode is not None:
            seen.update(episode.messages)
            found |= {fact.id: None for fact in await store.facts_of(bank, episode.id) if told & set(fact.messages)}
    return tuple(found)


async def entity_id(bank: BankId, name: EntityId | str, store: Store) -> EntityId:
    """An entity's id from its id, name or alias; a name of several entities is refused."""
    if await store.entities(bank, [EntityId(name)]):
        return EntityId(name)
    wanted = name.casefold()
    matches: list[EntityId] = []
    after: EntityId | None = None
    while found := await store.entities(bank, after=after, limit=LARGEST_PAGE):
        matches += [e.id for e in found if wanted in (n.casefold() for n in (e.name, *e.aliases))]
        after = found[-1].id
    if not matches:
        raise NotFound(f"There is no entity {name!r} in bank {bank!r}.")
    if len(matches) > 1:
        raise InvalidInput(f"{len(matches)} entities are called {name!r}; give the id of one: {', '.join(matches)}.")
    return matches[0]


def checked_profile(new: object) -> Profile | None:
    """A profile that can be stored, None if none was given, or InvalidInput."""
    if new is None:
        return None
    if not isinstance(new, Profile):
        raise InvalidInput(f"A profile is a Profile(name=..., disposition=..., ...), not {new!r:.40}.")
    return new


async def profile(bank: BankId, store: Store) -> Profile:
    """The bank's profile."""
    stored = await store.bank(bank)
    if stored is None:
        raise NotFound(f"There is no bank {bank!r} here.")
    return stored.profile


def page(limit: object) -> int:
    """A page size, or InvalidInput."""
    if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= LARGEST_PAGE:
        raise InvalidInput(f"A page holds 1 to {LARGEST_PAGE:,} records, not {limit!r}.")
    return limit


async def cursor(after: Id | None, find: Callable[[list[Id]], Awaitable[Sequence[object]]]) -> Id | None:
    """The id that a page follows; one that is not there is refused, so that no reader starts again unawares."""
    if after is None:
        return None
    text_of("after", after)
    if not await find([after]):
        raise NotFound(f"There is no {after!r} here to go on after; it may have been forgotten. Start from the first.")
    return after


def document(name: str | None) -> str | None:
    """The name of a document to look into, or None for all."""
    return None if name is None else text_of("document", name)


def forget_target(messages: object, document: object, entity: object, bank: object) -> ForgetTarget:
    """What to forget, exactly one thing, or InvalidInput. An entity may still be given by a name."""
    if not isinstance(bank, bool):
        raise InvalidInput(f"bank must be True or False, not {bank!r}.")
    if isinstance(messages, str) or not isinstance(messages, Sequence | set | frozenset | None):
        raise InvalidInput(f"messages must be a list of message ids, not {messages!r}.")
    ids = [MessageId(text_of("messages", id)) for id in cast("Iterable[object]", messages or ())]
    if sum((bool(ids), document is not None, entity is not None, bank)) != 1:
        raise InvalidInput("Name exactly one thing to forget: messages, a document, an entity or bank=True.")
    return ForgetTarget(
        messages=ids,
        document=None if document is None else text_of("document", document),
        entity=None if entity is None else EntityId(text_of("entity", entity)),
        bank=bank,
    )


@runtime_checkable
class _Caching(Protocol):
    def clear(self) -> None: ...


def clear_cache(embedder: Embedder) -> None:
    """Let an embedder that caches texts forget them."""
    if isinstance(embedder, _Caching):
        embedder.clear()
