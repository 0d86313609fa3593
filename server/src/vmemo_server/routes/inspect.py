"""Routes that list what a bank holds, trace where it comes from, and read, edit, pin, judge and delete one fact."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query, Response

from vmemo.models import ConfidenceChange, Entity, EntityId, Episode, EpisodeId, Fact, FactId, Merge, Provenance
from vmemo.models.records import Name
from vmemo.models.requests import (
    DeleteFactRequest,
    FactJudgement,
    FactText,
    FeedbackRequest,
    MergeEntitiesRequest,
    PinFactRequest,
    PinState,
    UndoMergeRequest,
    UpdateFactRequest,
)
from vmemo.models.results import Forgotten, Job
from vmemo_server import openapi
from vmemo_server.dependencies import Idempotent, ReadBank, WriteBank
from vmemo_server.responses import (
    BODY_ERRORS,
    LLM_ERRORS,
    READ_ERRORS,
    Cursor,
    CursorPage,
    IdResponse,
    Limit,
    one_more,
    page,
    page_up_to,
    record,
)

router = openapi.rest_router("inspect", "/v1/banks/{bank}")
EntityFilter = Annotated[Name | None, Query(description="An entity's id or name.")]
Instructions = Annotated[bool, Query(description="Only standing instructions of the user.")]
Pinned = Annotated[bool, Query(description="Only pinned facts.")]
Judged = Annotated[bool, Query(description="Only facts with feedback.")]
WithEmbeddings = Annotated[bool, Query(description="Include the facts' embeddings.")]


@router.get("/facts", response_model=CursorPage[Fact], responses=READ_ERRORS)
async def facts(
    session: ReadBank,
    cursor: Cursor = None,
    limit: Limit = 100,
    instructions: Instructions = False,
    pinned: Pinned = False,
    feedback: Judged = False,
    with_embeddings: WithEmbeddings = False,
) -> Response:
    """List facts in the order they were stored, closed ones included."""
    after, size = None if cursor is None else FactId(cursor), one_more(limit)
    kinds = {"instructions": instructions, "pinned": pinned, "feedback": feedback}
    found = await session.memory.facts(after=after, limit=size, with_embeddings=with_embeddings, **kinds)
    return page_up_to(CursorPage[Fact], found, limit, lambda fact: fact.id)


@router.get("/facts/{fact}/why", response_model=Provenance, responses=READ_ERRORS)
async def why(session: ReadBank, fact: Name) -> Response:
    """Return the sources of a fact, its history, and the facts that replaced it."""
    return record(await session.memory.why(fact))


@router.get("/episodes", response_model=CursorPage[Episode], responses=READ_ERRORS)
async def episodes(session: ReadBank, cursor: Cursor = None, limit: Limit = 100) -> Response:
    """List episodes in the order they were stored."""
    found = await session.memory.episodes(after=None if cursor is None else EpisodeId(cursor), limit=one_more(limit))
    return page_up_to(CursorPage[Episode], found, limit, lambda episode: episode.id)


@router.get("/entities", response_model=CursorPage[Entity], responses=READ_ERRORS)
async def entities(session: ReadBank, cursor: Cursor = None, limit: Limit = 100) -> Response:
    """List entities in the order they were first mentioned."""
    found = await session.memory.entities(after=None if cursor is None else EntityId(cursor), limit=one_more(limit))
    return page_up_to(CursorPage[Entity], found, limit, lambda entity: entity.id)


@router.get("/opinions", response_model=CursorPage[Fact], responses=READ_ERRORS)
async def opinions(session: ReadBank) -> Response:
    """List the current opinions."""
    return page(CursorPage[Fact], await session.memory.opinions())


@router.get("/opinions/{opinion}/trajectory", response_model=CursorPage[ConfidenceChange], responses=READ_ERRORS)
async def trajectory(session: ReadBank, opinion: Name) -> Response:
    """List every confidence change of an opinion with its evidence, oldest first."""
    return page(CursorPage[ConfidenceChange], await session.memory.trajectory(opinion))


@router.get("/observations", response_model=CursorPage[Fact], responses=READ_ERRORS)
async def observations(session: ReadBank, entity: EntityFilter = None) -> Response:
    """List the observations about one entity or all."""
    return page(CursorPage[Fact], await session.memory.observations(entity))


@router.get("/merges", response_model=CursorPage[Merge], responses=READ_ERRORS)
async def merges(session: ReadBank) -> Response:
    """List the merges of entities."""
    return page(CursorPage[Merge], await session.memory.merges())


@router.post("/merges", response_model=Merge, responses=BODY_ERRORS, openapi_extra=openapi.MERGE_ENTITIES)
async def merge(session: WriteBank, body: MergeEntitiesRequest, idempotency: Idempotent) -> Response:
    """Merge two entities into one, which keeps all names."""
    return await idempotency.run(session, body, record)


@router.delete("/merges/{merge}", response_model=IdResponse, responses=BODY_ERRORS)
async def undo_merge(session: WriteBank, merge: Name, idempotency: Idempotent) -> Response:
    """Undo a merge and return the id of the entity that was split off."""
    return await idempotency.run(session, UndoMergeRequest(merge=merge), lambda entity: record(IdResponse(id=entity)))


@router.get("/jobs", response_model=CursorPage[Job], responses=READ_ERRORS)
async def jobs(session: ReadBank) -> Response:
    """List queued jobs, oldest first, with their errors and retry times."""
    return page(CursorPage[Job], await session.memory.jobs())


facts_router = openapi.rest_router("facts", "/v1/banks/{bank}/facts/{fact}")


@facts_router.get("", response_model=Fact, responses=READ_ERRORS)
async def get(session: ReadBank, fact: Name) -> Response:
    """Return one fact, given by its id or short id."""
    return record(await session.memory.get(fact))


@facts_router.patch("", response_model=Fact, responses=BODY_ERRORS, openapi_extra=openapi.UPDATE_FACT)
async def update(session: WriteBank, fact: Name, body: FactText, idempotency: Idempotent) -> Response:
    """Write a new version of a fact; the old one is closed and stays in its history."""
    request = UpdateFactRequest(fact=fact, text=body.text, reason=body.reason, valid_at=body.valid_at)
    return await idempotency.run(session, request, record)


@facts_router.delete("", response_model=Forgotten, responses=LLM_ERRORS)
async def delete(session: WriteBank, fact: Name, idempotency: Idempotent) -> Response:
    """Delete one fact with what rests on it, and the messages that state nothing else."""
    return await idempotency.run(session, DeleteFactRequest(fact=fact), record)


@facts_router.get("/history", response_model=CursorPage[Fact], responses=READ_ERRORS)
async def history(session: ReadBank, fact: Name) -> Response:
    """List all versions of a fact, oldest first."""
    return page(CursorPage[Fact], await session.memory.history(fact))


@facts_router.put("/pin", response_model=Fact, responses=BODY_ERRORS)
async def pin(session: WriteBank, fact: Name, idempotency: Idempotent, body: PinState | None = None) -> Response:
    """Pin a current fact, or unpin one; maintenance never closes a pinned one."""
    request = PinFactRequest(fact=fact, pinned=body is None or body.pinned)
    return await idempotency.run(session, request, record)


@facts_router.put("/feedback", response_model=Fact, responses=BODY_ERRORS)
async def judge(session: WriteBank, fact: Name, body: FactJudgement, idempotency: Idempotent) -> Response:
    """Judge a fact as a hit of a question, right or wrong, or remove the judgement."""
    return await idempotency.run(session, FeedbackRequest(fact=fact, **body.model_dump()), record)
