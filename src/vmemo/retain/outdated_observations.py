"""Observations that close together with the facts that they rest on."""

from __future__ import annotations

from vmemo.models import utc_now
from vmemo.models.changes import Changes, FactClosure
from vmemo.models.observation_support import is_supported
from vmemo.models.select import FactSelect
from vmemo.ports import Store


async def outdated_observations(changes: Changes, store: Store) -> list[FactClosure]:
    """Return the closures of observations that have too little support once the facts of `changes` are closed.

    They are committed with those facts, so that no recall returns a profile of what is no longer true.
    """
    closed = {each.fact for each in changes.closures}
    if not closed:
        return []
    select = FactSelect(basis=sorted(closed), networks=("observation",), current=True)
    observations = await store.facts(changes.bank, select)
    ids = {id for each in observations for id in each.basis} - closed
    remaining = {fact.id: fact for fact in await store.facts(changes.bank, FactSelect(ids=sorted(ids)))}
    now = utc_now()
    return [
        FactClosure(fact=each.id, invalid_at=now, expired_at=now)
        for each in observations
        if not is_supported(each, remaining, now)
    ]
