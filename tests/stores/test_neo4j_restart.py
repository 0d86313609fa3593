"""A Neo4j server of its own is killed and started again under load: nothing is lost, nothing is done twice."""

import pytest
from endurance import SECONDS, Load, assert_nothing_lost_or_repeated

from neo4j_server import Neo4jServer, Unavailable


@pytest.mark.neo4j
@pytest.mark.timeout(SECONDS + 280)
def test_server_kills_lose_nothing_and_repeat_nothing() -> None:
    server = Neo4jServer()
    try:
        server.start()
    except Unavailable as error:
        pytest.skip(f"No Neo4j here: {error}")
    with server:
        assert_nothing_lost_or_repeated(server.url, server, Load(workers=2, recalling=2, banks=2, kills=1))
