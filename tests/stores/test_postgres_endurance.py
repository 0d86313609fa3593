"""PostgreSQL is killed and started again under load: nothing is lost, nothing is done twice."""

import pytest

from endurance import SECONDS, Load, Server, assert_nothing_lost_or_repeated
from vmemo_bench.embedded_postgres import EmbeddedPostgres


@pytest.mark.timeout(SECONDS + 280)
def test_server_kills_lose_nothing_and_repeat_nothing(postgres: EmbeddedPostgres, postgres_url: str) -> None:
    server = Server(postgres.kill, postgres.start)
    assert_nothing_lost_or_repeated(postgres_url, server, Load(workers=6, recalling=8, banks=4))
