"""Schemas of callers never make this process fetch a URL, and never stop the event loop."""

from __future__ import annotations

import asyncio
import time
import warnings
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread, get_ident

import pytest
from pydantic import JsonValue

from vmemo import InvalidInput
from vmemo.llm.caller_schema import CallerSchema
from vmemo.llm.structured import ParseResult, StructuredLLM
from vmemo.ports import LLMRequest
from vmemo_conformance.fake_llm import FakeLLM

STORES = ("sqlite",)

DRAFT_4, DRAFT_7 = (f"http://json-schema.org/draft-0{number}/schema#" for number in (4, 7))
SOME = {"$ref": "#/y"}


class Target:
    """A host that records who asks it."""

    def __init__(self, server: ThreadingHTTPServer, asked: list[str]) -> None:
        self.url = f"http://127.0.0.1:{server.server_port}/schema"
        self.asked = asked


@pytest.fixture(scope="module")
def target() -> Iterator[Target]:
    """Run a host that returns a schema for every path."""
    asked = list[str]()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b'{"y": {"type": "object"}, "type": "object"}')

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    yield Target(server, asked)
    server.shutdown()
    server.server_close()


def remote_schemas(url: str) -> dict[str, dict[str, JsonValue]]:
    """Return schemas whose references lead to a URL, plainly or through an id."""
    return {
        "reference": {"$ref": url},
        "dynamic reference": {"$dynamicRef": f"{url}#x"},
        "relative reference": {"$id": url, "properties": {"a": {"$ref": "other"}}},
        "id in an unknown keyword": {"$ref": "#/foo/bar", "foo": {"bar": {"allOf": [{"$id": url, **SOME}]}}},
        "id in a constant": {"$ref": "#/const", "const": {"allOf": [{"$id": url, "allOf": [{"$ref": "#"}]}]}},
        "id in an enum": {"$ref": "#/enum/0", "enum": [{"$id": url, **SOME}]},
        "id in a default": {"$ref": "#/default", "default": {"$id": url, **SOME}},
        "id beside a dynamic reference": {"$ref": "#/foo", "foo": {"$id": url, "$dynamicRef": "#y"}},
        "id in draft 7": {"$schema": DRAFT_7, "allOf": [{"$ref": "#/foo"}], "foo": {"allOf": [{"$id": url, **SOME}]}},
        "id in draft 4": {"$schema": DRAFT_4, "allOf": [{"$ref": "#/foo"}], "foo": {"allOf": [{"id": url, **SOME}]}},
        "local file": {"$ref": "#/foo", "foo": {"$id": "file:///etc/hostname", **SOME}},
    }


@pytest.mark.parametrize("name", remote_schemas(""))
def test_a_reference_to_a_url_is_rejected_and_nothing_is_fetched(name: str, target: Target) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", DeprecationWarning)
        with pytest.raises(InvalidInput, match=r"nothing is fetched|Only a whole schema|cannot be resolved"):
            CallerSchema.of({"type": "object", **remote_schemas(target.url)[name]})
    assert target.asked == []


def test_a_reference_that_only_an_answer_reaches_is_not_fetched_either(target: Target) -> None:
    remote: JsonValue = {"allOf": [{"id": target.url, "allOf": [{"$ref": "#/y"}]}]}
    lazy: JsonValue = {"properties": {"a": {"$ref": "#/foo"}}, "foo": {"properties": {"b": remote}}, "y": {}}
    schema = CallerSchema.of({"$schema": DRAFT_4, "type": "object", **lazy})
    problem, value = schema.parse('{"a": {"b": {}}}')
    assert (problem, value) == ("the schema contains a reference that cannot be resolved", None)
    assert target.asked == []


def test_a_whole_schema_may_have_an_id_and_references_inside() -> None:
    schema = CallerSchema.of(
        {
            "$id": "https://example.com/person.json",
            "type": "object",
            "properties": {"id": {"$ref": "#/$defs/name"}},
            "$defs": {"name": {"type": "string"}},
            "examples": [{"id": "ana"}],
        }
    )
    assert schema.parse('{"id": "ana"}') == (None, {"id": "ana"})
    assert schema.parse('{"id": 3}')[0]


def test_answers_are_parsed_outside_the_event_loop() -> None:
    loop_thread = get_ident()
    parsed_in = list[int]()

    def parse(text: str) -> ParseResult[str]:
        parsed_in.append(get_ident())
        time.sleep(0.001)
        return (None, text) if len(parsed_in) > 1 else ("too short", None)

    llm = StructuredLLM(FakeLLM({"structure": ["a", "b"]}))
    assert asyncio.run(llm.ask_text(LLMRequest(step="structure", system="", user="", schema={}), parse)) == "b"
    assert len(parsed_in) == 2
    assert loop_thread not in parsed_in
