"""Embedders on OpenAI-compatible servers."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
import pytest
from pydantic import JsonValue

from max_wait import MAX_WAIT
from vmemo.embedding.cache import CachedEmbedder
from vmemo.embedding.named_embedders import (
    EMBEDDING_SERVICES,
    EmbedderOptions,
    RequestLimits,
    ServiceEmbedder,
    resolve_embedder,
)
from vmemo.errors import EmbeddingFailed, InvalidInput
from vmemo.models.search import Vectors
from vmemo.ports import Embedder, TextKind
from vmemo_conformance.embedders import HashEmbedder
from vmemo_conformance.fake_llm import (
    ConnectionDropped,
    ConnectionReset,
    Fault,
    Hang,
    HtmlPage,
    RawText,
    ReceivedRequest,
    StatusResponse,
)
from vmemo_conformance.llm_server import ScriptedServer

KEY = "sk-very-secret"
OPTIONS = EmbedderOptions(timeout=MAX_WAIT, api_key=KEY)
TEXTS = ["I have a cat.", "Maya lives in Bergen."]


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")


def embedder_at(
    server: ScriptedServer, options: EmbedderOptions = OPTIONS, *, limits: RequestLimits | None = None
) -> tuple[ServiceEmbedder, list[float]]:
    """Return an embedder on the server, and the pauses that it makes instead of sleeping."""
    pauses: list[float] = []

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)

    limits = limits or RequestLimits()
    return ServiceEmbedder("m", name="test:m", base_url=server.url, options=options, limits=limits, sleep=sleep), pauses


def embed(embedder: ServiceEmbedder, texts: list[str] = TEXTS, kind: TextKind = "document") -> Vectors:
    async def work() -> Vectors:
        try:
            return await embedder.embed(texts, kind)
        finally:
            await embedder.close()

    return asyncio.run(work())


def expected(texts: list[str]) -> Vectors:
    return asyncio.run(HashEmbedder().embed(texts, "document"))


def inputs(received: ReceivedRequest) -> list[str]:
    texts = received.body["input"]
    assert isinstance(texts, list)
    return [str(text) for text in texts]


@pytest.mark.parametrize("packed", [False, True])
def test_numbers_and_packed_numbers_are_read(packed: bool) -> None:
    with ScriptedServer({}) as server:
        embedder, _ = embedder_at(server, limits=RequestLimits(base64=packed))
        assert embedder.dimension == 0
        np.testing.assert_allclose(embed(embedder), expected(TEXTS), atol=1e-6)
        assert embedder.dimension == 64
        assert server.received[0].body == {
            "model": "m",
            "input": TEXTS,
            **({"encoding_format": "base64"} if packed else {}),
        }


def test_rows_are_ordered_by_their_index() -> None:
    rows: list[JsonValue] = [{"index": 1, "embedding": [0, 1]}, {"index": 0, "embedding": [1, 0]}]
    with ScriptedServer({"embed": {"data": rows}}) as server:
        assert embed(embedder_at(server)[0]).tolist() == [[1, 0], [0, 1]]


def test_requests_stay_within_the_limits_of_texts_and_tokens() -> None:
    with ScriptedServer({}) as server:
        limits = RequestLimits(texts=3, tokens=50, text_tokens=20)
        texts = ["one", "two", "three", "four", "word " * 500, "word " * 500, "word " * 500, ""]
        vectors = embed(embedder_at(server, replace(OPTIONS, concurrency=1), limits=limits)[0], texts)
        sent = [inputs(received) for received in server.received]
    assert [len(texts) for texts in sent] == [3, 3, 2]
    assert all(len(text.split()) <= 20 for texts in sent for text in texts)
    assert sent[2][1] == "."
    np.testing.assert_allclose(vectors[0], expected(["one"])[0], atol=1e-6)


def test_no_more_requests_are_open_than_the_concurrency() -> None:
    lock, open_requests, most = threading.Lock(), [0], [0]
    both = threading.Barrier(2)

    def reply(_: ReceivedRequest) -> None:
        with lock:
            open_requests[0] += 1
            most[0] = max(most[0], open_requests[0])
        both.wait(MAX_WAIT)
        with lock:
            open_requests[0] -= 1

    with ScriptedServer({"embed": reply}) as server:
        embedder, _ = embedder_at(server, replace(OPTIONS, concurrency=2), limits=RequestLimits(texts=1))
        embed(embedder, [f"text {number}" for number in range(6)])
        assert len(server.received) == 6
    assert most[0] == 2


@pytest.mark.parametrize(
    "fault",
    [
        StatusResponse(429),
        StatusResponse(500),
        StatusResponse(503),
        StatusResponse(408),
        ConnectionReset(),
        ConnectionDropped(""),
        HtmlPage(),
        RawText('{"data": []}'),
        RawText('{"data": [{"embedding": "!"}, {"embedding": "!"}]}'),
    ],
    ids=repr,
)
def test_a_transient_failure_is_retried_after_a_pause(fault: Fault) -> None:
    with ScriptedServer({}) as server:
        server.faults("embed", [fault, fault])
        embedder, pauses = embedder_at(server)
        np.testing.assert_allclose(embed(embedder), expected(TEXTS), atol=1e-6)
    assert len(pauses) == 2


def test_a_service_that_does_not_answer_in_time_is_tried_again() -> None:
    with ScriptedServer({}) as server:
        server.faults("embed", [Hang(60)])
        # The second attempt has to be answered within the same time.
        embedder, pauses = embedder_at(server, replace(OPTIONS, timeout=2))
        assert embed(embedder).shape == (2, 64)
    assert len(pauses) == 1


def test_the_requested_delay_is_waited_for() -> None:
    with ScriptedServer({}) as server:
        server.faults("embed", [StatusResponse(429, retry_after=3)])
        embedder, pauses = embedder_at(server)
        embed(embedder)
    assert pauses == [3]


@pytest.mark.parametrize(("kind", "seconds"), [("query", 30), ("document", 3600)])
def test_a_long_delay_is_left_to_the_caller(kind: TextKind, seconds: int) -> None:
    with ScriptedServer({}) as server:
        server.faults("embed", [StatusResponse(429, retry_after=seconds)])
        embedder, pauses = embedder_at(server)
        with pytest.raises(EmbeddingFailed, match=f"status 429 and asks not to be called for {seconds} seconds"):
            embed(embedder, kind=kind)
    assert pauses == []


def test_a_persistent_failure_names_the_embedder_the_url_and_the_attempts() -> None:
    with ScriptedServer({"embed": StatusResponse(503)}) as server:
        embedder, pauses = embedder_at(server, replace(OPTIONS, tries=3))
        with pytest.raises(EmbeddingFailed) as caught:
            embed(embedder)
        url = server.url
    assert str(caught.value) == (
        f"The embedder 'test:m' at {url}/embeddings answered with status 503, in 3 attempts. Try again later"
    )
    assert len(pauses) == 2


@pytest.mark.parametrize(
    ("status", "fix"),
    [
        (401, "check the API key"),
        (403, "check the API key and its permissions"),
        (404, "check the base URL and the model's name"),
        (400, "it does not accept the request .is a text longer than the model's context"),
        (307, "configure the final URL"),
    ],
)
def test_a_rejected_request_is_not_repeated_and_the_error_says_what_to_fix(status: int, fix: str) -> None:
    body = f"Incorrect API key provided: {KEY}; {TEXTS[0]}"
    with ScriptedServer({"embed": [StatusResponse(status, body)]}) as server:
        embedder, pauses = embedder_at(server)
        with pytest.raises(EmbeddingFailed, match=rf"'test:m' at {server.url}/embeddings .*{status}.*{fix}") as caught:
            embed(embedder)
    assert pauses == []
    assert KEY not in str(caught.value)
    assert TEXTS[0] not in str(caught.value)
    assert KEY not in repr(embedder)


def test_a_server_that_is_not_there_is_named() -> None:
    options = replace(OPTIONS, tries=1)
    embedder = ServiceEmbedder("m", name="test:m", base_url="http://127.0.0.1:9/v1?key=secret", options=options)
    with pytest.raises(EmbeddingFailed, match=r"at http://127\.0\.0\.1:9/v1/embeddings can't be reached") as caught:
        embed(embedder)
    assert "secret" not in str(caught.value)


def test_another_dimension_than_before_is_refused() -> None:
    with ScriptedServer({"embed": [None, {"data": [{"embedding": [1.0, 0.0]}]}]}) as server:
        embedder, _ = embedder_at(server)
        embed(embedder)
        with pytest.raises(EmbeddingFailed, match="returned vectors of 2 dimensions, but 64 before"):
            embed(embedder, ["again"])


def test_a_failure_in_the_middle_loses_no_other_batch() -> None:
    """The texts of the batches that were answered are cached, so that a repeated call requests only the others."""
    broken = [True]

    def reply(received: ReceivedRequest) -> JsonValue | Fault:
        return StatusResponse(400) if broken[0] and "text 120" in inputs(received) else None

    texts = [f"text {number}" for number in range(250)]

    async def work(server: ScriptedServer) -> None:
        cached = CachedEmbedder(embedder_at(server)[0])
        with pytest.raises(EmbeddingFailed, match="400"):
            await cached.embed(texts, "document")
        broken[0] = False
        vectors = await cached.embed(texts, "document")
        await cached.close()
        np.testing.assert_allclose(vectors[249], HashEmbedder().vector("text 249"), atol=1e-6)

    with ScriptedServer({"embed": reply}) as server:
        asyncio.run(work(server))
        requested = [inputs(received) for received in server.received]
    assert sorted(len(texts) for texts in requested) == [50, 100, 100, 100]
    assert requested[-1][0] == "text 100"


def resolve(name: str, keys: Mapping[str, str] | None = None, **options: str) -> Embedder:
    return resolve_embedder(name, keys=keys or {}, options=EmbedderOptions(**options))  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("prefix", EMBEDDING_SERVICES)
def test_each_prefix_creates_its_service_under_the_given_name(prefix: str) -> None:
    keys = {variable: KEY for service in EMBEDDING_SERVICES.values() for variable in service.key_variables}
    embedder = resolve(f"{prefix}:some/model:v1", keys)
    assert embedder.name == f"{prefix}:some/model:v1"
    assert EMBEDDING_SERVICES[prefix].base_url in repr(embedder)
    assert KEY not in repr(embedder)


@pytest.mark.parametrize(
    ("name", "variable"), [("openai:text-embedding-3-small", "OPENAI_API_KEY"), ("voyage:voyage-3.5", "VOYAGE_API_KEY")]
)
def test_a_missing_key_error_names_the_variable(name: str, variable: str) -> None:
    with pytest.raises(InvalidInput, match=rf"{name}.*set {variable} or VMEMO_EMBEDDER_KEY .*embedder_key=") as caught:
        resolve(name, {"OTHER": KEY})
    assert KEY not in str(caught.value)


@pytest.mark.parametrize(
    "name", ["", "gpt", KEY, "opanai:m", "openai:", "openai: m", "groq:m", "http://h/v1", "ftp://h#m"]
)
def test_an_unknown_name_error_lists_the_supported_forms_or_the_missing_model(name: str) -> None:
    with pytest.raises(InvalidInput, match=r"openai:MODEL.*voyage:MODEL.*fastembed:MODEL.*#MODEL|no model") as caught:
        resolve(name, {"OPENAI_API_KEY": KEY})
    assert KEY not in str(caught.value)


def test_voyage_is_told_queries_from_documents_and_other_models_get_their_prefixes() -> None:
    def sent(name: str, kind: TextKind) -> Mapping[str, JsonValue]:
        with ScriptedServer({}) as server:
            embedder = resolve(name, base_url=server.url)
            assert isinstance(embedder, ServiceEmbedder)
            embed(embedder, ["Maya"], kind)
            return server.received[0].body

    assert sent("voyage:voyage-3.5", "query") == {"model": "voyage-3.5", "input": ["Maya"], "input_type": "query"}
    assert sent("voyage:voyage-3.5", "document")["input_type"] == "document"
    assert sent("ollama:nomic-embed-text", "query")["input"] == ["search_query: Maya"]
    assert sent("vllm:intfloat/multilingual-e5-small", "document")["input"] == ["passage: Maya"]
    assert sent("vllm:BAAI/bge-m3", "query")["input"] == ["Maya"]


def test_the_key_is_sent_and_never_that_of_another_service() -> None:
    keys = {"OPENAI_API_KEY": KEY}

    def authorization(make: Callable[[str], Embedder]) -> object:
        embedder = make("http://127.0.0.1:9/v1")
        assert isinstance(embedder, ServiceEmbedder)
        return embedder._service.headers.get("Authorization")  # pyright: ignore[reportPrivateUsage]

    assert authorization(lambda url: resolve("openai:m", {**keys, "OPENAI_BASE_URL": url})) == f"Bearer {KEY}"
    assert authorization(lambda url: resolve(f"{url}#m", keys)) is None
    assert authorization(lambda url: resolve(f"{url}#m", keys, api_key="own")) == "Bearer own"


def test_a_url_with_a_model_is_named_by_host_and_model() -> None:
    assert resolve("http://localhost:8000/v1#bge-m3").name == "localhost:8000#bge-m3"


def test_a_text_with_a_lone_surrogate_is_embedded() -> None:
    with ScriptedServer({}) as server:
        assert embed(embedder_at(server)[0], ["\ud800 Maya"]).shape == (1, 64)
        assert json.dumps(server.received[0].body)
