"""Expiry of facts: a fact expires with the last of the messages that state it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime

from vmemo.models import MessageId
from vmemo.models.changes import Changes, NewFact
from vmemo.models.select import FactSelect, MessageSelect
from vmemo.ports import Store

_LAST = datetime.max.replace(tzinfo=UTC)


async def inherit_expiry(changes: Changes, store: Store) -> Changes:
    """Return the changes with the expiry of new facts, and of known ones that further messages state."""
    bank = changes.bank
    if not await store.messages(bank, MessageSelect(expiring_until=_LAST, limit=1)):
        return changes
    added = {each.fact: each.messages for each in changes.sources}
    known = [fact for fact in await store.facts(bank, FactSelect(ids=sorted(added))) if fact.expires_at is not None]
    messages = {id for item in changes.facts for id in item.fact.messages}
    messages |= {id for fact in known for id in (*fact.messages, *added[fact.id])}
    found = await store.messages(bank, MessageSelect(ids=sorted(messages)))
    expiries = {message.id: message.expires_at for message in found}
    return replace(
        changes,
        facts=[_expiring(item, expiries) for item in changes.facts],
        expiries={fact.id: expiry_of((*fact.messages, *added[fact.id]), expiries) for fact in known},
    )


def _expiring(item: NewFact, expiries: Mapping[MessageId, datetime | None]) -> NewFact:
    time = expiry_of(item.fact.messages, expiries)
    return item if time is None else replace(item, fact=item.fact.model_copy(update={"expires_at": time}))


def expiry_of(messages: Iterable[MessageId], expiries: Mapping[MessageId, datetime | None]) -> datetime | None:
    """Return when a fact of some messages expires; never, if one of them does not."""
    times = [expiries.get(message) for message in messages]
    lasting = [time for time in times if time is not None]
    return max(lasting) if lasting and len(lasting) == len(times) else None
