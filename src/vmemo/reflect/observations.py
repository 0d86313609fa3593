"""Observations: neutral profiles of the entities that matter, updated in the background from what is new."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from vmemo.llm.prompt_files import load_prompt
from vmemo.llm.structured import StructuredLLM
from vmemo.models import BankId, EntityId, Fact, FactId, Mention, new_fact_id, utc_now
from vmemo.models.changes import Changes, FactClosure, Lease
from vmemo.models.records import first_expiry, is_true
from vmemo.models.select import FactSelect
from vmemo.ports import Context
from vmemo.reflect.entity_profiles import EntityProfile, load_profiles
from vmemo.reflect.llm_schemas import EntityProfiles
from vmemo.reflect.new_facts import embed_facts
from vmemo.reflect.profile_prompt import PROMPTS, NewStatement, ProfileChanges, ProfilePrompt


@dataclass(frozen=True)
class ObservationJob:
    """A leased job to update the profile of one entity; `force` rebuilds the profile even if nothing is new."""

    lease: Lease
    force: bool = False


async def update_observations(
    bank: BankId, jobs: Mapping[EntityId, ObservationJob], context: Context, llm: StructuredLLM
) -> int:
    """Update the profiles that are due, with one call for as many as fit, and return the number of new statements.

    Statements that lost their support are closed in any case. Each job is completed in the transaction of its
    profile; one whose new facts do not fit into a prompt is held until a later call has seen them all.
    """
    writer, waiting, written = _ProfileWriter(bank, context, llm), dict(jobs), 0
    begun = set[EntityId]()
    while waiting:
        profiles = await load_profiles(bank, {id: job.force for id, job in waiting.items()}, context.store)
        due = [each for each in profiles if each.is_due() or (each.entity.id in begun and each.facts)]
        if due:
            # Profiles that will be due soon share the call, and the facts that are about several entities.
            due = [each for each in profiles if each in due or each.is_due(early=True)]
        others = waiting.keys() - {each.entity.id for each in due}
        unsupported = {each.entity.id: each.unsupported for each in profiles if each.entity.id in others}
        await writer.finish({id: waiting.pop(id).lease for id in others}, unsupported)
        if not due:
            break
        due.sort(key=lambda each: -len(each.facts))
        prompt = ProfilePrompt.of(due)
        answer = await llm.ask(prompt.request(), EntityProfiles, prompt.feedback)
        for id, changes in prompt.changes(answer).items():
            profile = next(each for each in due if each.entity.id == id)
            job = waiting.pop(id)
            finished = prompt.is_complete(profile)
            update = _Update(profile, changes, prompt.cursor(profile), prompt.shown[id])
            count = await writer.write(update, job.lease, finished=finished)
            written += count or 0
            if count is not None and not finished:
                waiting[id] = job
                begun.add(id)
    return written


@dataclass(frozen=True)
class _Update:
    """The changes to a profile, the last fact that it covers afterwards, and the number of facts it covers more."""

    profile: EntityProfile
    changes: ProfileChanges
    cursor: FactId | None
    shown: int


@dataclass(frozen=True)
class _ProfileWriter:
    """Commits profiles, each with its job."""

    bank: BankId
    context: Context
    llm: StructuredLLM

    async def finish(self, leases: Mapping[EntityId, Lease], unsupported: Mapping[EntityId, Sequence[Fact]]) -> None:
        """Close the unsupported statements of profiles that are not due, and complete their jobs."""
        if not leases:
            return
        closed = [fact for facts in unsupported.values() for fact in facts]
        changes = Changes(bank=self.bank, closures=_closures(closed, utc_now()), finished=list(leases.values()))
        if not await self.context.store.commit(changes) and len(leases) > 1:
            # A job was lost to another worker, which must not keep the others from being completed.
            for id, lease in leases.items():
                await self.finish({id: lease}, {id: unsupported.get(id, ())})

    async def write(self, update: _Update, lease: Lease, *, finished: bool) -> int | None:
        """Close the statements that are dropped or replaced and write the new ones; None if the lease was lost."""
        store = self.context.store
        while True:
            revision, now = await store.revision(self.bank), utc_now()
            new, closed = await self._planned(update, now)
            changes = Changes(
                bank=self.bank,
                facts=await embed_facts(new, self.context.embedder),
                closures=_closures(closed, now, [*new, *update.profile.facts]),
                spending=self.llm.spending,
                lease=None if finished else lease,
                finished=[lease] if finished else (),
                revision=revision,
                embedder=self.context.embedder.name,
            )
            if await store.commit(changes):
                self.llm.take_usage()
                return len(new)
            if not await store.renew([lease], lease.seconds):
                return None

    async def _planned(self, update: _Update, now: datetime) -> tuple[list[Fact], list[Fact]]:
        """Return the statements to write and to close, by the facts as they are now.

        A sentence that rests on a fact that was closed or forgotten while the model worked is not written, and what
        it was to replace stays.
        """
        written, profile = update.changes.written, update.profile
        ids = dict.fromkeys(id for each in written for id in each.basis)
        facts = {fact.id: fact for fact in await self.context.store.facts(self.bank, FactSelect(ids=list(ids)))}
        holding = [each for each in written if all(is_true(facts.get(id), now) for id in each.basis)]
        replaced = [*update.changes.dropped, *(old for each in holding for old in each.replaces), *profile.unsupported]
        closed = {each.id: each for each in replaced}
        kept = [each for each in profile.statements if each.id not in closed]
        if not holding and kept:
            # The latest statement records what the profile covers, so one is written again.
            last = kept[-1]
            closed[last.id] = last
            new = [_renewed(last, update, now)]
        else:
            new = [self._observation(each, facts, update, now) for each in holding]
        current = await self.context.store.facts(self.bank, FactSelect(ids=list(closed)))
        return new, [each for each in current if each.expired_at is None]

    def _observation(
        self, statement: NewStatement, facts: Mapping[FactId, Fact], update: _Update, now: datetime
    ) -> Fact:
        entity = update.profile.entity
        latest = max(facts[id].mentioned_at for id in statement.basis)
        return Fact(
            id=FactId(new_fact_id()),
            bank=self.bank,
            network="observation",
            text=statement.text,
            tokens=self.context.counter(statement.text),
            mentioned_at=latest,
            valid_at=latest,
            recorded_at=now,
            entities=(Mention(id=entity.id, name=entity.name, type=entity.type),),
            basis=statement.basis,
            expires_at=first_expiry(facts[id].expires_at for id in statement.basis),
            metadata=_coverage(update),
            engine=f"{self.llm.name}/{load_prompt(PROMPTS, 'observe').label}",
        )


def _renewed(statement: Fact, update: _Update, now: datetime) -> Fact:
    changed = {"id": FactId(new_fact_id()), "recorded_at": now, "metadata": _coverage(update)}
    return statement.model_copy(update=changed)


def _coverage(update: _Update) -> dict[str, str | int | None]:
    return {"newest": update.cursor, "seen": update.profile.seen + update.shown}


def _closures(statements: Sequence[Fact], now: datetime, newer: Sequence[Fact] = ()) -> list[FactClosure]:
    """Close statements at the time of the newest fact that led to it, which is not the time of processing."""
    ended = max((fact.mentioned_at for fact in newer), default=None)
    starts = {each.id: each.valid_at or each.mentioned_at for each in statements}
    return [FactClosure(fact=id, invalid_at=max(start, ended or start), expired_at=now) for id, start in starts.items()]
