"""Memory: the verbs, executed in this process on a database."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, Self, TypeVar, Unpack

from vmemo.errors import InvalidInput, NotFound
from vmemo.jobs.worker import RunResult, WorkCallbacks
from vmemo.lifecycle.reprocess import reembed_bank
from vmemo.memory import administration, context, inspect, recall, reflect, retain
from vmemo.memory.administration import ForgetPreview, preview_forget
from vmemo.memory.retain import import_from
from vmemo.memory.session import ConcurrencyLimits, MemoryRuntime, MemorySession, OnDone, RequestQueue, bank_id
from vmemo.memory.verbs import Verbs
from vmemo.models import BankId, requests as r, utc_now
from vmemo.models.changes import Changes, NewJob
from vmemo.models.records import shifted
from vmemo.models.results import Event, Retained
from vmemo.models.select import EntitySelect, EpisodeSelect, FactSelect, MessageSelect
from vmemo.ports import Embedder, Store
from vmemo.retain.context import RetainContext
from vmemo.settings import EncryptionKey, Redactor, Settings, build
from vmemo.sync import twin
from vmemo.transfer import files
from vmemo.transfer.foreign import ForeignFormat
from vmemo.transfer.incoming import load_bank

R = TypeVar("R")


class Memory(Verbs):
    """Long-term memory of one bank. Every async verb has a synchronous twin with `_sync` after its name."""

    def __init__(  # noqa: PLR0913 - each is an optional part of the memory
        self,
        url: str | Path | None = None,
        bank: str = "default",
        llm: object = None,
        embedder: Embedder | str | None = None,
        reranker: object = None,
        settings: Settings | None = None,
        encryption_key: EncryptionKey | None = None,
        revision_model: object = None,
        redact: Redactor | Literal["secrets", "none"] | None = None,
    ) -> None:
        """Configure a memory. The first verb, or `async with`, opens the database and loads models.

        `url` is a URL such as postgresql://host/name, or the path of a SQLite file; by default that of the settings,
        which VMEMO_URL sets, or else memory.db in the working directory. ":memory:" is a private database that lasts
        until `close()`.

        `embedder` is an object, or a name such as "openai:text-embedding-3-small"; by default that of the settings,
        which VMEMO_EMBEDDER sets, or else the packaged one.

        `encryption_key` opens an encrypted SQLite file, in place of the key of the settings. `revision_model` finds
        outdated facts in place of the packaged model; "none" leaves that to rules.

        `redact` is applied to messages before they are stored, sent to a model or embedded: "secrets" replaces API
        keys, passwords and the like, and is the default of the settings; "none" stores everything; a function from
        text to text does what you write. `vmemo.redact_secrets` is the built-in one, to call from your own.
        """
        built = build(
            url,
            llm=llm,
            embedder=embedder,
            reranker=reranker,
            settings=settings,
            encryption_key=encryption_key,
            revision_model=revision_model,
            redact=redact,
        )
        self._session = MemorySession(MemoryRuntime.of(built), bank_id(bank))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._session.store!r}, bank={self._session.bank!r})"

    async def run(self, request: r.Returns[R]) -> R:
        """Execute a request in this process."""
        started = time.perf_counter()
        async with self._turn(request):
            result = await self._session.run(lambda: _execute(self._session, request))
        self._session.on_done(request, result, time.perf_counter() - started)
        return result

    def _turn(self, request: r.Returns[object]) -> AbstractAsyncContextManager[object]:
        requests = self._session.runtime.requests
        return nullcontext() if requests is None else requests.turn(request)

    def limit_requests(self, limits: ConcurrencyLimits) -> None:
        """Limit the requests that run at a time, of all banks of this memory; more wait, or raise TooManyRequests."""
        self._session.runtime.requests = RequestQueue(limits)

    def stream(self, request: r.ReflectRequest) -> AsyncGenerator[Event]:
        """Execute a reflection in this process and yield its events."""
        return reflect.reflect_stream(self._session, request)

    def bank(self, name: str) -> Self:
        """Return the same memory on another bank; closing either closes both."""
        return self._with(bank=bank_id(name), creates=True)

    def without_creation(self) -> Self:
        """Return the same memory, whose verbs raise NotFound if the bank is missing instead of creating it."""
        return self._with(creates=False)

    def observed(self, on_done: OnDone) -> Self:
        """Return the same memory, which reports each of its requests that was answered."""
        return self._with(on_done=on_done)

    def _with(self, **changes: Any) -> Self:
        other = object.__new__(type(self))
        other._session = replace(self._session, **changes)
        return other

    @property
    def is_open(self) -> bool:
        """True if this process has opened the bank; another one may have deleted it since."""
        return self._session.bank in self._session.runtime.open_banks

    @property
    def forms_opinions(self) -> bool:
        """True if reflections may store opinions, which needs a language model."""
        return self._session.context.llm is not None

    async def exists(self) -> bool:
        """Return True if the bank exists; nothing is created."""
        await self._session.store.open()
        return await self._session.store.bank(self._session.bank) is not None

    async def open(self) -> None:
        """Open the database and create the bank if it is missing. A bank of another embedder is refused."""
        await self._session.open()

    async def close(self) -> None:
        """Stop background jobs, write access counts and close the database. The next verb opens it again."""
        await self._session.runtime.close()

    async def replace_messages(self, request: r.RetainRequest, removed: Sequence[str]) -> Retained:
        """Store messages and forget others in one transaction, then derive facts from the new ones.

        Ids in `removed` that do not exist are ignored. Facts that could not be derived are reported as `problem`.
        """
        started = time.perf_counter()
        async with self._turn(request):
            retained = await administration.replace_messages(self._session, request, removed)
        self._session.on_done(request, retained, time.perf_counter() - started)
        return retained

    async def export(self, path: Path | str) -> int:
        """Write the bank to a JSON Lines file and return the number of records."""
        await self._session.recheck()
        await self._session.runtime.access.flush()
        return await files.export(self._session.store, self._session.bank, Path(path))

    async def import_bank(self, path: Path | str) -> int:
        """Load an exported bank under this bank's name, completely or not at all; return the number of messages."""
        session = self._session
        await session.store.open()
        source = files.read(Path(path), session.bank, counter=session.context.counter)
        await load_bank(session.store, source.bank, source.records)
        return (await session.store.status(session.bank)).messages

    async def import_from(self, path: Path | str, format: ForeignFormat | None = None) -> Retained:
        """Add the content of another product's export, and return what was stored.

        `format` is "mem0", "zep", "hindsight", "chatgpt", "claude" or "chat" (messages as chat APIs use them); it is
        detected by default. Facts of such a file are stored as they are, with their times; facts are derived from
        its messages as `retain()` does. The whole file is validated before anything is written, and what was
        imported before is skipped.
        """
        retained = await import_from(self._session, Path(path), format)
        if retained.problem is not None:
            raise retained.problem.to_error(retained.stored)
        return retained

    async def preview_forget(self, request: r.ForgetRequest | r.DeleteFactRequest) -> ForgetPreview:
        """Return what a request to forget or delete would remove; nothing is changed."""
        return await preview_forget(self._session, request)

    @property
    def name(self) -> BankId:
        """The name of the bank."""
        return self._session.bank

    @property
    def store(self) -> Store:
        """The database, for programs that read records directly."""
        return self._session.store

    @property
    def providers(self) -> RetainContext:
        """The database, the models and the settings, for distributions that add verbs."""
        return self._session.context

    async def schedule_maintenance(self, hours: float | None = None, *, banks: Sequence[str] = ()) -> list[str]:
        """Queue the maintenance of all banks, or of some, that have none queued, and return their names.

        It is due after `hours`, by default after those of the settings; 0 queues nothing.
        """
        store = self._session.store
        pause = self._session.context.settings.maintenance_every if hours is None else hours
        if not 0 <= pause < math.inf:
            raise InvalidInput(f"hours must be 0 or more, not {pause}.")
        if pause == 0:
            return []
        await store.open()
        wanted = [BankId(name) for name in banks] or [BankId(bank.id) for bank in await store.banks()]
        idle = [bank for bank in wanted if not await store.jobs(bank, ["maintain"])]
        for bank in idle:
            job = NewJob(kind="maintain", due=shifted(utc_now(), pause * 3600))
            await store.commit(Changes(bank=bank, jobs=[job]))
        return list[str](idle)

    async def work(
        self,
        stop: asyncio.Event | None = None,
        *,
        once: bool = False,
        banks: Sequence[str] = (),
        **callbacks: Unpack[WorkCallbacks],
    ) -> RunResult:
        """Run the queued jobs of all banks, or of some, until `stop` is set, or with `once` until none is due.

        Running jobs are finished before it returns. `on_done` is called after each job. While the database is
        unavailable or busy the worker waits and calls `on_unavailable`; with `once` the error is raised. `on_poll` is
        called each time that the worker looks for jobs; one that no longer does is stuck.
        """
        await self._session.store.open()
        serve = self._session.runtime.worker.serve
        return await serve(stop or asyncio.Event(), once=once, banks=[BankId(name) for name in banks], **callbacks)

    async def left_to_reprocess(self) -> int:
        """Return the number of messages that a running `reprocess()` of this memory has not processed yet."""
        session = self._session
        staging = session.runtime.staging_banks.get(session.bank)
        if staging is None or await session.store.bank(staging) is None:
            return 0
        with suppress(NotFound):
            return (await session.store.status(staging)).pending
        return 0

    async def reembed(self) -> int:
        """Switch the bank to this memory's embedder and return the number of facts; others can read meanwhile."""
        session = self._session
        await session.store.open()
        return await reembed_bank(session.bank, session.store, session.context.embedder)

    replace_messages_sync = twin(replace_messages)
    import_from_sync = twin(import_from)
    preview_forget_sync = twin(preview_forget)
    schedule_maintenance_sync = twin(schedule_maintenance)
    work_sync = twin(work)
    left_to_reprocess_sync = twin(left_to_reprocess)
    reembed_sync = twin(reembed)


async def _execute(session: MemorySession, request: r.Returns[object]) -> Any:  # noqa: C901 - one per verb
    """Call the function of a request. Its result is what the request `Returns`."""
    if isinstance(request, r.BanksRequest):
        return await inspect.banks(session)
    if isinstance(request, r.ReprocessRequest):
        # Also a bank of another embedder.
        return await administration.reprocess(session)
    for each in recall.sessions_of(session, request):
        await each.open()
    match request:
        case r.RetainRequest():
            return await retain.retain(session, request)
        case r.ProcessRequest():
            return await retain.process(session, request)
        case r.RecallRequest() | r.RetrieveRequest():
            return await recall.recall(session, request)
        case r.ContextRequest():
            return await context.context(session, request)
        case r.ReflectRequest():
            return await reflect.reflect(session, request)
        case r.ForgetRequest() | r.DeleteFactRequest():
            return await administration.forget(session, request)
        case r.WhyRequest():
            return await inspect.why(session, request)
        case r.FactRequest():
            return await inspect.get_fact(session, request)
        case r.FactHistoryRequest():
            return await inspect.fact_history(session, request)
        case r.UpdateFactRequest():
            return await inspect.update_fact(session, request)
        case r.PinFactRequest():
            return await inspect.pin_fact(session, request)
        case r.FeedbackRequest():
            return await inspect.feedback(session, request)
        case r.StatusRequest():
            return await inspect.status(session)
        case r.ProfileRequest():
            return await inspect.bank_profile(session)
        case r.CreateBankRequest():
            return await inspect.create_bank(session, request)
        case r.ProfileUpdate():
            return await inspect.update_profile(session, request.profile)
        case r.FormerProfilesRequest():
            return await session.store.former_profiles(session.bank)
        case r.BackgroundRequest():
            return await reflect.add_background(session, request)
        case r.MessagesRequest():
            return await inspect.page(session, request, session.reads.messages, MessageSelect)
        case r.EpisodesRequest():
            return await inspect.page(session, request, session.reads.episodes, EpisodeSelect)
        case r.FactsRequest():
            return await inspect.page(session, request, session.reads.facts, FactSelect)
        case r.EntitiesRequest():
            return await inspect.page(session, request, session.reads.entities, EntitySelect)
        case r.OpinionsRequest():
            return await inspect.current_facts(session, "opinion")
        case r.ObservationsRequest():
            return await inspect.observations(session, request)
        case r.TrajectoryRequest():
            return await inspect.trajectory(session, request)
        case r.MergesRequest():
            return [merge.public() for merge in await session.reads.merges(session.bank)]
        case r.MergeEntitiesRequest():
            return await administration.merge_entities(session, request)
        case r.UndoMergeRequest():
            return await administration.undo_merge(session, request)
        case r.JobsRequest():
            return await session.store.jobs(session.bank)
        case r.WebhooksRequest():
            return [webhook.public() for webhook in await administration.stored_webhooks(session)]
        case r.AddWebhookRequest():
            return await administration.add_webhook(session, request)
        case r.DeleteWebhookRequest():
            return await administration.delete_webhook(session, request)
        case r.MaintainRequest():
            return await administration.maintain(session)
        case _:
            raise TypeError(f"There is no verb for {type(request).__name__}.")
