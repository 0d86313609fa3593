"""Routes of operations: queued jobs, and retains that were not waited for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, ClassVar, Literal

from fastapi import APIRouter, Query, Response

from vmemo.errors import NotFound
from vmemo.models import JobKind, Message, utc_now
from vmemo.models.records import Name
from vmemo.models.results import Job
from vmemo_hindsight import schemas
from vmemo_hindsight.dependencies import BANK, ReadBank, WriteBank
from vmemo_hindsight.retain import messages_of
from vmemo_hindsight.schemas import HindsightRequest, OffsetPage, unsupported_option
from vmemo_hindsight.serializers import format_time
from vmemo_server.dependencies import RequestSession
from vmemo_server.paths import ExactRoute
from vmemo_server.problems import HttpProblem
from vmemo_server.responses import json_response, record

router = APIRouter(include_in_schema=False, route_class=ExactRoute)
_PENDING = ("pending", "grouped")
_TYPES: Mapping[JobKind, str] = {
    "process": "retain",
    "extract": "retain",
    "opinions": "consolidation",
    "observe": "consolidation",
    "maintain": "maintenance",
    "webhook": "webhook_delivery",
}


class OperationListRequest(OffsetPage):
    """Query of a list of operations; finished jobs are deleted, so a filter for them finds none."""

    harmless: ClassVar[Mapping[str, Sequence[object]]] = {"exclude_parents": (["true"], ["false"], "true", "false")}
    status: Literal["pending", "processing", "completed", "failed", "cancelled"] | None = None
    type: str | None = None


class OperationOptions(HindsightRequest):
    """Query of one operation."""

    harmless: ClassVar[Mapping[str, Sequence[object]]] = {"include_payload": ("false", ["false"])}


def operation_of(job: Job) -> schemas.OperationResponse:
    """Return a job as an operation. A failed job is pending, with its error, until it is retried."""
    runs = job.until is not None and job.until > utc_now()
    return schemas.OperationResponse(
        id=str(job.id),
        operation_id=str(job.id),
        task_type=_TYPES[job.kind],
        operation_type=_TYPES[job.kind],
        items_count=job.requests,
        created_at=job.created_at.isoformat(),
        status="processing" if runs else "pending",
        error_message=job.error,
        retry_count=job.attempts,
        next_retry_at=format_time(job.due) if job.error is not None else None,
    )


@router.get(f"{BANK}/operations")
async def list_operations(session: ReadBank, options: Annotated[OperationListRequest, Query()]) -> Response:
    """List queued and running jobs, newest first."""
    found = [
        each
        for each in map(operation_of, reversed(await session.memory.jobs()))
        if options.status in (None, each.status) and options.type in (None, "", each.operation_type)
    ]
    return record(
        schemas.OperationList(
            bank_id=session.bank,
            total=len(found),
            limit=options.limit,
            offset=options.offset,
            operations=list(options.of(found)),
        )
    )


@router.get(f"{BANK}/operations/{{operation_id}}")
async def operation(session: ReadBank, operation_id: Name, options: Annotated[OperationOptions, Query()]) -> Response:
    """Return the progress of an operation; an unknown one has the status `not_found`."""
    stored = await messages_of(operation_id, session.memory)
    if stored:
        found = await _retain_operation(session, operation_id, stored)
        return json_response({**found.model_dump(), "result_metadata": {"items_count": len(stored)}})
    jobs = [operation_of(job) for job in await session.memory.jobs() if str(job.id) == operation_id]
    return record(jobs[0]) if jobs else json_response({"operation_id": operation_id, "status": "not_found"})


async def _retain_operation(session: RequestSession, id: str, stored: Sequence[Message]) -> schemas.OperationResponse:
    pending = [message for message in stored if message.state in _PENDING]
    jobs = await session.memory.jobs() if pending else []
    runs = any(operation_of(job).status == "processing" for job in jobs)
    return schemas.OperationResponse(
        id=id,
        operation_id=id,
        task_type="retain",
        operation_type="retain",
        items_count=len(stored),
        created_at=stored[0].recorded_at.isoformat(),
        status="completed" if not pending else "processing" if runs else "pending",
        error_message=next((message.error for message in pending if message.error), None),
    )


@router.delete(f"{BANK}/operations/{{operation_id}}")
async def cancel(session: WriteBank, operation_id: Name) -> Response:
    """Cancel a retain: forget its messages that are still pending."""
    stored = await messages_of(operation_id, session.memory)
    pending = [message.id for message in stored if message.state in _PENDING]
    if not stored:
        if any(str(job.id) == operation_id for job in await session.memory.jobs()):
            raise unsupported_option("cancel", "Only a retain can be cancelled.")
        raise NotFound(f"There is no operation {operation_id!r:.80} in this bank.")
    if not pending:
        raise HttpProblem(409, "OperationCompleted", "The operation is completed; delete its document instead.")
    async with session.erasing():
        await session.memory.forget(messages=pending)
    return record(schemas.CancelResponse(message=f"Deleted {len(pending)} items.", operation_id=operation_id))
