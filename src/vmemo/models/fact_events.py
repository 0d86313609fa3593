"""The events of a commit that webhooks are notified of."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from vmemo.models.base import FactId, new_id
from vmemo.models.changes import Changes, NewJob
from vmemo.models.webhooks import SignedWebhook, WebhookEvent

MAX_FACTS = 100
"""Facts of one delivery."""


@dataclass(frozen=True)
class FactEvent:
    """Facts that one commit retained, revised or forgot; each revised one with the fact that replaced it, if any."""

    event: WebhookEvent
    facts: Mapping[FactId, FactId | None]


def events_of(changes: Changes) -> list[FactEvent]:
    """Return the events of a commit, those of many facts in parts."""
    replaced_by: dict[FactId, FactId] = {link.target: link.source for link in changes.links if link.kind == "replaces"}
    replaced_by |= {old: new for new, old in changes.successors.items()}
    replaced_by |= {item.fact.supersedes: item.fact.id for item in changes.facts if item.fact.supersedes is not None}
    forgotten = dict.fromkeys(changes.deleted.facts)
    retained = dict.fromkeys((*(item.fact.id for item in changes.facts), *changes.reopened))
    revised = {closure.fact: replaced_by.get(closure.fact) for closure in changes.closures}
    found: dict[WebhookEvent, Mapping[FactId, FactId | None]] = {
        "retained": {id: None for id in retained if id not in forgotten},
        "revised": {id: by for id, by in revised.items() if id not in forgotten},
        "forgotten": forgotten,
    }
    return [FactEvent(event, part) for event, facts in found.items() for part in _parts(facts)]


def _parts(facts: Mapping[FactId, FactId | None]) -> Iterator[dict[FactId, FactId | None]]:
    items = iter(facts.items())
    while part := dict(islice(items, MAX_FACTS)):
        yield part


def delivery_jobs(webhooks: Sequence[SignedWebhook], events: Sequence[FactEvent]) -> list[NewJob]:
    """Return a job for each event and each active webhook that wants it. Jobs hold ids, never texts."""
    return [
        NewJob(
            kind="webhook",
            key=new_id(),
            detail={"webhook": webhook.id, "event": each.event, "facts": {**each.facts}},
        )
        for each in events
        for webhook in webhooks
        if webhook.disabled_at is None and each.event in webhook.events
    ]
