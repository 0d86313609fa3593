"""Repeats: new facts in the words of known ones. They become further sources of the known fact."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Hashable, Mapping, Sequence, Set as AbstractSet
from dataclasses import dataclass, field

from vmemo.models import BankId, Fact
from vmemo.models.changes import NewFact
from vmemo.models.drafts import Judgement
from vmemo.models.search import SUSPECT, ExpandRequest, RevisionQuery, Scope
from vmemo.ports import Store
from vmemo.retain.neighbours import NEAREST, REPEAT_COSINE, Neighbours
from vmemo.retain.revise import FactPair, is_current
from vmemo.text.wording import needs_context, wording

_METADATA = json.JSONEncoder(sort_keys=True)


@dataclass(frozen=True)
class Repeats:
    """The verdicts on new facts that repeat another, and the pairs that they are about."""

    verdicts: Mapping[int, list[Judgement]] = field(default_factory=dict[int, list[Judgement]])
    pairs: Sequence[FactPair] = ()


async def find_repeats(bank: BankId, new: Sequence[NewFact], near: Neighbours, store: Store) -> Repeats:
    """Return the new facts that have the words of a current fact near to them, or of an earlier new one.

    A repeat confirms the fact, which stays valid since it was first stated. One that is older than the fact, such as a
    message retained late, is merged with it, so that the fact is valid since the older one. A fact that a newer one has
    probably outdated (`SUSPECT`) is left out: who states it again says that it is true again.
    """
    statements = await asyncio.to_thread(_statements, [item.fact for item in new])
    hits = await near.near(new, limit=NEAREST, floor=REPEAT_COSINE)
    facts = list((await near.load(id for found in hits for id in found.ids)).values())
    frames = {_frame(item.fact) for item in new}
    same_frame = [fact for fact in facts if is_current(fact) and _frame(fact) in frames]
    known = await _known(bank, set(statements), same_frame, store)
    verdicts: dict[int, list[Judgement]] = {}
    pairs: list[FactPair] = []
    # Messages are not always processed in the order of their times.
    for at in sorted(range(len(new)), key=lambda at: new[at].fact.mentioned_at):
        fact, statement = new[at].fact, statements[at]
        same = known.setdefault(statement, fact)
        if not set(same.messages).isdisjoint(fact.messages):
            # The fact itself, or another part of a long message.
            continue
        pairs.append(FactPair(at, same))
        if same.mentioned_at <= fact.mentioned_at:
            verdicts[at] = [Judgement(verdict="duplicate", fact=same.id)]
        else:
            verdicts[at] = [Judgement(verdict="merge", fact=same.id, text=fact.text)]
            known[statement] = fact
    return Repeats(verdicts, pairs)


async def _known(
    bank: BankId, statements: AbstractSet[Hashable], facts: Sequence[Fact], store: Store
) -> dict[Hashable, Fact]:
    """Return the facts that make one of the statements and are not suspected to be outdated."""
    stated = zip(facts, await asyncio.to_thread(_statements, facts), strict=True)
    found = {fact.id: statement for fact, statement in stated if statement in statements}
    if not found:
        return {}
    revisions = RevisionQuery(scope=Scope(bank=bank), facts=list(found))
    edges = (await store.expand(ExpandRequest(bank=bank, revisions=revisions))).revisions
    outdated = {edge.older for edge in edges if edge.probability >= SUSPECT}
    kept = [fact for fact in facts if fact.id in found and fact.id not in outdated]
    # Of several facts the oldest one counts, which is the last one here.
    return {found[fact.id]: fact for fact in sorted(kept, key=lambda fact: fact.mentioned_at, reverse=True)}


def _statements(facts: Sequence[Fact]) -> list[Hashable]:
    return [statement_of(fact) for fact in facts]


def statement_of(fact: Fact) -> Hashable:
    """Return what two facts have in common if one repeats the other: speaker, words, time, labels.

    The context counts if the words alone may mean something else.
    """
    words = wording(fact.text.partition(": ")[2])
    context = wording(fact.context) if needs_context(words) else ()
    return _frame(fact), words, context, _METADATA.encode(fact.metadata)


def _frame(fact: Fact) -> Hashable:
    """Return the part of a statement that is known without its words, which most facts near it do not share."""
    times = fact.occurred_start, fact.occurred_end
    return fact.text.partition(": ")[0].casefold(), fact.network, times, frozenset(fact.tags)
