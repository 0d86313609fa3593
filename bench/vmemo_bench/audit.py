"""What a bank holds after a run: counts, links by kind, and who was taken for whom, for a reader to check."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import get_args

from pydantic import BaseModel, ConfigDict

from vmemo import Memory
from vmemo.models import Entity, LinkKind, Merge
from vmemo.text.names.similarity import CLIP, name_form, nicknames
from vmemo_bench.datasets import Case
from vmemo_bench.report import Table

STORED = tuple(kind for kind in get_args(LinkKind) if kind != "entity")
"""Kinds of links; those along entities are computed and never stored."""


class Joined(BaseModel):
    """A name that became another name of an entity."""

    model_config = ConfigDict(frozen=True)

    name: str
    entity: str
    also: tuple[str, ...]
    reason: str


class Person(BaseModel):
    """A speaker, and the names of each entity that goes by the speaker's name or a form of it."""

    model_config = ConfigDict(frozen=True)

    name: str
    entities: tuple[tuple[str, ...], ...]


class Audit(BaseModel):
    """One bank."""

    model_config = ConfigDict(frozen=True)

    counts: Mapping[str, int]
    people: tuple[Person, ...] = ()
    joined: tuple[Joined, ...] = ()
    conflicts: tuple[tuple[str, str], ...] = ()
    """Names of one entity that can't be one person's: two speakers, or two full names."""


async def audit(memory: Memory, case: Case, file: Path) -> Audit:
    """Look into a bank through its export, which is written to `file` and removed again."""
    await memory.export(file)
    kinds = _links(file)
    status = await memory.status()
    merges = [merge for merge in await memory.merges() if merge.undone_at is None]
    entities = {entity.id: entity for entity in await _entities(memory)}
    speakers = sorted({turn.speaker for session in case.sessions for turn in session.turns if turn.speaker})
    return Audit(
        counts={
            "episodes": status.episodes,
            "facts": status.facts,
            "closed": status.closed_facts,
            "entities": status.entities,
            "merges": len(merges),
            **{kind: kinds[kind] for kind in STORED},
        },
        people=tuple(_person(speaker, entities.values()) for speaker in speakers),
        joined=tuple(_joined(merge, entities[merge.entity]) for merge in merges if merge.entity in entities),
        conflicts=tuple(pair for entity in entities.values() for pair in conflicts(names_of(entity), speakers)),
    )


def _links(file: Path) -> Counter[str]:
    """How many links of each kind an export holds."""
    with file.open(encoding="utf-8") as lines:
        records = (json.loads(line) for line in lines if '"record": "link"' in line)
        kinds = Counter(str(record["kind"]) for record in records)
    file.unlink()
    return kinds


async def _entities(memory: Memory) -> list[Entity]:
    found: list[Entity] = []
    while page := await memory.entities(after=found[-1].id if found else None, limit=1000):
        found += page
    return found


def names_of(entity: Entity) -> tuple[str, ...]:
    """All names of an entity, its own first."""
    return (entity.name, *entity.aliases)


def _person(speaker: str, entities: Collection[Entity]) -> Person:
    bearing = [names_of(e) for e in entities if any(is_form_of(name, speaker) for name in names_of(e))]
    return Person(name=speaker, entities=tuple(bearing))


def is_form_of(name: str, speaker: str) -> bool:
    """Whether a name is the speaker's: a fuller one, a nickname, or one of the two cut short."""
    own = name_form(speaker).words[0]
    first, *rest = name_form(name).words
    if rest:
        return first == own
    clipped = min(len(first), len(own)) >= CLIP and (first.startswith(own) or own.startswith(first))
    return clipped or first in nicknames(own)


def conflicts(names: Sequence[str], speakers: Collection[str]) -> Iterator[tuple[str, str]]:
    """Pairs of an entity's names that are two speakers', or two full names of which neither holds the other."""
    spoken = {name_form(speaker).words for speaker in speakers}
    for one, other in combinations(names, 2):
        words, others = name_form(one).words, name_form(other).words
        if words == others or "".join(words) == "".join(others):
            continue
        two_speakers = words in spoken and others in spoken
        full = len(words) > 1 and len(others) > 1 and not (set(words) <= set(others) or set(others) <= set(words))
        if two_speakers or full:
            yield one, other


def _joined(merge: Merge, entity: Entity) -> Joined:
    others = tuple(name for name in entity.aliases if name not in merge.names)
    return Joined(name=", ".join(merge.names), entity=entity.name, also=others, reason=merge.reason)


def tables(audits: Mapping[str, Audit]) -> dict[str, Table]:
    """All audits as tables: what the banks hold, who the speakers are, which names were joined."""
    if not audits:
        return {}
    counts: dict[str, Mapping[str, int]] = {case: found.counts for case, found in audits.items()}
    whole = Counter[str]()
    for found in counts.values():
        whole.update(found)
    return {
        "banks": {**counts, "all": {name: whole[name] for name in next(iter(counts.values()))}},
        "speakers": {
            f"{case} {person.name}": {
                "entities": len(person.entities),
                "names": "; ".join(", ".join(names) for names in person.entities),
            }
            for case, found in audits.items()
            for person in found.people
        },
        "joined names": {
            f"{case} {place}": {"name": each.name, "is": each.entity, "also": ", ".join(each.also)}
            for case, found in audits.items()
            for place, each in enumerate(found.joined, start=1)
        },
        "names in conflict": {
            f"{case} {place}": {"name": one, "is also": other}
            for case, found in audits.items()
            for place, (one, other) in enumerate(found.conflicts, start=1)
        },
    }
