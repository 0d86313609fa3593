"""The OpenAPI description is whole, and docs/rest.md names every route with the right that it takes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from live_server import LiveServer

DOCS = Path(__file__).parents[2] / "docs" / "rest.md"
FREE = "none"
"""No key at all."""


def operations(server: LiveServer) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """The routes of this door: method, path and description."""
    paths: dict[str, dict[str, dict[str, Any]]] = server.app.openapi()["paths"]
    for path, methods in paths.items():
        for method, described in methods.items():
            if "hindsight" not in described["tags"]:
                yield method.upper(), path, described


def right(server: LiveServer, method: str, path: str, secrets: dict[str, str]) -> str:
    """The least right with which a route does not refuse a guest."""
    named = path.format(bank="a", fact="none", opinion="none", merge="none", key="none")
    kind = "application/x-ndjson" if path.endswith("/import") else "application/json"
    for name, secret in {FREE: None, **secrets}.items():
        with server.http(secret) as client:
            answer = client.request(method, named, content=b"{}", headers={"Content-Type": kind})
            if answer.status_code not in (401, 403):
                return name
    return "admin"


def table(server: LiveServer) -> list[str]:
    """The rows that the page must have."""
    with server.http(server.key("write", "a")) as client:
        client.put("/v1/banks/a")
    # Who has one bank is not let where the whole database is meant.
    secrets = {"read": server.key("read"), "write": server.key("write")}
    return [
        f"| `{method} {path}` | {right(server, method, path, secrets)} | {described['description'].splitlines()[0]} |"
        for method, path, described in operations(server)
    ]


def test_the_page_has_every_route_with_its_right_and_no_other(keyed_server: LiveServer) -> None:
    rows = [line for line in DOCS.read_text(encoding="utf-8").splitlines() if line.startswith("| `")]
    assert rows == table(keyed_server)


def test_the_description_is_whole(server: LiveServer) -> None:
    described = server.app.openapi()
    assert described["openapi"].startswith("3.1")
    tags = {tag["name"]: tag["description"] for tag in described["tags"]}
    ids = [operation["operationId"] for _, _, operation in operations(server)]
    assert len(ids) == len(set(ids))
    for method, path, operation in operations(server):
        assert operation["tags"][0] in tags, path
        assert operation["description"], path
        assert operation["operationId"].isidentifier()
        assert ("security" in operation) == (not path.startswith("/health"))
        if "requestBody" in operation and not path.endswith("/import"):
            assert list(operation["requestBody"]["content"]) == ["application/json"], (method, path)
        for status, answer in operation["responses"].items():
            if int(status) >= 400:
                assert "application/problem+json" in answer["content"], (method, path, status)
    bearer = described["components"]["securitySchemes"]["bearer"]
    assert (bearer["scheme"], "vmemo keys create" in bearer["description"]) == ("bearer", True)


def test_bodies_are_shown_by_examples_that_fit_them(server: LiveServer) -> None:
    schemas = server.app.openapi()["components"]["schemas"]
    shown = {name: schema["examples"] for name, schema in schemas.items() if schema.get("examples")}
    assert {"Retain", "Recall", "Retrieve", "Reflect", "Forget", "NewProfile", "NewMerge"} <= shown.keys()
    with server.http() as client:
        client.post("/v1/banks/a/messages", json=shown["Retain"][0])
        for name, method, path in (
            ("Recall", "POST", "recall"),
            ("Retrieve", "POST", "retrieve"),
            ("Reflect", "POST", "reflect"),
            ("NewProfile", "PUT", "profile"),
            ("Forget", "POST", "forget"),
        ):
            assert client.request(method, f"/v1/banks/a/{path}", json=shown[name][0]).status_code == 200, name
