"""A Neo4j server of its own is ended and started again under load: nothing is lost, nothing is done twice."""

from collections.abc import Generator

import pytest

from endurance import SECONDS, Load, Server, assert_nothing_lost_or_repeated
from neo4j_server import Neo4jServer, Unavailable

LOAD = Load(workers=2, recalling=2, banks=2, ends=1)


@pytest.fixture
def server() -> Generator[Neo4jServer]:
    """A server for one test: Linux ends it with the thread that started it again."""
    own = Neo4jServer()
    try:
        own.start()
    except Unavailable as error:
        pytest.skip(f"No Neo4j here: {error}")
    with own:
        yield own


@pytest.mark.neo4j
@pytest.mark.timeout(SECONDS + 280)
def test_server_kills_lose_nothing_and_repeat_nothing(server: Neo4jServer) -> None:
    assert_nothing_lost_or_repeated(server.url, Server(server.kill, server.start), LOAD)


@pytest.mark.neo4j
@pytest.mark.timeout(SECONDS + 280)
def test_shutdowns_in_order_lose_nothing_and_repeat_nothing(server: Neo4jServer) -> None:
    assert_nothing_lost_or_repeated(server.url, Server(server.shut_down, server.start), LOAD)
