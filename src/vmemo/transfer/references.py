"""The ids in an export: each is unique, and a record refers only to earlier ones."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

from vmemo.models import ConfidenceChange, Entity, EntityId, Episode, Fact, Link, Message
from vmemo.models.changes import MergeRecord, NewFact, RestoreRecord
from vmemo.models.results import Spending


def _no_ids() -> defaultdict[str, set[object]]:
    return defaultdict(set)


@dataclass
class References:
    """The ids of the records read so far, by what they name."""

    known: defaultdict[str, set[object]] = field(default_factory=_no_ids)
    absorbed: set[EntityId] = field(default_factory=set[EntityId])
    merged_into: dict[EntityId, int] = field(default_factory=dict[EntityId, int])
    """Entities that merges joined something to, with the line; a later merge may have absorbed one of them."""

    def problem(self, record: RestoreRecord, number: int) -> str | None:
        """Return the problem of the record in this line; a valid record becomes known."""
        if isinstance(record, Link) and self._adds(record):
            return None
        for what, needed in _needed(record):
            known = self.known[what]
            if not known.issuperset(needed):
                missing = next(id for id in needed if id not in known)
                return f"refers to {what} {missing!r}, which no line before it holds"
        own = _own(record)
        for what, id in own:
            if id in self.known[what]:
                named, first = own[0]
                return f"repeats {named} {(first[0] if isinstance(first, tuple) else first)!r}"
            if isinstance(id, str) and not id.strip():
                return f"is a {what} without an id"
        for what, id in own:
            self.known[what].add(id)
        if isinstance(record, MergeRecord):
            self.merged_into.setdefault(record.entity, number)
            self.absorbed.update([] if record.absorbed is None else [record.absorbed])
        return None

    def _adds(self, link: Link) -> bool:
        """Add a link without a problem, the record of most lines; return False for any other."""
        facts, links = self.known["fact"], self.known["link"]
        before = len(links)
        if link.source in facts and link.target in facts:
            links.add((link.kind, link.source, link.target))
        return len(links) > before

    def missing_entities(self) -> list[tuple[int, EntityId]]:
        """Return the merges, by line, whose entity is neither in the file nor absorbed by another merge."""
        found = self.absorbed | (self.known["entity"] & self.merged_into.keys())
        return [(number, id) for id, number in self.merged_into.items() if id not in found]


Own = list[tuple[str, str | tuple[str | None, ...]]]


def _own(record: RestoreRecord) -> Own:
    """Return the ids of a record; the first one names it."""
    match record:
        case Link():
            return [("link", (record.kind, record.source, record.target))]
        case NewFact():
            return [("fact", record.fact.id)]
        case Message():
            line: Own = [("line", (record.document, record.key))] if record.key is not None else []
            return [("message", record.id), *line]
        case Entity():
            return [("entity", record.id)]
        case Episode():
            return [("episode", record.id)]
        case MergeRecord():
            return [("merge", record.id)]
        case Spending():
            return [("spending", (record.step, record.model))]
        case _:
            return []


def _needed(record: RestoreRecord) -> Iterator[tuple[str, Collection[str]]]:
    """Yield the ids that a record refers to."""
    match record:
        case Link():
            yield "fact", (record.source, record.target)
        case NewFact():
            yield from _sources(record.fact)
        case Episode():
            yield "message", record.messages
        case ConfidenceChange():
            # The facts that changed an opinion's confidence may have been forgotten.
            yield "fact", (record.opinion,)
        case MergeRecord():
            yield "fact", [mention.fact for mention in record.mentions]
        case _:
            pass


def _sources(fact: Fact) -> Iterator[tuple[str, Collection[str]]]:
    yield "message", fact.messages
    if fact.context_from is not None:
        yield "message", (fact.context_from,)
    yield "episode", fact.episodes
    yield "entity", [mention.id for mention in fact.entities]
    yield "fact", fact.basis
