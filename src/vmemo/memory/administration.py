"""The verbs that keep a bank in order: identities, upkeep, other engines and embedders, export and import."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

from vmemo.errors import InvalidInput
from vmemo.jobs.run_result import RunResult
from vmemo.jobs.worker import Away, Done
from vmemo.lifecycle.entity_merges import merge_entities, undo_merge
from vmemo.lifecycle.maintain import maintain
from vmemo.lifecycle.reembed import reembed
from vmemo.memory import reads
from vmemo.memory.inspection import Listings
from vmemo.models import BankId, EntityId, Merge, utc_now
from vmemo.models.changes import Changes, NewFact, NewJob
from vmemo.models.results import Maintained, Retained
from vmemo.ports import encodings
from vmemo.retain.pipeline import together
from vmemo.sync import twin
from vmemo.text.fact_text import embedded_text
from vmemo.transfer import files


class Keeping(Listings):
    """Keeping a bank in order."""

    _again: BankId | None = None
    """Where a running `reprocess()` derives."""

    async def merge_entities(self, keep: EntityId | str, absorb: EntityId | str, reason: str = "") -> Merge:
        """Make one entity of two, each given by id or name; all names stay. `undo_merge` parts them again."""
        await self.open()
        one = await reads.entity_id(self._name, keep, self._store)
        other = await reads.entity_id(self._name, absorb, self._store)
        observe = self._shared.context.llm is not None
        merge = await merge_entities(
            self._store, self._name, one, other, reason or "requested by the caller", observe=observe
        )
        return merge.public()

    async def undo_merge(self, merge: str) -> EntityId:
        """Part what a merge joined; the entity that is on its own again is returned, and they are not merged again."""
        await self.open()
        observe = self._shared.context.llm is not None
        return await undo_merge(self._store, self._name, reads.text_of("merge", merge), observe=observe)

    async def maintain(self) -> Maintained:
        """Join episodes that belong together, shorten old ones, close what has faded, and tidy the indexes."""
        await self.open()
        return await maintain(self._name, self._shared.context, self._shared.context.settings.upkeep)

    async def schedule_maintenance(self, hours: float | None = None, *, banks: Sequence[str] = ()) -> list[str]:
        """Queue the maintenance of all banks, or of some, that have none queued; their names are returned.

        It is due after `hours`, or after those of `Settings.upkeep.every`; 0 queues nothing.
        """
        pause = self._shared.context.settings.upkeep.every if hours is None else hours
        if not 0 <= pause < math.inf:
            raise InvalidInput(f"hours must be 0 or more, not {pause}.")
        if pause == 0:
            return []
        await self._store.open()
        wanted = [BankId(name) for name in banks] or [BankId(bank.id) for bank in await self._store.banks()]
        idle = [bank for bank in wanted if not await self._store.jobs(bank, ["maintain"])]
        for bank in idle:
            await self._store.commit(
                Changes(bank=bank, jobs=[NewJob(kind="maintain", due=utc_now() + timedelta(hours=pause))])
            )
        return list[str](idle)

    async def work(
        self,
        stop: asyncio.Event | None = None,
        *,
        once: bool = False,
        banks: Sequence[str] = (),
        on_done: Done | None = None,
        on_away: Away | None = None,
    ) -> RunResult:
        """Do the queued work of all banks, or of some, until told to stop, or with `once` until nothing is due.

        What runs when it is told to stop is finished. `on_done` is told of each piece of work that has ended. While the
        database is away or busy it waits, which `on_away` is told of; with `once` that is raised.
        """
        await self._store.open()
        named = [BankId(name) for name in banks]
        serving = self._shared.worker.serve
        return await serving(stop or asyncio.Event(), once=once, banks=named, on_done=on_done, on_away=on_away)

    async def reprocess(self) -> Retained:
        """Derive everything from the messages again, with this memory's engine and embedder.

        The bank answers from what it has until the new derivation takes its place in one step. What fails is raised,
        and calling it again goes on where it stopped. Whatever the messages did not tell, such as opinions, stays.
        """
        await self._store.open()
        context, done = self._shared.context, Retained()
        engine = f"{self._shared.context.engine}/{context.settings.style}"
        while True:
            self._again = await self._store.shadow(
                self._name, engine, embedder=context.embedder.name, dimension=context.embedder.dimension
            )
            done = together(done, await self._shared.derive(self._again))
            if await self._store.adopt(self._name, await self._carried()):
                self._shared.checked.discard(self._name)
                return done

    async def left_to_reprocess(self) -> int:
        """Messages that a running `reprocess()` of this memory has still to read."""
        return 0 if self._again is None else (await self._store.status(self._again)).pending

    async def _carried(self) -> list[NewFact]:
        """Opinions that no message told, embedded for the new derivation."""
        facts = await self._store.untold(self._name)
        texts = [embedded_text(fact.text, fact.mentioned_at) for fact in facts]
        found = await encodings(self._shared.context.embedder, texts, "document")
        return [NewFact(fact=f, embedding=e.vector, tokens=e.tokens) for f, e in zip(facts, found, strict=True)]

    async def reembed(self) -> int:
        """Switch the bank to this memory's embedder; others can read until the moment of the switch."""
        await self._store.open()
        return await reembed(self._name, self._store, self._shared.context.embedder)

    async def export(self, path: Path | str) -> int:
        """Write the bank to a JSON Lines file and return the number of records."""
        await self.open()
        await self._shared.access.flush()
        return await files.export(self._store, self._name, Path(path))

    async def import_bank(self, path: Path | str) -> int:
        """Load an exported bank under this memory's bank name, whole or not at all; its messages are counted."""
        await self._store.open()
        source = files.read(Path(path), self._name)
        await self._store.restore(source.bank, source.records)
        return (await self._store.status(self._name)).messages

    merge_entities_sync = twin(merge_entities)
    undo_merge_sync = twin(undo_merge)
    maintain_sync = twin(maintain)
    schedule_maintenance_sync = twin(schedule_maintenance)
    work_sync = twin(work)
    reprocess_sync = twin(reprocess)
    left_to_reprocess_sync = twin(left_to_reprocess)
    reembed_sync = twin(reembed)
    export_sync = twin(export)
    import_bank_sync = twin(import_bank)
