"""Routes of queued work: retains that were not waited for, and what else waits to be done."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, ClassVar, Literal

from fastapi import APIRouter, Query, Response

from vmemo.errors import NotFound
from vmemo.models import JobKind, Message, utc_now
from vmemo.models.base import Name
from vmemo.models.results import Job
from vmemo.server.dependencies import Visit
from vmemo.server.hindsight import schemas
from vmemo.server.hindsight.dependencies import BANK, Reading, Writing
from vmemo.server.hindsight.retain import messages_of
from vmemo.server.hindsight.serializers import when
from vmemo.server.hindsight.unsupported import Page, Wish, absent
from vmemo.server.paths import ExactRoute
from vmemo.server.problems import Refused
from vmemo.server.responses import plain, record

router = APIRouter(route_class=ExactRoute)
_UNREAD = ("pending", "grouped")
_TYPES: Mapping[JobKind, str] = {
    "process": "retain",
    "extract": "retain",
    "opinions": "consolidation",
    "observe": "consolidation",
    "maintain": "maintenance",
}
_EITHER = (["true"], ["false"], "true", "false")


class OperationPage(Page):
    """Some of the queued work; what is done is not kept, so that there is none of another status."""

    harmless: ClassVar[Mapping[str, Sequence[object]]] = {"exclude_parents": _EITHER}
    status: Literal["pending", "processing", "completed", "failed", "cancelled"] | None = None
    type: str | None = None


class Payload(Wish):
    """Whether the items of an operation are told again."""

    harmless: ClassVar[Mapping[str, Sequence[object]]] = {"include_payload": ("false", ["false"])}


def operation_of(job: Job) -> schemas.Operation:
    """A job as an operation. One that failed waits to be tried again, and tells why."""
    runs = job.until is not None and job.until > utc_now()
    return schemas.Operation(
        id=str(job.id),
        operation_id=str(job.id),
        task_type=_TYPES[job.kind],
        operation_type=_TYPES[job.kind],
        items_count=job.asked,
        created_at=job.created_at.isoformat(),
        status="processing" if runs else "pending",
        error_message=job.error,
        retry_count=job.attempts,
        next_retry_at=when(job.due) if job.error is not None else None,
    )


@router.get(f"{BANK}/operations")
async def operations(visit: Reading, page: Annotated[OperationPage, Query()]) -> Response:
    """Work that waits or runs, the newest first."""
    found = [
        each
        for each in map(operation_of, reversed(await visit.memory.jobs()))
        if page.status in (None, each.status) and page.type in (None, "", each.operation_type)
    ]
    return record(
        schemas.Operations(
            bank_id=visit.bank,
            total=len(found),
            limit=page.limit,
            offset=page.offset,
            operations=list(page.of(found)),
        )
    )


@router.get(f"{BANK}/operations/{{operation_id}}")
async def operation(visit: Reading, operation_id: Name, options: Annotated[Payload, Query()]) -> Response:
    """How far an operation is; one that nothing is known of is `not_found`."""
    stored = await messages_of(operation_id, visit.memory.lookup)
    if stored:
        told = await _retained(visit, operation_id, stored)
        return plain({**told.model_dump(), "result_metadata": {"items_count": len(stored)}})
    jobs = [operation_of(job) for job in await visit.memory.jobs() if str(job.id) == operation_id]
    return record(jobs[0]) if jobs else plain({"operation_id": operation_id, "status": "not_found"})


async def _retained(visit: Visit, id: str, stored: Sequence[Message]) -> schemas.Operation:
    unread = [message for message in stored if message.state in _UNREAD]
    reading = any(operation_of(job).status == "processing" for job in await visit.memory.jobs()) if unread else False
    return schemas.Operation(
        id=id,
        operation_id=id,
        task_type="retain",
        operation_type="retain",
        items_count=len(stored),
        created_at=stored[0].recorded_at.isoformat(),
        status="completed" if not unread else "processing" if reading else "pending",
        error_message=next((message.error for message in unread if message.error), None),
    )


@router.delete(f"{BANK}/operations/{{operation_id}}")
async def cancel(visit: Writing, operation_id: Name) -> Response:
    """Take a retain back as far as it is not read yet: those messages are forgotten."""
    stored = await messages_of(operation_id, visit.memory.lookup)
    unread = [message.id for message in stored if message.state in _UNREAD]
    if not stored:
        if any(str(job.id) == operation_id for job in await visit.memory.jobs()):
            raise absent("cancel", "Only a retain can be cancelled; other work is small and comes again.")
        raise NotFound(f"There is no operation {operation_id!r:.80} in this bank.")
    if not unread:
        raise Refused(409, "Completed", "The operation is completed; forget its document instead.")
    await visit.memory.forget(messages=unread)
    return record(schemas.Cancelled(message=f"{len(unread)} items are forgotten.", operation_id=operation_id))
