"""Storing messages and working through what is unread. Messages are durable before anything is derived from them."""

from __future__ import annotations

from collections.abc import Sequence

from vmemo.errors import EmbedderMismatch, StoreBusy
from vmemo.models import BankId, EpisodeId, FactId, Message, Retained, Skipped, Usage
from vmemo.ports import Batch, Store
from vmemo.retain.derive import Tools, derive
from vmemo.retain.reembed import mismatch

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


async def process(bank: BankId, tools: Tools) -> Retained:
    """Derive facts from all unread messages, batch by batch. What other processes finish meanwhile is left to them."""
    done = Retained()
    while True:
        revision = await tools.store.revision(bank)
        messages = await tools.store.pending(bank, BATCH)
        if not messages:
            return done
        landed = await _landed(bank, revision, messages, tools)
        if landed is not None:
            batch, usage = landed
            tools.roster.landed(bank, revision, batch.entities)
            done = _with(done, batch, usage)


async def _landed(bank: BankId, revision: int, messages: Sequence[Message], tools: Tools) -> tuple[Batch, Usage] | None:
    """What was derived and written; None if others were faster."""
    try:
        batch, usage = await derive(bank, revision, messages, tools)
        return (batch, usage) if await tools.store.write(batch) else None
    except StoreBusy:
        # A note about it would have to wait for the same lock.
        raise
    except Exception as error:
        # Whatever went wrong, the messages stay queued and say why.
        reason = await _outdated(bank, tools) or error
        note = f"{type(reason).__name__}: {reason}"[:2000]
        await tools.store.record_failure(bank, [message.id for message in messages], note)
        if reason is error:
            raise
        raise reason from error


async def _outdated(bank: BankId, tools: Tools) -> EmbedderMismatch | None:
    """Whether the bank was meanwhile switched to another embedder; any error may follow from that."""
    stored = await tools.store.bank(bank)
    return None if stored is None else mismatch(stored, tools.embedder)


def _with(done: Retained, batch: Batch, usage: Usage) -> Retained:
    episodes = dict.fromkeys((*done.episodes, *(EpisodeId(episode.id) for episode in batch.episodes)))
    return done.model_copy(
        update={
            "derived": (*done.derived, *(FactId(item.fact.id) for item in batch.facts)),
            "episodes": tuple(episodes),
            "usage": Usage(
                calls=done.usage.calls + usage.calls,
                input_tokens=done.usage.input_tokens + usage.input_tokens,
                output_tokens=done.usage.output_tokens + usage.output_tokens,
                embedded_texts=done.usage.embedded_texts + usage.embedded_texts,
            ),
        }
    )
