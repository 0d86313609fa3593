"""The pages `/` and `/docs`, and cross-origin requests of web pages."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterator
from hashlib import sha256
from html.parser import HTMLParser
from importlib.metadata import version

import httpx2
import pytest

from live_server import HOST, LiveServer, live_server
from vmemo import InvalidInput
from vmemo_server.app import ServerOptions
from vmemo_server.middleware import checked_origin

APP = "https://app.example"


class _Page(HTMLParser):
    """The links, ids, elements and text of a page; the elements must be closed in order."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.ids: list[str] = []
        self.elements: list[str] = []
        self.text = ""
        self._open: list[str] = []
        self.feed(page)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append(tag)
        self._open += [tag] if tag not in ("meta", "br") else []
        given = dict(attrs)
        assert not {"src", "style", "onclick"} & set(given)
        self.links += [given["href"] or ""] if "href" in given else []
        self.ids += [given["id"] or ""] if "id" in given else []

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def page_of(response: httpx2.Response) -> _Page:
    """Return the page of a response, whose policy allows its one style and nothing else."""
    assert response.status_code == 200
    assert response.headers["content-type"] == "text/html; charset=utf-8"
    (style,) = re.findall(r"<style>(.*?)</style>", response.text)
    hashed = b64encode(sha256(style.encode()).digest()).decode()
    policy = response.headers["content-security-policy"]
    assert f"style-src 'sha256-{hashed}'" in policy
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    page = _Page(response.text)
    assert "script" not in page.elements
    assert not [link for link in page.links if "//" in link]
    return page


def test_home_page_needs_no_key_and_links_to_the_interfaces(keyed_server: LiveServer) -> None:
    with keyed_server.http() as client:
        page = page_of(client.get("/", headers={"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}))
        assert page.links == ["/console", "/docs", "/openapi.json", "/health", "/mcp"]
        assert f"vmemo {version('vmemo')}" in page.text
        assert f'curl {keyed_server.url}/v1/banks/ana/messages -H "Authorization: Bearer $VMEMO_API_KEY"' in page.text
        assert [client.get(link).status_code for link in page.links[:4]] == [303, 200, 200, 200]
        described = client.get("/", headers={"Accept": "application/json"}).json()
        assert described["version"] == version("vmemo")
        assert [described[name] for name in ("console", "docs", "openapi", "health", "mcp")] == page.links


def test_reference_runs_only_scripts_of_this_server(keyed_server: LiveServer) -> None:
    with keyed_server.http() as client:
        page = client.get("/docs")
        own, inline = re.findall(r'<script(?: src="([^"]*)")?>(.*?)</script>', page.text, re.DOTALL)
        policy = page.headers["content-security-policy"]
        assert f"script-src 'self' 'sha256-{b64encode(sha256(inline[1].encode()).digest()).decode()}';" in policy
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert "//" not in page.text.replace("</", "")
        assert client.get(f"/{own[0]}").headers["content-type"] == "text/javascript; charset=utf-8"
        assert client.get("/docs/swagger-ui.css").status_code == 200
        assert client.get("/docs/..%2Fcore.py").status_code == 404


@pytest.fixture
def cors_server(database: str) -> Iterator[LiveServer]:
    with live_server(database, options=ServerOptions(hosts=(HOST,), cors_origins=[APP])) as running:
        yield running


def test_page_of_an_allowed_origin_can_use_the_server(cors_server: LiveServer) -> None:
    asked = {
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "authorization,content-type,idempotency-key",
    }
    with cors_server.http(Origin=APP) as client:
        preflight = client.options("/v1/banks/a/messages", headers=asked)
        assert (preflight.status_code, preflight.headers["access-control-allow-origin"]) == (200, APP)
        assert "POST" in preflight.headers["access-control-allow-methods"]
        allowed = preflight.headers["access-control-allow-headers"].lower()
        assert all(name in allowed for name in asked["Access-Control-Request-Headers"].split(","))
        assert "access-control-allow-credentials" not in preflight.headers
        stored = client.post("/v1/banks/a/messages", json={"messages": [{"content": "Ana plays the cello."}]})
        assert (stored.status_code, stored.headers["access-control-allow-origin"]) == (200, APP)
        assert "Retry-After" in stored.headers["access-control-expose-headers"]
        refused = client.post("/v1/banks/a/recall", json={"nonsense": 1})
        assert (refused.status_code, refused.headers["access-control-allow-origin"]) == (422, APP)
    with cors_server.http(Origin="https://evil.example") as client:
        assert client.options("/v1/banks/a/messages", headers=asked).status_code == 400
        answer = client.get("/v1/banks")
        assert (answer.status_code, "access-control-allow-origin" in answer.headers) == (403, False)


def test_server_sends_no_cors_headers_by_default(keyed_server: LiveServer) -> None:
    with keyed_server.http(keyed_server.key("read"), Origin="http://127.0.0.1") as client:
        answer = client.get("/v1/banks")
        assert answer.status_code == 200
        assert not [name for name in answer.headers if name.startswith("access-control")]


@pytest.mark.parametrize("origin", ["*", "app.example", "https://app.example/", "https://a b", "null", "file:///x"])
def test_invalid_origin_is_refused(origin: str) -> None:
    with pytest.raises(InvalidInput, match="a scheme and a host"):
        checked_origin(origin)
