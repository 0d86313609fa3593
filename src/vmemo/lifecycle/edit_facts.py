"""Edits of single facts by the user: new versions and pins.

An edit is a decision of the user that no derivation may revert. The messages that state an edited fact are marked as
curated: they are neither processed again nor recalled by their words, and reprocessing keeps their facts as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial

from vmemo.errors import InvalidInput, NotFound
from vmemo.lifecycle.entity_merges import observation_job
from vmemo.models import BankId, Fact, FactId, Message, new_id, utc_now
from vmemo.models.changes import Changes, FactClosure, FactDraft, FoundName
from vmemo.models.records import Feedback, is_true, with_feedback
from vmemo.models.search import Scope
from vmemo.models.select import FactSelect, MessageSelect, first_of
from vmemo.ports import Store, fact_revisions
from vmemo.retain.context import RetainContext
from vmemo.retain.local_extraction import main_interval
from vmemo.retain.revise import is_current, start_of
from vmemo.retain.write_plan import close_outdated_observations, plan_edit
from vmemo.text.names import find_names, merge_names
from vmemo.text.temporal import find_statement_times


@dataclass(frozen=True)
class FactEditor:
    """Edits of the facts of one bank; each is repeated if another writer was faster."""

    bank: BankId
    context: RetainContext

    async def update(self, id: FactId, text: str, *, reason: str = "", valid_at: datetime | None = None) -> Fact:
        """Write a new version of a fact, true since `valid_at` or since now, close the old one, and return the new.

        With the text of a closed fact, the new version is true since the old one was, beside what had closed that.
        """
        while True:
            revision = await self.context.store.revision(self.bank)
            old = await self._fact(id)
            if old.text == text and valid_at in (None, old.valid_at) and is_current(old):
                return old
            if old.network not in ("world", "experience"):
                raise InvalidInput(
                    f"{old.id} is an {old.network}, which is formed from other facts. Nothing was changed. Update the "
                    "facts that `why` shows as its basis, or delete it."
                )
            names = ["access_count", "pinned", "expires_at"]
            if reopens := not is_current(old):
                newest = await self._newest_version(old)
                if newest is not None and newest.text == text and valid_at in (None, newest.valid_at):
                    return newest
                if old.text != text or valid_at is not None:
                    raise _closed(old, newest, "Update")
                names += ["occurred_start", "occurred_end", "mentioned_at", "valid_at"]
            kept = {name: getattr(old, name) for name in names}
            version = partial(Fact.model_copy, update={**kept, "supersedes": old.id, "reason": reason})
            draft = await self._draft(old, text, valid_at)
            changes = await plan_edit(self.bank, revision, draft, version, self.context)
            earlier = [] if valid_at is None else await self._end_earlier(old, valid_at)
            changes = _revising_nothing(changes) if reopens else changes
            changes = replace(changes, curated=old.messages, closures=[*changes.closures, *earlier])
            if (new := await self._commit(changes)) is not None:
                return new

    async def pin(self, id: FactId, *, pinned: bool) -> Fact:
        """Pin or unpin a fact, and return it; only a fact that is true and believed can be pinned."""
        found = await self._fact(id)
        if pinned and not is_true(found, utc_now()):
            raise _closed(found, await self._newest_version(found), "Pin")
        fact = found.model_copy(update={"pinned": pinned})
        await self.context.store.commit(Changes(bank=self.bank, pinned={id: pinned}))
        return fact

    async def judge(self, id: FactId, question: str, useful: bool | None, *, reason: str) -> Fact:
        """Set the feedback on a fact as a hit of a question, or remove it if `useful` is None; return the fact."""
        store = self.context.store
        while True:
            revision = await store.revision(self.bank)
            found = await self._fact(id)
            kept = [each for each in found.feedback if each.question.casefold() != question.casefold()]
            new = [] if useful is None else [Feedback(question=question, useful=useful, reason=reason, at=utc_now())]
            metadata = with_feedback(found.metadata, [*kept, *new])
            if await store.commit(Changes(bank=self.bank, revision=revision, metadata={id: metadata})):
                return found.model_copy(update={"metadata": metadata})

    async def make_fact(self, message: Message) -> Fact:
        """Store a message without facts as a fact in its own words, with the message's id, and return that."""
        own = Fact.in_own_words(message, self.bank, self.context.counter)
        while True:
            revision = await self.context.store.revision(self.bank)
            if found := await self.context.store.facts(self.bank, FactSelect(ids=[own.id])):
                return found[0]
            if message.state in ("pending", "grouped"):
                waits = f"Message {message.id} waits to be processed"
                raise InvalidInput(f"{waits}. Nothing was changed. Call process() first.")
            if stated := await self.context.store.facts(self.bank, FactSelect(messages=[message.id])):
                ids = ", ".join(fact.id for fact in stated[:3])
                raise InvalidInput(f"Message {message.id} has facts. Nothing was changed. Give the id of one: {ids}.")
            changes = await plan_edit(
                self.bank,
                revision,
                await self._draft(own, own.text, None),
                lambda new: own.model_copy(update={"entities": new.entities, "expires_at": message.expires_at}),
                self.context,
            )
            if (new := await self._commit(replace(_revising_nothing(changes), curated=[message.id]))) is not None:
                return new

    async def _commit(self, changes: Changes) -> Fact | None:
        store = self.context.store
        new = changes.facts[0].fact
        changes = await close_outdated_observations(changes, store)
        jobs = [observation_job(mention.id) for mention in new.entities] if self.context.llm is not None else []
        if not await store.commit(replace(changes, jobs=jobs)):
            return None
        if changes.revision is not None:
            self.context.entity_cache.committed(self.bank, changes.revision, changes)
        return new

    async def _fact(self, id: FactId) -> Fact:
        found = first_of(await self.context.store.facts(self.bank, FactSelect(ids=[id])))
        if found is None:
            raise NotFound(f"There is no fact {id!r} in bank {self.bank!r}.")
        return found

    async def _newest_version(self, fact: Fact) -> Fact | None:
        """Return another version of a fact, the newest that is true."""
        now = utc_now()
        versions = await versions_of(self.context.store, fact)
        return next((each for each in reversed(versions) if each.id != fact.id and is_true(each, now)), None)

    async def _end_earlier(self, old: Fact, valid_at: datetime) -> list[FactClosure]:
        """Return the ends of earlier versions that lasted beyond the start of the new one."""
        return [
            FactClosure(fact=each.id, invalid_at=max(start_of(each), valid_at))
            for each in await versions_of(self.context.store, old)
            if each.invalid_at is not None and each.invalid_at > max(start_of(each), valid_at)
        ]

    async def _draft(self, old: Fact, text: str, valid_at: datetime | None) -> FactDraft:
        """Return the draft of a new version. A text without times and names of its own keeps those of the old one."""
        said = await self.context.store.messages(self.bank, MessageSelect(ids=old.messages))
        now = utc_now()
        if valid_at is not None and valid_at > now:
            raise InvalidInput(
                f"valid_at is {valid_at.isoformat()}, which is in the future; the old version ends now at the latest. "
                "Nothing was changed. Give a time in the past, or retain a message about what will change."
            )
        times = find_statement_times(text, now, southern=self.context.settings.southern_seasons)
        kept = (old.occurred_start, old.occurred_end) if old.occurred_start and old.occurred_end else None
        return FactDraft(
            key=new_id(),
            network=old.network,
            text=text,
            mentioned_at=now,
            recorded_at=now,
            messages=old.messages,
            occurred=main_interval(times) or kept,
            valid_at=valid_at or now,
            importance=old.importance,
            entities=_names(text, old, said),
            tags=old.tags,
            metadata=with_feedback(old.metadata, ()),
            instruction=old.instruction,
        )


def _revising_nothing(changes: Changes) -> Changes:
    """Return the changes that write one fact which states nothing new, and so replaces nothing."""
    links = [link for link in changes.links if link.kind not in ("replaces", "outdates")]
    return replace(changes, facts=changes.facts[:1], links=links, closures=(), successors={}, claims={})


def _closed(fact: Fact, newest: Fact | None, verb: str) -> InvalidInput:
    """Return the error for a verb that needs a current fact; it names the newest version, if there is one."""
    if newest is None:
        why = "is no longer current, and no other version of it is"
        return InvalidInput(f"{fact.id} {why}. Nothing was changed. {verb} a current fact.")
    return InvalidInput(
        f"{fact.id} is closed: it was replaced by {newest.id}. Nothing was changed. {verb} the current version, "
        f"{newest.short_id}."
    )


async def versions_of(store: Store, fact: Fact) -> list[Fact]:
    """Return all versions of a fact, in the order in which they were recorded."""
    versions, edge = {fact.id: fact}, {fact.id}
    while edge:
        near = {each.id: each for each in await _neighbours(store, [versions[id] for id in edge])}
        edge = near.keys() - versions.keys()
        versions |= near
    return sorted(versions.values(), key=lambda each: (each.recorded_at, each.mentioned_at))


async def _neighbours(store: Store, facts: Sequence[Fact]) -> list[Fact]:
    """Return the versions directly before and after some facts."""
    bank, ids = facts[0].bank, [fact.id for fact in facts]
    scope = Scope(bank=bank, include_expired=True)
    edges = await store.read(bank, lambda reader: fact_revisions(reader, scope, ids))
    near: set[FactId] = {id for edge in edges if edge.kind == "replaces" for id in (edge.older, edge.newer)}
    near |= {fact.supersedes for fact in facts if fact.supersedes is not None}
    before = await store.facts(bank, FactSelect(ids=sorted(near)))
    return [*before, *await store.facts(bank, FactSelect(supersedes=ids))]


def _names(text: str, old: Fact, said: Sequence[Message]) -> tuple[FoundName, ...]:
    speakers = dict.fromkeys(message.speaker for message in said if message.speaker)
    folded = text.casefold()
    known = [
        FoundName(name=name, type=mention.type)
        for mention in old.entities
        if (name := mention.name_in_text or mention.name).casefold() in folded
    ]
    own = [FoundName(name=speaker, type="PERSON") for speaker in speakers]
    return merge_names(merge_names(own, find_names(text, speakers=set(speakers))), known)
