"""The commit of changes: preconditions first, then nodes and indexes, all in the caller's one transaction."""

from __future__ import annotations

from itertools import count

from vmemo.models.changes import Changes, NewEmbeddings
from vmemo.ports import BankNotFound
from vmemo.stores.transactions import BankHeld
from vmemo.stores.values import demand_vectors
from vmemo_neo4j import banks, index, memories, messages, queue
from vmemo_neo4j.banks import BankHeader, bump, state_or_none
from vmemo_neo4j.connection import Transaction


class CommitRefused(Exception):
    """A precondition does not hold; the transaction is rolled back."""


async def commit(tx: Transaction, changes: Changes) -> bool:
    """Write changes; raise CommitRefused if a precondition does not hold.

    Return False if the bank was deleted with the jobs that this would have ended.
    """
    if changes.rename is not None:
        # Where two banks are locked, the visible one comes first.
        await state_or_none(tx, changes.rename.to, lock=True)
    state = await state_or_none(tx, changes.bank, lock=True)
    if state is None:
        if changes.leases or changes.failed or changes.released:
            return False
        raise BankNotFound(changes.bank)
    if changes.embedder is not None:
        state.demand(changes.embedder)
    if changes.derives and await queue.held_by_another(tx, state.key, changes.leases):
        raise BankHeld
    if not await _allowed(tx, state, changes):
        raise CommitRefused
    if changes.embeddings is not None and not await _replace_embeddings(tx, state.key, changes.embeddings):
        raise CommitRefused
    await _save_records(tx, state, changes)
    await _save_notes(tx, state.key, changes)
    await _save_queue(tx, state.key, changes)
    if changes.rename is not None and not await banks.rename(tx, state, changes.rename):
        raise CommitRefused
    return True


async def _allowed(tx: Transaction, state: BankHeader, changes: Changes) -> bool:
    """Check the preconditions; the state of pending messages is set at once."""
    if changes.revision is not None and changes.revision != state.bank_revision:
        return False
    for lease in changes.leases:
        if not await queue.holds(tx, state.key, lease):
            return False
    if changes.without_pending and await messages.any_pending(tx, state.key, changes.without_pending):
        return False
    if changes.profile is not None and not await banks.save_profile(tx, state.key, changes.profile):
        return False
    if changes.note is not None and not await banks.save_note(tx, state.key, changes.note):
        return False
    return await messages.claim(tx, state.key, changes)


async def _replace_embeddings(tx: Transaction, bank: str, new: NewEmbeddings) -> bool:
    """Replace the vectors of all facts; return False if one has no new vector."""
    demand_vectors(new.vectors.values(), new.dimension)
    if not await index.replace_vectors(tx, bank, new.vectors):
        return False
    await tx.run(
        "MATCH (b:Bank {key: $bank}) SET b.embedder = $embedder, b.dimension = $dimension",
        bank=bank,
        embedder=new.embedder,
        dimension=new.dimension,
    )
    return True


async def _save_records(tx: Transaction, state: BankHeader, changes: Changes) -> None:
    """Write messages and memories. Memories refer to new messages, which may repeat the line of a deleted one."""
    replaces = bool(changes.deleted.messages)
    if not replaces:
        await messages.append(tx, state.key, changes.messages)
    if changes.derives:
        await _save_memories(tx, state, changes)
    if replaces:
        await messages.append(tx, state.key, changes.messages)


async def _save_memories(tx: Transaction, state: BankHeader, changes: Changes) -> None:
    bank, deleted = state.key, changes.deleted
    demand_vectors((item.encoding for item in changes.facts), state.dimension)
    seqs = count(await bump(tx, bank, count=_numbers(changes)))
    undone = any(merge.undone_at is not None for merge in changes.merges)
    reserved = await memories.absorbed_numbers(tx, bank) if undone else {}
    await memories.save_entities(tx, bank, changes.entities, seqs, reserved)
    await memories.save_episodes(tx, bank, changes.episodes, seqs)
    await memories.save_facts(tx, bank, changes.facts, seqs)
    await memories.save_links(tx, bank, changes.links)
    await memories.update_facts(tx, bank, changes)
    await memories.change_confidence(tx, bank, changes.confidence, seqs)
    await memories.record_confidence_history(tx, bank, changes.confidence_history, seqs)
    if changes.erase:
        await memories.erase_copies(tx, bank, changes)
    await memories.save_mentions(tx, bank, deleted.mentions, changes.mentions)
    await memories.save_merges(tx, bank, changes.merges, seqs)
    await memories.delete(tx, "Merge", bank, deleted.merges)
    await memories.delete_facts(tx, bank, deleted.facts)
    await memories.delete_entities(tx, bank, deleted.entities)
    await memories.delete_episodes(tx, bank, deleted.episodes)
    await memories.delete_messages(tx, bank, deleted.messages)
    await messages.requeue(tx, bank, changes.requeued)
    await memories.drop_context(tx, bank, changes.without_context)
    if changes.pending and changes.becomes == "derived":
        repeated = [id for id in changes.pending if id not in frozenset(changes.unrepeated)]
        await index.save_words(tx, bank, "message", dict.fromkeys(repeated))
    await messages.curate(tx, bank, changes.curated)


def _numbers(changes: Changes) -> int:
    """Return how many numbers new records need; a merge needs one more for the entity that it absorbed."""
    new = (changes.entities, changes.episodes, changes.facts, changes.confidence, changes.confidence_history)
    return sum(map(len, new)) + 2 * len(changes.merges)


async def _save_notes(tx: Transaction, bank: str, changes: Changes) -> None:
    """Write records that no search depends on: failures, former profiles, access counts, spending and webhooks."""
    for failure in changes.failures:
        await messages.record_failure(tx, bank, failure)
    await banks.keep_profiles(tx, bank, changes.former_profiles)
    await memories.count_accesses(tx, bank, changes.accesses)
    await queue.spend(tx, bank, changes.spending)
    await queue.save_webhooks(tx, bank, changes)


async def _save_queue(tx: Transaction, bank: str, changes: Changes) -> None:
    await queue.drop(tx, bank, changes.deleted.jobs)
    for lease in changes.finished:
        await queue.complete(tx, bank, lease)
    if changes.pending and not changes.finished:
        await queue.settle(tx, bank)
    for failure in changes.failed:
        await queue.fail(tx, bank, failure)
    for lease in changes.released:
        await queue.release(tx, bank, lease)
    await queue.enqueue(tx, bank, [*changes.jobs, *await queue.deliveries(tx, bank, changes)])
