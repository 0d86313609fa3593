"""A message's way through retain.

1. `prepare` converts the request to messages, and `store_messages` makes them durable.
2. `process` takes pending messages in batches. Without an LLM, `derive` does everything in one step: extract drafts,
   embed them, place the messages in episodes, resolve names, revise known facts, link. Its changes are one commit.
   With an LLM, jobs do the same in two steps, grouping and extraction (`llm_pipeline`).
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Hashable, Sequence, Set as AbstractSet
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from typing import cast

from pydantic import JsonValue

from vmemo.errors import EmbedderMismatch, OutcomeUnknown, RedactionFailed, StoreBusy, StoreError, VmemoError, named
from vmemo.models import Bank, BankId, BankRevision, Episode, Message, MessageId, utc_now
from vmemo.models.changes import Changes, ExtractionResult, MessageFailure, NewJob
from vmemo.models.records import line_key, reembed_command
from vmemo.models.requests import NewMessage
from vmemo.models.results import Retained, Skipped, Usage
from vmemo.models.select import MessageSelect
from vmemo.models.settings import Redactor
from vmemo.ports import Embedder, Store
from vmemo.retain import write_plan
from vmemo.retain.context import RetainContext
from vmemo.retain.episodes import by_document, last_episode, link_to_previous, message_before, place_messages
from vmemo.retain.procedures import note_outcomes

BATCH = 256
"""Messages per commit, so that memory use does not grow with the number of pending messages."""


def prepare(messages: Sequence[NewMessage], *, infer: bool) -> list[Message]:
    """Return the messages to store, each with the key that identifies a repeated line of its document."""
    state = "pending" if infer else "raw"
    seen: Counter[Hashable] = Counter()
    return [Message.of({**_values(message), "state": state, "key": _key(message, seen)}) for message in messages]


def _values(message: NewMessage) -> dict[str, object]:
    """Return the fields that were given; the message's defaults apply to the others."""
    values = {name: getattr(message, name) for name in NewMessage.model_fields if name != "ttl"}
    values |= {"role": message.author, "expires_at": message.expiry(utc_now())}
    return {name: value for name, value in values.items() if value is not None}


def _key(message: NewMessage, seen: Counter[Hashable]) -> str | None:
    if message.document is None:
        return None
    line = message.author, message.speaker, message.content
    seen[line, message.timestamp] += 1
    return line_key(*line, time=message.timestamp, number=seen[line, message.timestamp])


_STAYS_QUEUED = (
    "The pending messages are stored and queued: do not retain them again; process() with the embedder of the bank, "
    "or a worker that has it, derives their facts."
)


async def store_messages(
    bank: BankId,
    messages: Sequence[Message],
    store: Store,
    *,
    skipped: Sequence[Skipped] = (),
    redacted: int = 0,
    process_at: datetime | None = None,
) -> Retained:
    """Store messages; existing ones are reported as skipped. Workers leave them to the caller until `process_at`."""
    new = await store.append(bank, messages, process_at=process_at)
    return stored_of(messages, new, skipped=skipped, redacted=redacted)


def stored_of(
    messages: Sequence[Message], stored: AbstractSet[str], *, skipped: Sequence[Skipped] = (), redacted: int = 0
) -> Retained:
    """Return the report of messages, some of which were stored; `skipped` are others that never were messages."""
    fresh, existing = dict[MessageId, Message](), list[Skipped]()
    for message in messages:
        if message.id in fresh:
            existing.append(Skipped(what=message.id, reason="another message of the same call has this id"))
        elif message.id in stored:
            fresh[message.id] = message
        else:
            known = f"document {message.document!r} already contains this message"
            reason = "a message with this id is already stored" if message.key is None else known
            existing.append(Skipped(what=message.id, reason=reason))
    waiting = sum(message.state == "pending" for message in fresh.values())
    return Retained(stored=tuple(fresh), skipped=(*skipped, *existing), pending=waiting, redacted=redacted)


async def process(bank: BankId, context: RetainContext) -> Retained:
    """Derive facts from all pending messages in batches. Skip those that another process finishes.

    A message that fails unexpectedly stays pending, with its error, and does not hold up the others. If all of them
    fail, the first error is raised.
    """
    done: list[Retained] = []
    failed: dict[MessageId, Exception] = {}
    seen = 0
    while True:
        pending = await context.store.messages(bank, MessageSelect.oldest_pending(BATCH + len(failed)))
        messages = [message for message in pending if message.id not in failed][:BATCH]
        if not messages:
            break
        seen += len(messages)
        done.append(await _process_messages(bank, messages, context, failed))
    if failed and len(failed) == seen:
        raise next(iter(failed.values()))
    return Retained.combined([*done, Retained(pending=len(failed))])


async def _process_messages(
    bank: BankId, messages: Sequence[Message], context: RetainContext, failed: dict[MessageId, Exception]
) -> Retained:
    """Process a batch; divide one that fails unexpectedly until the message that causes it is alone."""
    revision = await context.store.revision(bank)
    try:
        return await _process_batch(bank, revision, messages, context)
    except VmemoError:
        raise
    except Exception as error:
        if len(messages) == 1:
            failed[messages[0].id] = error
            return Retained()
        half = len(messages) // 2
        halves = (messages[:half], messages[half:])
        return Retained.combined([await _process_messages(bank, part, context, failed) for part in halves])


async def _process_batch(
    bank: BankId, revision: BankRevision, messages: Sequence[Message], context: RetainContext
) -> Retained:
    """Derive and commit a batch; retain nothing if another process changed the bank first."""
    try:
        changes, result = await derive(bank, revision, messages, context)
        if not await context.store.commit(changes):
            return Retained()
    except (StoreBusy, OutcomeUnknown):
        # Recording the error would have to wait for the same lock or server.
        raise
    except Exception as error:
        reason = await embedder_changed(bank, context) or error
        if not isinstance(reason, VmemoError) and len(messages) > 1:
            # One of the messages causes it.
            raise
        # The messages stay pending, with the error.
        failure = MessageFailure(messages=[message.id for message in messages], error=error_text(reason))
        with suppress(StoreError):
            # A database that failed may not take this either; the error itself matters more.
            await context.store.commit(Changes(bank=bank, failures=[failure], jobs=[NewJob(kind="process")]))
        if reason is error:
            raise
        raise reason from error
    context.entity_cache.committed(bank, revision, changes)
    context.derived_messages.add(changes)
    context.open_episodes.committed(revision, changes, messages)
    return retained_by(changes, result.usage, result.skipped)


async def derive(
    bank: BankId, revision: BankRevision, messages: Sequence[Message], context: RetainContext
) -> tuple[Changes, ExtractionResult]:
    """Return the changes that process pending messages, and the extraction that they come from."""
    streams = by_document(messages)
    previous = [await message_before(bank, stream[0], context.store) for stream in streams]
    extracted = [await context.extractor.read(stream, before) for stream, before in zip(streams, previous, strict=True)]
    result = await note_outcomes(bank, ExtractionResult.combined(extracted), context.store)
    encoded = await write_plan.encode_drafts(bank, revision, result, context)
    # Facts in the messages' own words represent them; facts drawn from several messages would blur their topics.
    own_words = context.extractor.keeps_words
    known = encoded.by_message if own_words else {}
    without_facts = [message for message in messages if message.id not in known]
    unknown = [message for message in without_facts if message.id not in encoded.left_out]
    vectors = {**encoded.left_out, **known, **await write_plan.embed_messages(unknown, context)}
    episodes: list[Episode] = []
    for stream, before in zip(streams, previous, strict=True):
        earlier = None if before is None else await context.open_episodes.of(bank, revision, before)
        episodes += await place_messages(stream, vectors, earlier, context.settings)
    if any(episode.previous is None for episode in episodes):
        episodes = link_to_previous(episodes, await last_episode(bank, context.store))
    changes = await write_plan.plan_writes(bank, revision, encoded, episodes, context)
    changes = await write_plan.inherit_expiry(
        await write_plan.close_outdated_observations(changes, context.store), context.store
    )
    processed = replace(
        changes,
        pending=[message.id for message in messages],
        becomes="derived" if own_words else "extracted",
        unrepeated=[message.id for message in without_facts] if own_words else (),
    )
    usage = result.usage.model_copy(update={"embedded_texts": encoded.embedded + len(unknown)})
    return processed, replace(encoded.result, usage=usage)


def error_text(error: BaseException) -> str:
    """Return an error's name and message, as stored on messages and jobs."""
    return named(error)[:2000]


async def embedder_changed(bank: BankId, context: RetainContext) -> EmbedderMismatch | None:
    """Return the error if the bank was switched to another embedder; other errors may follow from that."""
    stored = await context.store.bank(bank)
    return None if stored is None else embedder_mismatch(stored, context.embedder, outcome=_STAYS_QUEUED)


def embedder_mismatch(
    stored: Bank, embedder: Embedder, *, outcome: str = "Nothing was changed."
) -> EmbedderMismatch | None:
    """Return the error for a bank that another embedder wrote, or None."""
    if stored.embedder == embedder.name and embedder.dimension in (0, stored.dimension):
        return None
    here = f" ({embedder.dimension})" if embedder.dimension else ""
    command = reembed_command(stored.id, embedder.name)
    return EmbedderMismatch(
        f"Bank {stored.id!r} was written with embedder {stored.embedder!r} ({stored.dimension} dimensions), "
        f"this memory has {embedder.name!r}{here}. {outcome} Run `{command}` "
        "to switch the bank, or pass the embedder it was written with."
    )


def retained_by(changes: Changes, usage: Usage, skipped: Sequence[Skipped] = ()) -> Retained:
    return Retained(
        derived=tuple(item.fact.id for item in changes.facts),
        revised=tuple(dict.fromkeys((*(c.fact for c in changes.closures), *(s.fact for s in changes.sources)))),
        episodes=tuple(episode.id for episode in changes.episodes),
        skipped=tuple(skipped),
        usage=usage,
    )


async def redact_text(text: str, redactor: Redactor | None) -> str:
    return text if redactor is None else await asyncio.to_thread(_redacted, text, redactor)


async def redact_messages(
    messages: Sequence[NewMessage], redactor: Redactor | None
) -> tuple[Sequence[NewMessage], int]:
    """Return messages redacted in a thread, their metadata too, and the number of those that this changed."""
    if redactor is None:
        return messages, 0
    found = await asyncio.to_thread(lambda: [_redacted_message(message, redactor) for message in messages])
    return found, sum(new is not old for new, old in zip(found, messages, strict=True))


def _redacted_message(message: NewMessage, redactor: Redactor) -> NewMessage:
    content = _redacted(message.content, redactor)
    metadata = {name: _redacted_value(value, redactor) for name, value in message.metadata.items()}
    if content == message.content and metadata == message.metadata:
        return message
    return message.model_copy(update={"content": content, "metadata": metadata})


def _redacted_value(value: JsonValue, redactor: Redactor) -> JsonValue:
    if isinstance(value, str):
        return _redacted(value, redactor) if value.strip() else value
    if isinstance(value, list):
        return [_redacted_value(each, redactor) for each in value]
    if isinstance(value, dict):
        return {name: _redacted_value(each, redactor) for name, each in value.items()}
    return value


def _redacted(text: str, redactor: Redactor) -> str:
    try:
        found = cast("object", redactor(text))
    except Exception as error:
        # The text of the error may quote what was to be redacted.
        raise RedactionFailed(
            f"The redaction raised {type(error).__name__}. Nothing was stored; correct the function that was passed "
            "as redact, and retain the messages again."
        ) from error
    if not isinstance(found, str) or not found.strip():
        kind = "blank text" if isinstance(found, str) else type(found).__name__
        raise RedactionFailed(
            f"The redaction returned {kind} in place of text. Nothing was stored; return a marker for what is removed."
        )
    return found
