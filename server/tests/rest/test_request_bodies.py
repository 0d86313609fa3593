"""Request bodies: read after authentication only, within limits of time and memory."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress

import httpx2
import pytest
from fastapi import Response
from pydantic import JsonValue
from raw_http import connect, head, read_all, read_response, status_of
from starlette.types import Message, Receive, Scope, Send

from live_server import HOST, LiveServer, live_server
from vmemo_server import request_body
from vmemo_server.app import ServerOptions
from vmemo_server.auth import Limits
from vmemo_server.problems import HttpProblem
from vmemo_server.request_body import MAX_JSON_VALUES, BodyLimitMiddleware, JsonValueCounter

BODY = b'{"query": "Ana"}'
PATHS = ["/v1/banks/a/messages", "/v1/banks/a/recall", "/v1/keys", "/v1/default/banks/a/memories", "/mcp"]


def recall(client: httpx2.Client, body: bytes) -> httpx2.Response:
    return client.post("/v1/banks/a/recall", content=body, headers={"Content-Type": "application/json"})


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("headers", [[], ["X-Api-Key: vmemo_unknown"]], ids=["no key", "unknown key"])
def test_request_without_a_valid_key_is_rejected_before_its_body_is_sent(
    keyed_server: LiveServer, path: str, headers: list[str]
) -> None:
    with connect(keyed_server.url, head(path, 5_000_000, *headers)) as connection:
        assert status_of(read_response(connection)) == 401


def test_body_of_a_request_without_a_key_is_not_parsed(keyed_server: LiveServer) -> None:
    with keyed_server.http() as client:
        assert recall(client, b"{").status_code == 401


@pytest.mark.parametrize(("length", "status"), [(3_000_000, 401), (20_000_000, 413)])
def test_client_that_sends_all_of_a_rejected_body_gets_the_response(
    keyed_server: LiveServer, length: int, status: int
) -> None:
    with connect(keyed_server.url, head(PATHS[0], length)) as rejected:
        for _ in range(length // 100_000):
            rejected.sendall(b" " * 100_000)
        assert status_of(read_response(rejected)) == status
        rejected.sendall(head("/health", method="GET"))
        assert status_of(read_response(rejected)) == 200


def test_connection_stays_open_if_the_next_head_arrives_with_the_rest_of_a_rejected_body(
    keyed_server: LiveServer,
) -> None:
    request = head(PATHS[0], len(BODY))
    with connect(keyed_server.url, request) as rejected:
        assert status_of(read_response(rejected)) == 401
        rejected.sendall(BODY + request)
        assert status_of(read_response(rejected)) == 401
        rejected.sendall(BODY + request + BODY)
        assert status_of(read_response(rejected)) == 401


@pytest.mark.parametrize(
    "headers",
    [
        b"Content-Length: 5\r\nTransfer-Encoding: chunked",
        b"Transfer-Encoding: chunked\r\nContent-Length: 0",
        b"transfer-encoding: CHUNKED\r\ncontent-length: 99999999999\r\nExpect: 100-continue",
        b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\nOrigin: https://app.example\r\n"
        b"Access-Control-Request-Method: POST",
    ],
)
@pytest.mark.parametrize("method", [b"POST", b"GET", b"OPTIONS", b"BREW"])
def test_request_with_two_lengths_is_rejected_and_nothing_after_it_is_served(
    keyed_server: LiveServer, method: bytes, headers: bytes
) -> None:
    first = method + b" /v1/banks/a/recall HTTP/1.1\r\nHost: 127.0.0.1\r\n" + headers + b"\r\n\r\n0\r\n\r\n"
    with connect(keyed_server.url, first + b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n") as connection:
        response = read_all(connection)
    assert (status_of(response), response.count(b"HTTP/1.1 ")) == (400, 1)
    assert b"Content-Length or Transfer-Encoding, not both" in response


def test_client_that_waits_for_100_continue_is_answered_and_not_waited_for(keyed_server: LiveServer) -> None:
    with connect(keyed_server.url, head(PATHS[0], 3_000_000, "Expect: 100-continue")) as rejected:
        assert status_of(read_response(rejected)) == 401


def test_body_that_does_not_arrive_in_time_answers_408(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_body, "BODY_SECONDS", 0.1)
    options = ServerOptions(hosts=(HOST,), worker=False)
    with live_server(database, options=options) as server, server.http() as client:
        client.put("/v1/banks/a")
        for path in PATHS:
            with connect(server.url, head(path, 100) + b"{") as slow:
                response = read_all(slow)
                assert status_of(response) == 408, path
                assert b"urn:vmemo:problem:RequestTimeout" in response
        assert client.post("/v1/banks/a/recall", json={"query": "Ana"}).status_code == 200


def test_sending_byte_by_byte_does_not_prolong_the_time_for_a_body(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(request_body, "BODY_SECONDS", 0.1)
    with live_server(database) as server, connect(server.url, head(PATHS[1], 5_000)) as slow:
        slow.settimeout(0.01)
        for _ in range(1_000):
            slow.sendall(b" ")
            with suppress(TimeoutError):
                assert status_of(slow.recv(65536)) == 408
                return
        pytest.fail("the body was waited for")


def test_bodies_of_all_requests_together_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_body, "BUFFERED_BYTES", 1000)
    asyncio.run(fill_memory_for_bodies())


async def fill_memory_for_bodies() -> None:
    handled = list[int]()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        with suppress(HttpProblem):
            while (await receive())["more_body"]:
                pass
        await Response()(scope, receive, send)

    limited = BodyLimitMiddleware(app, Limits())

    async def request(parts: asyncio.Queue[Message]) -> None:
        async def send(message: Message) -> None:
            handled.extend([message["status"]] if "status" in message else [])

        scope = {"type": "http", "method": "POST", "path": "/v1/banks/a/recall", "headers": list[object]()}
        await limited(scope, parts.get, send)

    first, second = asyncio.Queue[Message](), asyncio.Queue[Message]()
    first.put_nowait({"type": "http.request", "body": b" " * 600, "more_body": True})
    running = asyncio.create_task(request(first))
    await asyncio.sleep(0)
    for body, expected in ((b" " * 400, 200), (b" " * 401, 503), (b" " * 400, 200)):
        second.put_nowait({"type": "http.request", "body": body, "more_body": False})
        await request(second)
        assert handled.pop() == expected
    first.put_nowait({"type": "http.request", "body": b"", "more_body": False})
    await running
    assert handled == [200]


def test_request_with_a_body_counts_once_against_the_rate(database: str) -> None:
    with live_server(database, keyless=False, limits=Limits(rate=60, burst=3)) as server:
        server.state.access.rates.clock = lambda: 0.0
        with server.http(server.key()) as client:
            statuses = [client.post("/v1/banks/a/recall", json={"query": "Ana"}).status_code for _ in range(4)]
    assert statuses == [404, 404, 404, 429]


def test_rate_is_limited_before_the_body_is_sent(database: str) -> None:
    with live_server(database, keyless=False, limits=Limits(rate=60, burst=1)) as server:
        server.state.access.rates.clock = lambda: 0.0
        key = server.key()
        with server.http(key) as client:
            assert client.get("/v1/banks").status_code == 200
        with connect(server.url, head("/v1/banks/a/messages", 5_000_000, f"X-Api-Key: {key}")) as connection:
            assert status_of(read_response(connection)) == 429


def separators(value: JsonValue) -> int:
    """Return the number of opening brackets and commas of a JSON value."""
    if not isinstance(value, dict | list):
        return 0
    inside = list(value.values() if isinstance(value, dict) else value)
    return 1 + max(0, len(inside) - 1) + sum(map(separators, inside))


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_values_of_a_body_are_counted_while_it_arrives(size: int) -> None:
    value: JsonValue = [
        {"a": [1, 2, {"b": None}]},
        '," [{ \\',
        "\\",
        '\\\\"',
        {'"': ["[", '\\",']},
        [[["x", "y,z"]]],
        "é, ∀",
    ]
    body = json.dumps(value, ensure_ascii=False).encode()
    counter = JsonValueCounter()
    counted = [counter.feed(body[start : start + size]) for start in range(0, len(body), size)][-1]
    assert counted == separators(value)


def test_body_of_too_many_values_is_rejected_and_long_texts_are_not(server: LiveServer) -> None:
    json_body = {"Content-Type": "application/json"}
    with server.http() as client:
        many = b'{"query": "Ana", "tags": [' + b",".join([b"0"] * (MAX_JSON_VALUES + 1)) + b"]}"
        rejected = recall(client, many)
        assert (rejected.status_code, rejected.json()["type"]) == (413, "urn:vmemo:problem:BodyTooLarge")
        assert "100,000 JSON values" in rejected.json()["detail"]
        text = json.dumps({"messages": [{"content": 'a,[{"' * 60_000}], "infer": False}).encode()
        assert client.post("/v1/banks/a/messages", content=text, headers=json_body).status_code == 200
        assert recall(client, BODY.decode().encode("utf-16")).status_code == 400
