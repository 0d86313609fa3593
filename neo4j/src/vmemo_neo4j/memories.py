"""Facts, episodes, entities, links and merges. Everything here runs inside the transaction of a commit."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set as AbstractSet
from dataclasses import replace
from typing import Final

from vmemo.errors import InvalidInput
from vmemo.models import ConfidenceChange, Entity, EntityId, Episode, EpisodeId, FactId, Link, Merge, MessageId
from vmemo.models.changes import AddedSource, Changes, EntityMention, MergeRecord, NewFact
from vmemo.stores.values import UNPROCESSED, dump, instant, missing_reference
from vmemo.text.names.compare import folded_names
from vmemo_neo4j import banks, index
from vmemo_neo4j.connection import Transaction
from vmemo_neo4j.nodes import ENTITY, EPISODE, Properties, fact_properties, metadata_items, micros
from vmemo_neo4j.schema import LINK_TYPES

_FACT: Final = "UNWIND $rows AS row MATCH (f:Fact {bank: $bank, id: row[0]}) "
_REFERENCES: Final = {
    "SOURCE": "Message",
    "CONTEXT": "Message",
    "IN_EPISODE": "Episode",
    "BASED_ON": "Fact",
    "MENTIONS": "Entity",
}
"""The relationships of a fact to the records that it refers to, and the labels of those."""
_POINTERS: Final = {"Episode": ("previous", "FOLLOWS"), "Fact": ("supersedes", "SUPERSEDES")}
"""By label, a property with the id of another node of that label, and the relationship that shows it."""


async def demand(tx: Transaction, label: str, bank: str, ids: Iterable[str]) -> None:
    """Raise InvalidInput if no node of this label has one of the ids."""
    row = await tx.one(
        f"UNWIND $ids AS id WITH id WHERE NOT EXISTS {{ MATCH (n:{label} {{bank: $bank, id: id}}) }} RETURN id LIMIT 1",
        bank=bank,
        ids=list(ids),
    )
    if row is not None:
        raise missing_reference(label.lower(), row["id"])


async def _seqs(tx: Transaction, label: str, bank: str, ids: Iterable[str]) -> dict[str, int]:
    """Return the numbers of nodes by id."""
    found = await tx.table(
        f"UNWIND $ids AS id MATCH (n:{label} {{bank: $bank, id: id}})", "id, n.seq", bank=bank, ids=list(ids)
    )
    return {id: int(seq) for id, seq in found}


async def _save(tx: Transaction, label: str, bank: str, rows: Sequence[tuple[str, int, Properties]]) -> None:
    """Create nodes, or replace the properties of those that exist. A new node has the number of its row."""
    await tx.run(
        f"UNWIND $rows AS row MERGE (n:{label} {{bank: $bank, id: row[0]}}) "
        f"ON CREATE SET n.seq = row[1] SET n += row[2]",
        bank=bank,
        rows=[list(row) for row in rows],
    )


async def delete(tx: Transaction, label: str, bank: str, ids: Iterable[str]) -> None:
    """Delete nodes with their relationships."""
    await tx.run(f"UNWIND $ids AS id MATCH (n:{label} {{bank: $bank, id: id}}) DETACH DELETE n", bank=bank, ids=[*ids])


_RENAME: Final = """
CALL (n, names) {
    MATCH (n)-[r:KNOWN_AS]->(known:EntityName) WHERE NOT known.name IN names DELETE r
    WITH DISTINCT known WHERE NOT EXISTS { (known)<-[:KNOWN_AS]-() } DELETE known
}
CALL (n, names) {
    UNWIND names AS name MERGE (known:EntityName {bank: $bank, name: name}) MERGE (n)-[:KNOWN_AS]->(known)
}
"""
"""Replaces the folded names of entities; a name that no entity has any more is deleted."""


async def save_entities(
    tx: Transaction, bank: str, new: Sequence[Entity], seqs: Iterator[int], reserved: Mapping[str, int]
) -> None:
    """Create or update entities and their names; one with a reserved number returns under it."""
    if new:
        rows = [(entity.id, reserved.get(entity.id) or next(seqs), ENTITY.properties(entity)) for entity in new]
        await _save(tx, "Entity", bank, rows)
        names = [[entity.id, sorted(folded_names(entity.name, entity.aliases))] for entity in new]
        await _save_names(tx, bank, names)


async def _save_names(tx: Transaction, bank: str, rows: Sequence[Sequence[object]]) -> None:
    await tx.run(
        f"UNWIND $rows AS row MATCH (n:Entity {{bank: $bank, id: row[0]}}) WITH n, row[1] AS names {_RENAME}",
        bank=bank,
        rows=rows,
    )


async def delete_entities(tx: Transaction, bank: str, ids: Sequence[EntityId]) -> None:
    """Delete entities with their mentions and names."""
    if ids:
        await _save_names(tx, bank, [[id, []] for id in ids])
        await delete(tx, "Entity", bank, ids)


async def save_episodes(tx: Transaction, bank: str, new: Sequence[Episode], seqs: Iterator[int]) -> None:
    """Create or replace episodes and the messages they hold."""
    if not new:
        return
    await demand(tx, "Message", bank, [id for episode in new for id in episode.messages])
    await _save(tx, "Episode", bank, [(episode.id, next(seqs), EPISODE.properties(episode)) for episode in new])
    await tx.run(
        "UNWIND $rows AS row MATCH (n:Episode {bank: $bank, id: row[0]}) "
        "CALL (n) { MATCH (n)-[r:CONTAINS]->() DELETE r } WITH n, row[1] AS messages "
        "UNWIND messages AS id MATCH (m:Message {bank: $bank, id: id}) CREATE (n)-[:CONTAINS]->(m)",
        bank=bank,
        rows=[[episode.id, list(episode.messages)] for episode in new],
    )
    await _connect(tx, "Episode", bank, [episode.id for episode in new])


async def _connect(tx: Transaction, label: str, bank: str, ids: Iterable[str]) -> None:
    """Relate nodes to the node that each points at, and to those that point at them.

    The index is named, because a plan that was made while there were few nodes would go on to scan all of them.
    """
    name, type = _POINTERS[label]
    await tx.run(
        f"UNWIND $ids AS id MATCH (n:{label} {{bank: $bank, id: id}}) "
        f"CALL (n) {{ MATCH (n)-[r:{type}]->() DELETE r }} "
        f"CALL (n) {{ MATCH (other:{label} {{bank: $bank, id: n.{name}}}) MERGE (n)-[:{type}]->(other) }} "
        f"CALL (n) {{ MATCH (other:{label} {{bank: $bank, {name}: n.id}}) "
        f"USING INDEX SEEK other:{label}(bank, {name}) MERGE (other)-[:{type}]->(n) }}",
        bank=bank,
        ids=list(dict.fromkeys(ids)),
    )


async def delete_episodes(tx: Transaction, bank: str, ids: Sequence[EpisodeId]) -> None:
    """Delete episodes; an episode that followed one follows its predecessor."""
    for id in ids:
        following = await tx.table(
            "MATCH (p:Episode {bank: $bank, id: $id}) MATCH (n:Episode {bank: $bank, previous: $id}) "
            "SET n.previous = p.previous",
            "n.id",
            bank=bank,
            id=id,
        )
        await delete(tx, "Episode", bank, [id])
        await _connect(tx, "Episode", bank, [each for (each,) in following])


async def save_facts(tx: Transaction, bank: str, new: Sequence[NewFact], seqs: Iterator[int]) -> None:
    """Create facts with their vectors, words, sources and mentions. Facts may rest on older facts of the bank."""
    if not new:
        return
    properties = [
        {**fact_properties(item.fact), "bank": bank, "seq": next(seqs), **index.fact_index(bank, item)} for item in new
    ]
    rows = [[values, index.vector_of(item.encoding)] for values, item in zip(properties, new, strict=True)]
    for start in range(0, len(rows), index.PART):
        await tx.run(
            "MATCH (b:Bank {key: $bank}) WITH [label IN [b.vector_label] WHERE label IS NOT NULL] AS labels "
            "UNWIND $rows AS row CREATE (n:Fact) SET n = row[0], n:$(labels) "
            "WITH n, row CALL db.create.setNodeVectorProperty(n, 'embedding', row[1])",
            bank=bank,
            rows=rows[start : start + index.PART],
        )
    await index.count_texts(tx, bank, "fact", [str(values["words"]) for values in properties], sign=1)
    references: dict[str, list[Sequence[str]]] = defaultdict(list)
    for fact in (item.fact for item in new):
        references["SOURCE"] += [[fact.id, id] for id in fact.messages]
        references["CONTEXT"] += [] if fact.context_from is None else [[fact.id, fact.context_from]]
        references["IN_EPISODE"] += [[fact.id, id] for id in fact.episodes]
        references["BASED_ON"] += [[fact.id, id] for id in fact.basis]
        references["MENTIONS"] += [[fact.id, mention.id, mention.name_in_text] for mention in fact.entities]
    await refer(tx, bank, references)
    await _connect(tx, "Fact", bank, [item.fact.id for item in new])


async def refer(tx: Transaction, bank: str, references: Mapping[str, Sequence[Sequence[str]]]) -> None:
    """Relate facts to records by type; a relationship that exists stays. Raise InvalidInput for a missing record."""
    for type, rows in references.items():
        if not rows:
            continue
        label, named = _REFERENCES[type], "SET r.name_in_text = nullIf(row[2], '')" if type == "MENTIONS" else ""
        made = await tx.one(
            f"{_FACT} MATCH (other:{label} {{bank: $bank, id: row[1]}}) MERGE (f)-[r:{type}]->(other) {named} "
            "RETURN count(r) AS made",
            bank=bank,
            rows=[list(row) for row in rows],
        )
        if made is None or made["made"] != len(rows):
            await demand(tx, "Fact", bank, [row[0] for row in rows])
            await demand(tx, label, bank, [row[1] for row in rows])


async def save_mentions(
    tx: Transaction, bank: str, removed: Sequence[EntityMention], added: Sequence[EntityMention]
) -> None:
    """Delete mentions of entities in stored facts, then add others."""
    if removed:
        await demand(tx, "Entity", bank, [mention.entity for mention in removed])
        deleted = "MATCH (e:Entity {bank: $bank, id: row[1]}) MATCH (f)-[r:MENTIONS]->(e) DELETE r"
        await tx.run(_FACT + deleted, bank=bank, rows=[[mention.fact, mention.entity] for mention in removed])
    await refer(tx, bank, {"MENTIONS": [[mention.fact, mention.entity, mention.name_in_text] for mention in added]})


async def save_links(tx: Transaction, bank: str, new: Sequence[Link]) -> None:
    """Create links; one whose other end was deleted is left out."""
    by_type: dict[str, list[list[object]]] = defaultdict(list)
    for link in new:
        by_type[LINK_TYPES[link.kind]].append([link.source, link.target, link.weight])
    for type, rows in by_type.items():
        linked = f"MATCH (other:Fact {{bank: $bank, id: row[1]}}) MERGE (f)-[r:{type}]->(other) SET r.weight = row[2]"
        await tx.run(_FACT + linked, bank=bank, rows=rows)


async def update_facts(tx: Transaction, bank: str, changes: Changes) -> None:
    """Close, reopen, connect, pin and expire stored facts, and set their claims and metadata."""
    new: dict[FactId, Properties] = defaultdict(dict)
    for closure in changes.closures:
        ends = {"invalid_at": closure.invalid_at, "expired_at": closure.expired_at}
        new[closure.fact] |= {name: time for name, time in ends.items() if time is not None}
    await demand(tx, "Fact", bank, new)
    await _add_sources(tx, bank, changes.sources)
    for fact, replaced in (await _successors(tx, bank, changes.successors)).items():
        new[fact]["supersedes"] = replaced
    for fact in changes.reopened:
        new[fact] |= {"invalid_at": None, "expired_at": None}
    for fact, replaced in changes.rewired.items():
        new[fact]["supersedes"] = replaced
    for fact, claims in changes.claims.items():
        new[fact]["claims"] = dump(claims) if claims else None
    for fact, pinned in changes.pinned.items():
        new[fact]["pinned"] = pinned or None
    for fact, metadata in changes.metadata.items():
        new[fact] |= {"metadata": dump(metadata), "metadata_items": metadata_items(metadata)}
    for fact, time in changes.expiries.items():
        new[fact]["expires_at"] = time
    if new:
        await set_properties(tx, bank, new)
        await _connect(tx, "Fact", bank, [fact for fact, values in new.items() if "supersedes" in values])


async def set_properties(tx: Transaction, bank: str, new: Mapping[FactId, Properties]) -> None:
    """Set properties of stored facts; None removes one."""
    await tx.run(_FACT + "SET f += row[1]", bank=bank, rows=[[id, values] for id, values in new.items()])


async def _add_sources(tx: Transaction, bank: str, sources: Sequence[AddedSource]) -> None:
    await demand(tx, "Fact", bank, [source.fact for source in sources])
    messages = [[source.fact, id] for source in sources for id in source.messages]
    episodes = [[source.fact, id] for source in sources for id in source.episodes]
    await refer(tx, bank, {"SOURCE": messages, "IN_EPISODE": episodes})


async def _successors(tx: Transaction, bank: str, successors: Mapping[FactId, FactId]) -> dict[FactId, FactId]:
    """Return those stored facts that are to supersede others and supersede none yet."""
    if not successors:
        return {}
    await demand(tx, "Fact", bank, [*successors, *successors.values()])
    for new, old in successors.items():
        if new == old:
            raise InvalidInput(f"The fact {new!r} can't replace itself. Nothing was written.")
    rows = [[id] for id in successors]
    free = await tx.table(f"{_FACT} WITH f WHERE f.supersedes IS NULL", "f.id", bank=bank, rows=rows)
    return {FactId(id): successors[FactId(id)] for (id,) in free}


async def count_accesses(tx: Transaction, bank: str, counts: Mapping[FactId, int]) -> None:
    """Add to access counts. The bank's revision stays: no search depends on them."""
    if counts:
        added = "SET f.access_count = f.access_count + row[1]"
        await tx.run(_FACT + added, bank=bank, rows=[[fact, times] for fact, times in counts.items()])


async def change_confidence(tx: Transaction, bank: str, new: Sequence[ConfidenceChange], seqs: Iterator[int]) -> None:
    """Record confidence changes and set the confidence of their opinions."""
    if not new:
        return
    await demand(tx, "Fact", bank, [id for step in new for id in (step.opinion, *step.evidence)])
    opinions = [[step.opinion] for step in new]
    wrong = await tx.one(
        f"{_FACT} WITH f WHERE f.network <> 'opinion' RETURN f.id AS id LIMIT 1", bank=bank, rows=opinions
    )
    if wrong is not None:
        raise InvalidInput(
            f"The fact {wrong['id']!r} is no opinion, so it has no confidence to move. Nothing was written."
        )
    await record_confidence_history(tx, bank, new, seqs)
    await set_properties(tx, bank, {step.opinion: {"confidence": step.after} for step in new})


async def record_confidence_history(
    tx: Transaction, bank: str, past: Sequence[ConfidenceChange], seqs: Iterator[int]
) -> None:
    """Record confidence changes: the opinions have their confidence already, and evidence may be deleted."""
    if past:
        await demand(tx, "Fact", bank, [step.opinion for step in past])
        rows = [
            [step.opinion, {**dict(step), "opinion": None, "evidence": list(step.evidence), "seq": next(seqs)}]
            for step in past
        ]
        await tx.run(
            _FACT + "CREATE (c:ConfidenceChange {bank: $bank})-[:OF]->(f) SET c += row[1]", bank=bank, rows=rows
        )


async def confidence_changes(tx: Transaction, bank: str, opinion: FactId | None) -> list[ConfidenceChange]:
    """Return the confidence changes of one opinion or of all, oldest first."""
    of_one = "" if opinion is None else ", id: $opinion"
    found = await tx.table(
        f"MATCH (c:ConfidenceChange {{bank: $bank}})-[:OF]->(f:Fact {{bank: $bank{of_one}}}) "
        "WITH c, f ORDER BY c.at, c.seq",
        f"c {{.stance, .before, .after, .evidence, .reason}}, f.id, {micros('c.at')}",
        bank=bank,
        opinion=opinion,
    )
    return [
        ConfidenceChange.of({**change, "evidence": tuple(change["evidence"]), "opinion": id, "at": instant(at)})
        for change, id, at in found
    ]


async def delete_facts(tx: Transaction, bank: str, ids: Sequence[FactId]) -> None:
    """Delete facts with their relationships and confidence changes, and as evidence of other changes."""
    if ids:
        await index.save_words(tx, bank, "fact", dict.fromkeys(ids))
        await tx.run(
            _FACT + "OPTIONAL MATCH (c:ConfidenceChange)-[:OF]->(f) DETACH DELETE c, f",
            bank=bank,
            rows=[[id] for id in ids],
        )
        await tx.run(
            "MATCH (c:ConfidenceChange {bank: $bank}) WHERE any(id IN c.evidence WHERE id IN $ids) "
            "SET c.evidence = [id IN c.evidence WHERE NOT id IN $ids], c.reason = ''",
            bank=bank,
            ids=list(ids),
        )


async def delete_messages(tx: Transaction, bank: str, ids: Sequence[MessageId]) -> None:
    """Delete messages. The facts and episodes that refer to them are deleted before."""
    if ids:
        await index.save_words(tx, bank, "message", dict.fromkeys(ids))
        await delete(tx, "Message", bank, ids)


async def drop_context(tx: Transaction, bank: str, changed: Sequence[NewFact]) -> None:
    """Remove the context of facts, from their nodes and from the word index."""
    if not changed:
        return
    known = await tx.table(
        f"{_FACT} SET f.context = '' WITH f OPTIONAL MATCH (f)-[r:CONTEXT]->() DELETE r",
        "f.id",
        bank=bank,
        rows=[[item.fact.id] for item in changed],
    )
    ids = {id for (id,) in known}
    bare = [replace(item, fact=item.fact.model_copy(update={"context": ""})) for item in changed]
    await index.index_again(tx, bank, [item for item in bare if item.fact.id in ids])


async def erase_copies(tx: Transaction, bank: str, changes: Changes) -> None:
    """Delete what may quote the deleted text: derived banks and errors.

    An error of several messages may quote any of them, so those that share one with a deleted message lose it too.
    """
    await banks.drop_derived(tx, bank)
    await tx.run(
        "UNWIND $ids AS id MATCH (d:Message {bank: $bank, id: id}) WHERE d.error IS NOT NULL "
        "WITH collect(DISTINCT d.error) AS errors UNWIND $states AS state "
        "MATCH (m:Message {bank: $bank, state: state}) WHERE m.timestamp IS NOT NULL AND m.error IN errors "
        "REMOVE m.error, m.failed_at",
        bank=bank,
        ids=list(changes.deleted.messages),
        states=list(UNPROCESSED),
    )
    cleared = "UNWIND $ids AS id MATCH (m:Message {bank: $bank, id: id}) REMOVE m.error, m.failed_at"
    await tx.run(cleared, bank=bank, ids=list(changes.requeued))
    await tx.run("MATCH (j:Job {bank: $bank}) REMOVE j.error", bank=bank)


async def merges(tx: Transaction, bank: str) -> list[MergeRecord]:
    """Return all merges in the order they were made."""
    found = await tx.table("MATCH (m:Merge {bank: $bank}) WITH m ORDER BY m.seq", "m.record", bank=bank)
    stored = [MergeRecord.model_validate_json(record) for (record,) in found]
    ids = {id for merge in stored for id in (merge.entity, merge.parted) if id is not None}
    known = (await _seqs(tx, "Entity", bank, ids)).keys() | {merge.absorbed for merge in stored}
    facts = await _seqs(tx, "Fact", bank, {mention.fact for merge in stored for mention in merge.mentions})
    return [_without_deleted(merge, known, facts) for merge in stored if merge.entity in known]


def _without_deleted(merge: MergeRecord, known: AbstractSet[str | None], facts: Mapping[str, int]) -> MergeRecord:
    """Return a merge without the facts and the entity that were deleted since."""
    mentions = sorted((each for each in merge.mentions if each.fact in facts), key=lambda each: facts[each.fact])
    parted = merge.parted if merge.absorbed is None and merge.parted in known else None
    return merge.model_copy(update={"mentions": tuple(mentions), "parted": parted})


async def absorbed_numbers(tx: Transaction, bank: str) -> dict[str, int]:
    """Return the numbers of absorbed entities by id: an entity returns under its number when a merge is undone."""
    found = await tx.table(
        "MATCH (m:Merge {bank: $bank}) WHERE m.absorbed_seq IS NOT NULL", "m.absorbed, m.absorbed_seq", bank=bank
    )
    return {id: int(seq) for id, seq in found}


async def save_merges(tx: Transaction, bank: str, new: Sequence[Merge], seqs: Iterator[int]) -> None:
    """Create merges, or replace those of the same ids. Their facts are stored already, and so are their entities.

    An absorbed entity that was never stored, as in an import, gets a number.
    """
    if not new:
        return
    changed = [merge if isinstance(merge, MergeRecord) else MergeRecord.of(merge.model_dump()) for merge in new]
    ids = {id for merge in changed for id in (merge.entity, merge.absorbed, merge.parted) if id is not None}
    numbers = await absorbed_numbers(tx, bank) | await _seqs(tx, "Entity", bank, ids)
    await demand(tx, "Fact", bank, [mention.fact for merge in changed for mention in merge.mentions])
    for id in (merge.absorbed for merge in changed if merge.absorbed is not None):
        numbers.setdefault(id, next(seqs))
    for id in ids:
        if id not in numbers:
            raise missing_reference("entity", id)
    rows = [(merge.id, next(seqs), _merge_properties(merge, numbers.get(merge.absorbed or ""))) for merge in changed]
    await _save(tx, "Merge", bank, rows)


def _merge_properties(merge: MergeRecord, absorbed_seq: int | None) -> Properties:
    shown = {name: getattr(merge, name) for name in ("entity", "absorbed", "reason", "at", "undone_at")}
    return {**shown, "absorbed_seq": absorbed_seq, "names": list(merge.names), "record": merge.model_dump_json()}
