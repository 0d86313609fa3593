"""Databases for tests that run on each store, and direct queries of them."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, closing
from pathlib import Path
from typing import Final, Literal, LiteralString, cast

from neo4j import Record
from sqlalchemy import NullPool, make_url, text
from sqlalchemy.ext.asyncio import create_async_engine

from max_wait import MAX_WAIT
from neo4j_server.namespaces import driver
from vmemo.ports import Store
from vmemo.settings import build
from vmemo_neo4j.connection import parse

NewDatabase = Callable[[], AbstractContextManager[str]]
"""The fixture `new_database`: creates a database of a store and returns its URL."""
StoreName = Literal["sqlite", "postgres", "neo4j"]
Table = Literal["messages", "facts", "entities", "webhooks"]
LABELS: Final[dict[Table, str]] = {
    "messages": "Message",
    "facts": "Fact",
    "entities": "Entity",
    "webhooks": "Webhook",
}
_BANKS = "MATCH (b:Bank {namespace: $namespace})"


def store_name(url: str) -> StoreName:
    """Return the store that a URL of the fixtures belongs to."""
    if url.startswith("sqlite"):
        return "sqlite"
    return "postgres" if url.startswith("postgresql") else "neo4j"


def without_schema(url: str) -> str:
    """Remove the file of a new SQLite database, so that the next process that opens it creates the schema."""
    if url.startswith("sqlite"):
        Path(url.removeprefix("sqlite:///")).unlink()
    return url


def store_at(url: str) -> Store:
    """The store alone, as a memory would open it."""
    return build(url, llm=None, embedder=None, reranker=None, settings=None).store


def rows(url: str, statement: str) -> list[tuple[object, ...]]:
    """Return the result of a statement, without the library."""
    if url.startswith("postgresql"):
        return asyncio.run(_postgres_rows(url, statement))
    with closing(sqlite3.connect(url.removeprefix("sqlite:///"), timeout=MAX_WAIT)) as connection:
        return connection.execute(statement).fetchall()


async def _postgres_rows(url: str, statement: str) -> list[tuple[object, ...]]:
    engine = create_async_engine(make_url(url).set(drivername="postgresql+asyncpg"), poolclass=NullPool)
    async with engine.connect() as connection:
        return [tuple(row) for row in await connection.execute(text(statement))]


def column(url: str, table: Table, name: str) -> list[object]:
    """Return a column of all rows of a table, or that property of all nodes of its label."""
    if store_name(url) == "neo4j":
        found = _records(url, f"{_BANKS} MATCH (n:{LABELS[table]} {{bank: b.key}}) RETURN n.{name} AS value")
        return [record["value"] for record in found]
    return [value for (value,) in rows(url, f"SELECT {name} FROM {table}")]


def counts(url: str, statements: Mapping[str, str]) -> dict[str, int]:
    """Return the non-zero counts of statements, in one transaction; on Neo4j, of patterns about a bank `b`."""
    if store_name(url) == "neo4j":
        names = [f"count{number}" for number in range(len(statements))]
        patterns = zip(statements.values(), names, strict=True)
        calls = " ".join(f"CALL (b) {{ {pattern} RETURN count(*) AS {name} }}" for pattern, name in patterns)
        found = [record.values() for record in _records(url, f"{_BANKS} {calls} RETURN {', '.join(names)}")]
    else:
        found = rows(url, "SELECT " + ", ".join(f"({statement})" for statement in statements.values()))
    each = dict(zip(statements, zip(*found, strict=True), strict=False))
    return {what: sum(numbers) for what, numbers in each.items() if any(numbers)}


def _records(url: str, statement: str) -> list[Record]:
    address = parse(url)
    with driver(url) as connected:
        return connected.execute_query(
            cast(LiteralString, statement), namespace=address.namespace, database_=address.database
        ).records


def graph(url: str) -> str:
    """Return all properties of the nodes and relationships of a Neo4j namespace as text."""
    found = _records(
        url,
        "OPTIONAL MATCH (bank:Bank {namespace: $namespace}) WITH collect(bank.key) AS keys "
        "MATCH (node) WHERE node.namespace = $namespace OR node.bank IN keys "
        "OPTIONAL MATCH (node)-[r]->() RETURN properties(node) AS node, collect(properties(r)) AS related",
    )
    return str([(record["node"], record["related"]) for record in found])
