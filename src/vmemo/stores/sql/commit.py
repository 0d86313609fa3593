"""The commit of changes: preconditions first, then rows and indexes, all in the caller's one transaction."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection, update

from vmemo.models import Message
from vmemo.models.changes import Changes, NewEmbeddings
from vmemo.ports import BankNotFound
from vmemo.stores.sql import bank_rows, entity_rows, fact_rows, message_rows, queue
from vmemo.stores.sql.bank_rows import BankState
from vmemo.stores.sql.schema import banks, episodes
from vmemo.stores.sql.search import SearchIndex
from vmemo.stores.sql.statements import seqs_of
from vmemo.stores.transactions import BankHeld
from vmemo.stores.values import WORDLESS, demand_vectors


class Refused(Exception):
    """A precondition does not hold. The transaction is rolled back; other writes that share it are repeated."""


def commit(connection: Connection, changes: Changes, index: SearchIndex) -> bool:
    """Write changes; raise Refused if a precondition does not hold.

    Return False if the bank was deleted with the jobs that this would have ended.
    """
    if changes.rename is not None:
        # Where two banks are locked, the visible one comes first.
        bank_rows.state_or_none(connection, changes.rename.to)
    state = bank_rows.state_or_none(connection, changes.bank)
    if state is None:
        if changes.leases or changes.failed or changes.released:
            # The jobs went with their bank, and so did their leases.
            return False
        raise BankNotFound(changes.bank)
    if changes.embedder is not None:
        state.demand(changes.embedder)
    if changes.derives and queue.held_by_another(connection, state.seq, changes.leases):
        raise BankHeld
    embeddings = changes.embeddings
    if not _allowed(connection, state, changes) or (
        embeddings is not None and not _replace_embeddings(connection, state.seq, embeddings, index)
    ):
        raise Refused
    _save_records(connection, state, changes, index)
    _save_notes(connection, state.seq, changes)
    _save_queue(connection, state.seq, changes)
    if changes.rename is not None and not bank_rows.rename(connection, state, changes.rename, index):
        raise Refused
    return True


def _save_records(connection: Connection, state: BankState, changes: Changes, index: SearchIndex) -> None:
    """Write messages and memories. Memories refer to new messages, which may repeat the line of a deleted one."""
    replaces = bool(changes.deleted.messages)
    if not replaces:
        _append(connection, state.seq, changes.messages, index)
    if changes.derives:
        _save_memories(connection, state, changes, index)
    if replaces:
        _append(connection, state.seq, changes.messages, index)


def _append(connection: Connection, bank: int, new: Sequence[Message], index: SearchIndex) -> None:
    if new:
        stored = message_rows.append(connection, bank, new)
        index.add_words(connection, bank, [(seq, item.content) for seq, item in stored if item.state not in WORDLESS])


def _allowed(connection: Connection, state: BankState, changes: Changes) -> bool:
    """Check the preconditions; the state of pending messages is set at once."""
    if changes.revision is not None and changes.revision != state.bank_revision:
        return False
    if not all(queue.holds(connection, state.seq, lease) for lease in changes.leases):
        return False
    if message_rows.any_pending(connection, state.seq, changes.without_pending):
        return False
    if changes.profile is not None and not bank_rows.save_profile(connection, state.seq, changes.profile):
        return False
    if changes.note is not None and not bank_rows.save_note(connection, state.seq, changes.note):
        return False
    return message_rows.claim(connection, state.seq, changes)


def _replace_embeddings(connection: Connection, bank: int, new: NewEmbeddings, index: SearchIndex) -> bool:
    """Replace the vectors of all facts; return False if one has no new vector."""
    demand_vectors(new.vectors.values(), new.dimension)
    if not index.replace_vectors(connection, bank, new.vectors):
        return False
    values = {"embedder": new.embedder, "dimension": new.dimension}
    connection.execute(update(banks).where(banks.c.seq == bank).values(values))
    return True


def _save_memories(connection: Connection, state: BankState, changes: Changes, index: SearchIndex) -> None:
    bank, new = state.seq, [item.fact for item in changes.facts]
    demand_vectors((item.encoding for item in changes.facts), state.dimension)
    deleted = changes.deleted
    removed = deleted.mentions or deleted.entities or deleted.facts or changes.without_context
    purges = bank_rows.NEW_VECTORS if changes.embeddings else int(bool(removed or changes.erase))
    revision = bank_rows.bump(connection, bank, purges=purges)
    undone = any(merge.undone_at is not None for merge in changes.merges)
    numbers = entity_rows.reserved_numbers(connection, bank) if undone else {}
    known = entity_rows.save_entities(connection, bank, changes.entities, numbers)
    message_rows.save_episodes(connection, bank, changes.episodes)
    seqs = fact_rows.save_facts(connection, bank, changes.facts, revision)
    fact_rows.save_sources(connection, bank, new, seqs)
    entity_rows.save_mentions(connection, bank, new, seqs, known)
    fact_rows.save_links(connection, bank, changes.links, seqs)
    fact_rows.close_facts(connection, bank, changes.closures, revision)
    fact_rows.add_sources(connection, bank, changes.sources)
    fact_rows.set_successors(connection, bank, changes.successors, revision)
    fact_rows.reopen_facts(connection, bank, changes.reopened, revision)
    fact_rows.set_superseded(connection, bank, changes.rewired, revision)
    fact_rows.mark_facts(connection, bank, changes, revision)
    fact_rows.change_confidence(connection, bank, changes.confidence)
    fact_rows.record_confidence_history(connection, bank, changes.confidence_history)
    if changes.erase:
        bank_rows.erase_copies(connection, bank, changes, index)
    _delete(connection, bank, changes, index)
    message_rows.requeue(connection, bank, changes.requeued, index)
    fact_rows.drop_context(connection, bank, changes.without_context, revision, index)
    index.add_facts(connection, bank, [(seqs[item.fact.id], item) for item in changes.facts])
    if changes.pending and changes.becomes == "derived":
        unrepeated = frozenset(changes.unrepeated)
        index.drop_words(connection, bank, [id for id in changes.pending if id not in unrepeated])
    message_rows.curate(connection, bank, changes.curated, index)


def _delete(connection: Connection, bank: int, changes: Changes, index: SearchIndex) -> None:
    """Delete records, and write the mentions and merges that depend on the order of deletions."""
    deleted = changes.deleted
    entity_rows.remove_mentions(connection, bank, deleted.mentions)
    entity_rows.add_mentions(connection, bank, changes.mentions)
    entity_rows.save_merges(connection, bank, changes.merges)
    entity_rows.delete_merges(connection, bank, deleted.merges)
    fact_rows.delete_facts(connection, bank, deleted.facts, index)
    entity_rows.delete_entities(connection, bank, deleted.entities)
    episode_numbers = seqs_of(connection, episodes, bank, deleted.episodes)
    message_rows.dissolve(connection, bank, episode_numbers.values())
    message_rows.delete_messages(connection, bank, deleted.messages, index)


def _save_notes(connection: Connection, bank: int, changes: Changes) -> None:
    """Write records that no search depends on: failures, former profiles, access counts, spending and webhooks."""
    for failure in changes.failures:
        message_rows.record_failure(connection, bank, failure)
    if changes.former_profiles:
        bank_rows.keep_profiles(connection, bank, changes.former_profiles)
    bank_rows.count_accesses(connection, bank, changes.accesses)
    queue.spend(connection, bank, changes.spending)
    queue.save_webhooks(connection, bank, changes)


def _save_queue(connection: Connection, bank: int, changes: Changes) -> None:
    queue.drop(connection, bank, changes.deleted.jobs)
    for lease in changes.finished:
        queue.complete(connection, bank, lease)
    if changes.pending and not changes.finished:
        queue.settle(connection, bank)
    for failure in changes.failed:
        queue.fail(connection, bank, failure)
    for lease in changes.released:
        queue.release(connection, bank, lease)
    queue.enqueue(connection, bank, [*changes.jobs, *queue.webhook_deliveries(connection, bank, changes)])
