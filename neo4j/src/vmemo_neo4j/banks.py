"""Banks: their state and lock, creating, renaming and deleting one, hidden banks, and profiles.

A deleted bank loses its name at once, so that nothing finds it any more, and its nodes afterwards, in batches: one
transaction with all of them would not fit into the server's memory. `purge` resumes where a process stopped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from vmemo.models import Bank, BankId, BankRevision, FormerProfile, Profile, new_id, utc_now
from vmemo.models.changes import NoteChange, ProfileChange, Rename
from vmemo.models.results import Spending
from vmemo.ports import HIDDEN, BankNotFound, HiddenBank
from vmemo.stores.values import demand_embedder, instant
from vmemo_neo4j import queue
from vmemo_neo4j.connection import Neo4jConnection, Transaction
from vmemo_neo4j.nodes import BANK_COLUMNS, bank_of, micros
from vmemo_neo4j.schema import BANK_LABELS, NUMBERED


@dataclass(frozen=True)
class BankHeader:
    """A bank's key, its revision and its embedder."""

    key: str
    revision: int
    dimension: int
    embedder: str

    @property
    def bank_revision(self) -> BankRevision:
        """The revision with the identity of the bank."""
        return BankRevision(self.key, self.revision)

    def demand(self, embedder: str) -> None:
        """Refuse vectors of another embedder than the bank's."""
        demand_embedder(self.embedder, embedder)


FIND: Final = "MATCH (b:Bank {namespace: $namespace, name: $name}) "
"""Finds a bank by name."""
LOCK: Final = "SET b.locked = true REMOVE b.locked WITH b "
"""Locks a bank: setting a property takes the lock of its node, removing one that is absent does not."""
# `properties` reads the locked node, where a property by its name may come from the index that found the node.
_STATE: Final = "WITH properties(b) AS stored RETURN stored {.name, .key, .revision, .dimension, .embedder} AS bank"


async def bank_state(tx: Transaction, bank: BankId, *, lock: bool = False) -> BankHeader:
    """Return the bank's state; raise BankNotFound if there is no such bank.

    With `lock` its other writers wait until the transaction ends. Every function that writes locks the bank before it
    reads anything else of it.
    """
    if (found := await state_or_none(tx, bank, lock=lock)) is None:
        raise BankNotFound(bank)
    return found


async def state_or_none(tx: Transaction, bank: BankId, *, lock: bool = False) -> BankHeader | None:
    """Return the bank's state as `bank_state` does, or None if there is no such bank."""
    row = await tx.one(FIND + LOCK + _STATE if lock else FIND + _STATE, name=bank)
    if row is not None and row["bank"]["name"] != bank:
        # The bank was replaced while we waited for its lock.
        row = await tx.one(FIND + LOCK + _STATE, name=bank)
    return None if row is None else header_of(row["bank"])


def header_of(node: Mapping[str, Any]) -> BankHeader:
    """A bank's state from its node."""
    return BankHeader(node["key"], node["revision"], node["dimension"], node["embedder"])


async def bump(tx: Transaction, bank: str, *, count: int = 0) -> int:
    """Count a change of a bank that is locked, and reserve numbers for new records; return the first of them."""
    row = await tx.one(
        "MATCH (b:Bank {key: $bank}) SET b.revision = b.revision + 1, "
        "b.last_seq = b.last_seq + $count RETURN b.last_seq AS last",
        bank=bank,
        count=count,
    )
    assert row is not None
    return row["last"] - count + 1


async def all_banks(tx: Transaction) -> list[Bank]:
    """Return the banks by name, without hidden ones."""
    found = await tx.table(
        "MATCH (b:Bank {namespace: $namespace}) WHERE b.name > '' AND b.hidden IS NULL", BANK_COLUMNS
    )
    return sorted((bank_of(node) for (node,) in found), key=lambda bank: bank.id)


async def find_bank(tx: Transaction, bank: BankId) -> Bank | None:
    """Return the bank, or None."""
    found = await tx.table(FIND, BANK_COLUMNS, name=bank)
    return bank_of(found[0][0]) if found else None


async def create(tx: Transaction, bank: Bank, replaces: BankId | None, note: str) -> Bank:
    """Create the bank unless it exists; return the stored one."""
    values: dict[str, object] = {
        "key": new_id(),
        "profile": bank.profile.model_dump_json(),
        "embedder": bank.embedder,
        "dimension": bank.dimension,
        "created_at": bank.created_at,
        "revision": 0,
        "last_seq": 0,
    }
    if bank.id.startswith(HIDDEN):
        origin = None if replaces is None else (await bank_state(tx, replaces)).key
        values |= {"hidden": True, "replaces": origin, "note": note}
    row = await tx.one(
        "MERGE (b:Bank {namespace: $namespace, name: $name}) ON CREATE SET b += $values "
        f"RETURN {BANK_COLUMNS} AS bank, b.key = $key AS created",
        name=bank.id,
        key=values["key"],
        values=values,
    )
    assert row is not None
    return bank if row["created"] else bank_of(row["bank"])


async def hidden(tx: Transaction) -> list[HiddenBank]:
    """Return the hidden banks by name."""
    found = await tx.table(
        "MATCH (b:Bank {namespace: $namespace}) WHERE b.name > '' AND b.hidden "
        "OPTIONAL MATCH (origin:Bank {key: b.replaces})",
        f"{BANK_COLUMNS}, origin.name, b.note",
    )
    banks = [HiddenBank(bank=bank_of(node), replaces=replaces, note=note or "") for node, replaces, note in found]
    return sorted(banks, key=lambda hidden: hidden.bank.id)


async def save_note(tx: Transaction, bank: str, change: NoteChange) -> bool:
    """Replace the note of a hidden bank; return False if it is not the expected one."""
    statement = "MATCH (b:Bank {key: $bank}) WHERE b.note = $expected SET b.note = $note RETURN 1 AS one"
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
    await bump(tx, state.key)
    return True


async def _lacks_messages(tx: Transaction, bank: str, replaced: str) -> bool:
    """Return True if the replaced bank holds a message that the other lacks."""
    lost = (
        "MATCH (m:Message {bank: $replaced}) "
        "WHERE NOT EXISTS { MATCH (copy:Message {bank: $bank, id: m.id}) } RETURN 1 AS one LIMIT 1"
    )
    return await tx.one(lost, bank=bank, replaced=replaced) is not None


async def _inherited(tx: Transaction, state: BankHeader, replaced: BankHeader) -> dict[str, object]:
    """Hand over the history, costs and webhooks of the replaced bank; return the properties that are taken over.

    The revision continues from the larger one, so that no commit begun before succeeds.
    """
    counted: dict[str, object] = {"revision": max(state.revision, replaced.revision)}
    row = await tx.one(
        "MATCH (b:Bank {key: $bank, replaces: $replaced}) MATCH (old:Bank {key: $replaced}) "
        f"RETURN old.profile AS profile, {micros('old.created_at')} AS created_at",
        bank=state.key,
        replaced=replaced.key,
    )
    if row is None:
        return counted
    await queue.spend(tx, state.key, await spending(tx, replaced.key))
    await keep_profiles(tx, state.key, await former_profiles(tx, replaced.key))
    await queue.hand_over_webhooks(tx, state.key, replaced.key)
    return {**counted, "profile": row["profile"], "created_at": instant(row["created_at"])}


async def spending(tx: Transaction, bank: str) -> list[Spending]:
    """Return the spending of a bank by step and model."""
    found = await tx.table("MATCH (s:Spending {bank: $bank}) WITH s ORDER BY s.step, s.model", "s {.*}", bank=bank)
    return [Spending.of({name: spent[name] for name in Spending.model_fields}) for (spent,) in found]


async def _derived_from(tx: Transaction, bank: str, *, but: str | None = None) -> list[str]:
    """Return the keys of the hidden banks that were derived from a bank, locked after it."""
    derived = f"MATCH (b:Bank {{replaces: $bank}}) WHERE b.key <> $but {LOCK} WITH b ORDER BY b.key"
    return [key for (key,) in await tx.table(derived, "b.key", bank=bank, but=but or "")]


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
    return [key for (key,) in await tx.table("MATCH (d:DroppedBank {namespace: $namespace})", "d.key")]


async def purge(connection: Neo4jConnection) -> None:
    """Delete the nodes of deleted banks."""
    for bank in await connection.read(dropped):
        for label in BANK_LABELS:
            nodes = f"MATCH (n:{label} {{bank: $bank}})"
            await connection.alone(f"{nodes} CALL (n) {{ DETACH DELETE n }} IN TRANSACTIONS OF 2000 ROWS", bank=bank)
        await connection.alone("MATCH (d:DroppedBank {key: $bank}) DELETE d", bank=bank)


async def save_profile(tx: Transaction, bank: str, change: ProfileChange) -> bool:
    """Replace the bank's profile and keep the previous one; return False if that is not the expected one."""
    row = await tx.one("MATCH (b:Bank {key: $bank}) RETURN b.profile AS profile", bank=bank)
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
    found = await tx.table(
        "MATCH (p:FormerProfile {bank: $bank}) WITH p ORDER BY p.seq",
        f"p.profile, {micros('p.until')}, p.reason",
        bank=bank,
    )
    return [
        FormerProfile(profile=Profile.model_validate_json(profile), until=instant(until), reason=reason)
        for profile, until, reason in found
    ]
