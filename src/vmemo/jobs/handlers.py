"""Execution of jobs: the stage that runs each kind, and the record of failures and retries."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import assert_never

from vmemo.errors import OutcomeUnknown, StoreBusy, Unsupported
from vmemo.lifecycle.maintain import maintain
from vmemo.llm.structured import StructuredLLM
from vmemo.models import EntityId, FactId, MessageId, utc_now
from vmemo.models.changes import Changes, JobFailure, Lease
from vmemo.models.records import shifted
from vmemo.models.results import Job, Retained
from vmemo.models.select import MessageSelect
from vmemo.reflect.opinions import update_opinions
from vmemo.reflect.profiles import ObservationJob, update_observations
from vmemo.retain.context import RetainContext
from vmemo.retain.llm_pipeline import GROUPING_BATCH, ExtractionJob, LeaseLost, extract_episode, group_pending
from vmemo.retain.pipeline import embedder_changed, error_text, process

MAX_RETRY_SECONDS = 3600.0
"""Longest delay between two attempts of a job."""


@dataclass(frozen=True)
class JobRunner:
    """Runs jobs with the context of one memory."""

    context: RetainContext

    async def run(self, jobs: Sequence[Job]) -> Retained | Exception:
        """Run jobs that belong together; an error is recorded on them, and returned rather than raised."""
        leases = [lease_of(job, self.context.settings.lease_seconds) for job in jobs]
        llm = StructuredLLM(self.context.llm) if self.context.llm is not None else None
        try:
            return await self._execute(jobs, leases, llm)
        except asyncio.CancelledError:
            # If the database is unavailable, the leases expire by themselves.
            with suppress(StoreBusy, OutcomeUnknown):
                released = Changes(bank=jobs[0].bank, released=leases)
                await asyncio.shield(self.context.store.commit(released))
            raise
        except LeaseLost:
            return Retained()
        except (StoreBusy, OutcomeUnknown) as error:
            # Recording it would wait for the same lock or server; the worker releases the job later.
            return error
        except Exception as error:
            with suppress(StoreBusy, OutcomeUnknown):
                error = await embedder_changed(jobs[0].bank, self.context) or error
                await self._record_failure(jobs, leases, error, llm)
            return error

    async def _execute(self, jobs: Sequence[Job], leases: Sequence[Lease], llm: StructuredLLM | None) -> Retained:
        job, lease, store = jobs[0], leases[0], self.context.store
        if job.kind == "process" and llm is None:
            # A retain of this process may be deriving the same messages.
            async with self.context.bank_lock(job.bank):
                done = await process(job.bank, self.context)
            await store.commit(Changes(bank=job.bank, finished=[lease]))
            return done
        if job.kind == "maintain":
            await maintain(job.bank, self.context, lease=lease)
            return Retained()
        if job.kind == "webhook":
            # Importing an HTTP client takes as long as the rest of the package.
            from vmemo.jobs.webhook_delivery import deliver  # noqa: PLC0415

            await deliver(job, store, self.context.settings, lease)
            return Retained()
        if llm is None:
            raise Unsupported(f"A job of kind {job.kind!r} needs a language model; pass llm= to Memory.")
        match job.kind:
            case "process":
                done = await group_pending(job.bank, self.context, llm, lease)
                await store.commit(Changes(bank=job.bank, finished=[lease]))
                return done
            case "extract":
                at = shifted(utc_now(), self.context.settings.observe_delay)
                return await extract_episode(
                    job.bank, ExtractionJob.of(job.detail), self.context, llm, lease, observe_at=at
                )
            case "opinions":
                facts = [FactId(str(id)) for id in _listed(job, "facts")]
                await update_opinions(job.bank, facts, self.context, llm, lease)
            case "observe":
                work = {
                    EntityId(each.key): ObservationJob(held, force=bool(each.detail.get("anew")))
                    for each, held in zip(jobs, leases, strict=True)
                }
                await update_observations(job.bank, work, self.context, llm)
            case _:
                assert_never(job.kind)
        return Retained(usage=llm.take_usage())

    async def _record_failure(
        self, jobs: Sequence[Job], leases: Sequence[Lease], error: Exception, llm: StructuredLLM | None
    ) -> None:
        """Keep the jobs queued with their error, and record the cost."""
        failed = [
            JobFailure(
                lease=lease,
                error=error_text(error),
                retry_at=self._retry_at(job),
                messages=await self._messages_of(job),
            )
            for job, lease in zip(jobs, leases, strict=True)
        ]
        spent = () if llm is None else llm.spending
        await self.context.store.commit(Changes(bank=jobs[0].bank, failed=failed, spending=spent))

    async def _messages_of(self, job: Job) -> list[MessageId]:
        """Return the messages that stay pending because of a job."""
        if job.kind == "extract":
            return list(ExtractionJob.of(job.detail).messages)
        if job.kind == "process":
            return [
                message.id
                for message in await self.context.store.messages(job.bank, MessageSelect.oldest_pending(GROUPING_BATCH))
            ]
        return []

    def _retry_at(self, job: Job) -> datetime:
        """Return the time of the next attempt: exponential backoff with jitter."""
        settings = self.context.settings
        pause = min(MAX_RETRY_SECONDS, settings.retry_initial_seconds * 2.0 ** min(job.attempts, 30))
        return shifted(utc_now(), pause * random.uniform(0.5, 1.0))


def lease_of(job: Job, seconds: float) -> Lease:
    """Return the lease of a job that was just leased."""
    assert job.owner is not None
    return Lease(job=job.id, owner=job.owner, requests=job.requests, seconds=seconds)


def _listed(job: Job, name: str) -> list[object]:
    value = job.detail.get(name)
    return list(value) if isinstance(value, list) else []
