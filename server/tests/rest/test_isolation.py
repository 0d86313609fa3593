"""No key reaches another bank: every route, with another bank's name, ids, cursors, filters and keys.

The routes come from the application and the bodies from their schemas, so a new route is covered at once. No response
may hold anything of the other bank, and nothing in it may change.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
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
from vmemo.sync import portal
from vmemo_conformance.embedders import HashEmbedder
from vmemo_server.auth import Limits

OWN, OTHER = "own", "other-7f3a"
SECRETS = ("Zanzibar", "kumquat", "Oberammergau")
"""Words that only the other bank holds."""
BANK_PARAMETERS = ("bank", "bank_id")
PUBLIC = ("/", "/docs", "/health", "/health/live", "/health/ready", "/version", "/openapi.json", "/console/sign-in")
"""Paths that need no key."""
ROUNDS = 9
"""Values of the other bank; each round tries one of them, with every ninth optional field."""


@dataclass(frozen=True)
class OtherBank:
    """Values of the other bank that a caller might know."""

    values: Mapping[str, str]
    export: bytes


@dataclass(frozen=True)
class RouteCall:
    """One method of a route, with the schema of its body."""

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


def fill(database: Path) -> OtherBank:
    """Create two banks; the other one holds every kind of record that has an id."""
    with Memory(f"sqlite:///{database}", OWN, embedder=HashEmbedder()) as memory:
        memory.retain_sync("Ana plays the cello in Leeds.", document="own-notes")
        other = memory.bank(OTHER)
        other.retain_sync(
            [
                Message(content="Quennell bought a house in Zanzibar in May 2024.", speaker="Quennell"),
                Message(content="I prefer kumquat jam, said Mr Quennell.", speaker="Quennell"),
            ],
            document="other-notes",
            tags=["Oberammergau"],
        )
        other.profile_sync(Profile(name="Quennell's helper", background="I know about Zanzibar."))
        entities = other.entities_sync()
        merge = other.merge_entities_sync(entities[0].id, entities[1].id, "someone from Oberammergau said so")
        facts, messages, episodes = other.facts_sync(), other.messages_sync(), other.episodes_sync()
        values = {
            "bank": OTHER,
            "fact": facts[0].id,
            "message": messages[0].id,
            "episode": episodes[0].id,
            "entity": entities[0].id,
            "name": "Quennell",
            "merge": merge.id,
            "document": "other-notes",
        }
    return OtherBank(values, exported(database, OTHER))


@dataclass(frozen=True)
class TwoBanks:
    """A server with two banks, and a client with an admin key of one of them."""

    server: LiveServer
    other: OtherBank
    database: Path
    client: httpx2.Client
    other_key: str

    @cached_property
    def calls(self) -> list[RouteCall]:
        """Every method of every route."""
        return [
            RouteCall(method, route.path, route, _body(route))
            for route in _routes(self.server.app.routes)
            for method in sorted(set(route.methods or ()) - {"HEAD", "OPTIONS"})
        ]


@pytest.fixture(scope="module")
def two_banks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TwoBanks]:
    database = tmp_path_factory.mktemp("isolation") / "memory.db"
    other = fill(database)
    with live_server(f"sqlite:///{database}", keyless=False, limits=Limits(rate=0)) as server:
        other_key, _ = server.key_with_id("admin", OTHER, name="Quennell's own key")
        with server.http(server.key("admin", OWN)) as client:
            yield TwoBanks(server, other, database, client, other_key)


def _routes(table: Sequence[object]) -> Iterator[APIRoute]:
    """Yield all routes, including those of nested routers."""
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


def example(schema: Mapping[str, Any], whole: Mapping[str, Any], other_value: str, depth: int = 0) -> Any:
    """Return a value of this schema, with the other bank's value for every string."""
    if "$ref" in schema:
        return example(whole["$defs"][schema["$ref"].rpartition("/")[2]], whole, other_value, depth)
    for several in ("anyOf", "oneOf", "allOf"):
        if several in schema:
            kinds = [each for each in schema[several] if each.get("type") != "null"]
            return example(kinds[0], whole, other_value, depth) if kinds else None
    if "const" in schema or "enum" in schema:
        return schema.get("const", schema.get("enum", [None])[0])
    match schema.get("type"):
        case "string":
            return "2026-01-01T00:00:00Z" if schema.get("format") == "date-time" else other_value
        case "integer" | "number":
            return schema.get("minimum", schema.get("default", 1)) or 1
        case "boolean":
            return schema.get("default", True)
        case "array":
            return [example(schema.get("items", {"type": "string"}), whole, other_value, depth + 1)]
        case "object" if "properties" in schema:
            inner = schema["properties"].items()
            return {name: example(each, whole, other_value, depth + 1) for name, each in inner if depth < 4}
        case _:
            return {}


def required(schema: Mapping[str, Any], whole: Mapping[str, Any], other_value: str) -> dict[str, Any]:
    """Return an example with the required fields only."""
    value: Any = example(schema, whole, other_value)
    needed: list[str] = schema.get("required", [])
    return {name: value[name] for name in needed}


def one_by_one(schema: Mapping[str, Any], other_value: str, round_: int) -> Iterator[Any]:
    """Yield the required fields with one optional field each; the rounds cover all of them."""
    value, least = example(schema, schema, other_value), required(schema, schema, other_value)
    names = [name for name in schema.get("properties", ()) if name not in least]
    yield from ({**least, name: value[name]} for name in names[round_::ROUNDS])


def responses_of(
    two_banks: TwoBanks, call: RouteCall, bank: str, other_value: str, round_: int = 0
) -> Iterator[httpx2.Response]:
    """Send a call to a bank, with the other bank's value in path, query and body."""
    path = call.path
    for name in call.route.param_convertors:
        path = path.replace(f"{{{name}}}", quote(bank if name in BANK_PARAMETERS else other_value, safe=""))
        path = path.replace(f"{{{name}:path}}", quote(bank if name in BANK_PARAMETERS else other_value, safe=""))
    names = sorted(_queries(call.route.dependant))
    queries = [{}, dict.fromkeys(names, other_value), *({name: other_value} for name in names[round_::ROUNDS])]
    requests: list[dict[str, Any]] = [{"params": each} for each in queries]
    requests += [{"json": each} for each in _bodies(call, other_value, round_)]
    for text, request in {json.dumps(request): request for request in requests}.items():
        # A request without the value is the same in every round.
        if round_ in (0, ROUNDS - 1) or json.dumps(other_value) in text or other_value in path:
            yield two_banks.client.request(call.method, path, **request)


def _bodies(call: RouteCall, other_value: str, round_: int) -> list[Any]:
    if call.body is None:
        return []
    whole = call.body
    return [
        example(whole, whole, other_value),
        required(whole, whole, other_value),
        *one_by_one(whole, other_value, round_),
    ]


def leaks(two_banks: TwoBanks, response: httpx2.Response, sent: set[str]) -> list[str]:
    """Return words of the other bank in a response, except those that the caller has sent."""
    text = response.text + json.dumps(dict(response.headers))
    known = {*SECRETS, *two_banks.other.values.values(), two_banks.other_key}
    return [word for word in known - sent if word in text]


def test_routes_of_all_interfaces_are_found(two_banks: TwoBanks) -> None:
    named = [call for call in two_banks.calls if set(call.route.param_convertors) & set(BANK_PARAMETERS)]
    assert len(named) > 40
    assert any(call.path.startswith("/v1/default/") for call in named)
    assert any(call.body is not None for call in named)


def is_refused(response: httpx2.Response) -> bool:
    """Return True for an error, and for the way to the console's sign-in; its sessions have tests of their own."""
    if response.status_code == 303:
        return response.headers["location"].startswith("/console/sign-in")
    return response.status_code in (401, 403, 404, 405, 422, 501)


def test_no_route_lets_a_key_into_another_bank(two_banks: TwoBanks) -> None:
    for call in two_banks.calls:
        if not set(call.route.param_convertors) & set(BANK_PARAMETERS):
            continue
        for response in responses_of(two_banks, call, OTHER, "x"):
            assert is_refused(response), f"{call}: {response.status_code}"
            assert not leaks(two_banks, response, {OTHER}), f"{call}: {response.text[:300]}"
    assert exported(two_banks.database, OTHER) == two_banks.other.export


def test_ids_cursors_and_filters_of_another_bank_reveal_nothing(two_banks: TwoBanks) -> None:
    sent: set[str] = set()
    values = (*two_banks.other.values.values(), two_banks.other_key)
    assert len(values) == ROUNDS
    for round_, other_value in enumerate(values):
        sent.add(other_value)
        for call in two_banks.calls:
            if call.method == "DELETE" and call.path in ("/v1/banks/{bank}", "/v1/default/banks/{bank_id}"):
                continue
            for response in responses_of(two_banks, call, OWN, other_value, round_):
                assert response.status_code < 500 or response.status_code == 501, f"{call}: {response.text[:300]}"
                assert not leaks(two_banks, response, sent), f"{call} with {other_value!r}: {response.text[:300]}"
    assert exported(two_banks.database, OTHER) == two_banks.other.export


def test_missing_bank_looks_like_a_bank_of_another_key(two_banks: TwoBanks) -> None:
    for call in two_banks.calls:
        if not set(call.route.param_convertors) & set(BANK_PARAMETERS):
            continue
        existing = [(r.status_code, _normalized(r)) for r in responses_of(two_banks, call, OTHER, "x")]
        missing = [(r.status_code, _normalized(r)) for r in responses_of(two_banks, call, "missing-bank", "x")]
        assert existing == missing, str(call)


def _normalized(response: httpx2.Response) -> str:
    body = response.json() if response.text.startswith("{") else {"text": response.text}
    body.pop("request_id", None)
    return json.dumps(body, sort_keys=True).replace(OTHER, "BANK").replace("missing-bank", "BANK")


def test_revoked_and_unknown_keys_are_rejected(two_banks: TwoBanks) -> None:
    id, secret = two_banks.server.key_with_id("admin", OWN, name="short-lived")
    portal.run(two_banks.server.auth.revoke(id))
    for wrong in (secret, "vmemo_" + "A" * 43, "nonsense"):
        with two_banks.server.http(wrong) as client:
            for call in two_banks.calls:
                if call.path in PUBLIC:
                    continue
                path = call.path.replace("{bank}", OWN).replace("{bank_id}", OWN)
                response = client.request(call.method, path)
                assert response.status_code != 403 or call.path.startswith("/console/"), str(call)
                assert is_refused(response), f"{call}: {response.status_code}"
                assert "cello" not in response.text


def verbs() -> list[str]:
    """Return the names of the client's async verbs."""
    found = inspect.getmembers(Client, inspect.iscoroutinefunction)
    return [name for name, _ in found if not name.startswith("_") and name not in ("open", "close", "run")]


def arguments_of(verb: str, other_value: str, folder: Path) -> dict[str, Any]:
    """Return arguments of a verb: the other bank's value for every string, and a file for every path."""
    arguments: dict[str, Any] = {}
    for name, parameter in list(inspect.signature(getattr(Client, verb)).parameters.items())[1:]:
        kind = str(parameter.annotation)
        if parameter.kind is parameter.VAR_KEYWORD:
            continue
        if "Path" in kind:
            arguments[name] = folder / f"{verb}.jsonl"
        elif "Sequence" in kind and "Content" not in kind:
            arguments[name] = [other_value]
        elif "str" in kind or "Id" in kind or "Content" in kind:
            arguments[name] = other_value
    return arguments


def outcome(client: Client, verb: str, arguments: Mapping[str, Any]) -> str:
    """Return the result or error of a verb as text."""
    try:
        return repr(portal.run(getattr(client, verb)(**arguments)))
    except VmemoError as error:
        return f"{public_name(error)}: {error}"


def test_no_verb_of_the_client_lets_a_key_into_another_bank(two_banks: TwoBanks, tmp_path: Path) -> None:
    values, own = two_banks.other.values, Client(two_banks.server.url, OWN, key=two_banks.server.key("admin", OWN))
    other, names = own.bank(OTHER), verbs()
    assert len(names) > 25
    try:
        for verb in names:
            text = outcome(other, verb, arguments_of(verb, "x", tmp_path))
            assert text.startswith(("ServerDenied: ", "InvalidInput: ")) or verb == "banks", f"{verb}: {text[:300]}"
            # The routes that the client uses are tried with every value above.
            for other_value in (values["fact"], values["message"], values["name"]):
                text = outcome(own, verb, arguments_of(verb, other_value, tmp_path))
                assert not [word for word in SECRETS if word in text], f"{verb} with {other_value!r}: {text[:300]}"
    finally:
        own.close_sync()
    written = b"".join(file.read_bytes() for file in tmp_path.iterdir())
    assert not [word for word in SECRETS if word.encode() in written]
    assert exported(two_banks.database, OTHER) == two_banks.other.export
