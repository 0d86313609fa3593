"""Updates of stored facts: closures, added sources, successors and confidence changes.

Everything here runs inside the caller's one transaction, after the batch's own facts are written.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, LiteralString

from vmemo.errors import InvalidInput
from vmemo.models import ConfidenceChange, FactId
from vmemo.models.changes import AddedSource, Changes, FactClosure
from vmemo.stores.values import instant
from vmemo_neo4j.connection import Transaction
from vmemo_neo4j.memory_nodes import IN_EPISODE, SOURCE, connect_versions, demand, refer
from vmemo_neo4j.nodes import micros

_BY_ROW: Final = "UNWIND $rows AS row MATCH (f:Fact {bank: $bank, id: row.id}) "


async def close(tx: Transaction, bank: str, closings: Sequence[FactClosure], revision: int) -> None:
    """Set when facts stopped being true or believed; an end that is not given stays as it is."""
    if not closings:
        return
    await demand(tx, "Fact", bank, [closing.fact for closing in closings])
    rows = [{"id": closing.fact, "invalid": closing.invalid_at, "expired": closing.expired_at} for closing in closings]
    await tx.run(
        _BY_ROW + "SET f.invalid_at = coalesce(row.invalid, f.invalid_at), "
        "f.expired_at = coalesce(row.expired, f.expired_at), f.revision = $revision",
        bank=bank,
        rows=rows,
        revision=revision,
    )


async def source(tx: Transaction, bank: str, sourced: Sequence[AddedSource]) -> None:
    """Add messages and episodes that state a fact; known ones stay as they are."""
    if sourced:
        await demand(tx, "Fact", bank, [item.fact for item in sourced])
        messages = [(item.fact, id) for item in sourced for id in item.messages]
        episodes = [(item.fact, id) for item in sourced for id in item.episodes]
        await refer(tx, bank, {SOURCE: messages, IN_EPISODE: episodes})


async def succeed(tx: Transaction, bank: str, successors: Mapping[FactId, FactId], revision: int) -> None:
    """Let stored facts supersede others; one that supersedes a fact already stays as it is."""
    if not successors:
        return
    await demand(tx, "Fact", bank, [*successors, *successors.values()])
    for new, old in successors.items():
        if new == old:
            raise InvalidInput(f"The fact {new!r} can't replace itself. Nothing was written.")
    changed = await tx.rows(
        _BY_ROW + "WHERE f.supersedes IS NULL SET f.supersedes = row.old, f.revision = $revision RETURN f.id AS id",
        bank=bank,
        rows=[{"id": new, "old": old} for new, old in successors.items()],
        revision=revision,
    )
    await connect_versions(tx, bank, [row["id"] for row in changed])


async def reopen(tx: Transaction, bank: str, reopened: Sequence[FactId], revision: int) -> None:
    """Remove the ends of facts."""
    if reopened:
        ended: LiteralString = _BY_ROW + "SET f.invalid_at = null, f.expired_at = null, f.revision = $revision"
        await tx.run(ended, bank=bank, rows=[{"id": id} for id in reopened], revision=revision)


async def rewire(tx: Transaction, bank: str, rewired: Mapping[FactId, FactId | None], revision: int) -> None:
    """Let stored facts replace other facts than before, or none."""
    if rewired:
        rows = [{"id": new, "old": old} for new, old in rewired.items()]
        changed: LiteralString = _BY_ROW + "SET f.supersedes = row.old, f.revision = $revision"
        await tx.run(changed, bank=bank, rows=rows, revision=revision)
        await connect_versions(tx, bank, list(rewired))


async def mark(tx: Transaction, bank: str, changes: Changes, revision: int) -> None:
    """Pin and unpin facts, and set their expiry."""
    if changes.pinned:
        pins = [{"id": id, "pinned": pinned or None} for id, pinned in changes.pinned.items()]
        await tx.run(_BY_ROW + "SET f.pinned = row.pinned", bank=bank, rows=pins)
    if changes.expiries:
        limits = [{"id": id, "at": time} for id, time in changes.expiries.items()]
        limited: LiteralString = _BY_ROW + "SET f.expires_at = row.at, f.revision = $revision"
        await tx.run(limited, bank=bank, rows=limits, revision=revision)


async def change_confidence(tx: Transaction, bank: str, new: Sequence[ConfidenceChange], seqs: Iterator[int]) -> None:
    """Record confidence changes and set the confidence of their opinions."""
    if not new:
        return
    await demand(tx, "Fact", bank, [id for step in new for id in (step.opinion, *step.evidence)])
    wrong = await tx.one(
        _BY_ROW + "WHERE f.network <> 'opinion' RETURN f.id AS id LIMIT 1",
        bank=bank,
        rows=[{"id": step.opinion} for step in new],
    )
    if wrong is not None:
        raise InvalidInput(
            f"The fact {wrong['id']!r} is no opinion, so it has no confidence to move. Nothing was written."
        )
    await record_history(tx, bank, new, seqs)
    rows = [{"id": step.opinion, "after": step.after} for step in new]
    await tx.run(_BY_ROW + "SET f.confidence = row.after", bank=bank, rows=rows)


async def record_history(tx: Transaction, bank: str, past: Sequence[ConfidenceChange], seqs: Iterator[int]) -> None:
    """Record confidence changes: the opinions have their confidence already, and evidence may be deleted."""
    if not past:
        return
    await demand(tx, "Fact", bank, [step.opinion for step in past])
    rows = [
        {
            "id": step.opinion,
            "values": {
                "seq": next(seqs),
                "stance": step.stance,
                "before": step.before,
                "after": step.after,
                "evidence": list(step.evidence),
                "reason": step.reason,
                "at": step.at,
            },
        }
        for step in past
    ]
    recorded: LiteralString = _BY_ROW + "CREATE (c:ConfidenceChange {bank: $bank})-[:OF]->(f) SET c += row.values"
    await tx.run(recorded, bank=bank, rows=rows)


async def confidence_changes(tx: Transaction, bank: str, opinion: FactId | None) -> list[ConfidenceChange]:
    """Return the confidence changes of one opinion or of all, oldest first."""
    of_one = "" if opinion is None else ", id: $opinion"
    found = await tx.rows(
        f"MATCH (c:ConfidenceChange {{bank: $bank}})-[:OF]->(f:Fact {{bank: $bank{of_one}}}) "
        f"RETURN c {{.stance, .before, .after, .evidence, .reason}} AS change, f.id AS opinion, {micros('c.at')} AS at "
        "ORDER BY c.at, c.seq",
        bank=bank,
        opinion=opinion,
    )
    return [
        ConfidenceChange.of(
            {
                **row["change"],
                "evidence": tuple(row["change"]["evidence"]),
                "opinion": row["opinion"],
                "at": instant(row["at"]),
            }
        )
        for row in found
    ]
