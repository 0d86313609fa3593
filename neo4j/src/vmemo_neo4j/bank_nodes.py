"""Statements over whole banks: creating, renaming and deleting one, hidden banks, and profiles.

A deleted bank loses its name at once, so that nothing finds it any more, and its nodes afterwards, in batches: one
transaction with all of them would not fit into the server's memory. `purge` resumes where a process stopped.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import LiteralString

from vmemo.models import Bank, BankId, FormerProfile, Profile, new_id, utc_now
from vmemo.models.changes import NoteChange, ProfileChange, Rename
from vmemo.models.results import Spending
from vmemo.ports import HIDDEN, HiddenBank
from vmemo.stores.values import instant
from vmemo_neo4j import queue, webhook_nodes
from vmemo_neo4j.bank_state import FIND, LOCK, NUMBERED, BankHeader, bank_state, bump, state_or_none
from vmemo_neo4j.connection import Neo4jConnection, Row, Transaction
from vmemo_neo4j.nodes import BANK, bank_of, micros
from vmemo_neo4j.schema import BANK_LABELS

PURGED = 2000
"""Nodes of a deleted bank that one transaction deletes."""


async def all_banks(tx: Transaction) -> list[Bank]:
    """Return the banks by name, without hidden ones."""
    found = await tx.rows(
        f"MATCH (b:Bank {{namespace: $namespace}}) WHERE b.name > '' AND b.hidden IS NULL RETURN {BANK} AS bank"
    )
    return sorted((bank_of(row["bank"]) for row in found), key=lambda bank: bank.id)


async def find_bank(tx: Transaction, bank: BankId) -> Bank | None:
    """Return the bank, or None."""
    row = await tx.one(f"{FIND} RETURN {BANK} AS bank", name=bank)
    return None if row is None else bank_of(row["bank"])


async def create(tx: Transaction, bank: Bank, replaces: BankId | None, note: str) -> Bank:
    """Create the bank unless it exists; return the stored one."""
    values: dict[str, object] = {
        "key": new_id(),
        "profile": bank.profile.model_dump_json(),
        "embedder": bank.embedder,
        "dimension": bank.dimension,
        "created_at": bank.created_at,
        "revision": 0,
        "purges": 0,
        "last_seq": 0,
    }
    if bank.id.startswith(HIDDEN):
        origin = None if replaces is None else (await bank_state(tx, replaces)).key
        values |= {"hidden": True, "replaces": origin, "note": note}
    row = await tx.one(
        "MERGE (b:Bank {namespace: $namespace, name: $name}) ON CREATE SET b += $values "
        f"RETURN {BANK} AS bank, b.key = $key AS created",
        name=bank.id,
        key=values["key"],
        values=values,
    )
    assert row is not None
    return bank if row["created"] else bank_of(row["bank"])


async def hidden(tx: Transaction) -> list[HiddenBank]:
    """Return the hidden banks by name."""
    found = await tx.rows(
        "MATCH (b:Bank {namespace: $namespace}) WHERE b.name > '' AND b.hidden "
        "OPTIONAL MATCH (origin:Bank {key: b.replaces}) "
        f"RETURN {BANK} AS bank, b.note AS note, origin.name AS replaces"
    )
    banks = [HiddenBank(bank=bank_of(row["bank"]), replaces=row["replaces"], note=row["note"] or "") for row in found]
    return sorted(banks, key=lambda hidden: hidden.bank.id)


async def save_note(tx: Transaction, bank: str, change: NoteChange) -> bool:
    """Replace the note of a hidden bank; return False if it is not the expected one."""
    statement: LiteralString = "MATCH (b:Bank {key: $bank}) WHERE b.note = $expected SET b.note = $note RETURN 1 AS one"
    return await tx.one(statement, bank=bank, note=change.note, expected=change.expected) is not None


async def rename(tx: Transaction, state: BankHeader, change: Rename) -> bool:
    """Give a hidden bank its name, in place of the bank that has it; return False if that bank may not be replaced."""
    replaced = await state_or_none(tx, change.to, lock=True)
    if replaced is None and change.revision is not None:
        return False
    values: dict[str, object] = {"name": change.to, "hidden": None, "note": None, "replaces": None}
    if replaced is not None:
        if change.revision not in (None, replaced.bank_revision) or await _lacks_messages(tx, state.key, replaced.key):
            return False
        values |= await _inherited(tx, state, replaced)
        for key in (*await _derived_from(tx, replaced.key, but=state.key), replaced.key):
            await _discard(tx, key)
    await tx.run("MATCH (b:Bank {key: $bank}) SET b += $values", bank=state.key, values=values)
    await bump(tx, state.key, purge=True)
    return True


async def _lacks_messages(tx: Transaction, bank: str, replaced: str) -> bool:
    """Return True if the replaced bank holds a message that the other lacks."""
    lost: LiteralString = (
        "MATCH (m:Message {bank: $replaced}) "
        "WHERE NOT EXISTS { MATCH (copy:Message {bank: $bank, id: m.id}) } RETURN 1 AS one LIMIT 1"
    )
    return await tx.one(lost, bank=bank, replaced=replaced) is not None


async def _inherited(tx: Transaction, state: BankHeader, replaced: BankHeader) -> dict[str, object]:
    """Hand over the history, costs and webhooks of the replaced bank; return the properties that are taken over.

    Both counters continue from the larger ones, so that no commit begun before succeeds, and every index is rebuilt.
    """
    counters: dict[str, object] = {
        "revision": max(state.revision, replaced.revision),
        "purges": max(state.purges, replaced.purges),
    }
    row = await tx.one(
        "MATCH (b:Bank {key: $bank, replaces: $replaced}) MATCH (old:Bank {key: $replaced}) "
        f"RETURN old.profile AS profile, {micros('old.created_at')} AS created_at",
        bank=state.key,
        replaced=replaced.key,
    )
    if row is None:
        return counters
    await queue.spend(tx, state.key, await spending(tx, replaced.key))
    await keep_profiles(tx, state.key, await former_profiles(tx, replaced.key))
    await webhook_nodes.hand_over(tx, state.key, replaced.key)
    return {**counters, "profile": row["profile"], "created_at": instant(row["created_at"])}


async def spending(tx: Transaction, bank: str) -> list[Spending]:
    """Return the spending of a bank by step and model."""
    found = await tx.rows(
        "MATCH (s:Spending {bank: $bank}) "
        "RETURN s {.step, .model, .calls, .failures, .input_tokens, .output_tokens, .cost} AS spent "
        "ORDER BY s.step, s.model",
        bank=bank,
    )
    return [Spending.of(row["spent"]) for row in found]


async def _derived_from(tx: Transaction, bank: str, *, but: str | None = None) -> list[str]:
    """Return the keys of the hidden banks that were derived from a bank, locked after it."""
    found = await tx.rows(
        f"MATCH (b:Bank {{replaces: $bank}}) WHERE b.key <> $but {LOCK} RETURN b.key AS key ORDER BY key",
        bank=bank,
        but=but or "",
    )
    return [row["key"] for row in found]


async def drop(tx: Transaction, bank: BankId) -> bool:
    """Delete a bank and the hidden banks derived from it; return False if there is none of this name."""
    state = await state_or_none(tx, bank, lock=True)
    if state is None:
        return False
    await drop_derived(tx, state.key)
    await _discard(tx, state.key)
    return True


async def drop_derived(tx: Transaction, bank: str) -> None:
    """Delete the hidden banks that were derived from a bank."""
    for key in await _derived_from(tx, bank):
        await _discard(tx, key)


async def _discard(tx: Transaction, bank: str) -> None:
    """Leave of a bank only a mark that its nodes are to be deleted; its jobs are lost at once."""
    await tx.run("MATCH (j:Job {bank: $bank}) DELETE j", bank=bank)
    await tx.run("MATCH (b:Bank {key: $bank}) DELETE b", bank=bank)
    await tx.run("CREATE (:DroppedBank {namespace: $namespace, key: $bank})", bank=bank)


async def dropped(tx: Transaction) -> list[str]:
    """Return the keys of deleted banks that still have nodes."""
    return [row["key"] for row in await tx.rows("MATCH (d:DroppedBank {namespace: $namespace}) RETURN d.key AS key")]


async def purge(connection: Neo4jConnection) -> None:
    """Delete the nodes of deleted banks."""
    for bank in await connection.read(dropped):
        for label in BANK_LABELS:
            while await connection.write(partial(_purge_some, label=label, bank=bank), repeatable=True):
                pass
        await connection.write(partial(_forget_dropped, bank=bank), repeatable=True)


async def _purge_some(tx: Transaction, label: LiteralString, bank: str) -> bool:
    """Delete some nodes of a label; return False if none were left."""
    row = await tx.one(
        f"MATCH (n:{label} {{bank: $bank}}) WITH n LIMIT $limit DETACH DELETE n RETURN count(*) AS deleted",
        bank=bank,
        limit=PURGED,
    )
    assert row is not None
    return bool(row["deleted"])


async def _forget_dropped(tx: Transaction, bank: str) -> None:
    await tx.run("MATCH (d:DroppedBank {key: $bank}) DELETE d", bank=bank)


async def save_profile(tx: Transaction, bank: str, change: ProfileChange) -> bool:
    """Replace the bank's profile and keep the previous one; return False if that is not the expected one."""
    row: Row | None = await tx.one("MATCH (b:Bank {key: $bank}) RETURN b.profile AS profile", bank=bank)
    assert row is not None
    present = Profile.model_validate_json(row["profile"])
    if change.expected is not None and present != change.expected:
        return False
    if present != change.profile:
        await keep_profiles(tx, bank, [FormerProfile(profile=present, until=utc_now(), reason=change.reason)])
        new = change.profile.model_dump_json()
        await tx.run("MATCH (b:Bank {key: $bank}) SET b.profile = $profile", bank=bank, profile=new)
    return True


async def keep_profiles(tx: Transaction, bank: str, former: Sequence[FormerProfile]) -> None:
    """Add former profiles to the bank's history."""
    if former:
        rows = [
            {"profile": each.profile.model_dump_json(), "until": each.until, "reason": each.reason} for each in former
        ]
        await tx.run(NUMBERED + "CREATE (p:FormerProfile {bank: $bank, seq: seq}) SET p += row", bank=bank, rows=rows)


async def former_profiles(tx: Transaction, bank: str) -> list[FormerProfile]:
    """Return the former profiles of the bank, oldest first."""
    found = await tx.rows(
        "MATCH (p:FormerProfile {bank: $bank}) "
        f"RETURN p.profile AS profile, {micros('p.until')} AS until, p.reason AS reason ORDER BY p.seq",
        bank=bank,
    )
    return [
        FormerProfile(
            profile=Profile.model_validate_json(row["profile"]), until=instant(row["until"]), reason=row["reason"]
        )
        for row in found
    ]
