"""Client: the verbs of `Memory`, done by a server."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Unpack

from vmemo.client.connection import Call
from vmemo.client.errors import Problem, raised
from vmemo.client.query import Asking
from vmemo.jobs.background_task import Task
from vmemo.memory import reads
from vmemo.memory.memory import Content
from vmemo.models import EntityId, Message, MessageId
from vmemo.models.results import Forgotten, Retained
from vmemo.retain.prepare import MessageOptions, prepare, single
from vmemo.sync import twin

_SENT = {"id", "content", "role", "speaker", "document", "tags", "metadata"}


class _Kept(Retained):
    problem: Problem | None = None  # pyright: ignore[reportIncompatibleVariableOverride]


class Client(Asking):
    """Long-term memory of one bank at a server: `url` is the server's address, `key` is what opens the bank.

    Verbs, arguments, records and errors are those of `Memory`. Every async verb has a synchronous twin with `_sync`
    after its name. A server that is busy or restarts is waited for, and a write that had to be sent again is done once.
    """

    async def add_message(self, message: Message | str, **options: Unpack[MessageOptions]) -> Retained:
        """Store a message durably; `process()` derives facts from it."""
        return await self._append(prepare(single(message), options, infer=True))

    async def add_messages(self, content: Content, infer: bool = True, **options: Unpack[MessageOptions]) -> Retained:
        """Store text, a message or a list of them durably; `process()` or a worker derives facts from them.

        With `infer=False` they are kept for recall by their words alone.
        """
        return await self._append(prepare(content, options, infer=infer), infer=infer)

    async def add_exchange(
        self, user_message: str, assistant_message: str, **options: Unpack[MessageOptions]
    ) -> Retained:
        """Store what the user said and what the assistant answered; a speaker's name is the user's."""
        asked = prepare(single(user_message), {**options, "role": "user"}, infer=True)
        answered = prepare(single(assistant_message), {**options, "role": "assistant", "speaker": None}, infer=True)
        return await self._append([*asked, *answered])

    async def retain(self, content: Content, infer: bool = True, **options: Unpack[MessageOptions]) -> Retained:
        """Store text, a message or a list of them, and derive facts at once.

        With `infer=False` messages are kept for recall by their words alone and nothing is derived. The same lines
        under the same document again change nothing. If deriving fails, the error is raised, the messages are
        stored and queued all the same, and a later `process()` completes them.
        """
        return await self._append(prepare(content, options, infer=infer), infer=infer, wait=True)

    async def _append(self, messages: Sequence[Message], *, infer: bool = True, wait: bool = False) -> Retained:
        body = {"messages": [_wired(message) for message in messages], "infer": infer, "wait": wait}
        kept = await self._change(_Kept, "messages", body=body)
        if kept.problem is not None:
            raise raised(kept.problem)
        return Retained.of({name: getattr(kept, name) for name in Retained.model_fields})

    async def process(self, messages: Sequence[MessageId | str] = ()) -> Retained:
        """Derive facts from all unread messages, also from those that failed before.

        With a language model this also does the other queued work that is due. An error is raised when all that can
        be read is read; what it is about stays queued and is told by `status()`. Where a worker was faster, what it
        has read from `messages` is what was derived.
        """
        return await self._change(Retained, "process", body={"messages": list(messages)} if messages else None)

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
        if target.bank:
            # Nothing of a bank outlives it, so that no repetition could be told from the first.
            gone = Call(method="DELETE", path=self._path(), reads=False)
            return self._read(Forgotten, await self._connection.ask(gone))
        named = {"messages": list(target.messages) or None, "document": target.document, "entity": target.entity}
        return await self._change(Forgotten, "forget", body=named)

    add_message_sync = twin(add_message)
    add_messages_sync = twin(add_messages)
    add_exchange_sync = twin(add_exchange)
    retain_sync = twin(retain)
    process_sync = twin(process)
    forget_sync = twin(forget)


def _wired(message: Message) -> dict[str, object]:
    """A message as it travels. A time that was not given is left out where it would make a repeated line another."""
    timed = message.document is None or "timestamp" in message.model_fields_set
    return message.model_dump(include=_SENT | ({"timestamp"} if timed else set()))
