"""Namespaces of the shared server, one for each test: Neo4j Community has a single database."""

from __future__ import annotations

import secrets
from collections.abc import Generator
from contextlib import contextmanager
from typing import LiteralString

from neo4j import Driver, GraphDatabase

from vmemo_neo4j.connection import parse

WIPE: LiteralString = """
OPTIONAL MATCH (bank:Bank {namespace: $namespace})
WITH collect(bank.key) AS keys
MATCH (node) WHERE node.namespace = $namespace OR node.bank IN keys
DETACH DELETE node
"""


@contextmanager
def namespace(server: str) -> Generator[str]:
    """Yield the URL of a new namespace, whose nodes are deleted afterwards."""
    name = secrets.token_hex(8)
    url = f"{server}{'&' if '?' in server else '?'}namespace={name}"
    try:
        yield url
    finally:
        with driver(url) as connected:
            connected.execute_query(WIPE, namespace=name, database_=parse(url).database)


def driver(url: str, *, seconds: float = 60.0) -> Driver:
    """Return a driver of the server, without the library, that waits so long for a connection."""
    address = parse(url)
    auth = None if address.user is None else (address.user, address.password)
    return GraphDatabase.driver(  # pyright: ignore[reportUnknownMemberType]
        address.url, auth=auth, connection_timeout=seconds, connection_acquisition_timeout=seconds
    )
