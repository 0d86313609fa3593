"""Unusual and invalid requests: rejected with a problem that repeats no input, and without any effect."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from live_server import LiveServer, live_server
from vmemo import Memory
from vmemo_conformance.embedders import HashEmbedder
from vmemo_server.auth import Limits

SECRET = "the-secret-of-ana"
JSON = {"Content-Type": "application/json"}
UNUSUAL_NAMES = [
    "a/b",
    "..",
    ".",
    "50%",
    "%2F",
    "a?b#c",
    "ключ",
    " b ",
    "a\nb",
    "import",
    "banks",
    "\\",
    "a+b",
    "é",
    "🫖",
]


@pytest.fixture(scope="module")
def shared_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    """Run one server with a bank, for requests that change nothing."""
    with live_server(f"sqlite:///{tmp_path_factory.mktemp('shared') / 'memory.db'}") as server:
        with server.http() as client:
            client.put("/v1/banks/a")
        yield server


@pytest.mark.parametrize("name", UNUSUAL_NAMES, ids=range(len(UNUSUAL_NAMES)))
def test_bank_names_may_hold_any_character(shared_server: LiveServer, name: str) -> None:
    path = "/v1/banks/" + "".join(f"%{byte:02X}" for byte in name.encode())
    with shared_server.http() as client:
        assert client.put(path, json={"name": "Mira"}).json()["bank"] == name
        assert client.get(f"{path}/profile").json()["name"] == "Mira"
        assert name in client.get("/v1/banks").json()["items"]
        assert client.delete(path).status_code == 200


@pytest.mark.parametrize("verb", ["recall", "retrieve"])
def test_a_search_does_not_create_a_bank_that_another_process_deleted(
    server: LiveServer, database: str, verb: str
) -> None:
    with server.http() as client, Memory(database, "a", embedder=HashEmbedder()) as other:
        client.post("/v1/banks/a/messages", json={"messages": [{"content": "Ana lives in Porto."}]})
        assert client.post(f"/v1/banks/a/{verb}", json={"query": "Porto"}).json()["hits"]
        other.forget_sync(bank=True)
        missing = client.post(f"/v1/banks/a/{verb}", json={"query": "Porto"})
        assert (missing.status_code, missing.json()["detail"]) == (404, "There is no bank 'a' here.")
        assert client.get("/v1/banks").json()["items"] == []


@pytest.mark.parametrize("path", ["%00", "%1Fx", "%20", "x" * 513, "%ED%A0%80%00"])
def test_invalid_bank_names_are_rejected(shared_server: LiveServer, path: str) -> None:
    with shared_server.http() as client:
        assert client.put(f"/v1/banks/{path}").status_code == 422


@pytest.mark.parametrize(
    "kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "", "text/json"]
)
def test_other_media_types_are_rejected(shared_server: LiveServer, kind: str) -> None:
    with shared_server.http() as client:
        for path in ("messages", "recall", "forget", "import"):
            response = client.post(
                f"/v1/banks/{path}/{path}", content=b'{"query": "x"}', headers={"Content-Type": kind}
            )
            assert response.status_code == 415
            assert response.headers["content-type"] == "application/problem+json"
        assert client.get("/v1/banks").json()["items"] == ["a"]


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://127.0.0.1.evil.example"])
def test_web_pages_of_other_origins_are_rejected(shared_server: LiveServer, origin: str) -> None:
    with shared_server.http(Origin=origin) as client:
        refused = client.post("/v1/banks/a/maintain")
        assert (refused.status_code, refused.json()["type"]) == (403, "urn:vmemo:problem:OriginNotAllowed")
    with shared_server.http(Host="evil.example") as client:
        assert client.get("/v1/banks").status_code == 421
    with shared_server.http(Origin=shared_server.url) as client:
        assert client.get("/v1/banks").status_code == 200


BODIES = {
    "a lone surrogate as a field name": b'{"query": "x", "\\ud800": 1}',
    "invalid JSON": b'{"query": the-secret-of-ana',
    "not UTF-8": b'{"query": "\xff"}',
    "a list": b'["the-secret-of-ana"]',
    "null": b"null",
    "not a number": b'{"query": "x", "importance_weight": NaN}',
    "a number beyond the range of floats": b'{"query": "x", "importance_weight": 1e999}',
    "a number of 5,000 digits": b'{"query": "x", "max_tokens": ' + b"9" * 5000 + b"}",
    "a number beyond 64 bits": b'{"query": "x", "max_tokens": 99999999999999999999}',
    "a deeply nested list": b'{"query": "x", "metadata": {"a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}}",
    "an invalid time": b'{"query": "x", "now": "the-secret-of-ana"}',
    "a time without a zone": b'{"query": "x", "now": "2024-01-01T00:00:00"}',
    "a time before year 1": b'{"query": "x", "now": "0001-01-01T00:00:00+14:00"}',
    "a duration beyond the range": b'{"query": "x", "recency_half_life": "P99999999999D"}',
    "a negative duration": b'{"query": "x", "recency_half_life": "-P1D"}',
    "an empty interval": b'{"query": "x", "occurred": {"start": "2024-01-01T00Z", "end": "2024-01-01T00Z"}}',
    "an unknown field": b'{"query": "x", "secret": "the-secret-of-ana"}',
    "an unknown network": b'{"query": "x", "networks": ["the-secret-of-ana"]}',
    "text instead of a number": b'{"query": "x", "max_tokens": "the-secret-of-ana"}',
    "a blank query": b'{"query": "  "}',
    "metadata with a number beyond 64 bits": b'{"query": "x", "metadata": {"a": 99999999999999999999999}}',
    "metadata with infinity": b'{"query": "x", "metadata": {"a": Infinity}}',
}


@pytest.mark.parametrize("name", BODIES)
def test_invalid_body_is_rejected_without_repeating_it(shared_server: LiveServer, name: str) -> None:
    with shared_server.http() as client:
        response = client.post("/v1/banks/a/recall", content=BODIES[name], headers=JSON)
        assert response.status_code in (400, 413, 422)
        assert response.headers["content-type"] == "application/problem+json"
        assert SECRET not in response.text


CHAT: list[dict[str, object]] = [
    {"role": "developer", "content": "Be brief.", "name": None},
    {"role": "user", "name": "Ana", "content": [{"type": "text", "text": "I row"}, {"type": "image_url"}, "daily."]},
    {"role": "assistant", "content": None, "refusal": None, "tool_calls": [{"id": "1", "type": "function"}]},
    {"role": "assistant", "tool_calls": []},
    {"role": "function", "content": "Noted.", "tool_call_id": "1", "speaker": "notes", "name": "note"},
]


def test_messages_of_chat_apis_are_stored_and_those_without_text_are_skipped(shared_server: LiveServer) -> None:
    with shared_server.http(**{"Idempotency-Key": "chat"}) as client:
        body = {"messages": CHAT}
        retained = client.post("/v1/banks/chat/messages", json=body).json()
        assert client.post("/v1/banks/chat/messages", json=body).json()["skipped"] == retained["skipped"]
        stored = client.get("/v1/banks/chat/messages").json()["items"]
        client.delete("/v1/banks/chat")
    assert [each["what"] for each in retained["skipped"]] == ["message 3", "message 4"]
    assert [(each["role"], each["speaker"], each["content"]) for each in stored] == [
        ("system", None, "Be brief."),
        ("user", "Ana", "I row\ndaily."),
        ("tool", "notes", "Noted."),
    ]


@pytest.mark.parametrize(
    ("message", "place"),
    [
        (None, "body.messages.0.content: "),
        ({}, "body.messages.0.content: "),
        ({"role": "nobody", "tool_calls": []}, "body.messages.0.role: "),
        ({"content": [5]}, "body.messages.0: each part of content must be text"),
        ({"content": [{"text": 5}]}, "body.messages.0: each part of content must be text"),
        ({"content": "x", "name": 5}, "body.messages.0: name must be text"),
    ],
)
def test_invalid_messages_of_chat_apis_are_refused(shared_server: LiveServer, message: object, place: str) -> None:
    with shared_server.http() as client:
        response = client.post("/v1/banks/a/messages", json={"messages": [message, {"content": "I row."}]})
    assert (response.status_code, response.json()["detail"].startswith(place)) == (422, True), response.text


def test_lone_surrogate_in_a_query_is_replaced_as_in_the_library(shared_server: LiveServer) -> None:
    with shared_server.http() as client:
        response = client.post("/v1/banks/a/recall", content=b'{"query": "\\ud800"}', headers=JSON)
        assert (response.status_code, response.json()["query"]) == (200, "?")


@pytest.mark.parametrize("value", ["NaN", "Infinity", "1e999", '"\\ud800"', '{"\\ud800": 1}'])
def test_metadata_that_is_not_json_is_not_stored(shared_server: LiveServer, value: str) -> None:
    body = f'{{"messages": [{{"content": "x", "metadata": {{"a": {value}}}}}]}}'
    with shared_server.http() as client:
        assert client.post("/v1/banks/a/messages", content=body, headers=JSON).status_code in (400, 422)
        assert client.get("/v1/banks/a/messages").json()["items"] == []


def test_records_of_another_bank_look_like_missing_ones(keyed_server: LiveServer) -> None:
    with keyed_server.http(keyed_server.key("admin")) as client:
        client.post("/v1/banks/other/messages", json={"messages": [{"content": "A cat.", "id": "m"}]})
        fact = client.get("/v1/banks/other/facts").json()["items"][0]["id"]
        client.put("/v1/banks/mine")
        for path in (f"facts/{fact}/why", "facts/m/why", f"facts?cursor={fact}", "messages?cursor=m"):
            existing = client.get(f"/v1/banks/mine/{path}")
            missing = client.get(f"/v1/banks/mine/{path}".replace(fact, "f" * len(fact)).replace("m/why", "n/why"))
            assert existing.status_code == missing.status_code == 404
            assert "other" not in existing.text
    with keyed_server.http(keyed_server.key("read", "mine")) as client:
        assert client.get("/v1/banks").json()["items"] == ["mine"]
        responses = [client.get(f"/v1/banks/{bank}").json() for bank in ("other", "none")]
        assert responses[0]["detail"] == responses[1]["detail"]
        assert [response["status"] for response in responses] == [403, 403]


def test_cursor_of_a_forgotten_record_is_not_found(server: LiveServer) -> None:
    with server.http() as client:
        lines = [{"content": f"Line {n}.", "id": str(n)} for n in range(5)]
        client.post("/v1/banks/a/messages", json={"messages": lines})
        page = client.get("/v1/banks/a/messages?limit=2").json()
        assert ([each["id"] for each in page["items"]], page["next"]) == (["0", "1"], "1")
        rest = client.get("/v1/banks/a/messages?limit=3&cursor=1").json()
        assert ([each["id"] for each in rest["items"]], rest["next"]) == (["2", "3", "4"], None)
        client.post("/v1/banks/a/forget", json={"messages": ["1"]})
        assert client.get("/v1/banks/a/messages?cursor=1").status_code == 404


def test_wrong_method_lists_the_allowed_methods(shared_server: LiveServer) -> None:
    with shared_server.http() as client:
        assert client.head("/health").status_code == 200
        for method in ("OPTIONS", "PATCH", "POST", "HEAD"):
            refused = client.request(method, "/v1/banks/a")
            assert refused.status_code == 405
            assert sorted(refused.headers["allow"].split(", ")) == ["DELETE", "GET", "PUT"]
        assert (
            "access-control-allow-origin"
            not in client.options("/v1/banks", headers={"Origin": shared_server.url}).headers
        )


def test_every_response_has_a_request_id_and_security_headers(shared_server: LiveServer) -> None:
    with shared_server.http() as client:
        for path in ("/health", "/v1/banks", "/nowhere"):
            headers = client.get(path, headers={"X-Request-Id": "mine-1"}).headers
            assert headers["x-request-id"] == "mine-1"
            assert headers["x-content-type-options"] == "nosniff"
            assert headers["cache-control"] == "no-store"
        invalid = client.get("/nowhere", headers={"X-Request-Id": "<script>"})
        assert "<script>" not in invalid.headers["x-request-id"]
        assert invalid.json()["request_id"] == invalid.headers["x-request-id"]


def chunks(size: int) -> Iterator[bytes]:
    for _ in range(size):
        yield b" " * 1000


def test_large_bodies_are_rejected_with_and_without_content_length(database: str) -> None:
    limits = Limits(body_bytes=5000, import_bytes=9000, batch=2, max_tokens=100)
    with live_server(database, limits=limits) as server, server.http() as client:
        client.put("/v1/banks/a")
        for path, kind, size in (("recall", "json", 6), ("import", "x-ndjson", 10), ("messages", "json", 9)):
            headers = {"Content-Type": f"application/{kind}"}
            declared = client.post(f"/v1/banks/new/{path}", content=b" " * 1000 * size, headers=headers)
            chunked = client.post(f"/v1/banks/new/{path}", content=chunks(size), headers=headers)
            assert [declared.status_code, chunked.status_code] == [413, 413]
            assert declared.json()["type"] == chunked.json()["type"] == "urn:vmemo:problem:BodyTooLarge"
        many = client.post("/v1/banks/a/messages", json={"messages": [{"content": "x"}] * 3})
        assert (many.status_code, "Nothing was stored" in many.text) == (422, True)
        assert client.post("/v1/banks/a/recall", json={"query": "x", "max_tokens": 101}).status_code == 422
        assert client.get("/v1/banks").json()["items"] == ["a"]
        assert client.get("/v1/banks/a").json()["messages"] == 0


def test_each_key_has_its_own_rate_limit(database: str) -> None:
    with live_server(database, keyless=False, limits=Limits(rate=60, burst=2)) as server:
        server.state.access.rates.clock = lambda: 0.0
        with server.http(server.key()) as fast, server.http(server.key()) as other:
            responses = [fast.get("/v1/banks") for _ in range(3)]
            assert [response.status_code for response in responses] == [200, 200, 429]
            assert responses[-1].headers["retry-after"] == "2"
            assert responses[-1].json()["retryable"]
            assert other.get("/v1/banks").status_code == 200
            assert fast.get("/health").status_code == 200


def test_server_responses_health_checks(server: LiveServer) -> None:
    with server.http() as client:
        assert client.get("/health").json() == {"status": "ok"}


def test_keyed_server_requires_a_key(keyed_server: LiveServer) -> None:
    with keyed_server.http() as client:
        assert client.get("/v1/banks").status_code == 401
    with keyed_server.http(keyed_server.key("read")) as client:
        assert client.get("/v1/banks").json() == {"items": [], "next": None}
