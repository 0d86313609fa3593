"""Storing and processing of messages. Messages are durable before anything is derived from them."""

from __future__ import annotations

from collections.abc import Sequence

from vmemo.errors import EmbedderMismatch, OutcomeUnknown, StoreBusy, named
from vmemo.models import Bank, BankId, Message
from vmemo.models.changes import Changes, MessageFailure
from vmemo.models.results import Retained, Skipped, Usage
from vmemo.models.select import MessageSelect
from vmemo.ports import Embedder, Store
from vmemo.retain.context import RetainContext
from vmemo.retain.derive import DerivedBatch, derive

BATCH = 256
"""Messages per commit, so that memory use does not grow with the number of pending messages."""


async def store_messages(bank: BankId, messages: Sequence[Message], store: Store) -> Retained:
    """Store messages; existing ones are reported as skipped."""
    stored = await store.append(bank, messages)
    skipped = [Skipped(what=message.id, reason=_reason(message)) for message in messages if message.id not in stored]
    fresh = [message for message in messages if message.id in stored]
    waiting = sum(message.state == "pending" for message in fresh)
    return Retained(stored=tuple(message.id for message in fresh), skipped=tuple(skipped), pending=waiting)


def _reason(message: Message) -> str:
    if message.document is not None:
        return f"document {message.document!r} already contains this message"
    return "a message with this id is already stored"


async def process(bank: BankId, context: RetainContext) -> Retained:
    """Derive facts from all pending messages in batches. Skip those that another process finishes."""
    done = Retained()
    while True:
        revision = await context.store.revision(bank)
        messages = await context.store.messages(bank, MessageSelect.oldest_pending(BATCH))
        if not messages:
            return done
        committed = await _commit_batch(bank, revision, messages, context)
        if committed is not None:
            context.entity_cache.committed(bank, revision, committed.batch.entities)
            done = combine(done, retained_by(committed.batch, committed.usage, committed.skipped))


async def _commit_batch(
    bank: BankId, revision: int, messages: Sequence[Message], context: RetainContext
) -> DerivedBatch | None:
    """Derive and commit a batch; return None if another process changed the bank first."""
    try:
        derived = await derive(bank, revision, messages, context)
        return derived if await context.store.commit(derived.batch) else None
    except (StoreBusy, OutcomeUnknown):
        # Recording the error would have to wait for the same lock or server.
        raise
    except Exception as error:
        # The messages stay pending, with the error.
        reason = await embedder_changed(bank, context) or error
        failure = MessageFailure(messages=[message.id for message in messages], error=error_text(reason))
        await context.store.commit(Changes(bank=bank, failures=[failure]))
        if reason is error:
            raise
        raise reason from error


def error_text(error: BaseException) -> str:
    """Return an error's name and message, as stored on messages and jobs."""
    return named(error)[:2000]


async def embedder_changed(bank: BankId, context: RetainContext) -> EmbedderMismatch | None:
    """Return the error if the bank was switched to another embedder meanwhile; other errors may follow from that."""
    stored = await context.store.bank(bank)
    return None if stored is None else embedder_mismatch(stored, context.embedder)


def embedder_mismatch(stored: Bank, embedder: Embedder) -> EmbedderMismatch | None:
    """Return the error for a bank that another embedder wrote, or None."""
    if (stored.embedder, stored.dimension) == (embedder.name, embedder.dimension):
        return None
    return EmbedderMismatch(
        f"Bank {stored.id!r} was written with embedder {stored.embedder!r} ({stored.dimension} dimensions), "
        f"this memory has {embedder.name!r} ({embedder.dimension}). Nothing was changed. Run `vmemo reembed` "
        "to switch the bank, or pass the embedder it was written with."
    )


def retained_by(batch: Changes, usage: Usage, skipped: Sequence[Skipped] = ()) -> Retained:
    """Return the report of a committed batch."""
    return Retained(
        derived=tuple(item.fact.id for item in batch.facts),
        revised=tuple(dict.fromkeys((*(c.fact for c in batch.closures), *(s.fact for s in batch.sources)))),
        episodes=tuple(episode.id for episode in batch.episodes),
        skipped=tuple(skipped),
        usage=usage,
    )


def combine(*parts: Retained) -> Retained:
    """Return several reports as one."""
    return Retained(
        stored=tuple(id for part in parts for id in part.stored),
        derived=tuple(id for part in parts for id in part.derived),
        revised=tuple(dict.fromkeys(id for part in parts for id in part.revised)),
        episodes=tuple(dict.fromkeys(id for part in parts for id in part.episodes)),
        skipped=tuple(each for part in parts for each in part.skipped),
        pending=sum(part.pending for part in parts),
        usage=sum((part.usage for part in parts), Usage()),
    )
