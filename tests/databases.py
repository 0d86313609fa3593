"""Databases for tests that run on each store, and direct queries of them."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, closing
from pathlib import Path

from sqlalchemy import NullPool, make_url, text
from sqlalchemy.ext.asyncio import create_async_engine

from vmemo.ports import Store
from vmemo.settings import build

NewDatabase = Callable[[], AbstractContextManager[str]]
"""The fixture `new_database`: creates a database of a store and returns its URL."""


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
    with closing(sqlite3.connect(url.removeprefix("sqlite:///"), timeout=30)) as connection:
        return connection.execute(statement).fetchall()


async def _postgres_rows(url: str, statement: str) -> list[tuple[object, ...]]:
    engine = create_async_engine(make_url(url).set(drivername="postgresql+asyncpg"), poolclass=NullPool)
    async with engine.connect() as connection:
        return [tuple(row) for row in await connection.execute(text(statement))]


def number(url: str, statement: str) -> int:
    """The one number that a statement answers with."""
    ((value,),) = rows(url, statement)
    assert isinstance(value, int)
    return value


def counts(url: str, statements: Mapping[str, str]) -> dict[str, int]:
    """Return the non-zero counts of statements, in one transaction."""
    (found,) = rows(url, "SELECT " + ", ".join(f"({statement})" for statement in statements.values()))
    return {what: int(str(count)) for what, count in zip(statements, found, strict=True) if count}
