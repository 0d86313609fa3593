"""Memory: the verbs. It composes retain, recall and reflect over a store, and owns opening and closing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Self, Unpack

from vmemo import browse, transfer
from vmemo.errors import ScrubDelayed
from vmemo.models import (
    Answer,
    Bank,
    BankId,
    Budget,
    Entity,
    EntityId,
    Episode,
    EpisodeId,
    Fact,
    FactId,
    Forgotten,
    Message,
    MessageId,
    Profile,
    Provenance,
    Retained,
    Status,
)
from vmemo.ports import Embedder, Store
from vmemo.recall.pipeline import Sources, recall
from vmemo.recall.query import Query, RecallOptions, make_query
from vmemo.recall.recalled import Recalled
from vmemo.reflect import extractive
from vmemo.retain.pipeline import process, store_messages
from vmemo.retain.prepare import MessageOptions, prepare, single
from vmemo.retain.reembed import mismatch, reembed
from vmemo.settings import Settings, build
from vmemo.shared import Shared
from vmemo.sync import twin
from vmemo.tasks import Task

Content = str | Message | Sequence[str | Message]


class Memory:
    """Long-term memory of one bank. Every async verb has a synchronous twin with `_sync` after its name."""

    def __init__(
        self,
        url: str = "sqlite:///memory.db",
        bank: str = "default",
        llm: object = None,
        embedder: Embedder | None = None,
        reranker: object = None,
        settings: Settings | None = None,
    ) -> None:
        """Nothing is opened or loaded yet: that happens with the first verb, or in `async with`."""
        self._name = _bank_id(bank)
        self._shared = Shared.of(build(url, llm=llm, embedder=embedder, reranker=reranker, settings=settings))

    def bank(self, name: str) -> Memory:
        """The same memory on another bank; closing either closes both."""
        other = object.__new__(Memory)
        other._name, other._shared = _bank_id(name), self._shared
        return other

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def __enter__(self) -> Self:
        self.open_sync()
        return self

    def __exit__(self, *_: object) -> None:
        self.close_sync()

    @property
    def _store(self) -> Store:
        return self._shared.parts.store

    async def open(self) -> None:
        """Open the store, create the bank if it is new, and refuse a bank of another embedder."""
        if self._name in self._shared.checked:
            return
        await self._store.open()
        embedder = self._shared.parts.embedder
        wanted = Bank(id=self._name, embedder=embedder.name, dimension=embedder.dimension)
        stored = await self._store.create_bank(wanted)
        if error := mismatch(stored, embedder):
            raise error
        self._shared.checked.add(self._name)

    async def close(self) -> None:
        """Write what is left of access counts and close the store. A closed memory opens again with the next verb."""
        self._shared.checked.clear()
        await self._shared.access.close()
        await self._store.close()

    async def add_message(self, message: Message | str, **options: Unpack[MessageOptions]) -> Retained:
        """Store a message durably; `process()` derives facts from it."""
        return await self._append(single(message), options)

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
        derived = await self.process()
        return derived.model_copy(update={"stored": stored.stored, "skipped": stored.skipped})

    async def process(self) -> Retained:
        """Derive facts from all unread messages."""
        await self.open()
        async with self._shared.turn(self._name):
            return await process(self._name, self._shared.tools)

    def process_async(self) -> Task[Retained]:
        """Start `process()` in the background and return a handle to await, poll or cancel."""
        return Task(self.process())

    async def recall(
        self, query: str, max_tokens: int = 4096, budget: Budget = "mid", **options: Unpack[RecallOptions]
    ) -> Recalled:
        """Facts by relevance whose tokens sum to at most `max_tokens`; `budget` is how much to explore."""
        return await self._recall(make_query(query, self._name, options, budget=budget, max_tokens=max_tokens))

    async def retrieve(self, query: str, top_k: int = 10, **options: Unpack[RecallOptions]) -> Recalled:
        """The same as recall, with a count in place of the token budget."""
        return await self._recall(make_query(query, self._name, options, top_k=top_k))

    async def _recall(self, query: Query) -> Recalled:
        await self.open()
        parts = self._shared.parts
        found = await recall(query, Sources(parts.store, parts.embedder, parts.counter), parts.plan)
        self._shared.access.add(self._name, (hit.id for hit in found.hits if not hit.verbatim))
        return found

    async def reflect(self, query: str, **options: Unpack[RecallOptions]) -> Answer:
        """Answer from memory with citations. The local engine answers extractively and says so."""
        found = await self.recall(query, **options)
        return extractive.answer(found.query, found.hits)

    async def why(self, fact: FactId | str) -> Provenance:
        """Where a fact comes from: episodes, messages, and the facts behind it; and what replaced it."""
        await self.open()
        return await browse.why(self._name, FactId(fact), self._store, self._shared.parts.counter)

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
        target = browse.forget_target(messages, document, entity, bank)
        await self.open()
        if target.entity is not None:
            await self.process()
            target = replace(target, entity=await browse.entity_id(self._name, target.entity, self._store))
        browse.clear_cache(self._shared.parts.embedder)
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
            await self.process()

    async def status(self) -> Status:
        """What the bank holds, what is unread, and which errors keep it so."""
        await self.open()
        found = await self._store.status(self._name)
        return found.model_copy(update={"engine": self._shared.parts.extractor.name})

    async def banks(self) -> list[str]:
        """Names of all banks of this store."""
        await self.open()
        return [bank.id for bank in await self._store.banks()]

    async def profile(self, new: Profile | None = None) -> Profile:
        """The bank's profile; with an argument it becomes that."""
        changed = browse.checked_profile(new)
        await self.open()
        if changed is not None:
            await self._store.save_profile(self._name, changed)
        return await browse.profile(self._name, self._store)

    async def messages(
        self, *, document: str | None = None, after: MessageId | None = None, limit: int = 100
    ) -> list[Message]:
        """A page of the archive in the order it was stored."""
        size, name = browse.page(limit), browse.document(document)
        await self.open()
        start = await browse.cursor(after, partial(self._store.messages, self._name))
        return await self._store.messages(self._name, document=name, after=start, limit=size)

    async def episodes(self, *, after: EpisodeId | None = None, limit: int = 100) -> list[Episode]:
        """A page of episodes in the order they were stored."""
        await self.open()
        start = await browse.cursor(after, partial(self._store.episodes, self._name))
        return await self._store.episodes(self._name, after=start, limit=browse.page(limit))

    async def facts(
        self, *, after: FactId | None = None, limit: int = 100, with_embeddings: bool = False
    ) -> list[Fact]:
        """A page of facts, closed ones too, in the order they were stored."""
        size = browse.page(limit)
        await self.open()
        start = await browse.cursor(after, partial(self._store.facts, self._name))
        return await self._store.facts(self._name, after=start, limit=size, with_embeddings=with_embeddings)

    async def entities(self, *, after: EntityId | None = None, limit: int = 100) -> list[Entity]:
        """A page of entities in the order they were first seen."""
        await self.open()
        start = await browse.cursor(after, partial(self._store.entities, self._name))
        return await self._store.entities(self._name, after=start, limit=browse.page(limit))

    async def reembed(self) -> int:
        """Switch the bank to this memory's embedder; others can read until the moment of the switch."""
        await self._store.open()
        return await reembed(self._name, self._store, self._shared.parts.embedder)

    async def export(self, path: Path | str) -> int:
        """Write the bank to a JSON Lines file and return the number of records."""
        await self.open()
        await self._shared.access.flush()
        return await transfer.export(self._store, self._name, Path(path))

    async def import_bank(self, path: Path | str) -> int:
        """Load an exported bank under this memory's bank name, whole or not at all; its messages are counted."""
        await self._store.open()
        source = transfer.read(Path(path), self._name)
        await self._store.restore(source.bank, source.records)
        return (await self._store.status(self._name)).messages

    open_sync = twin(open)
    close_sync = twin(close)
    add_message_sync = twin(add_message)
    add_exchange_sync = twin(add_exchange)
    retain_sync = twin(retain)
    process_sync = twin(process)
    recall_sync = twin(recall)
    retrieve_sync = twin(retrieve)
    reflect_sync = twin(reflect)
    why_sync = twin(why)
    forget_sync = twin(forget)
    status_sync = twin(status)
    banks_sync = twin(banks)
    profile_sync = twin(profile)
    messages_sync = twin(messages)
    episodes_sync = twin(episodes)
    facts_sync = twin(facts)
    entities_sync = twin(entities)
    reembed_sync = twin(reembed)
    export_sync = twin(export)
    import_bank_sync = twin(import_bank)


def _bank_id(name: str) -> BankId:
    return BankId(Bank.of({"id": name, "embedder": "-", "dimension": 1}).id)
