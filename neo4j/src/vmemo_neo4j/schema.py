"""The graph of the Neo4j store: its labels, relationship types and properties, and the migrations that index them.

Nodes of a bank have a `bank`, the key of their bank, and an `id` that is unique in it. `seq` is the order in which they
were stored. Times are UTC datetimes, tags and names are lists of strings, metadata and profiles are JSON. A property
that has no value is absent; `pinned`, `instruction` and `hidden` are true or absent.

Nodes::

    Bank              namespace, name, key, profile, embedder, dimension, created_at, revision, purges, last_seq;
                      a hidden bank also has hidden, note and replaces, the key of the bank it was derived from
    Message           role, speaker, content, timestamp, document, key, tags, metadata, recorded_at, state, attempts,
                      error, failed_at, expires_at
    Episode           title, narrative, started_at, ended_at, previous, recorded_at
    Fact              network, text, tokens, context, occurred_start, occurred_end, mentioned_at, valid_at, invalid_at,
                      recorded_at, expired_at, confidence, importance, access_count, supersedes, tags, metadata, engine,
                      instruction, pinned, reason, expires_at, revision, embedding, token_vectors, token_width, words,
                      length; began and ended, the occurrence in microseconds since 1970 with its open ends filled in,
                      and span, the least of `nodes.SPANS` that it fits in
    Entity            name, type, aliases, not_aliases, first_seen, last_seen
    EntityName        name: a folded name or alias, by which the words of a query find entities
    ConfidenceChange  stance, before, after, evidence (ids of facts), reason, at
    Merge             entity, absorbed, absorbed_seq, names, reason, at, undone_at, record
    FormerProfile     profile, until, reason
    Job               namespace, number, kind, key, detail, requests, attempts, error, failed_at, due, owner, until,
                      created_at
    Term              token, facts, messages: how many facts and messages hold a word, known by its hash
    Spending          step, model, calls, failures, input_tokens, output_tokens, cost
    Webhook           url, secret, events, created_at, disabled_at

Nodes of no bank: `Sequence` (a counter), `Commit` (a transaction that was committed, so that it is not applied twice),
`DroppedBank` (a deleted bank whose nodes are still being deleted) and `SchemaVersion`.

Relationships::

    (Fact)-[:MENTIONS {name_in_text}]->(Entity)        (Fact)-[:SOURCE]->(Message), which states the fact
    (Fact)-[:CONTEXT]->(Message)                       (Fact)-[:IN_EPISODE]->(Episode)
    (Fact)-[:BASED_ON]->(Fact)                         (Fact)-[:SUPERSEDES]->(Fact)
    (Episode)-[:CONTAINS]->(Message)                   (Episode)-[:FOLLOWS]->(Episode)
    (Entity)-[:KNOWN_AS]->(EntityName)                 (ConfidenceChange)-[:OF]->(Fact)
    (Fact)-[a type of LINK_TYPES {weight}]->(Fact)
"""

from __future__ import annotations

from typing import Final, LiteralString

from vmemo.models import LinkKind

LINK_TYPES: Final[dict[LinkKind, LiteralString]] = {
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

BANK_LABELS: Final[tuple[LiteralString, ...]] = (
    "Message",
    "Episode",
    "Fact",
    "Entity",
    "EntityName",
    "ConfidenceChange",
    "Merge",
    "FormerProfile",
    "Job",
    "Spending",
    "Webhook",
    "Term",
)
"""Labels of the nodes that are deleted with their bank."""


def _unique(label: LiteralString, *properties: LiteralString) -> LiteralString:
    key = ", ".join(f"n.{name}" for name in properties)
    return (
        f"CREATE CONSTRAINT vmemo_{label.lower()}_{'_'.join(properties)} IF NOT EXISTS "
        f"FOR (n:{label}) REQUIRE ({key}) IS UNIQUE"
    )


def _index(label: LiteralString, *properties: LiteralString) -> LiteralString:
    key = ", ".join(f"n.{name}" for name in properties)
    return f"CREATE INDEX vmemo_{label.lower()}_{'_'.join(properties)} IF NOT EXISTS FOR (n:{label}) ON ({key})"


_KEYS: Final = (
    _unique("Bank", "namespace", "name"),
    _unique("Bank", "key"),
    _unique("Message", "bank", "id"),
    _unique("Message", "bank", "document", "key"),
    _unique("Episode", "bank", "id"),
    _unique("Fact", "bank", "id"),
    _unique("Entity", "bank", "id"),
    _unique("EntityName", "bank", "name"),
    _unique("Merge", "bank", "id"),
    _unique("Webhook", "bank", "id"),
    _unique("Spending", "bank", "step", "model"),
    _unique("Term", "bank", "token"),
    _unique("Job", "bank", "kind", "key"),
    _unique("Job", "namespace", "number"),
    _unique("Sequence", "namespace", "name"),
    _unique("Commit", "id"),
    _unique("DroppedBank", "key"),
)

_ORDERS: Final = (
    _index("Bank", "replaces"),
    _index("Message", "bank", "seq"),
    _index("Message", "bank", "state", "timestamp"),
    _index("Message", "bank", "document", "timestamp"),
    _index("Message", "bank", "timestamp"),
    _index("Message", "bank", "expires_at"),
    _index("Episode", "bank", "seq"),
    _index("Episode", "bank", "ended_at"),
    _index("Episode", "bank", "previous"),
    _index("Fact", "bank", "seq"),
    _index("Fact", "bank", "mentioned_at"),
    _index("Fact", "bank", "revision"),
    _index("Fact", "bank", "span", "began"),
    _index("Fact", "bank", "supersedes"),
    _index("Fact", "bank", "pinned"),
    _index("Fact", "bank", "instruction"),
    _index("Entity", "bank", "seq"),
    _index("ConfidenceChange", "bank", "seq"),
    _index("Merge", "bank", "seq"),
    _index("FormerProfile", "bank", "seq"),
    _index("Webhook", "bank", "seq"),
    _index("Job", "namespace", "due"),
    _index("Commit", "at"),
)

_BANKS: Final[tuple[LiteralString, ...]] = tuple([_index(label, "bank") for label in BANK_LABELS])

_WORDS: Final[tuple[LiteralString, ...]] = (
    "CREATE FULLTEXT INDEX vmemo_fact_words IF NOT EXISTS FOR (n:Fact) ON EACH [n.words] "
    "OPTIONS {indexConfig: {`fulltext.analyzer`: 'whitespace'}}",
    "CREATE FULLTEXT INDEX vmemo_message_words IF NOT EXISTS FOR (n:Message) ON EACH [n.words] "
    "OPTIONS {indexConfig: {`fulltext.analyzer`: 'whitespace'}}",
)

MIGRATIONS: Final[tuple[tuple[LiteralString, ...], ...]] = ((*_KEYS, *_BANKS, *_ORDERS, *_WORDS),)
"""Statements by version, the first for version 1. Each is safe to run again, because schema changes are committed one
by one and the version is stored last."""
