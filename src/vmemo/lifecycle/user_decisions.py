"""Decisions of the user on single facts, which a new derivation keeps.

A message with a fact that the user edited or deleted is curated: it is not processed again, and its facts are kept as
they are. A pin passes to the new fact that repeats the pinned one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set as AbstractSet
from dataclasses import dataclass, field

from vmemo.lifecycle.reprocess_rules import is_formed
from vmemo.models import BankId, Fact, FactId, Link, MessageId
from vmemo.models.changes import Changes, Deletions, FactClosure
from vmemo.models.select import FactSelect, MessageSelect
from vmemo.ports import Store
from vmemo.ports.store import paged
from vmemo.text.tokens import terms

PAGE = 1000
"""Messages that are read together."""
LEAST_SHARED = 0.5
"""The share of a fact's terms that a fact of another text must have to repeat it."""


@dataclass(frozen=True, kw_only=True)
class UserDecisions:
    """Facts of a bank that the user decided on, and the facts of its staging bank that are affected."""

    curated: AbstractSet[MessageId] = frozenset()
    edited: Sequence[Fact] = ()
    """Facts that curated messages alone state, closed ones included."""
    pinned: Sequence[Fact] = ()
    """Pinned facts that other messages state, or none."""
    replaced: Mapping[FactId, Fact] = field(default_factory=dict[FactId, Fact])
    """Facts of other messages that edited ones replaced."""
    replacing: Sequence[Link] = ()
    """Links from edited facts to those that they replaced or may have outdated."""
    counterparts: Mapping[FactId, Fact] = field(default_factory=dict[FactId, Fact])
    """Facts of the staging bank by the replaced or pinned facts that they repeat."""

    @property
    def kept(self) -> list[Fact]:
        """The facts that stay as they are; a pinned one only if no new fact repeats it."""
        return [*self.edited, *(fact for fact in self.pinned if fact.id not in self.counterparts)]

    def closures(self) -> list[FactClosure]:
        """Return the ends of new facts that repeat replaced ones, unless the new derivation closed them itself."""
        return [
            FactClosure(fact=new.id, invalid_at=old.invalid_at, expired_at=old.expired_at)
            for id, old in self.replaced.items()
            if (new := self.counterparts.get(id)) is not None and new.expired_at is None
            if old.expired_at is not None or old.invalid_at is not None
        ]

    def links(self) -> list[Link]:
        """Return the links between edited facts and what they replaced."""
        known = {fact.id: fact.id for fact in self.edited}
        ends = {**known, **{id: fact.id for id, fact in self.counterparts.items()}}
        return [link.model_copy(update={"target": ends[link.target]}) for link in self.replacing if link.target in ends]

    def pins(self) -> dict[FactId, bool]:
        """Return the new facts to pin."""
        return {self.counterparts[fact.id].id: True for fact in self.pinned if fact.id in self.counterparts}


async def user_decisions(store: Store, bank: BankId, staging: BankId) -> UserDecisions:
    """Read the decisions of a bank, and match them with its staging bank."""
    curated = await _curated(store, bank)
    stated = await store.facts(bank, FactSelect(messages=sorted(curated))) if curated else []
    edited = [fact for fact in stated if curated.issuperset(fact.messages) and not is_formed(fact)]
    ids = {fact.id for fact in edited}
    marked = await store.facts(bank, FactSelect(pinned=True))
    pinned = [fact for fact in marked if fact.id not in ids and not is_formed(fact)]
    links = [link for link in await store.links(bank, sorted(ids)) if link.kind in ("replaces", "outdates")]
    older = {fact.supersedes for fact in edited} | {link.target for link in links if link.kind == "replaces"}
    replaced = await store.facts(bank, FactSelect(ids=sorted(id for id in older if id is not None and id not in ids)))
    messages = sorted({message for fact in (*replaced, *pinned) for message in fact.messages})
    new = await store.facts(staging, FactSelect(messages=messages)) if messages else []
    found = {fact.id: counterpart(fact, new) for fact in (*replaced, *pinned)}
    return UserDecisions(
        curated=curated,
        edited=edited,
        pinned=pinned,
        replaced={fact.id: fact for fact in replaced},
        replacing=links,
        counterparts={id: fact for id, fact in found.items() if fact is not None},
    )


async def _curated(store: Store, bank: BankId) -> set[MessageId]:
    pages = paged(lambda after: store.messages(bank, MessageSelect(state="curated", after=after, limit=PAGE)))
    return {message.id async for message in pages}


async def drop_outdated(store: Store, bank: BankId, staging: BankId) -> None:
    """Delete what was derived in the staging bank from messages before the user edited or deleted their facts."""
    curated = sorted(await _curated(store, bank))
    outdated = await store.facts(staging, FactSelect(messages=curated)) if curated else []
    if outdated:
        deleted = Deletions(facts=[fact.id for fact in outdated])
        await store.commit(Changes(bank=staging, curated=curated, deleted=deleted))


def counterpart(fact: Fact, new: Sequence[Fact]) -> Fact | None:
    """Return the new fact of the same messages that repeats a fact: in the same words, or in most of them."""
    same = [each for each in new if not set(each.messages).isdisjoint(fact.messages) and not is_formed(each)]
    words = set(terms(fact.text))
    shares = [(each.text == fact.text, len(words & set(terms(each.text))) / max(len(words), 1)) for each in same]
    best = max(zip(shares, range(len(same)), strict=True), default=None)
    return same[best[1]] if best is not None and (best[0][0] or best[0][1] >= LEAST_SHARED) else None
