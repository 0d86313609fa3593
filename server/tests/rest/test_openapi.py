"""The OpenAPI description is complete, and docs/rest.md lists every route with its permission."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from live_server import LiveServer

DOCS = Path(__file__).parents[3] / "docs" / "rest.md"
NO_KEY = "none"
JSON = "application/json"


def operations(server: LiveServer) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield method, path and description of every REST route."""
    paths: dict[str, dict[str, dict[str, Any]]] = server.app.openapi()["paths"]
    for path, methods in paths.items():
        for method, described in methods.items():
            if "hindsight" not in described["tags"]:
                yield method.upper(), path, described


def least_permission(server: LiveServer, method: str, path: str, secrets: dict[str, str]) -> str:
    """Return the least permission that a route accepts."""
    url = path.format(bank="a", fact="none", opinion="none", merge="none", webhook="none", key="none")
    kind = "application/x-ndjson" if path.endswith("/import") else "application/json"
    for name, secret in {NO_KEY: None, **secrets}.items():
        with server.http(secret) as client:
            response = client.request(method, url, content=b"{}", headers={"Content-Type": kind})
            if response.status_code not in (401, 403):
                return name
    return "admin"


def table(server: LiveServer) -> list[str]:
    """Return the rows that the page must have."""
    with server.http(server.key("write", "a")) as client:
        client.put("/v1/banks/a")
    # Keys for every bank, because some routes need permission for all of them.
    secrets = {"read": server.key("read"), "write": server.key("write")}
    rows: list[str] = []
    for method, path, described in operations(server):
        permission = least_permission(server, method, path, secrets)
        rows.append(f"| `{method} {path}` | {permission} | {described['description'].splitlines()[0]} |")
    return rows


def test_docs_list_every_route_with_its_permission(keyed_server: LiveServer) -> None:
    rows = [line for line in DOCS.read_text(encoding="utf-8").splitlines() if line.startswith("| `")]
    assert rows == table(keyed_server)


def test_description_is_complete(server: LiveServer) -> None:
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
        for status, response in operation["responses"].items():
            if int(status) >= 400:
                assert "application/problem+json" in response["content"], (method, path, status)
    bearer = described["components"]["securitySchemes"]["bearer"]
    assert (bearer["scheme"], "vmemo keys create" in bearer["description"]) == ("bearer", True)


def test_examples_of_bodies_are_valid(server: LiveServer) -> None:
    examples = {
        (method, path): [
            each["value"] for each in operation["requestBody"]["content"][JSON].get("examples", {}).values()
        ]
        for method, path, operation in operations(server)
        if JSON in operation.get("requestBody", {}).get("content", {})
    }
    assert len([found for found in examples.values() if found]) >= 8
    with server.http() as client:
        client.post("/v1/banks/a/messages", json=examples["POST", "/v1/banks/{bank}/messages"][0])
        for path in ("recall", "retrieve", "context", "reflect", "forget"):
            body = examples["POST", f"/v1/banks/{{bank}}/{path}"][0]
            assert client.post(f"/v1/banks/a/{path}", json=body).status_code == 200, path
        profile = examples["PUT", "/v1/banks/{bank}/profile"][0]
        assert client.put("/v1/banks/a/profile", json=profile).status_code == 200
