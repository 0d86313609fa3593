"""Observations that close together with the facts that they rest on."""

from __future__ import annotations

from dataclasses import replace

from vmemo.models import utc_now
from vmemo.models.changes import Changes, FactClosure
from vmemo.models.records import is_supported
from vmemo.models.select import FactSelect
from vmemo.ports import Store


async def close_outdated_observations(changes: Changes, store: Store) -> Changes:
    """Return the changes with closures of the observations that lose their support by the closures of facts.

    Every commit that closes facts closes them too, so that no recall returns a profile of what is no longer true.
    """
    closed = {each.fact for each in changes.closures}
    if not closed:
        return changes
    select = FactSelect(basis=sorted(closed), networks=("observation",), current=True)
    observations = [each for each in await store.facts(changes.bank, select) if each.id not in closed]
    ids = {id for each in observations for id in each.basis} - closed
    remaining = {fact.id: fact for fact in await store.facts(changes.bank, FactSelect(ids=sorted(ids)))}
    now = utc_now()
    ends = {each.fact: each.invalid_at for each in changes.closures if each.invalid_at is not None}
    outdated = [
        FactClosure(
            fact=each.id,
            invalid_at=max((ends[id] for id in each.basis if id in ends), default=each.valid_at or each.mentioned_at),
            expired_at=now,
        )
        for each in observations
        if not is_supported(each, remaining, now)
    ]
    return replace(changes, closures=[*changes.closures, *outdated])
