"""What tests share that run on each store: how databases are made, and how they are looked into from outside."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, closing

from sqlalchemy import NullPool, make_url, text
from sqlalchemy.ext.asyncio import create_async_engine

from vmemo.ports import Store
from vmemo.settings import build

NewDatabase = Callable[[], AbstractContextManager[str]]
"""What the fixture `new_database` is: it makes databases of one store or the other, and gives their URLs."""


def store_at(url: str) -> Store:
    """The store alone, as a memory would open it."""
    return build(url, llm=None, embedder=None, reranker=None, settings=None).store


def rows(url: str, statement: str) -> list[tuple[object, ...]]:
    """What a statement says about the database, asked from outside the library."""
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
    """What each statement counts, all of one moment; those that count nothing are left out."""
    (found,) = rows(url, "SELECT " + ", ".join(f"({statement})" for statement in statements.values()))
    return {what: int(str(count)) for what, count in zip(statements, found, strict=True) if count}
