"""Edits of single facts by the user: new versions and pins.

An edit is a decision of the user that no derivation may revert. The messages that state an edited fact are marked as
curated: they are neither processed again nor recalled by their words, and reprocessing keeps their facts as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from vmemo.errors import InvalidInput, NotFound
from vmemo.lifecycle.entity_merges import observation_job
from vmemo.models import BankId, Fact, FactId, Message, new_id, utc_now
from vmemo.models.auth import CompletedRequest, no_request
from vmemo.models.changes import Changes
from vmemo.models.drafts import FactDraft, FoundName
from vmemo.models.select import FactSelect, MessageSelect, first_of
from vmemo.retain.context import RetainContext
from vmemo.retain.local import first_interval
from vmemo.retain.outdated_observations import close_outdated_observations
from vmemo.retain.revise import is_current
from vmemo.retain.write_plan import plan_edit
from vmemo.text.names import find_names, merge_names
from vmemo.text.temporal import find_statement_times

Completed = Callable[[Fact], CompletedRequest | None]


@dataclass(frozen=True)
class FactEditor:
    """Edits of the facts of one bank; each is repeated if another writer was faster."""

    bank: BankId
    context: RetainContext
    completed: Completed = no_request

    async def update(self, id: FactId, text: str, reason: str) -> Fact:
        """Write a new version of a fact, close the old one, and return the new one; an equal text changes nothing."""
        while True:
            revision = await self.context.store.revision(self.bank)
            old = await self._fact(id)
            if old.text == text:
                return old
            await self._require_current(old)
            draft, version = await self._draft(old, text), partial(_version, old=old, reason=reason)
            changes = await plan_edit(self.bank, revision, draft, version, self.context)
            if (new := await self._commit(replace(changes, curated=old.messages))) is not None:
                return new

    async def pin(self, id: FactId, *, pinned: bool) -> Fact:
        """Pin or unpin a fact, and return it."""
        fact = (await self._fact(id)).model_copy(update={"pinned": pinned})
        changes = Changes(bank=self.bank, pinned={id: pinned}, completes=self.completed(fact))
        await self.context.store.commit(changes)
        return fact

    async def make_fact(self, message: Message) -> Fact:
        """Store a message without facts as a fact in its own words, with the message's id, and return that."""
        own = Fact.in_own_words(message, self.bank, self.context.counter)
        while True:
            revision = await self.context.store.revision(self.bank)
            if found := await self.context.store.facts(self.bank, FactSelect(ids=[own.id])):
                return found[0]
            await self._require_without_facts(message)
            changes = await plan_edit(
                self.bank,
                revision,
                await self._draft(own, own.text),
                lambda new: own.model_copy(update={"entities": new.entities, "expires_at": message.expires_at}),
                self.context,
            )
            # It states nothing new, and so replaces nothing.
            links = [link for link in changes.links if link.kind not in ("replaces", "outdates")]
            written = replace(changes, facts=changes.facts[:1], links=links, closures=(), successors={})
            step = replace(self, completed=no_request)
            if (new := await step._commit(replace(written, curated=[message.id]))) is not None:
                return new

    async def _commit(self, changes: Changes) -> Fact | None:
        """Commit the changes of an edit and return its fact; None if another writer was faster."""
        store = self.context.store
        new = changes.facts[0].fact
        changes = await close_outdated_observations(changes, store)
        jobs = [observation_job(mention.id) for mention in new.entities] if self.context.llm is not None else []
        if not await store.commit(replace(changes, jobs=jobs, completes=self.completed(new))):
            return None
        if changes.revision is not None:
            self.context.entity_cache.committed(self.bank, changes.revision, changes)
        return new

    async def _fact(self, id: FactId) -> Fact:
        found = first_of(await self.context.store.facts(self.bank, FactSelect(ids=[id])))
        if found is None:
            raise NotFound(f"There is no fact {id!r} in bank {self.bank!r}.")
        return found

    async def _require_current(self, fact: Fact) -> None:
        """Raise InvalidInput for a fact that can't have a new version."""
        if fact.network not in ("world", "experience"):
            raise InvalidInput(
                f"{fact.id} is an {fact.network}, which is formed from other facts. Nothing was changed. Update the "
                "facts that `why` shows as its basis, or delete it."
            )
        if not is_current(fact):
            newer = first_of(await self.context.store.facts(self.bank, FactSelect(supersedes=[fact.id])))
            instead = "is no longer current" if newer is None else f"was replaced by {newer.id}"
            raise InvalidInput(f"{fact.id} {instead}. Nothing was changed. Update a current version.")

    async def _require_without_facts(self, message: Message) -> None:
        """Raise InvalidInput for a message that has facts, or may get some."""
        if message.state in ("pending", "grouped"):
            raise InvalidInput(
                f"Message {message.id} waits to be processed. Nothing was changed. Call process() first."
            )
        stated = await self.context.store.facts(self.bank, FactSelect(messages=[message.id]))
        if stated:
            ids = ", ".join(fact.id for fact in stated[:3])
            raise InvalidInput(f"Message {message.id} has facts. Nothing was changed. Give the id of one: {ids}.")

    async def _draft(self, old: Fact, text: str) -> FactDraft:
        """Return the draft of a new version. A text without times and names of its own keeps those of the old one."""
        said = await self.context.store.messages(self.bank, MessageSelect(ids=old.messages))
        now = utc_now()
        times = find_statement_times(text, now, southern=self.context.settings.southern_seasons)
        kept = (old.occurred_start, old.occurred_end) if old.occurred_start and old.occurred_end else None
        return FactDraft(
            key=new_id(),
            network=old.network,
            text=text,
            mentioned_at=now,
            recorded_at=now,
            messages=old.messages,
            occurred=first_interval(times) or kept,
            valid_at=now,
            importance=old.importance,
            entities=_names(text, old, said),
            tags=old.tags,
            metadata=old.metadata,
            instruction=old.instruction,
        )


def _names(text: str, old: Fact, said: Sequence[Message]) -> tuple[FoundName, ...]:
    """Return the names in a text, the speakers, and the names of the old fact that the text repeats."""
    speakers = dict.fromkeys(message.speaker for message in said if message.speaker)
    folded = text.casefold()
    known = [
        FoundName(name=name, type=mention.type)
        for mention in old.entities
        if (name := mention.name_in_text or mention.name).casefold() in folded
    ]
    own = [FoundName(name=speaker, type="PERSON") for speaker in speakers]
    return merge_names(merge_names(own, find_names(text, speakers=set(speakers))), known)


def _version(new: Fact, *, old: Fact, reason: str) -> Fact:
    """Return the new fact as a version of the old one."""
    return new.model_copy(
        update={
            "supersedes": old.id,
            "reason": reason,
            "access_count": old.access_count,
            "pinned": old.pinned,
            "expires_at": old.expires_at,
        }
    )
