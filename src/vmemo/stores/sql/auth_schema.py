"""The tables of API keys, the audit log and idempotent responses. No bank owns them, and no export contains them."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Index, Integer, MetaData, PrimaryKeyConstraint, Table, Text

auth_metadata = MetaData()
_Number = BigInteger().with_variant(Integer, "sqlite")

api_keys = Table(
    "api_keys",
    auth_metadata,
    Column("seq", _Number, primary_key=True, autoincrement=True),
    Column("id", Text, nullable=False, unique=True),
    Column("digest", Text, nullable=False, unique=True),
    Column("name", Text, nullable=False),
    Column("banks", Text, nullable=False),
    Column("rights", Text, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("expires_at", BigInteger),
    Column("revoked_at", BigInteger),
    sqlite_autoincrement=True,
)
"""`banks` is a JSON list of names and name prefixes."""

audit = Table(
    "audit",
    auth_metadata,
    Column("seq", _Number, primary_key=True, autoincrement=True),
    Column("at", BigInteger, nullable=False),
    Column("key", Text),
    Column("interface", Text, nullable=False),
    Column("verb", Text, nullable=False),
    Column("bank_name", Text),
    Column("request", Text, nullable=False),
    # 0 until the write has ended.
    Column("status", Integer, nullable=False),
    Index("audit_bank", "bank_name", "seq"),
    sqlite_autoincrement=True,
)
"""Entries keep the name of a deleted bank."""

responses = Table(
    "idempotent_responses",
    auth_metadata,
    Column("owner", Text, nullable=False),
    Column("token", Text, nullable=False),
    Column("bank_name", Text, nullable=False),
    Column("fingerprint", Text, nullable=False),
    Column("holder", Text, nullable=False, server_default=""),
    Column("status", Integer),
    Column("body", Text, nullable=False),
    Column("at", BigInteger, nullable=False),
    PrimaryKeyConstraint("owner", "token"),
    Index("idempotent_responses_at", "at"),
)
"""Responses to writes that may be repeated; forgetting something of a bank deletes the bank's responses.

`status` is null until the write takes effect, and `holder` is empty once it has ended. `at` is the time of the last
renewal of the claim, then of the response.
"""
