"""The graph of the Neo4j store: its labels, relationship types and properties, and the migrations that index them.

Nodes of a bank have a `bank`, the key of their bank, and an `id` that is unique in it. `seq` is the order in which they
were stored. Times are UTC datetimes, tags and names are lists of strings, metadata and profiles are JSON. A property
that has no value is absent; `pinned`, `instruction` and `hidden` are true or absent.

Nodes::

    Bank              namespace, name, key, profile, embedder, dimension, created_at, revision, last_seq;
                      a hidden bank also has hidden, note and replaces, the key of the bank it was derived from
    Message           role, speaker, content, timestamp, document, key, tags, metadata, metadata_items, recorded_at,
                      state, attempts, error, failed_at, expires_at
    Episode           title, narrative, started_at, ended_at, previous, recorded_at
    Fact              network, text, tokens, context, occurred_start, occurred_end, mentioned_at, valid_at, invalid_at,
                      recorded_at, expired_at, confidence, importance, access_count, supersedes, claims, tags, metadata,
                      metadata_items, engine, instruction, pinned, reason, expires_at, embedding, token_vectors,
                      token_width, words; began and ended, the occurrence in microseconds since 1970 with its open ends
                      filled in
    Entity            name, type, aliases, not_aliases, first_seen, last_seen
    EntityName        name: a folded name or alias, by which the words of a query find entities
    ConfidenceChange  stance, before, after, evidence (ids of facts), reason, at
    Merge             entity, absorbed, absorbed_seq, names, reason, at, undone_at, record
    FormerProfile     profile, until, reason
    Job               namespace, number, kind, key, detail, requests, attempts, error, failed_at, due, owner, until,
                      created_at
    Spending          step, model, calls, failures, input_tokens, output_tokens, cost
    Webhook           url, secret, events, created_at, disabled_at

Nodes of no bank: `Commit` (a transaction that was committed, so that it is not applied twice), `DroppedBank` (a deleted
bank whose nodes are still being deleted) and `SchemaVersion`.

docs/neo4j.md lists the relationships.
"""

from __future__ import annotations

from typing import Final

from vmemo.models import LinkKind
from vmemo.stores import values
from vmemo_neo4j.connection import Neo4jConnection, Transaction

LINK_TYPES: Final[dict[LinkKind, str]] = {
    "temporal": "NEAR_IN_TIME",
    "semantic": "SIMILAR_TO",
    "entity": "SHARES_ENTITY",
    "causes": "CAUSES",
    "caused_by": "CAUSED_BY",
    "enables": "ENABLES",
    "prevents": "PREVENTS",
    "replaces": "REPLACES",
    "outdates": "OUTDATES",
}
"""The relationship type of each kind of link. Links by shared entities are computed from mentions, and never stored."""

BANK_LABELS: Final = tuple(
    "Message Episode Fact Entity EntityName ConfidenceChange Merge FormerProfile Job Spending Webhook".split()
)
"""Labels of the nodes that are deleted with their bank."""
_UNIQUE: Final = {
    "Bank": ("namespace name", "key"),
    "Message": ("bank id", "bank document key"),
    "Episode": ("bank id",),
    "Fact": ("bank id",),
    "Entity": ("bank id",),
    "EntityName": ("bank name",),
    "Merge": ("bank id",),
    "Webhook": ("bank id",),
    "Spending": ("bank step model",),
    "Job": ("bank kind key", "namespace number"),
    "Commit": ("id",),
    "DroppedBank": ("key",),
}
"""Properties by label that are unique together."""
_INDEXED: Final = {
    "Bank": ("replaces",),
    "Message": ("seq", "state timestamp", "document timestamp", "timestamp", "expires_at"),
    "Episode": ("seq", "ended_at", "previous"),
    "Fact": ("seq", "mentioned_at", "began", "supersedes", "pinned", "instruction"),
    "Entity": ("seq",),
    "ConfidenceChange": ("seq",),
    "Merge": ("seq",),
    "FormerProfile": ("seq",),
    "Webhook": ("seq",),
    "Job": ("due",),
    "Commit": ("at",),
}
"""Properties by label that are indexed together, after the bank of a record of a bank and the namespace of a job."""
_FIRST: Final = {**dict.fromkeys(BANK_LABELS, "bank "), "Job": "namespace ", "Bank": "", "Commit": ""}


def _named(label: str, properties: str) -> tuple[str, str]:
    """Return the name of an index or constraint, and its properties in Cypher."""
    names = properties.split()
    return f"vmemo_{label.lower()}_{'_'.join(names)} IF NOT EXISTS FOR (n:{label})", ", ".join(f"n.{n}" for n in names)


def _statements() -> list[str]:
    """Return the statements that create all constraints and indexes."""
    unique = [_named(label, key) for label, keys in _UNIQUE.items() for key in keys]
    ordered = [_named(label, _FIRST[label] + key) for label, keys in _INDEXED.items() for key in keys]
    ordered += [_named(label, "bank") for label in BANK_LABELS]
    return [
        *(f"CREATE CONSTRAINT {name} REQUIRE ({key}) IS UNIQUE" for name, key in unique),
        *(f"CREATE INDEX {name} ON ({key})" for name, key in ordered),
        *(
            f"CREATE FULLTEXT INDEX vmemo_{label.lower()}_words IF NOT EXISTS FOR (n:{label}) ON EACH [n.words] "
            "OPTIONS {indexConfig: {`fulltext.analyzer`: 'whitespace'}}"
            for label in ("Fact", "Message")
        ),
    ]


MIGRATIONS: Final = (_statements(),)
"""Statements by version, the first for version 1. Each is safe to run again, because schema changes are committed one
by one and the version is stored last."""
HEAD: Final = f"{len(MIGRATIONS):04}"
"""The schema that this release writes."""
INDEX_SECONDS: Final = 300
"""Seconds that the upgrade waits for new indexes to be filled."""


async def current(tx: Transaction) -> str | None:
    """Return the database's version, or None if it has no schema of vmemo."""
    row = await tx.one("MATCH (v:SchemaVersion {of: 'vmemo'}) RETURN max(v.version) AS version")
    return None if row is None else row["version"]


async def prepare(connection: Neo4jConnection, *, as_is: bool) -> None:
    """Upgrade the schema, or refuse one that would have to be changed if it is to be used as it is."""
    version = await connection.read(current)
    values.refuse_newer_schema(version, HEAD)
    if as_is:
        values.refuse_other_schema(version, HEAD)
    elif version != HEAD:
        await _upgrade(connection, 0 if version is None else int(version))


async def _upgrade(connection: Neo4jConnection, version: int) -> None:
    """Run the migrations after a version. Neo4j commits each statement on its own; all of them may run again."""
    for statements in MIGRATIONS[version:]:
        for statement in statements:
            await connection.alone(statement)
    await connection.alone("CALL db.awaitIndexes($seconds)", seconds=INDEX_SECONDS)
    await connection.alone("MERGE (v:SchemaVersion {of: 'vmemo'}) SET v.version = $version", version=HEAD)


NUMBERED: Final = (
    "MATCH (b:Bank {key: $bank}) SET b.last_seq = b.last_seq + size($rows) WITH b.last_seq - size($rows) AS last "
    "UNWIND range(1, size($rows)) AS place WITH $rows[place - 1] AS row, last + place AS seq "
)
"""Begins a statement that creates a record for each `row` under the number `seq`."""
