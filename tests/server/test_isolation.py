"""No key reaches another bank: every route of the table, with another bank's name, ids, cursors, filters and keys.

The routes are taken from the application and the bodies from its own description, so that a route is covered the day
it is added. Whatever is asked, nothing of the other bank comes back and nothing in it changes.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx2
import pytest
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute
from pydantic import TypeAdapter

from live_server import LiveServer, live_server
from vmemo import Memory, Message
from vmemo.client import Client
from vmemo.errors import VmemoError, public_name
from vmemo.models import Profile
from vmemo.server import Limits
from vmemo.sync import portal
from vmemo.testing import HashEmbedder

MINE, THEIRS = "mine", "theirs-7f3a"
SECRETS = ("Zanzibar", "kumquat", "Oberammergau")
"""Words that stand in the other bank alone, and that no guest knows."""
BANK = ("bank", "bank_id")
TURNS = 9
"""Values of the other bank that are tried."""


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
            document="their-notes",
            tags=["Oberammergau"],
        )
        theirs.profile_sync(Profile(name="Quennell's helper", background="I know about Zanzibar."))
        entities = theirs.entities_sync()
        merge = theirs.merge_entities_sync(entities[0].id, entities[1].id, "someone from Oberammergau said so")
        facts, messages, episodes = theirs.facts_sync(), theirs.messages_sync(), theirs.episodes_sync()
        values = {
            "bank": THEIRS,
            "fact": facts[0].id,
            "message": messages[0].id,
            "episode": episodes[0].id,
            "entity": entities[0].id,
            "name": "Quennell",
            "merge": merge.id,
            "document": "their-notes",
        }
    return Other(values, exported(database, THEIRS))


@dataclass(frozen=True)
class Scene:
    """A server with two banks and a key that rules one of them."""

    server: LiveServer
    other: Other
    database: Path
    client: httpx2.Client
    stranger: str

    def calls(self) -> list[Call]:
        """Every request that the application's own table of routes allows."""
        return [
            Call(method, route.path, route, _body(route))
            for route in _routes(self.server.app.routes)
            for method in sorted(set(route.methods or ()) - {"HEAD", "OPTIONS"})
        ]


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    database = tmp_path_factory.mktemp("isolation") / "memory.db"
    other = filled(database)
    with live_server(f"sqlite:///{database}", keyless=False, limits=Limits(rate=0)) as server:
        stranger, _ = server.key_with_id("admin", THEIRS, name="Quennell's own key")
        with server.http(server.key("admin", MINE)) as client:
            yield Scene(server, other, database, client, stranger)


def _routes(table: Sequence[object]) -> Iterator[APIRoute]:
    """All routes of a table, those of the routers in it too."""
    for entry in table:
        if isinstance(entry, APIRoute):
            yield entry
        elif (inner := getattr(entry, "original_router", None)) is not None:
            yield from _routes(inner.routes)


def _body(route: APIRoute) -> Mapping[str, Any] | None:
    kind: Any = None if route.body_field is None else route.body_field.field_info.annotation
    return None if kind is None else TypeAdapter[Any](kind).json_schema()


def _queries(dependant: Dependant) -> set[str]:
    own = {field.alias for field in dependant.query_params}
    return own.union(*(_queries(inner) for inner in dependant.dependencies))


def made(schema: Mapping[str, Any], whole: Mapping[str, Any], foreign: str, depth: int = 0) -> Any:
    """A value of this schema with another bank's value wherever a text fits."""
    if "$ref" in schema:
        return made(whole["$defs"][schema["$ref"].rpartition("/")[2]], whole, foreign, depth)
    for several in ("anyOf", "oneOf", "allOf"):
        if several in schema:
            kinds = [each for each in schema[several] if each.get("type") != "null"]
            return made(kinds[0], whole, foreign, depth) if kinds else None
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
            return [made(schema.get("items", {"type": "string"}), whole, foreign, depth + 1)]
        case "object" if "properties" in schema:
            inner = schema["properties"].items()
            return {name: made(each, whole, foreign, depth + 1) for name, each in inner if depth < 4}
        case _:
            return {}


def required(schema: Mapping[str, Any], whole: Mapping[str, Any], foreign: str) -> dict[str, Any]:
    """The same with what must be there, and no more: verbs that take exactly one thing take this."""
    value: Any = made(schema, whole, foreign)
    needed: list[str] = schema.get("required", [])
    return {name: value[name] for name in needed}


def one_by_one(schema: Mapping[str, Any], foreign: str, turn: int) -> Iterator[Any]:
    """What must be there, with one of the other fields; the turns go through all of them."""
    value, least = made(schema, schema, foreign), required(schema, schema, foreign)
    names = [name for name in schema.get("properties", ()) if name not in least]
    yield from ({**least, name: value[name]} for name in names[turn::TURNS])


def asked(scene: Scene, call: Call, bank: str, foreign: str, turn: int = 0) -> Iterator[httpx2.Response]:
    """The call on a bank, with another bank's value in every other place: path, query and body."""
    path = call.path
    for name in call.route.param_convertors:
        path = path.replace(f"{{{name}}}", quote(bank if name in BANK else foreign, safe=""))
        path = path.replace(f"{{{name}:path}}", quote(bank if name in BANK else foreign, safe=""))
    names = sorted(_queries(call.route.dependant))
    queries = [{}, dict.fromkeys(names, foreign), *({name: foreign} for name in names[turn::TURNS])]
    for parameters in queries:
        yield scene.client.request(call.method, path, params=parameters)
    for body in _bodies(call, foreign, turn):
        yield scene.client.request(call.method, path, json=body)


def _bodies(call: Call, foreign: str, turn: int) -> list[Any]:
    if call.body is None:
        return []
    whole = call.body
    return [made(whole, whole, foreign), required(whole, whole, foreign), *one_by_one(whole, foreign, turn)]


def leaks(scene: Scene, response: httpx2.Response, sent: set[str]) -> list[str]:
    """Words of the other bank in an answer, but for those that the guest has sent before."""
    told = response.text + json.dumps(dict(response.headers))
    known = {*SECRETS, *scene.other.values.values(), scene.stranger}
    return [word for word in known - sent if word in told]


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
            assert not leaks(scene, response, {THEIRS}), f"{call}: {response.text[:300]}"
    assert exported(scene.database, THEIRS) == scene.other.export


def test_another_banks_ids_cursors_and_filters_bring_nothing_of_it(scene: Scene) -> None:
    sent: set[str] = set()
    values = (*scene.other.values.values(), scene.stranger)
    assert len(values) == TURNS
    for turn, foreign in enumerate(values):
        sent.add(foreign)
        for call in scene.calls():
            if call.method == "DELETE" and call.path in ("/v1/banks/{bank}", "/v1/default/banks/{bank_id}"):
                continue
            for response in asked(scene, call, MINE, foreign, turn):
                assert response.status_code < 500 or response.status_code == 501, f"{call}: {response.text[:300]}"
                assert not leaks(scene, response, sent), f"{call} with {foreign!r}: {response.text[:300]}"
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
    id, secret = scene.server.key_with_id("admin", MINE, name="short-lived")
    portal.run(scene.server.auth.revoke(id))
    for wrong in (secret, "vmemo_" + "A" * 43, "nonsense"):
        with scene.server.http(wrong) as client:
            for call in scene.calls():
                if call.path.startswith(("/health", "/version", "/openapi")):
                    continue
                path = call.path.replace("{bank}", MINE).replace("{bank_id}", MINE)
                response = client.request(call.method, path)
                assert response.status_code in (401, 404, 405, 422, 501), f"{call}: {response.status_code}"
                assert "cello" not in response.text


def verbs() -> list[str]:
    """Every verb of the client that waits for a server."""
    found = inspect.getmembers(Client, inspect.iscoroutinefunction)
    return [name for name, _ in found if not name.startswith("_") and name not in ("open", "close")]


def given(verb: str, foreign: str, folder: Path) -> dict[str, Any]:
    """Arguments of a verb: another bank's value wherever a text fits, and a file where one is asked for."""
    arguments: dict[str, Any] = {}
    for name, parameter in list(inspect.signature(getattr(Client, verb)).parameters.items())[1:]:
        kind = str(parameter.annotation)
        if parameter.kind is parameter.VAR_KEYWORD:
            continue
        if "Path" in kind:
            arguments[name] = folder / f"{verb}.jsonl"
        elif "Sequence" in kind and "Content" not in kind:
            arguments[name] = [foreign]
        elif "str" in kind or "Id" in kind or "Content" in kind:
            arguments[name] = foreign
    return arguments


def called(client: Client, verb: str, arguments: Mapping[str, Any]) -> str:
    """What a verb of the client tells, be it an error."""
    try:
        return repr(portal.run(getattr(client, verb)(**arguments)))
    except VmemoError as error:
        return f"{public_name(error)}: {error}"


def test_no_verb_of_the_client_lets_a_key_into_another_bank(scene: Scene, tmp_path: Path) -> None:
    mine = Client(scene.server.url, MINE, key=scene.server.key("admin", MINE))
    theirs, names = mine.bank(THEIRS), verbs()
    assert len(names) > 25
    try:
        for verb in names:
            told = called(theirs, verb, given(verb, "x", tmp_path))
            assert told.startswith(("ServerDenied: ", "InvalidInput: ")) or verb == "banks", f"{verb}: {told[:300]}"
            for foreign in scene.other.values.values():
                told = called(mine, verb, given(verb, foreign, tmp_path))
                assert not [word for word in SECRETS if word in told], f"{verb} with {foreign!r}: {told[:300]}"
    finally:
        mine.close_sync()
    written = b"".join(file.read_bytes() for file in tmp_path.iterdir())
    assert not [word for word in SECRETS if word.encode() in written]
    assert exported(scene.database, THEIRS) == scene.other.export
