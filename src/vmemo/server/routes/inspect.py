"""Routes that look into a bank without searching it."""

from __future__ import annotations

from functools import partial
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from vmemo.models import ConfidenceChange, Entity, EntityId, Episode, EpisodeId, Fact, FactId, Merge, Provenance
from vmemo.models.base import Name
from vmemo.models.results import Job
from vmemo.server import requests
from vmemo.server.dependencies import Reading, Token, Visit, Writing
from vmemo.server.paging import Cursor, Limit
from vmemo.server.paths import ExactRoute
from vmemo.server.responses import LOOKS, WRITES, Page, listed, one_more, paged, record, recorded

router = APIRouter(prefix="/v1/banks/{bank}", tags=["look"], route_class=ExactRoute)
EntityNamed = Annotated[Name | None, Query(description="An entity's id or name.")]
Vectors = Annotated[bool, Query(description="Whether facts come with their vectors.")]


@router.get("/facts", response_model=Page[Fact], responses=LOOKS)
async def facts(
    visit: Reading, cursor: Cursor = None, limit: Limit = 100, with_embeddings: Vectors = False
) -> Response:
    """Facts, closed ones too, in the order they were stored."""
    after = None if cursor is None else FactId(cursor)
    found = await visit.memory.facts(after=after, limit=one_more(limit), with_embeddings=with_embeddings)
    return paged(Page[Fact], found, limit, lambda fact: fact.id)


@router.get("/facts/{fact}/why", response_model=Provenance, responses=LOOKS)
async def why(visit: Reading, fact: Name) -> Response:
    """Where a fact comes from, and what it became."""
    return record(await visit.memory.why(fact))


@router.get("/episodes", response_model=Page[Episode], responses=LOOKS)
async def episodes(visit: Reading, cursor: Cursor = None, limit: Limit = 100) -> Response:
    """Episodes in the order they were stored."""
    found = await visit.memory.episodes(after=None if cursor is None else EpisodeId(cursor), limit=one_more(limit))
    return paged(Page[Episode], found, limit, lambda episode: episode.id)


@router.get("/entities", response_model=Page[Entity], responses=LOOKS)
async def entities(visit: Reading, cursor: Cursor = None, limit: Limit = 100) -> Response:
    """Entities in the order they were first seen."""
    found = await visit.memory.entities(after=None if cursor is None else EntityId(cursor), limit=one_more(limit))
    return paged(Page[Entity], found, limit, lambda entity: entity.id)


@router.get("/opinions", response_model=Page[Fact], responses=LOOKS)
async def opinions(visit: Reading) -> Response:
    """The opinions that are held now."""
    return listed(Page[Fact], await visit.memory.opinions())


@router.get("/opinions/{opinion}/trajectory", response_model=Page[ConfidenceChange], responses=LOOKS)
async def trajectory(visit: Reading, opinion: Name) -> Response:
    """Every step of an opinion's confidence with its evidence, oldest first."""
    return listed(Page[ConfidenceChange], await visit.memory.trajectory(opinion))


@router.get("/observations", response_model=Page[Fact], responses=LOOKS)
async def observations(visit: Reading, entity: EntityNamed = None) -> Response:
    """What is observed of an entity, or of all."""
    return listed(Page[Fact], await visit.memory.observations(entity))


@router.get("/merges", response_model=Page[Merge], responses=LOOKS)
async def merges(visit: Reading) -> Response:
    """Which names were found to be one entity."""
    return listed(Page[Merge], await visit.memory.merges())


@router.post("/merges", response_model=Merge, responses=WRITES)
async def merge(request: Request, visit: Writing, body: requests.NewMerge, token: Token) -> Response:
    """Make one entity of two; all names stay."""
    joined = partial(visit.memory.merge_entities, body.keep, body.absorb, body.reason)
    return await visit.once(request, token, lambda: recorded(joined()))


@router.delete("/merges/{merge}", response_model=requests.Named, responses=WRITES)
async def undo_merge(request: Request, visit: Writing, merge: Name, token: Token) -> Response:
    """Part what a merge joined; the entity that is on its own again is named."""
    return await visit.once(request, token, lambda: _parted(visit, merge))


async def _parted(visit: Visit, merge: str) -> Response:
    return record(requests.Named(id=await visit.memory.undo_merge(merge)))


@router.get("/jobs", response_model=Page[Job], responses=LOOKS)
async def jobs(visit: Reading) -> Response:
    """Queued work, oldest first, with errors and when it is tried again."""
    return listed(Page[Job], await visit.memory.jobs())
