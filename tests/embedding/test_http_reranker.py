"""A reranking service, against a real server on loopback that fails on demand."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import traceback
from collections.abc import Callable, Generator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import cast

import pytest

from vmemo.embedding.service import HttpReranker
from vmemo.errors import InvalidInput, RerankFailed
from vmemo.ports import Reranker

KEY = "sk-very-secret"
QUESTION = "Which pet?"
TEXTS = ["a grey cat", "a train", "bread"]
Play = Callable[["Handler"], None]


class Handler(BaseHTTPRequestHandler):
    """Records a request and plays the next part, the last one again and again."""

    @property
    def recording_server(self) -> Server:
        return cast("Server", self.server)

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.recording_server.seen.append(Seen(self.path, dict(self.headers), body))
        self.recording_server.asked.set()
        plays = self.recording_server.plays
        (plays.pop(0) if len(plays) > 1 else plays[0])(self)

    do_GET = do_POST

    def log_message(self, format: str, *args: object) -> None:
        """Tests print nothing."""


@dataclass(frozen=True)
class Seen:
    path: str
    headers: dict[str, str]
    body: bytes


class Server(ThreadingHTTPServer):
    """Part after part of a play, on a port of its own."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.plays: list[Play] = [scores({0: 0.9, 2: 0.5, 1: -0.2})]
        self.seen: list[Seen] = []
        self.asked = threading.Event()
        self.over = threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v2/rerank"


@dataclass
class Pauses:
    """A sleep that only remembers."""

    taken: list[float] = field(default_factory=list[float])

    async def __call__(self, seconds: float) -> None:
        self.taken.append(seconds)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Generator[Server]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with Server() as served:
        thread = threading.Thread(target=served.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield served
        served.over.set()
        served.shutdown()
        thread.join()


def answer(status: int, body: bytes, headers: Sequence[tuple[str, str]] = (), *, cut: int = 0) -> Play:
    def play(handler: Handler) -> None:
        handler.send_response(status)
        for name, value in headers:
            handler.send_header(name, value)
        handler.send_header("Content-Length", str(len(body) + cut))
        handler.end_headers()
        handler.wfile.write(body)

    return play


def scores(by_index: dict[int, float]) -> Play:
    return results([{"index": index, "relevance_score": score} for index, score in by_index.items()])


def results(rows: object) -> Play:
    return answer(200, json.dumps({"id": "1", "results": rows}).encode())


def hang_up(handler: Handler) -> None:
    handler.connection.shutdown(socket.SHUT_RDWR)


def say_nothing(handler: Handler) -> None:
    handler.recording_server.over.wait()


def trickle(handler: Handler) -> None:
    handler.send_response(200)
    handler.end_headers()
    with suppress(OSError):
        while not handler.recording_server.over.wait(0.02):
            handler.wfile.write(b" ")


def repeat_the_request_as_a_status_line(handler: Handler) -> None:
    handler.wfile.write(handler.recording_server.seen[-1].body + b"\r\n")


def rerank(reranker: Reranker, texts: Sequence[str] = tuple(TEXTS)) -> Sequence[float]:
    return asyncio.run(reranker.rerank(QUESTION, texts))


def failure(server: Server, *, timeout: float = 10.0, sleep: Pauses | None = None) -> str:
    """The message of the failure, after a look for secrets in all that would be printed."""
    reranker = HttpReranker(server.url, model="m", api_key=KEY, timeout=timeout, sleep=sleep or Pauses())
    with pytest.raises(RerankFailed) as caught:
        rerank(reranker)
    printed = "".join(traceback.format_exception(caught.value)) + repr(reranker)
    assert not [secret for secret in (KEY, QUESTION, *TEXTS) if secret in printed.replace("\\", "")]
    assert f"The reranker at {server.url} " in str(caught.value)
    return str(caught.value)


def test_scores_come_back_in_the_order_of_the_texts(server: Server) -> None:
    assert rerank(HttpReranker(server.url)) == [0.9, -0.2, 0.5]


def test_the_request_has_the_shape_of_cohere_and_jina(server: Server) -> None:
    rerank(HttpReranker(server.url, model="rerank-v3.5", api_key=KEY))
    (seen,) = server.seen
    assert json.loads(seen.body) == {"query": QUESTION, "documents": TEXTS, "top_n": 3, "model": "rerank-v3.5"}
    assert seen.path == "/v2/rerank"
    assert seen.headers["Authorization"] == f"Bearer {KEY}"
    assert seen.headers["Content-Type"] == "application/json"


@pytest.mark.parametrize("api_key", [None, ""])
def test_without_model_and_key_neither_is_sent(server: Server, api_key: str | None) -> None:
    rerank(HttpReranker(server.url, api_key=api_key))
    assert "model" not in json.loads(server.seen[0].body)
    assert "Authorization" not in server.seen[0].headers


def test_no_texts_make_no_request(server: Server) -> None:
    assert rerank(HttpReranker(server.url), []) == []
    assert not server.seen


def test_texts_of_any_characters_arrive(server: Server) -> None:
    server.plays = [scores({0: 1, 1: 0})]
    rerank(HttpReranker(server.url), ["日本語 😀 \x00", "half \ud800 a pair"])
    assert json.loads(server.seen[0].body)["documents"] == ["日本語 😀 \x00", "half ? a pair"]


def test_it_is_named_after_its_model_or_its_host() -> None:
    assert HttpReranker("https://api.example.com/rerank", model="rerank-v3.5").name == "rerank-v3.5"
    assert HttpReranker("https://api.example.com/rerank").name == "api.example.com"


def test_its_repr_does_not_contain_the_key() -> None:
    shown = repr(HttpReranker("https://api.example.com/rerank?token=hidden", api_key=KEY))
    assert shown == "HttpReranker(host='api.example.com', model=None)"


@pytest.mark.parametrize("fault", [answer(429, b""), answer(503, b"<html>"), answer(200, b"<html>"), hang_up])
def test_a_transient_fault_is_retried_twice(server: Server, fault: Play) -> None:
    pauses = Pauses()
    server.plays = [fault, fault, scores({0: 3, 1: 2, 2: 1})]
    assert rerank(HttpReranker(server.url, sleep=pauses)) == [3, 2, 1]
    assert (len(server.seen), len(pauses.taken)) == (3, 2)
    assert len({seen.body for seen in server.seen}) == 1


@pytest.mark.parametrize(("asked", "pauses"), [("2", [2.0]), ("3600", [])])
def test_a_service_may_ask_for_a_pause_within_limits(server: Server, asked: str, pauses: list[float]) -> None:
    taken = Pauses()
    server.plays = [answer(429, b"", [("Retry-After", asked)]), scores({0: 3, 1: 2, 2: 1})]
    with suppress(RerankFailed) if pauses else pytest.raises(RerankFailed, match="asks not to be called for 3600"):
        rerank(HttpReranker(server.url, sleep=taken))
    assert taken.taken == pauses


@pytest.mark.parametrize("status", [429, 503])
def test_a_persistent_fault_is_an_error(server: Server, status: int) -> None:
    pauses = Pauses()
    server.plays = [answer(status, b"")]
    assert f"answered with status {status}" in failure(server, sleep=pauses)
    assert (len(server.seen), len(pauses.taken)) == (3, 2)


@pytest.mark.parametrize(("status", "advice"), [(400, "400"), (401, "check the API key")])
def test_a_refusal_is_not_tried_again(server: Server, status: int, advice: str) -> None:
    server.plays = [lambda handler: answer(status, server.seen[-1].body)(handler)]
    assert advice in failure(server)
    assert len(server.seen) == 1


def test_a_redirect_is_not_followed_so_the_key_stays_with_its_host(server: Server) -> None:
    server.plays = [answer(302, b"", [("Location", server.url + "/elsewhere")])]
    assert "configure the final URL" in failure(server)
    assert [seen.path for seen in server.seen] == ["/v2/rerank"]


@pytest.mark.parametrize("fault", [hang_up, answer(200, b"{", cut=5), repeat_the_request_as_a_status_line])
def test_a_connection_that_always_breaks_is_an_error_without_a_word_of_the_answer(server: Server, fault: Play) -> None:
    server.plays = [fault]
    assert "broke the connection" in failure(server)


@pytest.mark.parametrize("fault", [say_nothing, trickle])
def test_a_service_that_takes_too_long_is_an_error_and_is_not_asked_again(server: Server, fault: Play) -> None:
    server.plays = [fault]
    assert "did not answer within 0.5 seconds" in failure(server, timeout=0.5)
    assert len(server.seen) == 1


@pytest.mark.parametrize(
    "body",
    [
        b"<html><body>Welcome, a grey cat</body></html>",
        b"",
        b'{"results": ["a grey cat", "a train", "bread"]}',
        b'{"results": [{"index": 0, "score": 1}]}',
        b'{"results": [{"index": "0", "relevance_score": 1}]}',
        b'{"results": [{"index": 0, "relevance_score": "a grey cat"}]}',
        b'{"results": [{"index": 0, "relevance_score": NaN}]}',
    ],
)
def test_an_answer_of_another_shape_is_an_error(server: Server, body: bytes) -> None:
    server.plays = [answer(200, body, [("Content-Type", "text/html")])]
    assert "returned something other than" in failure(server)


@pytest.mark.parametrize("indexes", [[], [0, 1, 1], [1, 2, 3], [0, 1, 2, 3]])
def test_a_text_scored_twice_or_never_is_an_error(server: Server, indexes: list[int]) -> None:
    server.plays = [results([{"index": index, "relevance_score": 1} for index in indexes])]
    assert "something other than one score for each of 3 texts" in failure(server)


def test_an_endless_answer_is_an_error(server: Server) -> None:
    server.plays = [answer(200, b" " * (33 * 1024 * 1024))]
    assert "more than 33554432 bytes" in failure(server)


@pytest.mark.parametrize(
    "url",
    [
        "api.example.com/rerank",
        "file:///etc/passwd",
        "https://host:port/",
        f"https://user:{KEY}@host/",
        "https://host/\r\nX: y",
        "https://höst/",
    ],
)
def test_an_invalid_url_is_rejected(url: str) -> None:
    with pytest.raises(InvalidInput, match="The reranker's URL") as caught:
        HttpReranker(url)
    assert KEY not in str(caught.value)


@pytest.mark.parametrize("tail", ["\r\nX: y", "é"])
def test_a_key_that_fits_no_header_is_refused_without_being_shown(tail: str) -> None:
    with pytest.raises(InvalidInput, match="API key") as caught:
        HttpReranker("https://host/", api_key=KEY + tail)
    assert KEY not in str(caught.value)


@pytest.mark.parametrize("timeout", [0.0, float("nan")])
def test_an_invalid_timeout_is_rejected(timeout: float) -> None:
    with pytest.raises(InvalidInput, match="timeout must be"):
        HttpReranker("https://host/", timeout=timeout)


def test_the_event_loop_is_not_blocked_by_a_slow_service(server: Server) -> None:
    server.plays = [lambda handler: (handler.recording_server.over.wait(), scores({0: 3, 1: 2, 2: 1})(handler))[1]]

    async def work() -> Sequence[float]:
        asked = asyncio.create_task(HttpReranker(server.url).rerank(QUESTION, TEXTS))
        await asyncio.to_thread(server.asked.wait)
        server.over.set()
        return await asked

    assert asyncio.run(work()) == [3, 2, 1]
