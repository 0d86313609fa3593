"""The one schema of all SQL stores. The bank leads every key, and rows refer to each other by number.

`fact_index`, `token_vectors` and `message_words` are SQLite's own (vectors, terms and FTS5); the
migrations make them there. The schema of PostgreSQL is in `vmemo.stores.postgres.schema`.
"""

from __future__ import annotations

from typing import get_args

from sqlalchemy import (
    BigInteger,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
    text,
)

from vmemo.models import LinkKind, RevisionKind

metadata = MetaData()
_Number = BigInteger().with_variant(Integer, "sqlite")


def _seq() -> Column[int]:
    return Column("seq", _Number, primary_key=True, autoincrement=True)


def _bank(*, primary_key: bool = False) -> Column[int]:
    return Column("bank", _Number, ForeignKey("banks.seq"), primary_key=primary_key, nullable=False)


def _key(name: str) -> Column[int]:
    return Column(name, _Number, primary_key=True, autoincrement=False)


def _required(name: str) -> Column[str]:
    return Column(name, Text, nullable=False)


def _moment(name: str, *, nullable: bool = False) -> Column[int]:
    return Column(name, BigInteger, nullable=nullable, info={"stores": "time"})


def _list(name: str) -> Column[str]:
    return Column(name, Text, nullable=False, server_default=text("'[]'"), info={"stores": "list"})


def _claims() -> Column[str]:
    return Column("claims", Text, nullable=False, server_default=text("'[]'"), info={"stores": "claims"})


def _mapping(name: str) -> Column[str]:
    return Column(name, Text, nullable=False, info={"stores": "mapping"})


def _flag(name: str) -> Column[int]:
    return Column(name, Integer, nullable=False, server_default=text("0"), info={"stores": "flag"})


def _count(name: str) -> Column[int]:
    return Column(name, Integer, nullable=False, server_default=text("0"))


banks = Table(
    "banks",
    metadata,
    _seq(),
    Column("id", Text, nullable=False, unique=True),
    _required("profile"),
    _required("embedder"),
    Column("dimension", Integer, nullable=False),
    _moment("created_at"),
    _count("revision"),
    _count("purges"),
    Column("replaces", _Number),
    Column("engine", Text),
    Column("identity", Text, nullable=False, server_default=text("''")),
    sqlite_autoincrement=True,
)
"""The identity never repeats. A hidden bank has a `replaces`, the bank that it replaces, and a note in `engine`.

See `bank_rows`.
"""

profiles = Table(
    "profiles",
    metadata,
    _seq(),
    _bank(),
    _required("profile"),
    _moment("until"),
    _required("reason"),
    Index("profiles_bank", "bank", "seq"),
    sqlite_autoincrement=True,
)
"""Former profiles; the current one is a column of its bank."""

messages = Table(
    "messages",
    metadata,
    _seq(),
    _bank(),
    _required("id"),
    Column("role", String(16), nullable=False),
    Column("speaker", Text),
    _required("content"),
    _moment("timestamp"),
    Column("document", Text),
    Column("key", Text),
    _list("tags"),
    _mapping("metadata"),
    _moment("recorded_at"),
    Column("state", String(16), nullable=False),
    _count("attempts"),
    Column("error", Text),
    _moment("failed_at", nullable=True),
    _moment("expires_at", nullable=True),
    UniqueConstraint("bank", "id"),
    Index(
        "messages_expiry",
        "bank",
        "expires_at",
        sqlite_where=text("expires_at IS NOT NULL"),
        postgresql_where=text("expires_at IS NOT NULL"),
    ),
    Index("messages_key", "bank", "document", "key", unique=True),
    Index("messages_queue", "bank", "state", "timestamp", "seq"),
    Index("messages_document", "bank", "document", "timestamp", "seq"),
    sqlite_autoincrement=True,
)

episodes = Table(
    "episodes",
    metadata,
    _seq(),
    _bank(),
    _required("id"),
    _required("title"),
    _required("narrative"),
    _moment("started_at"),
    _moment("ended_at"),
    Column("previous", Text),
    _moment("recorded_at"),
    UniqueConstraint("bank", "id"),
    Index("episodes_time", "bank", "ended_at"),
    sqlite_autoincrement=True,
)

episode_messages = Table(
    "episode_messages",
    metadata,
    _bank(primary_key=True),
    _key("episode"),
    _key("message"),
    Index("episode_messages_message", "bank", "message"),
    sqlite_with_rowid=False,
)

facts = Table(
    "facts",
    metadata,
    _seq(),
    _bank(),
    _required("id"),
    Column("network", String(16), nullable=False),
    _required("text"),
    Column("tokens", Integer, nullable=False),
    _moment("occurred_start", nullable=True),
    _moment("occurred_end", nullable=True),
    _moment("mentioned_at"),
    _moment("valid_at", nullable=True),
    _moment("invalid_at", nullable=True),
    _moment("recorded_at"),
    _moment("expired_at", nullable=True),
    Column("confidence", Float),
    _count("access_count"),
    Column("supersedes", Text),
    _claims(),
    _list("tags"),
    _mapping("metadata"),
    _flag("instruction"),
    _flag("pinned"),
    _moment("expires_at", nullable=True),
    Column("revision", Integer, nullable=False),
    _required("record"),
    UniqueConstraint("bank", "id"),
    Index(
        "facts_instruction",
        "bank",
        # SQLite prefers this index to others of the bank only if it compares a second column.
        "instruction",
        "mentioned_at",
        sqlite_where=text("instruction = 1"),
        postgresql_where=text("instruction = 1"),
    ),
    Index(
        "facts_pinned",
        "bank",
        "pinned",
        "mentioned_at",
        sqlite_where=text("pinned = 1"),
        postgresql_where=text("pinned = 1"),
    ),
    Index("facts_revision", "bank", "revision", "seq"),
    Index("facts_time", "bank", "mentioned_at"),
    Index("facts_supersedes", "bank", "supersedes"),
    sqlite_autoincrement=True,
)
"""`record` has the other fields of a fact as JSON, its sources and mentions included: a fact is read from its row."""

sources = Table(
    "sources",
    metadata,
    _bank(primary_key=True),
    _key("fact"),
    Column("kind", Integer, primary_key=True, autoincrement=False),
    _key("source"),
    Index("sources_source", "bank", "kind", "source"),
    sqlite_with_rowid=False,
)

MESSAGE, CONTEXT, EPISODE, BASIS = range(4)
"""Kinds of source: a message that states the fact, one that only gave context, an episode, a fact it rests on."""

entities = Table(
    "entities",
    metadata,
    _seq(),
    _bank(),
    _required("id"),
    _required("name"),
    Column("type", String(16), nullable=False),
    _list("aliases"),
    _moment("first_seen"),
    _moment("last_seen"),
    _list("not_aliases"),
    UniqueConstraint("bank", "id"),
    sqlite_autoincrement=True,
)

mentions = Table(
    "mentions",
    metadata,
    _bank(primary_key=True),
    _key("fact"),
    _key("entity"),
    Column("name_in_text", Text),
    Index("mentions_entity", "bank", "entity"),
    sqlite_with_rowid=False,
)

entity_names = Table(
    "entity_names",
    metadata,
    _bank(primary_key=True),
    Column("name", Text, primary_key=True),
    _key("entity"),
    Index("entity_names_entity", "bank", "entity"),
    sqlite_with_rowid=False,
)
"""The folded names and aliases of entities, by which a query's words find them."""

token_vectors = Table(
    "token_vectors",
    metadata,
    Column("fact", _Number, primary_key=True, autoincrement=False),
    Column("width", Integer, nullable=False),
    Column("vectors", LargeBinary, nullable=False),
)
"""Packed as in `vmemo.stores.values`; facts of an embedder without token vectors have no row."""

REVISIONS = f"kind IN ({', '.join(str(get_args(LinkKind).index(kind)) for kind in get_args(RevisionKind))})"
"""The condition of links by which newer facts replace or outdate older ones."""

links = Table(
    "links",
    metadata,
    _bank(primary_key=True),
    _key("source"),
    _key("target"),
    Column("kind", Integer, primary_key=True, autoincrement=False),
    Column("weight", Float, nullable=False),
    Index("links_target", "bank", "target"),
    # Few links are revisions, and every recall looks for those of its candidates.
    Index("links_revised", "bank", "target", sqlite_where=text(REVISIONS), postgresql_where=text(REVISIONS)),
    sqlite_with_rowid=False,
)

jobs = Table(
    "jobs",
    metadata,
    _seq(),
    _bank(),
    Column("kind", String(16), nullable=False),
    _required("key"),
    _mapping("detail"),
    Column("requests", Integer, nullable=False),
    _count("attempts"),
    Column("error", Text),
    _moment("failed_at", nullable=True),
    _moment("due"),
    Column("owner", Text),
    _moment("until", nullable=True),
    _moment("created_at"),
    UniqueConstraint("bank", "kind", "key"),
    Index("jobs_due", "due", "seq"),
    sqlite_autoincrement=True,
)
"""Queued jobs, leased by `owner` until `until`; completed jobs have no row."""

spending = Table(
    "spending",
    metadata,
    _bank(primary_key=True),
    Column("step", String(32), primary_key=True),
    Column("model", Text, primary_key=True),
    _count("calls"),
    _count("failures"),
    Column("input_tokens", BigInteger, nullable=False),
    Column("output_tokens", BigInteger, nullable=False),
    Column("cost", Float, nullable=False),
    sqlite_with_rowid=False,
)

confidence_changes = Table(
    "confidence_changes",
    metadata,
    _seq(),
    _bank(),
    Column("fact", _Number, nullable=False),
    Column("stance", String(16), nullable=False),
    Column("before", Float, nullable=False),
    Column("after", Float, nullable=False),
    _list("evidence"),
    _required("reason"),
    _moment("at"),
    Index("confidence_changes_fact", "bank", "fact"),
    sqlite_autoincrement=True,
)
"""Confidence changes of opinions; `evidence` contains the ids of facts."""

merges = Table(
    "merges",
    metadata,
    _seq(),
    _bank(),
    _required("id"),
    _required("record"),
    Column("absorbed", Text),
    Column("absorbed_seq", _Number),
    UniqueConstraint("bank", "id"),
    sqlite_autoincrement=True,
)
"""Merges as JSON, with the id and the number of the entity that was absorbed, unless only names were."""

webhooks = Table(
    "webhooks",
    metadata,
    _seq(),
    _bank(),
    _required("id"),
    _required("url"),
    _required("secret"),
    _list("events"),
    _moment("created_at"),
    _moment("disabled_at", nullable=True),
    UniqueConstraint("bank", "id"),
    sqlite_autoincrement=True,
)

notes = Table("notes", metadata, Column("name", Text, primary_key=True), _required("value"))

sqlite_metadata = MetaData()

fact_index = Table(
    "fact_index",
    sqlite_metadata,
    Column("fact", Integer, primary_key=True),
    Column("vector", LargeBinary, nullable=False),
    Column("terms", LargeBinary, nullable=False),
)
"""The eight-bit vector of a fact, and the hashes of its words."""
