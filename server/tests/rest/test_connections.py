"""Many and unfinished connections: the server answers beside them, up to its limit."""

from __future__ import annotations

from contextlib import ExitStack

import pytest
from raw_http import connect, head, read_all, read_response, status_of

from live_server import HOST, live_server
from vmemo_server.app import ServerOptions

HEALTH = head("/health", method="GET")
UNFINISHED = {
    "idle": b"",
    "half a head": b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nX-",
    "half a body": head("/v1/banks/a/recall", 100) + b"{",
}


@pytest.mark.parametrize("sent", UNFINISHED.values(), ids=UNFINISHED)
def test_server_answers_beside_unfinished_requests_up_to_its_connections(database: str, sent: bytes) -> None:
    options = ServerOptions(hosts=(HOST,), worker=False, connections=5)
    with live_server(database, options=options) as server, ExitStack() as stack:
        waiting = [stack.enter_context(connect(server.url, sent)) for _ in range(4)]
        with connect(server.url, HEALTH) as answered:
            assert status_of(read_response(answered)) == 200
            with connect(server.url, HEALTH) as refused:
                assert status_of(read_all(refused)) == 503
        waiting.pop().close()
        statuses = set[int]()
        while 200 not in statuses:
            with connect(server.url, HEALTH) as again:
                statuses.add(status_of(read_response(again)))
        assert statuses <= {200, 503}


def test_head_that_is_too_large_is_rejected(database: str) -> None:
    with live_server(database) as server, connect(server.url, HEALTH[:-2] + b"X: " + b"x" * 200_000) as connection:
        assert status_of(read_all(connection)) == 400
