"""Contents of a bank after a run: counts, links by kind, and the result of entity resolution."""

from __future__ import annotations

import json
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cache
from itertools import combinations
from pathlib import Path
from typing import get_args

from nicknames import NickNamer
from pydantic import BaseModel, ConfigDict

from vmemo import Memory
from vmemo.models import Entity, LinkKind, Merge
from vmemo_bench.datasets import Case
from vmemo_bench.report import Table

STORED_LINKS = tuple(kind for kind in get_args(LinkKind) if kind != "entity")
"""Kinds of links that are stored; links through entities are computed."""
SHORTEST_CLIP = 3
"""Shortest clipped form of a given name that is recognised, such as Mel for Melanie."""
_TITLES = frozenset("mr mrs ms miss dr doctor prof professor sir uncle aunt coach captain the".split())


class MergedName(BaseModel):
    """A name that became an alias of an entity."""

    model_config = ConfigDict(frozen=True)

    name: str
    entity: str
    other_aliases: tuple[str, ...]


class SpeakerEntities(BaseModel):
    """A speaker, and the names of each entity that has the speaker's name or a form of it."""

    model_config = ConfigDict(frozen=True)

    name: str
    entities: tuple[tuple[str, ...], ...]


class BankAudit(BaseModel):
    """Counts and entity resolution of one bank."""

    model_config = ConfigDict(frozen=True)

    counts: Mapping[str, int]
    speakers: tuple[SpeakerEntities, ...] = ()
    merged: tuple[MergedName, ...] = ()
    conflicts: tuple[tuple[str, str], ...] = ()
    """Pairs of names of one entity that cannot belong to one person: two speakers, or two full names."""


async def audit_bank(memory: Memory, case: Case, file: Path) -> BankAudit:
    """Audit a bank; its export is written to `file` to count links, and deleted."""
    await memory.export(file)
    links = _count_links(file)
    status = await memory.status()
    merges = [merge for merge in await memory.merges() if merge.undone_at is None]
    entities = {entity.id: entity for entity in await _entities(memory)}
    speakers = sorted({turn.speaker for session in case.sessions for turn in session.turns if turn.speaker})
    return BankAudit(
        counts={
            "episodes": status.episodes,
            "facts": status.facts,
            "closed": status.closed_facts,
            "entities": status.entities,
            "merges": len(merges),
            **{kind: links[kind] for kind in STORED_LINKS},
        },
        speakers=tuple(_speaker(speaker, entities.values()) for speaker in speakers),
        merged=tuple(_merged(merge, entities[merge.entity]) for merge in merges if merge.entity in entities),
        conflicts=tuple(pair for entity in entities.values() for pair in conflicts(_names(entity), speakers)),
    )


def _count_links(file: Path) -> Counter[str]:
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


def _names(entity: Entity) -> tuple[str, ...]:
    return (entity.name, *entity.aliases)


def _speaker(speaker: str, entities: Collection[Entity]) -> SpeakerEntities:
    named = [_names(entity) for entity in entities if any(is_form_of(name, speaker) for name in _names(entity))]
    return SpeakerEntities(name=speaker, entities=tuple(named))


def _merged(merge: Merge, entity: Entity) -> MergedName:
    others = tuple(name for name in entity.aliases if name not in merge.names)
    return MergedName(name=", ".join(merge.names), entity=entity.name, other_aliases=others)


def is_form_of(name: str, speaker: str) -> bool:
    """Return True if a name is the speaker's: a fuller one, a nickname, or a clipped form."""
    own = _words(speaker)[0]
    first, *rest = _words(name)
    if rest:
        return first == own
    clipped = min(len(first), len(own)) >= SHORTEST_CLIP and (first.startswith(own) or own.startswith(first))
    return clipped or first in _nicknames(own)


def conflicts(names: Sequence[str], speakers: Collection[str]) -> Iterator[tuple[str, str]]:
    """Yield pairs of an entity's names that are two speakers, or two full names of which neither contains the other."""
    speaking = {_words(speaker) for speaker in speakers}
    for one, other in combinations(names, 2):
        words, others = _words(one), _words(other)
        if "".join(words) == "".join(others):
            continue
        two_speakers = words in speaking and others in speaking
        full = len(words) > 1 and len(others) > 1 and not (set(words) <= set(others) or set(others) <= set(words))
        if two_speakers or full:
            yield one, other


def _words(name: str) -> tuple[str, ...]:
    """Return the words of a name in lower case, without title, accents and punctuation."""
    folded = unicodedata.normalize("NFKD", name.casefold())
    stripped = ("".join(filter(str.isalnum, word)) for word in folded.replace("-", " ").split())
    words = tuple(filter(None, stripped)) or (name,)
    return words[1:] if len(words) > 1 and words[0] in _TITLES else words


@cache
def _nicknames(name: str) -> frozenset[str]:
    names = NickNamer()
    return frozenset(names.nicknames_of(name) | names.canonicals_of(name))


def audit_tables(audits: Mapping[str, BankAudit]) -> dict[str, Table]:
    """Return the audits of all cases as tables of the report."""
    if not audits:
        return {}
    counts: dict[str, Mapping[str, int]] = {case: audit.counts for case, audit in audits.items()}
    total = Counter[str]()
    for each in counts.values():
        total.update(each)
    return {
        "banks": {**counts, "all": {name: total[name] for name in next(iter(counts.values()))}},
        "speakers": {
            f"{case} {speaker.name}": {
                "entities": len(speaker.entities),
                "names": "; ".join(", ".join(names) for names in speaker.entities),
            }
            for case, audit in audits.items()
            for speaker in audit.speakers
        },
        "merged names": {
            f"{case} {number}": {"name": each.name, "entity": each.entity, "also": ", ".join(each.other_aliases)}
            for case, audit in audits.items()
            for number, each in enumerate(audit.merged, start=1)
        },
        "conflicting names": {
            f"{case} {number}": {"name": one, "other name": other}
            for case, audit in audits.items()
            for number, (one, other) in enumerate(audit.conflicts, start=1)
        },
    }
