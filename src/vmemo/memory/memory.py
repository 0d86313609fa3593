"""Memory: the verbs. It composes retain, recall and reflect over a store, and owns opening and closing."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Unpack

from vmemo.errors import LLMFailed, OutcomeUnknown, ProcessingDelayed, ScrubDelayed, StoreBusy
from vmemo.jobs.background_task import Task
from vmemo.memory import reads
from vmemo.memory.reflect import Reflecting
from vmemo.models import EntityId, Message, MessageId
from vmemo.models.results import Forgotten, Retained
from vmemo.retain.pipeline import store_messages
from vmemo.retain.prepare import MessageOptions, prepare, single
from vmemo.sync import twin

Content = str | Message | Sequence[str | Message]


class Memory(Reflecting):
    """Long-term memory of one bank. Every async verb has a synchronous twin with `_sync` after its name."""

    async def add_message(self, message: Message | str, **options: Unpack[MessageOptions]) -> Retained:
        """Store a message durably; `process()` derives facts from it."""
        return await self._append(single(message), options)

    async def add_messages(self, content: Content, infer: bool = True, **options: Unpack[MessageOptions]) -> Retained:
        """Store text, a message or a list of them durably; `process()` or a worker derives facts from them.

        With `infer=False` they are kept for recall by their words alone.
        """
        return await self._append(content, options, infer=infer)

    async def add_exchange(
        self, user_message: str, assistant_message: str, **options: Unpack[MessageOptions]
    ) -> Retained:
        """Store what the user said and what the assistant answered; a speaker's name is the user's."""
        asked = prepare(single(user_message), {**options, "role": "user"}, infer=True)
        answered = prepare(single(assistant_message), {**options, "role": "assistant", "speaker": None}, infer=True)
        return await self._append([*asked, *answered], {})

    async def _append(self, content: object, options: MessageOptions, *, infer: bool = True) -> Retained:
        messages = prepare(content, options, infer=infer)
        await self.open()
        return await store_messages(self._name, messages, self._store)

    async def retain(self, content: Content, infer: bool = True, **options: Unpack[MessageOptions]) -> Retained:
        """Store text, a message or a list of them, and derive facts at once.

        With `infer=False` messages are kept for recall by their words alone and nothing is derived. The same lines
        under the same document again change nothing. If deriving fails, the error is raised, the messages are
        stored and queued all the same, and a later `process()` completes them.
        """
        stored = await self._append(content, options, infer=infer)
        if not infer:
            return stored
        try:
            derived = await self.process(stored.stored)
        except (StoreBusy, OutcomeUnknown) as error:
            # Who repeats the call, as this error asks for, would store the messages twice.
            raise ProcessingDelayed(
                f"The messages are stored and queued, but not read yet: {error} Don't retain them again; process() or "
                "a worker reads them."
            ) from error
        return derived.model_copy(update={"stored": stored.stored, "skipped": (*stored.skipped, *derived.skipped)})

    async def process(self, messages: Sequence[MessageId | str] = ()) -> Retained:
        """Derive facts from all unread messages, also from those that failed before.

        With a language model this also does the other queued work that is due. An error is raised when all that can
        be read is read; what it is about stays queued and is told by `status()`. Where a worker was faster, what it
        has read from `messages` is what was derived.
        """
        await self.open()
        try:
            derived = await self._shared.derive(self._name)
        finally:
            self._shared.follow(self._name)
        if not messages or derived.derived or derived.revised:
            return derived
        found = await reads.read_from(self._name, messages, self._store)
        return derived.model_copy(update={"derived": found})

    def process_async(self) -> Task[Retained]:
        """Start `process()` in the background and return a handle to await, poll or cancel."""
        return Task(self.process())

    async def forget(
        self,
        *,
        messages: Sequence[MessageId | str] = (),
        document: str | None = None,
        entity: EntityId | str | None = None,
        bank: bool = False,
    ) -> Forgotten:
        """Delete messages, a document, an entity or the whole bank, with everything that rests on them.

        Forgetting an entity deletes every message that speaks of it, unread ones too. What else they were read
        together with is read again. Afterwards the text is in no answer, no export and no byte of the database file.
        """
        target = reads.forget_target(messages, document, entity, bank)
        await self.open()
        if target.entity is not None:
            await self._read_on()
            target = replace(target, entity=await reads.entity_id(self._name, target.entity, self._store))
        reads.clear_cache(self._shared.context.embedder)
        try:
            forgotten = await self._store.forget(self._name, target)
        except ScrubDelayed:
            await self._settle(bank)
            raise
        if bank or forgotten.requeued:
            await self._settle(bank)
        return forgotten

    async def _settle(self, bank: bool) -> None:
        """After rows are gone: what was read together with them is read again, and a lost bank is no longer open."""
        if bank:
            self._shared.checked.discard(self._name)
        else:
            await self._read_on()

    async def _read_on(self) -> None:
        """Read what is unread. That a model fails keeps nobody from forgetting: `status()` tells it."""
        with suppress(LLMFailed):
            await self.process()

    add_message_sync = twin(add_message)
    add_messages_sync = twin(add_messages)
    add_exchange_sync = twin(add_exchange)
    retain_sync = twin(retain)
    process_sync = twin(process)
    forget_sync = twin(forget)
