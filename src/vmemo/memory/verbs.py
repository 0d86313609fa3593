"""The verbs of a memory: signatures and documentation, shared by `Memory` and `Client`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Self, TypeAlias, TypeVar, Unpack, cast

from vmemo.errors import InvalidInput
from vmemo.models import Entity, Episode, Fact, Message, Profile, Provenance, requests as r
from vmemo.models.prompt_context import PromptContext
from vmemo.models.recalled import Recalled
from vmemo.models.records import Budget, ConfidenceChange, EntityId, EpisodeId, FactId, FormerProfile, Merge, MessageId
from vmemo.models.requests import (
    ChatMessage,
    MessageDefaults,
    MessageOptions,
    NewMessage,
    ReflectOptions,
    SearchOptions,
    chat_values,
)
from vmemo.models.results import Answer, Event, Forgotten, Job, Maintained, Retained, Status
from vmemo.models.webhooks import SignedWebhook, Webhook, WebhookEvent
from vmemo.sync import Task, twin, twin_stream

RetainContent: TypeAlias = str | Message | ChatMessage | Sequence[str | Message | ChatMessage]


def new_messages(content: object, options: MessageOptions) -> list[NewMessage | ChatMessage]:
    """Return the messages to store; those without text, such as tool calls, are returned as they are.

    Role and timestamp of the options apply to texts and mappings that have none, the speaker to those of the options'
    role. The document, tags, metadata and expiry also apply to messages, whose own values take precedence.
    """
    defaults = MessageDefaults.of(options)
    return [_new_message(item, defaults) for item in _items(content)]


def single_message(content: object, options: MessageOptions) -> NewMessage:
    """Return the one message to store; raise InvalidInput for a list."""
    if not isinstance(content, str | Message | Mapping):
        raise InvalidInput(f"Pass one text or Message, not {type(content).__name__}; retain() takes lists.")
    [message] = new_messages(cast("object", content), options)
    if not isinstance(message, NewMessage):
        raise InvalidInput("The message has no text: its content is empty, or holds no part of type text.")
    return message


def _items(content: object) -> Sequence[object]:
    if isinstance(content, str | Message | Mapping):
        return [cast("object", content)]
    if isinstance(content, Sequence) and not isinstance(content, bytes | bytearray):
        return cast("Sequence[object]", content)
    raise InvalidInput(f"content must be text, a Message, a dict or a list of them, not {type(content).__name__}.")


def _new_message(item: object, defaults: MessageDefaults) -> NewMessage | ChatMessage:
    if isinstance(item, Message):
        # A timestamp that was not given must not become part of the line's identity.
        given = {"id", *(item.model_fields_set & NewMessage.model_fields.keys())}
        given |= set() if item.document or defaults.document else {"timestamp"}
        values = {name: getattr(item, name) for name in given}
    elif isinstance(item, str):
        values = {"content": item, **_given(defaults, "role", "speaker", "timestamp")}
    elif isinstance(item, Mapping):
        chat = chat_values(cast("ChatMessage", item))
        if chat is None:
            return cast("ChatMessage", item)
        values = {**_given(defaults, "role", "timestamp"), **chat}
        if values.get("role", "user") == defaults.role:
            values = {**_given(defaults, "speaker"), **values}
    else:
        raise InvalidInput(f"A list of content must hold texts, Messages and dicts, not {type(item).__name__}.")
    message = NewMessage.of(values)
    expiry = message if message.ttl is not None or message.expires_at is not None else defaults
    update = {
        "ttl": expiry.ttl,
        "expires_at": expiry.expires_at,
        "document": message.document or defaults.document,
        "tags": tuple(dict.fromkeys((*message.tags, *defaults.tags))),
        "metadata": {**defaults.metadata, **message.metadata},
    }
    return message.model_copy(update=update)


def _given(defaults: MessageDefaults, *names: str) -> dict[str, object]:
    return {name: getattr(defaults, name) for name in names if name in defaults.model_fields_set}


class Resource(ABC):
    """A resource that a `with` or `async with` block opens and closes."""

    @abstractmethod
    async def open(self) -> None:
        """Connect, and create the bank if it is missing. Verbs do this by themselves."""

    @abstractmethod
    async def close(self) -> None:
        """Close all connections. The next verb opens them again. Queued jobs stay queued."""

    async def __aenter__(self) -> Self:
        try:
            await self.open()
        except BaseException:
            # __aexit__ is not called if __aenter__ raises.
            await self.close()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def __enter__(self) -> Self:
        try:
            self.open_sync()
        except BaseException:
            self.close_sync()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close_sync()

    open_sync = twin(open)
    close_sync = twin(close)


R = TypeVar("R")


class Verbs(Resource):
    """Long-term memory of one bank. Every async verb has a synchronous twin with `_sync` after its name.

    A verb builds its request and passes it to `run()`, which a subclass executes in process or on a server.
    """

    @abstractmethod
    async def run(self, request: r.Returns[R]) -> R:
        """Execute a request of `vmemo.models.requests` and return its result.

        A retain whose facts could not be derived returns the reason as `problem` here, where `retain()` raises it.
        """

    @abstractmethod
    def stream(self, request: r.ReflectRequest) -> AsyncGenerator[Event]:
        """Execute a reflection and yield its events."""

    @abstractmethod
    def bank(self, name: str) -> Self:
        """Return the same memory on another bank; closing either closes both."""

    @abstractmethod
    async def exists(self) -> bool:
        """Return True if the bank exists; nothing is created."""

    async def add_message(self, message: Message | ChatMessage | str, **options: Unpack[MessageOptions]) -> Retained:
        """Store one message durably; `process()` or a worker derives facts from it."""
        return await self._retain([single_message(message, options)], wait=False)

    async def add_messages(
        self, content: RetainContent, infer: bool = True, **options: Unpack[MessageOptions]
    ) -> Retained:
        """Store a text, a message or a list of them durably; `process()` or a worker derives facts from them.

        With `infer=False` they are kept for recall by their words alone.
        """
        return await self._retain(new_messages(content, options), infer=infer, wait=False)

    async def add_exchange(
        self, user_message: str, assistant_message: str, **options: Unpack[MessageOptions]
    ) -> Retained:
        """Store a user's message and the assistant's answer; the speaker is the user's name."""
        question = single_message(user_message, {**options, "role": "user"})
        answer = single_message(assistant_message, {**options, "role": "assistant", "speaker": None})
        return await self._retain([question, answer], wait=False)

    async def retain(
        self, content: RetainContent, infer: bool = True, wait: bool = True, **options: Unpack[MessageOptions]
    ) -> Retained:
        """Store a text, a message or a list of them, and derive facts from them.

        A message is a `Message`, or a dict as chat APIs use it: {"role": "user", "content": "Hello", "name": "Ana"}.
        One without text, such as a tool call, is skipped and reported in the result.

        With `infer=False` messages are kept for recall by their words alone. With `wait=False` the call returns once
        they are stored and queued. Storing the same lines under the same document again has no effect.

        With `ttl`, a timedelta or seconds, or `expires_at`, messages and their facts are not recalled after that time,
        whatever the options of the recall, and `maintain()` forgets them.

        If deriving fails, the error is raised. The messages are stored and queued all the same: their ids are the
        error's `stored`, and the next `retain()` or `process()`, or a worker, processes them. Do not retain them again.
        """
        return await self._retain(new_messages(content, options), infer=infer, wait=wait)

    async def _retain(
        self, messages: Sequence[NewMessage | ChatMessage], *, infer: bool = True, wait: bool = True
    ) -> Retained:
        retained = await self.run(r.RetainRequest.of({"messages": messages, "infer": infer, "wait": wait}))
        if retained.problem is not None:
            raise retained.problem.to_error(retained.stored)
        return retained

    async def process(self, messages: Sequence[MessageId | str] = ()) -> Retained:
        """Derive facts from all pending messages, including those that failed before.

        With a language model this also runs the other jobs that are due. An error is raised after everything else is
        processed; its messages stay queued, and `status()` reports it. If another worker processed `messages`
        meanwhile, the facts that it derived from them are returned.
        """
        return await self.run(r.ProcessRequest.of({"messages": messages}))

    def process_async(self) -> Task[Retained]:
        """Start `process()` in the background and return a handle to await, poll or cancel."""
        return Task(self.process())

    async def recall(
        self, query: str, max_tokens: int = 4096, budget: Budget = "mid", **options: Unpack[SearchOptions]
    ) -> Recalled:
        """Return facts by relevance whose tokens sum to at most `max_tokens`; `budget` sets how much to explore.

        With `banks`, these are searched together in place of this memory's own: `hit.bank` is the bank of a hit. One
        that is missing raises NotFound.
        """
        values = {**options, "query": query, "max_tokens": max_tokens, "budget": budget}
        return await self.run(r.RecallRequest.of(values))

    async def retrieve(self, query: str, top_k: int = 10, **options: Unpack[SearchOptions]) -> Recalled:
        """Return the `top_k` most relevant facts, of this bank or of several `banks`."""
        return await self.run(r.RetrieveRequest.of({**options, "query": query, "top_k": top_k}))

    async def context(
        self,
        query: str | None = None,
        user: str | None = None,
        max_tokens: int = 2048,
        *,
        now: datetime | str | None = None,
        precise: bool = True,
        session: str | None = None,
        banks: Sequence[str] = (),
    ) -> PromptContext:
        """Return one block of memories for a system prompt, as `.text` and `str()`, of at most `max_tokens`.

        Its sections are who the user is, standing instructions, constraints that bear on advice, pinned facts, open
        changes, facts relevant to the query and the latest ones; none occurs twice, and former ones are marked. `user`
        is a name or an entity's id, by default the one user of the bank, if only one speaks in it. Without a query
        there are no relevant facts, and with `precise` no more of them than suffice.

        With the name of a `session`, the text begins with the same `prefix` from turn to turn, unless its facts change:
        facts that a turn has shown stay there, and only new ones follow.

        With `banks`, each section joins those of several banks: a standing instruction in one of them applies, and
        equal ones are shown once.
        """
        values = {"query": query, "user": user, "max_tokens": max_tokens, "now": now, "precise": precise}
        return await self.run(r.ContextRequest.of({**values, "session": session, "banks": banks}))

    async def reflect(self, query: str, **options: Unpack[ReflectOptions]) -> Answer:
        """Answer from memory with citations, in the bank's character.

        Memory is queried up to `max_lookups` more times (3) if the first facts do not suffice; all facts together
        take at most `max_tokens` (8,192). Opinions that the question calls for are stored, unless `opinions` is False,
        the question is about the past, or the key may only read. With a `schema`, a Pydantic model or a JSON schema,
        the answer is also returned in that shape as `data`. Without a language model the best facts are quoted.
        """
        return await self.run(r.ReflectRequest.of({**options, "query": query}))

    def reflect_stream(self, query: str, **options: Unpack[ReflectOptions]) -> AsyncGenerator[Event]:
        """Reflect, and yield lookups and text deltas on the way; the last event is the `Answer`.

        The deltas since the beginning, or since the last `Retracted`, are the answer's text.
        """
        return self.stream(r.ReflectRequest.of({**options, "query": query}))

    async def forget(
        self,
        *,
        messages: Sequence[MessageId | str] = (),
        document: str | None = None,
        entity: EntityId | str | None = None,
        bank: bool = False,
    ) -> Forgotten:
        """Delete messages, a document, an entity or the whole bank, with everything derived from them.

        Forgetting an entity deletes every message that mentions it, including pending ones. Messages that shared an
        episode with deleted ones are processed again. Afterwards no answer, no export and no byte of the database
        file contains the text.
        """
        values = {"messages": messages, "document": document, "entity": entity, "bank": bank}
        return await self.run(r.ForgetRequest.of(values))

    async def why(self, fact: FactId | str) -> Provenance:
        """Return a fact's episodes, messages, basis, confidence changes and successors."""
        return await self.run(r.WhyRequest.of({"fact": fact}))

    async def get(self, fact: FactId | str) -> Fact:
        """Return one fact by its id or short id, or a message that was recalled verbatim as a fact."""
        return await self.run(r.FactRequest.of({"fact": fact}))

    async def history(self, fact: FactId | str) -> list[Fact]:
        """Return all versions of a fact, oldest first, whether new messages or `update()` made them."""
        return await self.run(r.FactHistoryRequest.of({"fact": fact}))

    async def update(
        self, fact: FactId | str, text: str, reason: str | None = None, *, valid_at: datetime | str | None = None
    ) -> Fact:
        """Write a new version of a fact, and return it.

        The new version is true since `valid_at`, by default since now, and the earlier versions until then: `at_time`
        returns the version of that time. One that began later was never true. The old version is a former fact, and
        `history()` and `why()` show it with the reason. Neither the messages that state it nor `reprocess()` bring its
        text back. With its own text a fact that was closed by mistake is current again, in a new version.
        """
        values = {"fact": fact, "text": text, "reason": reason or "", "valid_at": valid_at}
        return await self.run(r.UpdateFactRequest.of(values))

    async def delete(self, fact: FactId | str) -> Forgotten:
        """Delete one fact, with the versions that `update()` closed and with what rests on it, as `forget()` does.

        A message that states nothing else is forgotten too. Another one stays as the source of its other facts; it is
        no longer recalled by its words, and `reprocess()` keeps those facts as they are. A fact that the deleted one
        had replaced is current again.
        """
        return await self.run(r.DeleteFactRequest.of({"fact": fact}))

    async def pin(self, fact: FactId | str, pinned: bool = True) -> Fact:
        """Pin a fact, or unpin it, and return it. Maintenance never closes a pinned fact.

        A fact that replaces a pinned one is pinned too. A closed fact can't be pinned; the error names its current
        version.
        """
        return await self.run(r.PinFactRequest.of({"fact": fact, "pinned": pinned}))

    async def unpin(self, fact: FactId | str) -> Fact:
        """Unpin a fact, and return it."""
        return await self.pin(fact, pinned=False)

    async def feedback(
        self, fact: FactId | str, question: str, useful: bool | None = False, reason: str | None = None
    ) -> Fact:
        """Judge a fact as a hit of a question, right or wrong, and return it; `useful=None` removes the judgement.

        Recalls of the same question, or of one that shares most of its words, rank the fact a little higher or lower:
        by a quarter of its score at most, and never an outdated fact above the one that outdated it.
        `facts(feedback=True)` lists the facts with feedback, which is their `feedback`.
        """
        values = {"fact": fact, "question": question, "useful": useful, "reason": reason or ""}
        return await self.run(r.FeedbackRequest.of(values))

    async def status(self) -> Status:
        """Return the bank's counts, its backlog, and the errors that keep messages pending."""
        return await self.run(r.StatusRequest())

    async def banks(self) -> list[str]:
        """Return the names of all banks of this store that the caller may read, in order."""
        return await self.run(r.BanksRequest())

    async def profile(self, new: Profile | None = None) -> Profile:
        """Return the bank's profile; with an argument, replace it first."""
        return await self.run(r.ProfileRequest() if new is None else r.ProfileUpdate.of({"profile": new}))

    async def add_background(self, snippet: str) -> Profile:
        """Merge a statement into the profile's background, in the first person; it overrides what it contradicts.

        The former background stays in `former_profiles()`. This needs a language model.
        """
        return await self.run(r.BackgroundRequest.of({"snippet": snippet}))

    async def former_profiles(self) -> list[FormerProfile]:
        """Return the profiles that the bank had before, oldest first."""
        return await self.run(r.FormerProfilesRequest())

    async def messages(
        self, *, document: str | None = None, after: MessageId | None = None, limit: int = 100
    ) -> list[Message]:
        """Return a page of messages in the order they were stored."""
        return await self.run(r.MessagesRequest.of({"document": document, "after": after, "limit": limit}))

    async def episodes(self, *, after: EpisodeId | None = None, limit: int = 100) -> list[Episode]:
        """Return a page of episodes in the order they were stored."""
        return await self.run(r.EpisodesRequest.of({"after": after, "limit": limit}))

    async def facts(
        self,
        *,
        after: FactId | None = None,
        limit: int = 100,
        instructions: bool = False,
        pinned: bool = False,
        feedback: bool = False,
        with_embeddings: bool = False,
    ) -> list[Fact]:
        """Return a page of facts, including closed ones, in the order they were stored.

        With `instructions`, only standing instructions of the user; with `pinned`, only pinned facts; with `feedback`,
        only facts that were judged as hits.
        """
        kinds = {"instructions": instructions, "pinned": pinned, "feedback": feedback}
        values = {"after": after, "limit": limit, "with_embeddings": with_embeddings}
        return await self.run(r.FactsRequest.of({**kinds, **values}))

    async def entities(self, *, after: EntityId | None = None, limit: int = 100) -> list[Entity]:
        """Return a page of entities in the order they were first seen."""
        return await self.run(r.EntitiesRequest.of({"after": after, "limit": limit}))

    async def opinions(self) -> list[Fact]:
        """Return the current opinions in the order they were formed."""
        return await self.run(r.OpinionsRequest())

    async def observations(self, entity: EntityId | str | None = None) -> list[Fact]:
        """Return the current observations of an entity, given by id or name, or of all entities."""
        return await self.run(r.ObservationsRequest.of({"entity": entity}))

    async def trajectory(self, opinion: FactId | str) -> list[ConfidenceChange]:
        """Return the confidence changes of an opinion and of those that it replaced, with evidence, oldest first."""
        return await self.run(r.TrajectoryRequest.of({"opinion": opinion}))

    async def merges(self) -> list[Merge]:
        """Return the merges of entities, oldest first; `undo_merge` undoes one."""
        return await self.run(r.MergesRequest())

    async def merge_entities(self, keep: EntityId | str, absorb: EntityId | str, reason: str = "") -> Merge:
        """Merge two entities, each given by id or name; all names stay. `undo_merge` separates them again."""
        return await self.run(r.MergeEntitiesRequest.of({"keep": keep, "absorb": absorb, "reason": reason}))

    async def undo_merge(self, merge: str) -> EntityId:
        """Undo a merge and return the entity that is separate again; the two are not merged again."""
        return await self.run(r.UndoMergeRequest.of({"merge": merge}))

    async def jobs(self) -> list[Job]:
        """Return the queued jobs, oldest first, with their errors and the time of the next attempt."""
        return await self.run(r.JobsRequest())

    async def webhooks(self) -> list[Webhook]:
        """Return the webhooks of the bank, oldest first, without their secrets."""
        return await self.run(r.WebhooksRequest())

    async def add_webhook(
        self, url: str, events: Sequence[WebhookEvent] = ("retained", "revised", "forgotten")
    ) -> SignedWebhook:
        """Notify a URL of retained, revised and forgotten facts, or of some of these events.

        The result has the secret that signs deliveries, which is not shown again. Workers deliver: those of
        `vmemo serve` and `vmemo worker`, or `work()`. Only https URLs of public hosts are accepted, unless the
        setting `webhook_private` allows others.
        """
        return await self.run(r.AddWebhookRequest.of({"url": url, "events": tuple(events)}))

    async def delete_webhook(self, webhook: str) -> Webhook:
        """Delete a webhook, given by its id, with its queued deliveries, and return it."""
        return await self.run(r.DeleteWebhookRequest.of({"webhook": webhook}))

    async def maintain(self) -> Maintained:
        """Forget expired messages, join and shorten episodes, close faded facts, and optimise the indexes."""
        return await self.run(r.MaintainRequest())

    async def reprocess(self) -> Retained:
        """Derive everything from the messages again, with the current engine and embedder.

        Readers see the old derivation until the new one replaces it in one transaction. A failure raises, and calling
        it again resumes. Records that no message states, such as opinions, are kept.
        """
        return await self.run(r.ReprocessRequest())

    @abstractmethod
    async def export(self, path: Path | str) -> int:
        """Write the bank to a JSON Lines file and return the number of records."""

    @abstractmethod
    async def import_bank(self, path: Path | str) -> int:
        """Load an exported bank under this bank's name, completely or not at all; return the number of messages."""

    run_sync = twin(run)
    exists_sync = twin(exists)
    add_message_sync = twin(add_message)
    add_messages_sync = twin(add_messages)
    add_exchange_sync = twin(add_exchange)
    retain_sync = twin(retain)
    process_sync = twin(process)
    recall_sync = twin(recall)
    retrieve_sync = twin(retrieve)
    context_sync = twin(context)
    reflect_sync = twin(reflect)
    reflect_stream_sync = twin_stream(reflect_stream)
    forget_sync = twin(forget)
    why_sync = twin(why)
    get_sync = twin(get)
    history_sync = twin(history)
    update_sync = twin(update)
    delete_sync = twin(delete)
    pin_sync = twin(pin)
    unpin_sync = twin(unpin)
    feedback_sync = twin(feedback)
    status_sync = twin(status)
    banks_sync = twin(banks)
    profile_sync = twin(profile)
    add_background_sync = twin(add_background)
    former_profiles_sync = twin(former_profiles)
    messages_sync = twin(messages)
    episodes_sync = twin(episodes)
    facts_sync = twin(facts)
    entities_sync = twin(entities)
    opinions_sync = twin(opinions)
    observations_sync = twin(observations)
    trajectory_sync = twin(trajectory)
    merges_sync = twin(merges)
    merge_entities_sync = twin(merge_entities)
    undo_merge_sync = twin(undo_merge)
    jobs_sync = twin(jobs)
    webhooks_sync = twin(webhooks)
    add_webhook_sync = twin(add_webhook)
    delete_webhook_sync = twin(delete_webhook)
    maintain_sync = twin(maintain)
    reprocess_sync = twin(reprocess)
    export_sync = twin(export)
    import_bank_sync = twin(import_bank)
