"""The one schema of all SQL stores. The bank leads every key, and rows refer to each other by number.

`fact_index`, `token_vectors` and `message_words` are SQLite's own (vectors, terms and FTS5); the
migrations make them there. The schema of PostgreSQL is in `vmemo.stores.postgres.schema`.
"""

from __future__ import annotations

from typing import Any, get_args

import sqlalchemy as sa
from sqlalchemy import Table
from sqlalchemy.schema import SchemaItem
from sqlalchemy.types import TypeEngine

from vmemo.models import LinkKind, RevisionKind

metadata = sa.MetaData()
sqlite_metadata = sa.MetaData()
_Number = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def _numbered(name: str, *items: SchemaItem, of_bank: bool = True, ids: bool = False) -> Table:
    """Return a table whose rows have numbers, and ids if `ids`; a number is never used again."""
    first = sa.Column("seq", _Number, primary_key=True, autoincrement=True)
    own = [_bank()] if of_bank else []
    known = [_required("id")] if ids else []
    unique = [sa.UniqueConstraint("bank", "id")] if ids else []
    return Table(name, metadata, first, *own, *known, *items, *unique, sqlite_autoincrement=True)


def _keyed(name: str, *items: SchemaItem) -> Table:
    """Return a table whose rows are found by the bank and further columns of their key."""
    return Table(name, metadata, _bank(primary_key=True), *items, sqlite_with_rowid=False)


def _bank(*, primary_key: bool = False) -> sa.Column[int]:
    return sa.Column("bank", _Number, sa.ForeignKey("banks.seq"), primary_key=primary_key, nullable=False)


def _key(name: str) -> sa.Column[int]:
    return sa.Column(name, _Number, primary_key=True, autoincrement=False)


def _required(name: str, kind: TypeEngine[Any] | type[TypeEngine[Any]] = sa.Text) -> sa.Column[Any]:
    return sa.Column(name, kind, nullable=False)


def _moment(name: str, *, nullable: bool = False) -> sa.Column[int]:
    return sa.Column(name, sa.BigInteger, nullable=nullable, info={"stores": "time"})


def _list(name: str, stores: str = "list") -> sa.Column[str]:
    return sa.Column(name, sa.Text, nullable=False, server_default=sa.text("'[]'"), info={"stores": stores})


def _mapping(name: str) -> sa.Column[str]:
    return sa.Column(name, sa.Text, nullable=False, info={"stores": "mapping"})


def _flag(name: str) -> sa.Column[int]:
    return sa.Column(name, sa.Integer, nullable=False, server_default=sa.text("0"), info={"stores": "flag"})


def _count(name: str) -> sa.Column[int]:
    return sa.Column(name, sa.Integer, nullable=False, server_default=sa.text("0"))


def _partial(name: str, *columns: str, where: str) -> sa.Index:
    return sa.Index(name, *columns, sqlite_where=sa.text(where), postgresql_where=sa.text(where))


banks = _numbered(
    "banks",
    sa.Column("id", sa.Text, nullable=False, unique=True),
    _required("profile"),
    _required("embedder"),
    _required("dimension", sa.Integer),
    _moment("created_at"),
    _count("revision"),
    _count("purges"),
    sa.Column("replaces", _Number),
    sa.Column("engine", sa.Text),
    sa.Column("identity", sa.Text, nullable=False, server_default=sa.text("''")),
    of_bank=False,
)
"""The identity never repeats. A hidden bank has a `replaces`, the bank that it replaces, and a note in `engine`.

See `bank_rows`.
"""

profiles = _numbered(
    "profiles",
    _required("profile"),
    _moment("until"),
    _required("reason"),
    sa.Index("profiles_bank", "bank", "seq"),
)
"""Former profiles; the current one is a column of its bank."""

messages = _numbered(
    "messages",
    _required("role", sa.String(16)),
    sa.Column("speaker", sa.Text),
    _required("content"),
    _moment("timestamp"),
    sa.Column("document", sa.Text),
    sa.Column("key", sa.Text),
    _list("tags"),
    _mapping("metadata"),
    _moment("recorded_at"),
    _required("state", sa.String(16)),
    _count("attempts"),
    sa.Column("error", sa.Text),
    _moment("failed_at", nullable=True),
    _moment("expires_at", nullable=True),
    _partial("messages_expiry", "bank", "expires_at", where="expires_at IS NOT NULL"),
    sa.Index("messages_key", "bank", "document", "key", unique=True),
    sa.Index("messages_queue", "bank", "state", "timestamp", "seq"),
    sa.Index("messages_document", "bank", "document", "timestamp", "seq"),
    ids=True,
)

episodes = _numbered(
    "episodes",
    _required("title"),
    _required("narrative"),
    _moment("started_at"),
    _moment("ended_at"),
    sa.Column("previous", sa.Text),
    _moment("recorded_at"),
    sa.Index("episodes_time", "bank", "ended_at"),
    ids=True,
)

episode_messages = _keyed(
    "episode_messages", _key("episode"), _key("message"), sa.Index("episode_messages_message", "bank", "message")
)

facts = _numbered(
    "facts",
    _required("network", sa.String(16)),
    _required("text"),
    _required("tokens", sa.Integer),
    _moment("occurred_start", nullable=True),
    _moment("occurred_end", nullable=True),
    _moment("mentioned_at"),
    _moment("valid_at", nullable=True),
    _moment("invalid_at", nullable=True),
    _moment("recorded_at"),
    _moment("expired_at", nullable=True),
    sa.Column("confidence", sa.Float),
    _count("access_count"),
    sa.Column("supersedes", sa.Text),
    _list("claims", "claims"),
    _list("tags"),
    _mapping("metadata"),
    _flag("instruction"),
    _flag("pinned"),
    _moment("expires_at", nullable=True),
    _required("revision", sa.Integer),
    _required("record"),
    # SQLite prefers these two to other indexes of the bank only if it compares a second column.
    _partial("facts_instruction", "bank", "instruction", "mentioned_at", where="instruction = 1"),
    _partial("facts_pinned", "bank", "pinned", "mentioned_at", where="pinned = 1"),
    sa.Index("facts_revision", "bank", "revision", "seq"),
    sa.Index("facts_time", "bank", "mentioned_at"),
    sa.Index("facts_supersedes", "bank", "supersedes"),
    ids=True,
)
"""`record` has the other fields of a fact as JSON, its sources and mentions included: a fact is read from its row."""

sources = _keyed(
    "sources",
    _key("fact"),
    sa.Column("kind", sa.Integer, primary_key=True, autoincrement=False),
    _key("source"),
    sa.Index("sources_source", "bank", "kind", "source"),
)

MESSAGE, CONTEXT, EPISODE, BASIS = range(4)
"""Kinds of source: a message that states the fact, one that only gave context, an episode, a fact it rests on."""

entities = _numbered(
    "entities",
    _required("name"),
    _required("type", sa.String(16)),
    _list("aliases"),
    _moment("first_seen"),
    _moment("last_seen"),
    _list("not_aliases"),
    ids=True,
)

mentions = _keyed(
    "mentions",
    _key("fact"),
    _key("entity"),
    sa.Column("name_in_text", sa.Text),
    sa.Index("mentions_entity", "bank", "entity"),
)

entity_names = _keyed(
    "entity_names",
    sa.Column("name", sa.Text, primary_key=True),
    _key("entity"),
    sa.Index("entity_names_entity", "bank", "entity"),
)
"""The folded names and aliases of entities, by which a query's words find them."""

token_vectors = Table(
    "token_vectors",
    metadata,
    sa.Column("fact", _Number, primary_key=True, autoincrement=False),
    _required("width", sa.Integer),
    _required("vectors", sa.LargeBinary),
)
"""Packed as in `vmemo.stores.values`; facts of an embedder without token vectors have no row."""

REVISIONS = f"kind IN ({', '.join(str(get_args(LinkKind).index(kind)) for kind in get_args(RevisionKind))})"
"""The condition of links by which newer facts replace or outdate older ones."""

links = _keyed(
    "links",
    _key("source"),
    _key("target"),
    sa.Column("kind", sa.Integer, primary_key=True, autoincrement=False),
    _required("weight", sa.Float),
    sa.Index("links_target", "bank", "target"),
    # Few links are revisions, and every recall looks for those of its candidates.
    _partial("links_revised", "bank", "target", where=REVISIONS),
)

jobs = _numbered(
    "jobs",
    _required("kind", sa.String(16)),
    _required("key"),
    _mapping("detail"),
    _required("requests", sa.Integer),
    _count("attempts"),
    sa.Column("error", sa.Text),
    _moment("failed_at", nullable=True),
    _moment("due"),
    sa.Column("owner", sa.Text),
    _moment("until", nullable=True),
    _moment("created_at"),
    sa.UniqueConstraint("bank", "kind", "key"),
    sa.Index("jobs_due", "due", "seq"),
)
"""Queued jobs, leased by `owner` until `until`; completed jobs have no row."""

spending = _keyed(
    "spending",
    sa.Column("step", sa.String(32), primary_key=True),
    sa.Column("model", sa.Text, primary_key=True),
    _count("calls"),
    _count("failures"),
    sa.Column("input_tokens", sa.BigInteger, nullable=False),
    sa.Column("output_tokens", sa.BigInteger, nullable=False),
    _required("cost", sa.Float),
)

confidence_changes = _numbered(
    "confidence_changes",
    sa.Column("fact", _Number, nullable=False),
    _required("stance", sa.String(16)),
    _required("before", sa.Float),
    _required("after", sa.Float),
    _list("evidence"),
    _required("reason"),
    _moment("at"),
    sa.Index("confidence_changes_fact", "bank", "fact"),
)
"""Confidence changes of opinions; `evidence` contains the ids of facts."""

merges = _numbered(
    "merges", _required("record"), sa.Column("absorbed", sa.Text), sa.Column("absorbed_seq", _Number), ids=True
)
"""Merges as JSON, with the id and the number of the entity that was absorbed, unless only names were."""

webhooks = _numbered(
    "webhooks",
    _required("url"),
    _required("secret"),
    _list("events"),
    _moment("created_at"),
    _moment("disabled_at", nullable=True),
    ids=True,
)

notes = Table("notes", metadata, sa.Column("name", sa.Text, primary_key=True), _required("value"))

fact_index = Table(
    "fact_index",
    sqlite_metadata,
    sa.Column("fact", sa.Integer, primary_key=True),
    _required("vector", sa.LargeBinary),
    _required("terms", sa.LargeBinary),
)
"""The eight-bit vector of a fact, and the hashes of its words."""
