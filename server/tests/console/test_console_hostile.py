"""Hostile content is text on every page."""

from __future__ import annotations

from collections.abc import Iterator
from html import unescape
from html.parser import HTMLParser
from pathlib import Path

import pytest

from console_client import ConsoleClient
from console_samples import BANK, LONG, OTHER, fill_hostile
from live_server import LiveServer, live_server
from vmemo import Memory
from vmemo.sync import portal


class _Elements(HTMLParser):
    """Collects the elements and attributes of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.scripts: list[str] = []
        self.attributes: set[str] = set()
        self.images = 0
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.attributes |= given.keys()
        if tag == "script":
            self.scripts.append(given.get("src") or "inline")
        self.images += tag in ("img", "iframe", "object", "embed", "base")


@pytest.fixture(scope="module")
def hostile(sqlite_template: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    """Run a server on a bank whose every text is hostile."""
    path = tmp_path_factory.mktemp("hostile") / "memory.db"
    path.write_bytes(sqlite_template.read_bytes())
    with live_server(f"sqlite:///{path}") as server:
        portal.run(fill_hostile(server.memory.bank(BANK)))
        yield server


def pages_of(memory: Memory) -> list[str]:
    """Return the addresses of every page of the bank, one per record for those that show a record."""
    facts, messages = portal.run(memory.facts(limit=8)), portal.run(memory.messages(limit=50))
    entities, episodes = portal.run(memory.entities(limit=50)), portal.run(memory.episodes(limit=50))
    plain = ["", "/queue", "/summary", "/facts", "/entities", "/graph", "/opinions", "/observations", "/messages"]
    plain += ["/episodes", "/recall", "/recall?query=Where%20does%20Maya%20work", "/chat", "/profile", "/forget"]
    return [
        *plain,
        *(f"/facts/{fact.id}{page}" for fact in facts for page in ("", "/card", "/delete")),
        *(f"/messages/{message.id}" for message in messages),
        *(f"/forget?message={message.id}" for message in messages),
        *(f"/entities/{entity.id}" for entity in entities),
        *(f"/graph?focus={entity.id}" for entity in entities),
        *(f"/episodes/{episode.id}" for episode in episodes),
    ]


def test_stored_script_is_text_on_every_page(hostile: LiveServer) -> None:
    memory = hostile.memory.bank(BANK)
    with hostile.http() as http:
        client = ConsoleClient(http, BANK)
        shown = ""
        for page in pages_of(memory):
            response = client.fragment(page) if page.startswith("/forget?") else http.get(client.path(page))
            assert response.status_code == 200, (page, response.text[:300])
            elements = _Elements(response.text)
            assert all(script.startswith("/console/static/") for script in elements.scripts), page
            assert not [name for name in elements.attributes if name.startswith("on") or name == "style"], page
            assert elements.images == 0, page
            assert len(response.content) < 700_000, page
            shown += response.text[:200_000]
        assert "&lt;script&gt;alert(" in shown
        assert "{{ 7*7 }}" in shown
        assert OTHER[:10] in shown
        listed = http.get("/console")
        assert "<script>alert" not in listed.text


def test_hostile_query_is_text(hostile: LiveServer) -> None:
    with hostile.http() as http:
        client = ConsoleClient(http, BANK)
        for page in (
            "/recall?query=",
            "/facts?entity=",
            "/facts?q=",
            "/messages?q=",
            "/entities?q=",
            "/messages?document=",
            "/forget?entity=",
        ):
            response = http.get(client.path(page) + "%3Cscript%3Ealert(1)%3C/script%3E")
            assert "<script>alert" not in response.text
        assert "<script>alert" not in http.get("/console?q=%3Cscript%3Ealert(1)").text
        assert "<script>alert" not in http.get("/console/banks/%3Cscript%3Ealert(1)").text


def test_lists_cut_long_texts_and_pages_show_them_on_request(hostile: LiveServer) -> None:
    memory = hostile.memory.bank(BANK)
    long = next(message for message in portal.run(memory.messages(limit=50)) if len(message.content) > 90_000)
    with hostile.http() as http:
        client = ConsoleClient(http, BANK)
        assert "w" * 1_000 not in client.get("/messages")
        page = client.get(f"/messages/{long.id}")
        assert "Show all 100,2" in page
        assert LONG in unescape(page)
