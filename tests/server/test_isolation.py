"""No key reaches another bank: every route of the table, with another bank's name, ids, cursors, filters and keys.

The routes are taken from the application and the bodies from its own description, so that a route is covered the day
it is added. Whatever is asked, nothing of the other bank comes back and nothing in it changes.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx2
import pytest
from fastapi.routing import APIRoute
from serving import Served, serving

from vmemo import Memory, Message
from vmemo.models import Profile
from vmemo.sync import portal
from vmemo.testing import HashEmbedder

MINE, THEIRS = "mine", "theirs-7f3a"
SECRETS = ("Zanzibar", "Quennell", "kumquat")
"""Words that stand in the other bank alone."""
BANK = ("bank", "bank_id")


@dataclass(frozen=True)
class Other:
    """What a guest might know of another bank."""

    values: Mapping[str, str]
    export: bytes


@dataclass(frozen=True)
class Call:
    """A request of the table."""

    method: str
    path: str
    route: APIRoute
    body: Mapping[str, Any] | None

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


def exported(database: Path, bank: str) -> bytes:
    file = database.with_name(f"{bank}.jsonl")
    Memory(f"sqlite:///{database}", bank, embedder=HashEmbedder()).export_sync(file)
    return file.read_bytes()


def filled(database: Path) -> Other:
    """Two banks; the other one holds all that has an id."""
    with Memory(f"sqlite:///{database}", MINE, embedder=HashEmbedder()) as memory:
        memory.retain_sync("Ana plays the cello in Leeds.", document="my-notes")
        theirs = memory.bank(THEIRS)
        theirs.retain_sync(
            [
                Message(content="Quennell bought a house in Zanzibar in May 2024.", speaker="Quennell"),
                Message(content="I prefer kumquat jam, said Mr Quennell.", speaker="Quennell"),
            ],
            document="their-kumquat-notes",
            tags=["kumquat"],
        )
        theirs.profile_sync(Profile(name="Quennell's helper", background="I know about Zanzibar."))
        entities = theirs.entities_sync()
        merge = theirs.merge_entities_sync(entities[0].id, entities[1].id, "Quennell said so")
        facts, messages, episodes = theirs.facts_sync(), theirs.messages_sync(), theirs.episodes_sync()
        values = {
            "bank": THEIRS,
            "fact": facts[0].id,
            "message": messages[0].id,
            "episode": episodes[0].id,
            "entity": entities[0].id,
            "name": "Quennell",
            "merge": merge.id,
            "document": "their-kumquat-notes",
        }
    return Other(values, exported(database, THEIRS))


@dataclass(frozen=True)
class Scene:
    """A server with two banks and a key that rules one of them."""

    served: Served
    other: Other
    database: Path
    key: str
    key_id: str
    stranger: str

    def http(self) -> httpx2.Client:
        return self.served.http(self.key)

    def calls(self) -> list[Call]:
        """Every request that the application's own table of routes and its description allow."""
        described = self.served.app.openapi()
        routes = [route for route in self.served.app.routes if isinstance(route, APIRoute)]
        return [
            Call(method, route.path, route, _body(described, route.path, method))
            for route in routes
            for method in sorted(route.methods - {"HEAD", "OPTIONS"})
        ]


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    database = tmp_path_factory.mktemp("isolation") / "memory.db"
    other = filled(database)
    with serving(f"sqlite:///{database}", keyless=False) as served:
        key_id, key = served.keyed("admin", MINE, name="mine")
        stranger_id, _ = served.keyed("admin", THEIRS, name="Quennell's own key")
        yield Scene(served, other, database, key, key_id, stranger_id)


def _body(described: Mapping[str, Any], path: str, method: str) -> Mapping[str, Any] | None:
    operation = described["paths"].get(path, {}).get(method.lower(), {})
    content = operation.get("requestBody", {}).get("content", {})
    return content.get("application/json", {}).get("schema")


def made(schema: Mapping[str, Any], described: Mapping[str, Any], foreign: str, depth: int = 0) -> Any:
    """A value of this schema with another bank's value wherever a text fits."""
    if "$ref" in schema:
        return made(described["components"]["schemas"][schema["$ref"].rpartition("/")[2]], described, foreign, depth)
    for several in ("anyOf", "oneOf", "allOf"):
        if several in schema:
            kinds = [each for each in schema[several] if each.get("type") != "null"]
            return made(kinds[0], described, foreign, depth) if kinds else None
    if "const" in schema or "enum" in schema:
        return schema.get("const", schema.get("enum", [None])[0])
    match schema.get("type"):
        case "string":
            return "2026-01-01T00:00:00Z" if schema.get("format") == "date-time" else foreign
        case "integer" | "number":
            return schema.get("minimum", schema.get("default", 1)) or 1
        case "boolean":
            return schema.get("default", True)
        case "array":
            return [made(schema.get("items", {"type": "string"}), described, foreign, depth + 1)]
        case "object" if "properties" in schema:
            inner = schema["properties"].items()
            return {name: made(each, described, foreign, depth + 1) for name, each in inner if depth < 4}
        case _:
            return {}


def required(schema: Mapping[str, Any], described: Mapping[str, Any], foreign: str) -> Any:
    """The same with what must be there, and no more: verbs that take exactly one thing take this."""
    whole = made(schema, described, foreign)
    if not isinstance(whole, dict):
        return whole
    named = described["components"]["schemas"].get(schema.get("$ref", "").rpartition("/")[2], schema)
    return {name: value for name, value in whole.items() if name in named.get("required", [])}


def asked(scene: Scene, call: Call, bank: str, foreign: str) -> Iterator[httpx2.Response]:
    """The call on a bank, with another bank's value in every other place: path, query and body."""
    path = call.path
    for name in call.route.param_convertors:
        path = path.replace(f"{{{name}}}", quote(bank if name in BANK else foreign, safe=""))
        path = path.replace(f"{{{name}:path}}", quote(bank if name in BANK else foreign, safe=""))
    query = {parameter.alias: foreign for parameter in call.route.dependant.query_params}
    described = scene.served.app.openapi()
    bodies = [None] if call.body is None else [maker(call.body, described, foreign) for maker in (made, required)]
    with scene.http() as client:
        for parameters, body in itertools.product(({}, query), bodies):
            yield client.request(call.method, path, params=parameters, json=body)


def leaks(scene: Scene, response: httpx2.Response, sent: str) -> list[str]:
    """Words of the other bank in an answer; those that were sent are merely repeated."""
    told = response.text + json.dumps(dict(response.headers))
    known = (*SECRETS, *scene.other.values.values(), scene.stranger)
    return [word for word in known if word in told and word not in sent]


def test_the_table_has_routes_with_a_bank_and_without(scene: Scene) -> None:
    named = [call for call in scene.calls() if set(call.route.param_convertors) & set(BANK)]
    assert len(named) > 40
    assert any(call.path.startswith("/v1/default/") for call in named)
    assert any(call.body is not None for call in named)


def test_no_route_lets_a_key_into_another_bank(scene: Scene) -> None:
    for call in scene.calls():
        if not set(call.route.param_convertors) & set(BANK):
            continue
        for response in asked(scene, call, THEIRS, "x"):
            assert response.status_code in (401, 403, 404, 405, 422, 501), f"{call}: {response.status_code}"
            assert not leaks(scene, response, THEIRS), f"{call}: {response.text[:300]}"
    assert exported(scene.database, THEIRS) == scene.other.export


def test_another_banks_ids_cursors_and_filters_bring_nothing_of_it(scene: Scene) -> None:
    for call in scene.calls():
        if call.method == "DELETE" and call.path in ("/v1/banks/{bank}", "/v1/default/banks/{bank_id}"):
            continue
        for foreign in (*scene.other.values.values(), scene.stranger):
            for response in asked(scene, call, MINE, foreign):
                assert response.status_code < 500 or response.status_code == 501, f"{call}: {response.text[:300]}"
                assert not leaks(scene, response, foreign), f"{call} with {foreign!r}: {response.text[:300]}"
    assert exported(scene.database, THEIRS) == scene.other.export


def test_a_bank_that_is_not_there_looks_like_one_that_is_anothers(scene: Scene) -> None:
    for call in scene.calls():
        if not set(call.route.param_convertors) & set(BANK):
            continue
        there = [(r.status_code, _plain(r)) for r in asked(scene, call, THEIRS, "x")]
        nowhere = [(r.status_code, _plain(r)) for r in asked(scene, call, "nowhere-at-all", "x")]
        assert there == nowhere, str(call)


def _plain(response: httpx2.Response) -> str:
    body = response.json() if response.text.startswith("{") else {"text": response.text}
    body.pop("request_id", None)
    return json.dumps(body, sort_keys=True).replace(THEIRS, "BANK").replace("nowhere-at-all", "BANK")


def test_keys_that_were_revoked_or_never_made_open_nothing(scene: Scene) -> None:
    id, secret = scene.served.keyed("admin", MINE, name="short-lived")
    portal.run(scene.served.house.gate.revoke(id))
    for wrong in (secret, "vmemo_" + "A" * 43, "nonsense"):
        with scene.served.http(wrong) as client:
            for call in scene.calls():
                if call.path.startswith(("/health", "/version", "/openapi")):
                    continue
                path = call.path.replace("{bank}", MINE).replace("{bank_id}", MINE)
                response = client.request(call.method, path)
                assert response.status_code in (401, 404, 405, 422, 501), f"{call}: {response.status_code}"
                assert "cello" not in response.text
