"""The chat of the console with a language model."""

from __future__ import annotations

import re

from pydantic import JsonValue

from console_client import signed_in
from live_server import live_server
from vmemo import Memory
from vmemo.sync import portal
from vmemo_conformance.embedders import HashEmbedder
from vmemo_conformance.fake_llm import FakeLLM, StatusResponse

QUESTION = "What pet has Ana, and is it a good one?"
EVENT_STREAM = {"Accept": "text/event-stream"}


ANSWER: dict[str, JsonValue] = {
    "calls": [],
    "steps": [],
    "found": True,
    "text": "Ana has a grey cat [F1]. <b>Good</b>.",
    "opinions": [],
    "revised": [],
}


def fill(database: str) -> None:
    """Store a message."""
    with Memory(database, "demo", embedder=HashEmbedder()) as memory:
        memory.retain_sync("I have a grey cat.", speaker="Ana")


def test_answer_is_streamed_and_only_a_writer_may_store_opinions(sqlite_url: str) -> None:
    fill(sqlite_url)
    model = FakeLLM({"reflect": [ANSWER] * 4})
    with live_server(sqlite_url, keyless=False, llm=model) as server:
        with signed_in(server, "read") as reader:
            assert "keep opinions" not in reader.get("/chat")
            data = {"query": QUESTION, "opinions": "true", "csrf_token": reader.token}
            streamed = reader.http.post(reader.path("/chat"), data=data, headers=EVENT_STREAM).text
        deltas = "".join(re.findall(r"event: delta\r\ndata: (.*)\r\n", streamed))
        assert "grey cat" in deltas
        assert "event: answer" in streamed
        assert 'class="cite"' in streamed
        assert "&lt;b&gt;Good" in streamed.split("event: answer")[1]
        assert portal.run(server.auth.audit_entries()) == []
        with signed_in(server, "write") as writer:
            assert "keep opinions" in writer.get("/chat")
            writer.submit("/chat", query=QUESTION, opinions="true")
        assert [entry.verb for entry in portal.run(server.auth.audit_entries())] == ["POST /console/banks/{bank}/chat"]


def test_failure_of_the_model_is_shown(sqlite_url: str) -> None:
    fill(sqlite_url)
    model = FakeLLM({"reflect": [StatusResponse(400)] * 8})
    with live_server(sqlite_url, keyless=False, llm=model) as server, signed_in(server, "read") as reader:
        data = {"query": QUESTION, "csrf_token": reader.token}
        streamed = reader.http.post(reader.path("/chat"), data=data, headers=EVENT_STREAM)
        assert "event: problem" in streamed.text
        page = reader.http.post(reader.path("/chat"), data=data)
        assert page.status_code >= 500
        assert "The language model failed" in page.text
