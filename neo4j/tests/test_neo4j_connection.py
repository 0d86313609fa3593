"""Transactions on a Neo4j server: addresses, errors, and retries."""

from __future__ import annotations

import asyncio
from typing import Final, LiteralString

import pytest

from neo4j_server import driver
from vmemo.errors import InvalidInput, StoreBusy, StoreError
from vmemo_neo4j.connection import GraphAddress, Neo4jConnection, Transaction, parse

ADD = "MERGE (n:Test {namespace: $namespace, name: $name}) SET n.value = coalesce(n.value, 0) + 1"
VALUE = "MATCH (n:Test {namespace: $namespace, name: $name}) RETURN n.value AS value"

LABELS: Final[tuple[LiteralString, ...]] = ("TestA", "TestB", "TestC")


async def add(transaction: Transaction, name: str) -> None:
    await transaction.run(ADD, name=name)


async def value(connection: Neo4jConnection, name: str) -> int | None:
    found = await connection.read(lambda transaction: transaction.one(VALUE, name=name))
    return None if found is None else int(found["value"])


def test_a_url_names_server_user_password_database_and_namespace() -> None:
    address = parse("neo4j+s://me:p%40ss@db.example/graph?namespace=app")
    assert (address.url, address.user, address.password) == ("neo4j+s://db.example:7687", "me", "p@ss")
    assert (address.database, address.namespace, address.routed) == ("graph", "app", True)
    assert "p@ss" not in repr(address)
    assert parse("bolt://[::1]:7000").url == "bolt://[::1]:7000"


@pytest.mark.parametrize(
    ("url", "named"),
    [
        ("neo4j://secret@word@host", "can't be read"),
        ("neo4j://host/a/secret", "can't be read"),
        ("neo4j://", "can't be read"),
        ("neo4j://host:secret", "can't be read"),
        ("neo4j://host?sslmode=secret", "no parameter 'sslmode'"),
        ("neo4j://host/%00secret", "null character"),
    ],
)
def test_a_url_of_another_form_is_refused_without_its_secrets(url: str, named: str) -> None:
    with pytest.raises(InvalidInput, match=named) as raised:
        parse(url)
    assert "secret" not in str(raised.value)


def test_a_failed_transaction_is_rolled_back_and_its_error_passes(neo4j_url: str) -> None:
    asyncio.run(_roll_back(Neo4jConnection(neo4j_url)))


async def _roll_back(connection: Neo4jConnection) -> None:

    async def fail(transaction: Transaction) -> None:
        await add(transaction, "a")
        raise LookupError("mine")

    with pytest.raises(LookupError, match="mine"):
        await connection.write(fail)
    assert await value(connection, "a") is None
    await connection.write(lambda transaction: add(transaction, "a"))
    assert await value(connection, "a") == 1
    with pytest.raises(StoreError, match="SyntaxError"):
        await connection.read(lambda transaction: transaction.rows("RETRUN 1"))
    with pytest.raises(InvalidInput, match="can't hold a value"):
        await connection.write(lambda transaction: transaction.run(ADD, name=1 << 70))
    await connection.close()


def test_of_two_transactions_that_wait_for_each_other_one_runs_again(neo4j_url: str) -> None:
    asyncio.run(_deadlock(Neo4jConnection(neo4j_url)))


async def _deadlock(connection: Neo4jConnection) -> None:
    for name in ("a", "b"):
        await connection.write(lambda transaction, name=name: add(transaction, name))
    both, tries = asyncio.Barrier(2), 0

    async def cross(transaction: Transaction, first: str, second: str) -> None:
        nonlocal tries
        tries += 1
        await add(transaction, first)
        if tries <= 2:
            await both.wait()
        await add(transaction, second)

    await asyncio.gather(
        connection.write(lambda transaction: cross(transaction, "a", "b")),
        connection.write(lambda transaction: cross(transaction, "b", "a")),
    )
    assert tries >= 3
    assert [await value(connection, name) for name in ("a", "b")] == [3, 3]
    await connection.close()


def test_a_transaction_that_the_server_ends_runs_again(neo4j_url: str) -> None:
    asyncio.run(_end(Neo4jConnection(neo4j_url), neo4j_url))


async def _end(connection: Neo4jConnection, url: str) -> None:
    tries, mark = 0, connection.address.namespace
    endless: LiteralString = "UNWIND range(1, 1000000000000) AS n WITH n WHERE n < 0 AND n < size($mark) RETURN n"

    async def wait(transaction: Transaction) -> None:
        nonlocal tries
        tries += 1
        await add(transaction, "ended")
        if tries == 1:
            await transaction.rows(endless, mark=mark)

    def end() -> None:
        running = (
            "SHOW TRANSACTIONS YIELD transactionId, parameters "
            "WHERE parameters.values.mark = $sought RETURN transactionId"
        )
        with driver(url) as connected:
            while not (found := connected.execute_query(running, sought=mark).records):
                pass
            connected.execute_query("TERMINATE TRANSACTIONS $ids", ids=[record["transactionId"] for record in found])

    await asyncio.gather(connection.write(wait), asyncio.to_thread(end))
    assert tries == 2
    assert await value(connection, "ended") == 1
    await connection.close()


def test_processes_that_create_the_same_constraints_at_once_all_succeed(neo4j_url: str) -> None:
    asyncio.run(_create_at_once([Neo4jConnection(neo4j_url) for _ in range(4)]))


async def _create_at_once(connections: list[Neo4jConnection]) -> None:
    async def create(connection: Neo4jConnection) -> None:
        for name in LABELS:
            await connection.alone(f"CREATE CONSTRAINT {name} IF NOT EXISTS FOR (n:{name}) REQUIRE n.x IS UNIQUE")

    await asyncio.gather(*map(create, connections))
    for name in LABELS:
        await connections[0].alone(f"DROP CONSTRAINT {name}")
    for connection in connections:
        await connection.close()


def test_a_server_that_refuses_or_is_not_there_is_named_without_the_password(neo4j_url: str) -> None:
    asyncio.run(_refuse(parse(neo4j_url)))


async def _refuse(address: GraphAddress) -> None:
    wrong = {
        f"bolt://neo4j:wrong-secret@{address.where}": (StoreError, "does not accept the user"),
        f"bolt://neo4j:{address.password}@{address.where}/nowhere": (StoreError, "has no such database"),
        "bolt://neo4j:wrong-secret@127.0.0.1:1": (StoreBusy, "can't be reached"),
    }
    for url, (kind, named) in wrong.items():
        connection = Neo4jConnection(url, busy_seconds=5)
        with pytest.raises(kind, match=named) as raised:
            await connection.read(lambda transaction: transaction.rows("RETURN 1"))
        assert "secret" not in str(raised.value)
        await connection.close()
