"""Every call of Hindsight's official client is supported or answers 501.

The calls are read from the installed package, so a new version shows what is missing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import quote

import pytest
from hindsight_session import BANK
from pydantic import JsonValue

from live_server import LiveServer

_CALL = re.compile(r"method='(\w+)',\s+resource_path='([^']+)'")
_B = "/v1/default/banks/{bank_id}"
SUPPORTED = {
    "GET /version",
    "GET /health",
    "GET /health/live",
    "GET /health/ready",
    "GET /metrics",
    "GET /v1/default/banks",
    f"PUT {_B}",
    f"PATCH {_B}",
    f"DELETE {_B}",
    f"GET {_B}/profile",
    f"PUT {_B}/profile",
    f"POST {_B}/background",
    f"GET {_B}/config",
    f"PATCH {_B}/config",
    f"DELETE {_B}/config",
    f"POST {_B}/memories",
    f"DELETE {_B}/memories",
    f"POST {_B}/memories/recall",
    f"GET {_B}/memories/list",
    f"GET {_B}/memories/{{memory_id}}",
    f"POST {_B}/reflect",
    f"GET {_B}/entities",
    f"GET {_B}/entities/{{entity_id}}",
    f"GET {_B}/documents",
    f"GET {_B}/documents/{{document_id}}",
    f"DELETE {_B}/documents/{{document_id}}",
    f"GET {_B}/documents/{{document_id}}/chunks",
    "GET /v1/default/chunks/{chunk_id}",
    f"GET {_B}/operations",
    f"GET {_B}/operations/{{operation_id}}",
    f"DELETE {_B}/operations/{{operation_id}}",
    f"GET {_B}/stats",
    f"GET {_B}/tags",
}


def calls() -> Iterator[tuple[str, str]]:
    """Yield method and path of every call of the client."""
    package = find_spec("hindsight_client_api")
    assert package is not None
    for file in sorted(Path(str(package.origin)).parent.glob("api/*_api.py")):
        yield from _CALL.findall(file.read_text(encoding="utf-8"))


def test_every_call_of_the_client_is_supported_or_answers_501(server: LiveServer) -> None:
    known = {f"{method} {path}" for method, path in calls()}
    assert len(known) > 80
    assert known >= SUPPORTED, "the client lacks a supported call"
    with server.http() as http:
        http.put(f"/v1/default/banks/{BANK}")
        for method, path in calls():
            sent = re.sub(r"\{\w+\}", "x", path.replace("{bank_id}", BANK))
            response = http.request(method, sent, json={} if method in ("POST", "PUT", "PATCH") else None)
            if f"{method} {path}" in SUPPORTED:
                assert response.status_code in (200, 404, 409, 422), (method, path, response.text)
                if method == "DELETE" and path == _B:
                    http.put(f"/v1/default/banks/{BANK}")
                continue
            assert response.status_code == 501, (method, path, response.text)
            assert response.headers["content-type"] == "application/problem+json"
            assert response.json()["type"] == "urn:vmemo:problem:NotImplemented", path
            assert response.json()["detail"].startswith("vmemo does not support "), path


def test_file_uploads_answer_501_for_any_media_type(server: LiveServer) -> None:
    with server.http() as http:
        response = http.post(f"/v1/default/banks/{BANK}/files/retain", files={"files": ("a.txt", b"tulips")})
        assert response.status_code == 501


def test_unsupported_calls_require_a_key(keyed_server: LiveServer) -> None:
    with keyed_server.http() as http:
        assert http.get(f"/v1/default/banks/{BANK}/webhooks").status_code == 401
    with keyed_server.http(keyed_server.key("read", BANK)) as http:
        assert http.get(f"/v1/default/banks/{BANK}/webhooks").status_code == 501


@pytest.mark.parametrize("bank", ["a/b", "ü %25?#", "a.b"], ids=["slash", "signs", "dot"])
def test_names_may_hold_any_character(server: LiveServer, bank: str) -> None:
    name = quote(bank, safe="")
    with server.http() as http:
        retained = http.post(
            f"/v1/default/banks/{name}/memories", json={"items": [{"content": "x", "document_id": bank}]}
        )
        assert retained.json()["bank_id"] == bank
        (document,) = http.get(f"/v1/default/banks/{name}/documents").json()["items"]
        assert document["id"] == bank
        (chunk,) = http.get(f"/v1/default/banks/{name}/documents/{name}/chunks").json()["items"]
        assert http.get(f"/v1/default/chunks/{quote(chunk['chunk_id'], safe='')}").json() == chunk


def test_nulls_mean_that_a_field_was_not_sent(server: LiveServer) -> None:
    nulls = {
        "timestamp": None,
        "context": None,
        "metadata": None,
        "document_id": None,
        "entities": None,
        "tags": None,
        "observation_scopes": None,
        "strategy": None,
        "update_mode": None,
    }
    body = {"items": [{"content": "Tulips grow.", **nulls}], "async": None, "document_tags": None, "operation_id": None}
    with server.http() as http:
        retained = http.post(f"/v1/default/banks/{BANK}/memories", json=body).json()
        assert (retained["success"], retained["async"]) == (True, False)
        fields = "types budget max_tokens trace query_timestamp include tags tags_match tag_groups min_scores"
        asked = {"query": "tulips", **dict.fromkeys(fields.split())}
        found = http.post(f"/v1/default/banks/{BANK}/memories/recall", json=asked).json()
        assert len(found["results"]) == 1
        assert list(found["entities"]) == ["Tulips"], "entities are included unless they are set to null"


def test_metadata_of_other_types_is_returned_as_strings(server: LiveServer) -> None:
    with server.http() as http:
        line = {"content": "Tulips grow.", "metadata": {"n": 1, "s": "x", "list": [True]}}
        http.post(f"/v1/banks/{BANK}/messages", json={"messages": [line]})
        found = http.post(f"/v1/default/banks/{BANK}/memories/recall", json={"query": "tulips"}).json()["results"]
        assert found[0]["metadata"] == {"n": "1", "s": "x", "list": "[true]"}
        assert found[0]["document_id"] is None


BODIES: dict[str, JsonValue] = {
    "/memories": {"items": [{"content": "Ana sings.", "document_id": "theirs"}]},
    "/memories/recall": {"query": "Where is the house?", "include": {"chunks": {}, "source_facts": {}}, "trace": True},
    "/reflect": {"query": "Where is the house?", "include": {"facts": {}}},
    "/config": {"updates": {"reflect_mission": "x"}},
    "/profile": {"disposition": {"skepticism": 1, "literalism": 1, "empathy": 1}},
    "/background": {"content": "x"},
}


def test_no_call_reveals_anything_of_another_bank(keyed_server: LiveServer) -> None:
    other = "theirs"
    with keyed_server.http(keyed_server.key("admin", other)) as http:
        items = [{"content": "Quennell has a house in Zanzibar.", "document_id": other, "tags": ["kumquat"]}]
        base = f"/v1/default/banks/{other}"
        http.post(f"{base}/memories", json={"items": items, "async": True, "operation_id": "theirs-1"})
        http.post(f"{base}/memories", json={"items": [{"content": "Quennell sings in Zanzibar."}]})
        known = http.post(f"{base}/memories/recall", json={"query": "Zanzibar"}).json()["results"]
        entity = http.get(f"{base}/entities").json()["items"][0]["id"]
        before = http.get(f"{base}/memories/list").json()
    foreign = [known[0]["id"], known[0]["chunk_id"], entity, other, "theirs-1", "kumquat"]
    with keyed_server.http(keyed_server.key("admin", BANK)) as http:
        http.put(f"/v1/default/banks/{BANK}")
        for method, path in calls():
            body = BODIES.get(path.removeprefix(_B), {}) if method in ("POST", "PUT", "PATCH") else None
            if "{bank_id}" in path:
                response = http.request(method, re.sub(r"\{\w+\}", other, path), json=body)
                assert response.status_code in (403, 501), (method, path, response.text)
            if f"{method} {path}" not in SUPPORTED - {f"DELETE {_B}"}:
                continue
            here = path.replace("{bank_id}", BANK)
            for id in foreign if "{" in here else foreign[:1]:
                text = http.request(method, re.sub(r"\{\w+\}", quote(id, safe=""), here), json=body).text
                assert not re.search("Quennell|Zanzibar", text), (method, path, text)
    with keyed_server.http(keyed_server.key("read", other)) as http:
        assert http.get(f"/v1/default/banks/{other}/memories/list").json() == before
