"""Routes that list memories, entities and tags, and count them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Annotated, ClassVar

from fastapi import APIRouter, Query, Response
from pydantic import JsonValue

from vmemo.errors import NotFound
from vmemo.models import Entity, EntityId, FactId
from vmemo.models.records import Name
from vmemo.models.select import EntitySelect, FactSelect, first_of
from vmemo_hindsight import schemas
from vmemo_hindsight.dependencies import BANK, ReadBank
from vmemo_hindsight.filters import MemoryListRequest, is_current
from vmemo_hindsight.operations import operation_of
from vmemo_hindsight.reads import every_entity, every_fact, every_message
from vmemo_hindsight.schemas import HindsightRequest, OffsetPage
from vmemo_hindsight.serializers import format_time, memory_item, source_messages
from vmemo_server.paths import ExactRoute
from vmemo_server.responses import json_response, record

router = APIRouter(include_in_schema=False, route_class=ExactRoute)


@router.get(f"{BANK}/memories/list")
async def list_memories(session: ReadBank, options: Annotated[MemoryListRequest, Query()]) -> Response:
    """List facts, newest first."""
    facts = [fact async for fact in every_fact(session.memory) if options.selects(fact)]
    if options.document_id:
        in_document = {message.id async for message in every_message(session.memory, options.document_id)}
        facts = [fact for fact in facts if not in_document.isdisjoint(fact.messages)]
    shown = options.of(sorted(facts, key=options.sort_key, reverse=True))
    messages = await source_messages(shown, session.memory)
    return _list([memory_item(fact, messages) for fact in shown], len(facts), options)


def _list(items: list[dict[str, JsonValue]], total: int, page: OffsetPage) -> Response:
    return record(schemas.ListResponse(items=items, total=total, limit=page.limit, offset=page.offset))


@router.get(f"{BANK}/memories/{{memory_id}}")
async def memory(session: ReadBank, memory_id: Name) -> Response:
    """Return one fact."""
    found = await session.store.facts(session.bank, FactSelect(ids=[FactId(memory_id)]))
    if not found:
        raise NotFound(f"There is no memory {memory_id!r:.80} in this bank.")
    item = memory_item(found[0], await source_messages(found, session.memory))
    return json_response({**item, "type": found[0].network, "entities": [each.name for each in found[0].entities]})


class EntityListRequest(OffsetPage):
    """Query of a list of entities."""


@router.get(f"{BANK}/entities")
async def list_entities(session: ReadBank, options: Annotated[EntityListRequest, Query()]) -> Response:
    """List entities, the most mentioned first."""
    found = [entity async for entity in every_entity(session.memory)]
    found.sort(key=lambda entity: (-entity.mentions, entity.name))
    return _list([_entity(entity) for entity in options.of(found)], len(found), options)


class NoOptions(HindsightRequest):
    """Query of calls whose options vmemo does not support; `refresh` has no effect, for counts are always fresh."""

    harmless: ClassVar[Mapping[str, Sequence[object]]] = {"refresh": ("true", "false", ["true"], ["false"])}


@router.get(f"{BANK}/entities/{{entity_id}}")
async def entity(session: ReadBank, entity_id: Name, options: Annotated[NoOptions, Query()]) -> Response:
    """Return an entity with its observations."""
    found = first_of(await session.store.entities(session.bank, EntitySelect(ids=[EntityId(entity_id)])))
    if found is None:
        raise NotFound(f"There is no entity {entity_id!r:.80} in this bank.")
    facts = await session.memory.observations(found.id)
    observations = [{"text": fact.text, "mentioned_at": fact.mentioned_at.isoformat()} for fact in facts]
    return json_response({**_entity(found), "observations": observations})


def _entity(entity: Entity) -> dict[str, JsonValue]:
    return {
        "id": entity.id,
        "canonical_name": entity.name,
        "mention_count": entity.mentions,
        "first_seen": format_time(entity.first_seen),
        "last_seen": format_time(entity.last_seen),
        "metadata": {"type": entity.type, "aliases": list(entity.aliases)},
    }


class TagListRequest(OffsetPage):
    """Query of a list of tags; `q` is a pattern with asterisks."""

    harmless: ClassVar[Mapping[str, Sequence[object]]] = {"source": ("memories", ["memories"])}
    q: str = ""


@router.get(f"{BANK}/tags")
async def list_tags(session: ReadBank, options: Annotated[TagListRequest, Query()]) -> Response:
    """List tags by the number of facts that have them."""
    counts = Counter([tag async for fact in every_fact(session.memory) if is_current(fact) for tag in fact.tags])
    pattern = options.q.casefold().replace("[", "[[]").replace("?", "[?]") or "*"
    found = sorted(
        ((tag, count) for tag, count in counts.items() if fnmatchcase(tag.casefold(), pattern)),
        key=lambda each: (-each[1], each[0]),
    )
    return _list([{"tag": tag, "count": count} for tag, count in options.of(found)], len(found), options)


@router.get(f"{BANK}/stats")
async def stats(session: ReadBank, options: Annotated[NoOptions, Query()]) -> Response:
    """Count facts, links, documents and operations."""
    facts = {fact.id: fact async for fact in every_fact(session.memory) if is_current(fact)}
    documents = {message.document async for message in every_message(session.memory) if message.document}
    stored = await session.store.links(session.bank)
    links = Counter((facts[link.source].network, link.kind) for link in stored if link.source in facts)
    jobs = await session.memory.jobs()
    failed = sum(job.error is not None for job in jobs)
    breakdown: dict[str, dict[str, int]] = {}
    for (network, kind), count in links.items():
        breakdown.setdefault(network, {})[kind] = count
    return record(
        schemas.BankStats(
            bank_id=session.bank,
            total_nodes=len(facts),
            total_links=sum(links.values()),
            total_documents=len(documents),
            nodes_by_fact_type=dict(Counter(str(fact.network) for fact in facts.values())),
            links_by_link_type=_sums((kind, count) for (_, kind), count in links.items()),
            links_by_fact_type=_sums((network, count) for (network, _), count in links.items()),
            links_breakdown=breakdown,
            pending_operations=len(jobs) - failed,
            failed_operations=failed,
            operations_by_status=dict(Counter(str(operation_of(job).status) for job in jobs)),
            last_memory_write_at=format_time(max((fact.recorded_at for fact in facts.values()), default=None)),
            total_observations=sum(fact.network == "observation" for fact in facts.values()),
        )
    )


def _sums(counts: Iterable[tuple[str, int]]) -> dict[str, int]:
    total: Counter[str] = Counter()
    for name, count in counts:
        total[name] += count
    return dict(total)
