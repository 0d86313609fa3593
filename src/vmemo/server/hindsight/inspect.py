"""Routes that look into a bank: memories, entities, tags and counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Annotated, ClassVar

from fastapi import APIRouter, Query, Response
from pydantic import JsonValue

from vmemo.errors import NotFound
from vmemo.models import Entity, FactId
from vmemo.models.base import Name
from vmemo.server.hindsight import schemas
from vmemo.server.hindsight.dependencies import BANK, Reading
from vmemo.server.hindsight.memories import Listing, current
from vmemo.server.hindsight.operations import operation_of
from vmemo.server.hindsight.serializers import said_by, unit, when
from vmemo.server.hindsight.unsupported import Page, Wish
from vmemo.server.paths import ExactRoute
from vmemo.server.responses import plain, record

router = APIRouter(route_class=ExactRoute)


@router.get(f"{BANK}/memories/list")
async def memories(visit: Reading, wanted: Annotated[Listing, Query()]) -> Response:
    """Facts, the newest first."""
    lookup = visit.memory.lookup
    facts = [fact async for fact in lookup.every_fact() if wanted.lets(fact)]
    if wanted.document_id:
        lines = {message.id async for message in lookup.every_message(wanted.document_id)}
        facts = [fact for fact in facts if not lines.isdisjoint(fact.messages)]
    page = wanted.of(sorted(facts, key=wanted.place, reverse=True))
    said = await said_by(page, lookup)
    return _listed([unit(fact, said) for fact in page], len(facts), wanted)


def _listed(items: list[dict[str, JsonValue]], total: int, page: Page) -> Response:
    return record(schemas.Listed(items=items, total=total, limit=page.limit, offset=page.offset))


@router.get(f"{BANK}/memories/{{memory_id}}")
async def memory(visit: Reading, memory_id: Name) -> Response:
    """One fact."""
    found = await visit.memory.lookup.facts([FactId(memory_id)])
    if not found:
        raise NotFound(f"There is no memory {memory_id!r:.80} in this bank.")
    told = unit(found[0], await said_by(found, visit.memory.lookup))
    return plain({**told, "type": found[0].network, "entities": [each.name for each in found[0].entities]})


class EntityPage(Page):
    """Some entities."""


@router.get(f"{BANK}/entities")
async def entities(visit: Reading, page: Annotated[EntityPage, Query()]) -> Response:
    """Entities, the most mentioned first."""
    found = [entity async for entity in visit.memory.lookup.every_entity()]
    found.sort(key=lambda entity: (-entity.mentions, entity.name))
    return _listed([_entity(entity) for entity in page.of(found)], len(found), page)


class NoOptions(Wish):
    """Options that a call has in Hindsight and does not have here."""

    harmless: ClassVar[Mapping[str, Sequence[object]]] = {"refresh": ("true", "false", ["true"], ["false"])}


@router.get(f"{BANK}/entities/{{entity_id}}")
async def entity(visit: Reading, entity_id: Name, options: Annotated[NoOptions, Query()]) -> Response:
    """An entity with what is observed of it."""
    found = await visit.memory.lookup.entity(entity_id)
    if found is None:
        raise NotFound(f"There is no entity {entity_id!r:.80} in this bank.")
    observed = await visit.memory.observations(found.id)
    told = [{"text": fact.text, "mentioned_at": fact.mentioned_at.isoformat()} for fact in observed]
    return plain({**_entity(found), "observations": told})


def _entity(entity: Entity) -> dict[str, JsonValue]:
    return {
        "id": entity.id,
        "canonical_name": entity.name,
        "mention_count": entity.mentions,
        "first_seen": when(entity.first_seen),
        "last_seen": when(entity.last_seen),
        "metadata": {"type": entity.type, "aliases": list(entity.aliases)},
    }


class TagPage(Page):
    """Some tags; `q` is a pattern with asterisks."""

    harmless: ClassVar[Mapping[str, Sequence[object]]] = {"source": ("memories", ["memories"])}
    q: str = ""


@router.get(f"{BANK}/tags")
async def tags(visit: Reading, page: Annotated[TagPage, Query()]) -> Response:
    """Tags by how many facts have them."""
    counts = Counter([tag async for fact in visit.memory.lookup.every_fact() if current(fact) for tag in fact.tags])
    pattern = page.q.casefold().replace("[", "[[]").replace("?", "[?]") or "*"
    found = sorted(((n, tag) for tag, n in counts.items() if fnmatchcase(tag.casefold(), pattern)), key=_by_count)
    return _listed([{"tag": tag, "count": n} for n, tag in page.of(found)], len(found), page)


def _by_count(counted: tuple[int, str]) -> tuple[int, str]:
    return -counted[0], counted[1]


@router.get(f"{BANK}/stats")
async def stats(visit: Reading, options: Annotated[NoOptions, Query()]) -> Response:
    """How much the bank holds, and how much waits."""
    lookup = visit.memory.lookup
    facts = {fact.id: fact async for fact in lookup.every_fact() if current(fact)}
    documents = {message.document async for message in lookup.every_message() if message.document}
    links = Counter((facts[link.source].network, link.kind) for link in await lookup.links() if link.source in facts)
    jobs = await visit.memory.jobs()
    states = Counter(str(operation_of(job).status) for job in jobs)
    failed = sum(job.error is not None for job in jobs)
    breakdown: dict[str, dict[str, int]] = {}
    for (network, kind), n in links.items():
        breakdown.setdefault(network, {})[kind] = n
    return record(
        schemas.Stats(
            bank_id=visit.bank,
            total_nodes=len(facts),
            total_links=sum(links.values()),
            total_documents=len(documents),
            nodes_by_fact_type=dict(Counter(str(fact.network) for fact in facts.values())),
            links_by_link_type=_summed((kind, n) for (_, kind), n in links.items()),
            links_by_fact_type=_summed((network, n) for (network, _), n in links.items()),
            links_breakdown=breakdown,
            pending_operations=len(jobs) - failed,
            failed_operations=failed,
            operations_by_status=dict(states),
            last_memory_write_at=when(max((fact.recorded_at for fact in facts.values()), default=None)),
            total_observations=sum(fact.network == "observation" for fact in facts.values()),
        )
    )


def _summed(counts: Iterable[tuple[str, int]]) -> dict[str, int]:
    total: Counter[str] = Counter()
    for name, n in counts:
        total[name] += n
    return dict(total)
