"""Odd requests are answered with a problem that repeats nothing, and change nothing."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from live_server import LiveServer, live_server
from vmemo.server import Limits

SECRET = "the-secret-of-ana"
JSON = {"Content-Type": "application/json"}
ODD = ["a/b", "..", ".", "50%", "%2F", "a?b#c", "ключ", " b ", "a\nb", "import", "banks", "\\", "a+b", "é", "🫖"]


@pytest.fixture(scope="module")
def held(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    """A server with a bank, for requests that change nothing."""
    with live_server(f"sqlite:///{tmp_path_factory.mktemp('held') / 'memory.db'}") as server:
        with server.http() as client:
            client.put("/v1/banks/a")
        yield server


@pytest.mark.parametrize("name", ODD, ids=range(len(ODD)))
def test_a_bank_may_be_called_anything(held: LiveServer, name: str) -> None:
    path = "/v1/banks/" + "".join(f"%{byte:02X}" for byte in name.encode())
    with held.http() as client:
        assert client.put(path, json={"name": "Mira"}).json()["bank"] == name
        assert client.get(f"{path}/profile").json()["name"] == "Mira"
        assert name in client.get("/v1/banks").json()["items"]
        assert client.delete(path).status_code == 200


@pytest.mark.parametrize("path", ["%00", "%1Fx", "%20", "x" * 513, "%ED%A0%80%00"])
def test_what_no_bank_can_be_called_is_refused(held: LiveServer, path: str) -> None:
    with held.http() as client:
        assert client.put(f"/v1/banks/{path}").status_code == 422


@pytest.mark.parametrize(
    "kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "", "text/json"]
)
def test_only_json_is_read(held: LiveServer, kind: str) -> None:
    with held.http() as client:
        for path in ("messages", "recall", "forget", "import"):
            answer = client.post(f"/v1/banks/{path}/{path}", content=b'{"query": "x"}', headers={"Content-Type": kind})
            assert answer.status_code == 415
            assert answer.headers["content-type"] == "application/problem+json"
        assert client.get("/v1/banks").json()["items"] == ["a"]


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://127.0.0.1.evil.example"])
def test_no_page_of_the_web_can_use_a_server_of_this_machine(held: LiveServer, origin: str) -> None:
    with held.http(Origin=origin) as client:
        refused = client.post("/v1/banks/a/maintain")
        assert (refused.status_code, refused.json()["type"]) == (403, "urn:vmemo:problem:OriginNotAllowed")
    with held.http(Host="evil.example") as client:
        assert client.get("/v1/banks").status_code == 421
    with held.http(Origin=held.url) as client:
        assert client.get("/v1/banks").status_code == 200


BODIES = {
    "half a character": b'{"query": "\\ud800"}',
    "half a character as a name": b'{"query": "x", "\\ud800": 1}',
    "no JSON": b'{"query": the-secret-of-ana',
    "not UTF-8": b'{"query": "\xff"}',
    "a list": b'["the-secret-of-ana"]',
    "nothing": b"null",
    "not a number": b'{"query": "x", "importance_weight": NaN}',
    "more than infinity": b'{"query": "x", "importance_weight": 1e999}',
    "a huge number": b'{"query": "x", "max_tokens": ' + b"9" * 5000 + b"}",
    "a large number": b'{"query": "x", "max_tokens": 99999999999999999999}',
    "a deep list": b'{"query": "x", "metadata": {"a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}}",
    "a time that is none": b'{"query": "x", "now": "the-secret-of-ana"}',
    "a time without a zone": b'{"query": "x", "now": "2024-01-01T00:00:00"}',
    "a time before all": b'{"query": "x", "now": "0001-01-01T00:00:00+14:00"}',
    "a long while": b'{"query": "x", "recency_half_life": "P99999999999D"}',
    "less than nothing": b'{"query": "x", "recency_half_life": "-P1D"}',
    "an interval without length": b'{"query": "x", "occurred": {"start": "2024-01-01T00Z", "end": "2024-01-01T00Z"}}',
    "an unknown field": b'{"query": "x", "secret": "the-secret-of-ana"}',
    "an unknown network": b'{"query": "x", "networks": ["the-secret-of-ana"]}',
    "a text for a number": b'{"query": "x", "max_tokens": "the-secret-of-ana"}',
    "a question of spaces": b'{"query": "  "}',
    "a metadata number that is too large": b'{"query": "x", "metadata": {"a": 99999999999999999999999}}',
    "a metadata number that is none": b'{"query": "x", "metadata": {"a": Infinity}}',
}


@pytest.mark.parametrize("name", BODIES)
def test_a_body_that_does_not_fit_is_refused_without_being_repeated(held: LiveServer, name: str) -> None:
    with held.http() as client:
        answer = client.post("/v1/banks/a/recall", content=BODIES[name], headers=JSON)
        assert answer.status_code in (400, 422)
        assert answer.headers["content-type"] == "application/problem+json"
        assert SECRET not in answer.text


@pytest.mark.parametrize("value", ["NaN", "Infinity", "1e999", '"\\ud800"', '{"\\ud800": 1}'])
def test_metadata_that_is_no_json_is_not_stored(held: LiveServer, value: str) -> None:
    body = f'{{"messages": [{{"content": "x", "metadata": {{"a": {value}}}}}]}}'
    with held.http() as client:
        assert client.post("/v1/banks/a/messages", content=body, headers=JSON).status_code in (400, 422)
        assert client.get("/v1/banks/a/messages").json()["items"] == []


def test_what_is_not_there_is_told_alike_whatever_another_bank_holds(keyed_server: LiveServer) -> None:
    with keyed_server.http(keyed_server.key("admin")) as client:
        client.post("/v1/banks/hers/messages", json={"messages": [{"content": "A cat.", "id": "m"}]})
        fact = client.get("/v1/banks/hers/facts").json()["items"][0]["id"]
        client.put("/v1/banks/mine")
        for path in (f"facts/{fact}/why", "facts/m/why", f"facts?cursor={fact}", "messages?cursor=m"):
            there = client.get(f"/v1/banks/mine/{path}")
            nowhere = client.get(f"/v1/banks/mine/{path}".replace(fact, "f" * len(fact)).replace("m/why", "n/why"))
            assert there.status_code == nowhere.status_code == 404
            assert "hers" not in there.text
    with keyed_server.http(keyed_server.key("read", "mine")) as client:
        assert client.get("/v1/banks").json()["items"] == ["mine"]
        answers = [client.get(f"/v1/banks/{bank}").json() for bank in ("hers", "none")]
        assert answers[0]["detail"] == answers[1]["detail"]
        assert [answer["status"] for answer in answers] == [403, 403]


def test_a_cursor_that_was_forgotten_is_told_so(server: LiveServer) -> None:
    with server.http() as client:
        lines = [{"content": f"Line {n}.", "id": str(n)} for n in range(5)]
        client.post("/v1/banks/a/messages", json={"messages": lines})
        page = client.get("/v1/banks/a/messages?limit=2").json()
        assert ([each["id"] for each in page["items"]], page["next"]) == (["0", "1"], "1")
        rest = client.get("/v1/banks/a/messages?limit=3&cursor=1").json()
        assert ([each["id"] for each in rest["items"]], rest["next"]) == (["2", "3", "4"], None)
        client.post("/v1/banks/a/forget", json={"messages": ["1"]})
        assert client.get("/v1/banks/a/messages?cursor=1").status_code == 404


def test_methods_of_a_path_are_told_to_who_uses_another(held: LiveServer) -> None:
    with held.http() as client:
        assert client.head("/health").status_code == 200
        for method in ("OPTIONS", "PATCH", "POST", "HEAD"):
            refused = client.request(method, "/v1/banks/a")
            assert refused.status_code == 405
            assert sorted(refused.headers["allow"].split(", ")) == ["DELETE", "GET", "PUT"]
        assert "access-control-allow-origin" not in client.options("/v1/banks", headers={"Origin": held.url}).headers


def test_every_answer_has_an_id_and_the_safe_headers(held: LiveServer) -> None:
    with held.http() as client:
        for path in ("/health", "/v1/banks", "/nowhere"):
            headers = client.get(path, headers={"X-Request-Id": "mine-1"}).headers
            assert headers["x-request-id"] == "mine-1"
            assert headers["x-content-type-options"] == "nosniff"
            assert headers["cache-control"] == "no-store"
        forged = client.get("/nowhere", headers={"X-Request-Id": "<script>"})
        assert "<script>" not in forged.headers["x-request-id"]
        assert forged.json()["request_id"] == forged.headers["x-request-id"]


def pieces(size: int) -> Iterator[bytes]:
    for _ in range(size):
        yield b" " * 1000


def test_a_body_over_the_limit_is_refused_be_its_length_announced_or_not(database: str) -> None:
    limits = Limits(body_bytes=5000, import_bytes=9000, batch=2, max_tokens=100)
    with live_server(database, limits=limits) as server, server.http() as client:
        client.put("/v1/banks/a")
        for path, kind, size in (("recall", "json", 6), ("import", "x-ndjson", 10), ("messages", "json", 9)):
            told = {"Content-Type": f"application/{kind}"}
            announced = client.post(f"/v1/banks/new/{path}", content=b" " * 1000 * size, headers=told)
            chunked = client.post(f"/v1/banks/new/{path}", content=pieces(size), headers=told)
            assert [announced.status_code, chunked.status_code] == [413, 413]
            assert announced.json()["type"] == chunked.json()["type"] == "urn:vmemo:problem:BodyTooLarge"
        many = client.post("/v1/banks/a/messages", json={"messages": [{"content": "x"}] * 3})
        assert (many.status_code, "Nothing was stored" in many.text) == (422, True)
        assert client.post("/v1/banks/a/recall", json={"query": "x", "max_tokens": 101}).status_code == 422
        assert client.get("/v1/banks").json()["items"] == ["a"]
        assert client.get("/v1/banks/a").json()["messages"] == 0


def test_each_key_has_a_bucket_of_its_own(database: str) -> None:
    with live_server(database, keyless=False, limits=Limits(rate=60, burst=2)) as server:
        server.state.access.rates.clock = lambda: 0.0
        with server.http(server.key()) as hasty, server.http(server.key()) as other:
            answers = [hasty.get("/v1/banks") for _ in range(3)]
            assert [answer.status_code for answer in answers] == [200, 200, 429]
            assert answers[-1].headers["retry-after"] == "2"
            assert answers[-1].json()["retryable"]
            assert other.get("/v1/banks").status_code == 200
            assert hasty.get("/health").status_code == 200
