"""Storing messages and working through what is unread. Messages are durable before anything is derived from them."""

from __future__ import annotations

from collections.abc import Sequence

from vmemo.errors import EmbedderMismatch, OutcomeUnknown, StoreBusy, named
from vmemo.models import Bank, BankId, Message
from vmemo.models.changes import Changes, MessageFailure
from vmemo.models.results import Retained, Skipped, Usage
from vmemo.ports import Embedder, Store
from vmemo.retain.context import RetainContext
from vmemo.retain.derive import Derived, derive

BATCH = 256
"""Messages that are derived and written together: memory stays flat however many are waiting."""


async def store_messages(bank: BankId, messages: Sequence[Message], store: Store) -> Retained:
    """Append messages; those that are there already are reported as skipped."""
    stored = await store.append(bank, messages)
    skipped = [Skipped(what=message.id, reason=_reason(message)) for message in messages if message.id not in stored]
    fresh = [message for message in messages if message.id in stored]
    waiting = sum(message.state == "pending" for message in fresh)
    return Retained(stored=tuple(message.id for message in fresh), skipped=tuple(skipped), pending=waiting)


def _reason(message: Message) -> str:
    if message.document is not None:
        return f"document {message.document!r} holds this line already"
    return "a message with this id is stored already"


async def process(bank: BankId, context: RetainContext) -> Retained:
    """Derive facts from all unread messages, batch by batch. What other processes finish meanwhile is left to them."""
    done = Retained()
    while True:
        revision = await context.store.revision(bank)
        messages = await context.store.pending(bank, BATCH)
        if not messages:
            return done
        landed = await _landed(bank, revision, messages, context)
        if landed is not None:
            context.entity_cache.landed(bank, revision, landed.batch.entities)
            done = together(done, report(landed.batch, landed.usage, landed.skipped))


async def _landed(bank: BankId, revision: int, messages: Sequence[Message], context: RetainContext) -> Derived | None:
    """What was derived and written; None if others were faster."""
    try:
        derived = await derive(bank, revision, messages, context)
        return derived if await context.store.commit(derived.batch) else None
    except (StoreBusy, OutcomeUnknown):
        # A note about it would have to wait for the same lock or server.
        raise
    except Exception as error:
        # Whatever went wrong, the messages stay queued and say why.
        reason = await outdated(bank, context) or error
        failure = MessageFailure(messages=[message.id for message in messages], error=told(reason))
        await context.store.commit(Changes(bank=bank, failures=[failure]))
        if reason is error:
            raise
        raise reason from error


def told(error: BaseException) -> str:
    """An error as it is noted on what it keeps from being done."""
    return named(error)[:2000]


async def outdated(bank: BankId, context: RetainContext) -> EmbedderMismatch | None:
    """Whether the bank was meanwhile switched to another embedder; any error may follow from that."""
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


def report(batch: Changes, usage: Usage, skipped: Sequence[Skipped] = ()) -> Retained:
    """What a batch that landed has done."""
    return Retained(
        derived=tuple(item.fact.id for item in batch.facts),
        revised=tuple(dict.fromkeys((*(c.fact for c in batch.closures), *(s.fact for s in batch.sources)))),
        episodes=tuple(episode.id for episode in batch.episodes),
        skipped=tuple(skipped),
        usage=usage,
    )


def together(*parts: Retained) -> Retained:
    """Several reports as one."""
    return Retained(
        stored=tuple(id for part in parts for id in part.stored),
        derived=tuple(id for part in parts for id in part.derived),
        revised=tuple(dict.fromkeys(id for part in parts for id in part.revised)),
        episodes=tuple(dict.fromkeys(id for part in parts for id in part.episodes)),
        skipped=tuple(each for part in parts for each in part.skipped),
        pending=sum(part.pending for part in parts),
        usage=sum((part.usage for part in parts), Usage()),
    )
