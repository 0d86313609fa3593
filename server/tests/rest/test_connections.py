"""Slow, idle and many connections: each is bounded, and none keeps the server from answering others."""

from __future__ import annotations

import asyncio
import resource
import time
from collections.abc import AsyncGenerator
from contextlib import ExitStack, suppress
from select import select
from socket import socket
from threading import Event

import pytest
from fastapi import FastAPI
from fastapi.responses import Response, StreamingResponse
from raw_http import connect, head, read_all, read_response, status_of

from live_server import HOST, live_server, run_app
from max_wait import MAX_WAIT
from vmemo import InvalidInput
from vmemo_server.app import ServerOptions
from vmemo_server.connections import RESERVED_FILES, ConnectionLimits

HALF = b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nX-"
HALF_BODY = head("/v1/banks/a/recall", 100) + b"{"
QUERY = b'{"query": "Ana"}'
GET = b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
PATIENT = {"header_seconds": MAX_WAIT, "body_seconds": MAX_WAIT}


def options(**limits: float) -> ServerOptions:
    return ServerOptions(hosts=(HOST,), worker=False, connections=ConnectionLimits(**limits))  # pyright: ignore[reportArgumentType]


def test_head_that_does_not_arrive_in_time_closes_the_connection(database: str) -> None:
    with live_server(database, options=options(header_seconds=0.1)) as server:
        for sent in (b"", HALF, head("/health", method="GET") + HALF):
            with connect(server.url, sent) as connection:
                read_all(connection)


def test_sending_byte_by_byte_does_not_prolong_the_time_for_a_head(database: str) -> None:
    with live_server(database, options=options(header_seconds=0.1)) as server, connect(server.url) as connection:
        connection.settimeout(0.01)
        for byte in HALF * 200:
            connection.sendall(bytes([byte]))
            with suppress(TimeoutError):
                assert connection.recv(1) == b""
                return
        pytest.fail("the connection stayed open")


@pytest.mark.parametrize("limit", ["connections", "connections_per_address"])
@pytest.mark.parametrize("sent", [b"", HALF, HALF_BODY], ids=["idle", "half a head", "half a body"])
def test_server_answers_beside_more_unfinished_requests_than_it_has_connections(
    database: str, limit: str, sent: bytes
) -> None:
    with live_server(database, options=options(**PATIENT, **{limit: 5})) as server, ExitStack() as stack:
        waiting = [stack.enter_context(connect(server.url, sent)) for _ in range(12)]
        with server.http() as client:
            assert client.get("/health").status_code == 200
        closed = set[socket]()
        while len(closed) < 7:
            ready, _, _ = select([each for each in waiting if each not in closed], [], [], MAX_WAIT)
            assert ready
            closed |= {each for each in ready if read_all(each) == b""}


def test_displaced_connection_is_the_one_that_has_waited_longest_for_a_request(database: str) -> None:
    with live_server(database, options=options(**PATIENT, connections=3)) as server, ExitStack() as stack:
        with server.http() as client:
            client.put("/v1/banks/a")
            body = stack.enter_context(connect(server.url, head("/v1/banks/a/recall", len(QUERY)) + QUERY[:-1]))
            # A response shows that the server has handled what was sent before.
            assert client.get("/health").status_code == 200
        first, second = (stack.enter_context(connect(server.url, HALF)) for _ in range(2))
        for displaced in (first, second):
            new = stack.enter_context(connect(server.url, head("/health", method="GET")))
            assert status_of(read_response(new)) == 200
            assert read_all(displaced) == b""
        body.sendall(QUERY[-1:])
        assert status_of(read_response(body)) == 200


def test_new_connection_is_refused_while_every_other_is_being_answered() -> None:
    app, begun, proceed = FastAPI(), Event(), Event()

    @app.get("/")
    def wait() -> str:
        begun.set()
        assert proceed.wait(MAX_WAIT)
        return "done"

    with run_app(app, ConnectionLimits(connections=1)) as url, connect(url, GET) as running:
        assert begun.wait(MAX_WAIT)
        with connect(url) as refused:
            response = read_all(refused)
            assert status_of(response) == 503
            assert b"Retry-After: 1\r\n" in response
        proceed.set()
        assert status_of(read_response(running)) == 200


def test_client_that_does_not_read_its_response_is_disconnected() -> None:
    app, ended = FastAPI(), Event()

    async def endless() -> AsyncGenerator[bytes]:
        try:
            while True:
                yield b"x" * 100_000
                await asyncio.sleep(0)
        finally:
            ended.set()

    @app.get("/")
    async def stream() -> StreamingResponse:
        return StreamingResponse(endless())

    with run_app(app, ConnectionLimits(header_seconds=0.1)) as url, connect(url, GET):
        assert ended.wait(MAX_WAIT)


def test_client_that_reads_a_large_response_slowly_gets_all_of_it() -> None:
    app = FastAPI()

    @app.get("/")
    async def large() -> Response:
        return Response(b"x" * 8_000_000)

    received = 0
    with run_app(app, ConnectionLimits(header_seconds=1.0, bytes_per_second=1.0)) as url, connect(url, GET) as reader:
        while received < 8_000_000 and (more := reader.recv(200_000)):
            received += len(more)
            time.sleep(0.05)
    assert received >= 8_000_000


def test_connections_leave_open_files_for_everything_else() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (600, hard))
    try:
        assert ConnectionLimits(connections=1_000).usable_connections == 600 - RESERVED_FILES
        assert ConnectionLimits(connections=100).usable_connections == 100
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.parametrize("limit", ["connections", "connections_per_address", "header_seconds", "buffered_bytes"])
def test_limits_must_be_positive(limit: str) -> None:
    with pytest.raises(InvalidInput, match=limit):
        options(**{limit: 0})
