"""A client waits for a server, sends again what is safe to send again, and keeps its key to itself."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from fastapi import FastAPI, Request, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from live_server import LiveServer, live_server, run_app
from vmemo import InvalidInput, NotFound, ServerDenied, ServerFailed, ServerUnavailable
from vmemo.client import Client, Patience
from vmemo.server import Limits

SECRET = "vmemo_very-secret"


@dataclass
class Waits:
    """Notes how long would be waited."""

    seconds: list[float] = field(default_factory=list[float])

    async def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)

    def patience(self, tries: int = 4) -> Patience:
        """The client's patience, without its randomness."""
        return Patience(tries=tries, sleep=self, rng=lambda: 1.0)


@dataclass
class Losing:
    """Passes requests on, and breaks the connection in the middle of the first answers to some of them."""

    app: ASGIApp
    path: str
    times: int = 1
    tokens: list[str | None] = field(default_factory=list["str | None"])

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not scope["path"].endswith(self.path):
            await self.app(scope, receive, send)
            return
        self.tokens.append(Request(scope).headers.get("idempotency-key"))

        loses = len(self.tokens) <= self.times

        async def lost(message: Message) -> None:
            # A body that was announced and does not come ends the connection.
            if not loses or message["type"] == "http.response.start":
                await send(message)

        await self.app(scope, receive, lost)


def serving_through(app: ASGIApp) -> AbstractContextManager[str]:
    """Run an application whose memory another server owns, so that it has no life of its own."""

    async def lives(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await receive()
            await send({"type": "lifespan.startup.complete"})
            await receive()
            await send({"type": "lifespan.shutdown.complete"})
        else:
            await app(scope, receive, send)

    return run_app(lives)


def answering(answer: Callable[[Request], Awaitable[Response]]) -> FastAPI:
    """A server that answers everything in one way."""
    app = FastAPI(openapi_url=None)
    app.add_api_route("/{path:path}", answer, methods=["GET", "POST", "PUT", "DELETE"], response_model=None)
    return app


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return listening.getsockname()[1]


def test_a_server_that_is_not_there_is_tried_a_few_times_with_longer_pauses() -> None:
    waits = Waits()
    client = Client(f"http://127.0.0.1:{free_port()}", key=SECRET, patience=waits.patience())
    with pytest.raises(ServerUnavailable, match=r"can't be reached .* Nothing was sent"):
        client.retain_sync("I have a cat.")
    assert waits.seconds == [0.25, 0.5, 1.0]
    client.close_sync()


def test_a_write_whose_answer_was_lost_is_sent_again_and_done_once(server: LiveServer) -> None:
    losing = Losing(server.app, "/messages")
    waits = Waits()
    with serving_through(losing) as url, Client(url, "a", patience=waits.patience()) as client:
        kept = client.retain_sync(["I have a cat.", "I have a dog."])
        assert len(losing.tokens) == 2
        assert len(set(losing.tokens)) == 1
        assert len(kept.stored) == 2
        assert [message.id for message in client.messages_sync()] == list(kept.stored)


def test_two_writes_never_share_a_token(server: LiveServer) -> None:
    losing = Losing(server.app, "/messages", times=0)
    with serving_through(losing) as url, Client(url, "a") as client:
        client.add_message_sync("I have a cat.")
        client.add_message_sync("I have a cat.")
        assert len(set(losing.tokens)) == 2
        assert len(client.messages_sync()) == 2


def test_what_can_not_be_told_from_its_repetition_is_not_sent_again(server: LiveServer) -> None:
    losing = Losing(server.app, "/banks/a")
    waits = Waits()
    with Client(server.url, "a") as client:
        client.retain_sync("I have a cat.")
    with serving_through(losing) as url:
        client = Client(url, "a", patience=waits.patience())
        with pytest.raises(ServerFailed, match="Whether it was done is not known"):
            client.forget_sync(bank=True)
        assert (len(losing.tokens), waits.seconds) == (1, [])
        assert not client.exists_sync()
        client.close_sync()


def test_a_read_whose_answer_was_lost_is_repeated(server: LiveServer) -> None:
    losing = Losing(server.app, "/recall", times=2)
    with Client(server.url, "a") as client:
        client.retain_sync("I have a cat.")
    with serving_through(losing) as url, Client(url, "a", patience=Waits().patience()) as client:
        assert len(client.recall_sync("cat").hits) == 1
        assert losing.tokens == [None] * 3


@pytest.mark.parametrize("status", [429, 503])
def test_a_busy_server_is_waited_for_as_long_as_it_asks(status: int) -> None:
    answers = [Response("", status, {"Retry-After": "7"}), Response('{"items": ["a"]}')]
    waits = Waits()

    async def answer(request: Request) -> Response:
        return answers.pop(0)

    with run_app(answering(answer)) as url:
        client = Client(url, patience=waits.patience())
        assert client.banks_sync() == ["a"]
        assert waits.seconds == [7.0]
        client.close_sync()


def test_a_server_that_wants_to_be_left_alone_for_long_is_left_alone() -> None:
    async def answer(request: Request) -> Response:
        return Response("", 429, {"Retry-After": "3600"})

    waits = Waits()
    with run_app(answering(answer)) as url:
        client = Client(url, patience=waits.patience())
        with pytest.raises(ServerUnavailable, match="status 429"):
            client.banks_sync()
        assert waits.seconds == []
        client.close_sync()


def test_too_many_requests_pass_once_the_bucket_is_full_again(database: str) -> None:
    waits = Waits()
    with live_server(database, keyless=False, limits=Limits(rate=60, burst=2)) as server:
        server.state.access.rates.clock = lambda: 60.0 * len(waits.seconds)
        client = Client(server.url, "a", server.key(), patience=waits.patience())
        for _ in range(5):
            client.banks_sync()
        assert waits.seconds == [2.0, 2.0]
        client.close_sync()


def test_a_silent_server_is_not_waited_for_for_ever() -> None:
    async def answer(request: Request) -> Response:
        await asyncio.sleep(1)
        return Response("{}")

    with run_app(answering(answer)) as url:
        client = Client(url, timeout=0.2, patience=Waits().patience())
        with pytest.raises(ServerUnavailable, match=r"silent for 0.2 seconds\. Nothing was changed"):
            client.banks_sync()
        with pytest.raises(ServerUnavailable, match="It may yet do what was asked"):
            client.process_sync()
        client.close_sync()


@pytest.mark.parametrize(
    ("body", "match"),
    [
        ('{"items": [1]}', r"something else than Page\[str\]: items.0: Input should be a valid string"),
        ("<html>secret</html>", "something else than .*: the body: Invalid JSON"),
    ],
    ids=["another shape", "a page"],
)
def test_an_answer_of_no_vmemo_server_is_an_error_that_repeats_nothing_of_it(body: str, match: str) -> None:
    async def answer(request: Request) -> Response:
        return Response(body)

    with run_app(answering(answer)) as url:
        client = Client(url)
        with pytest.raises(ServerFailed, match=match) as told:
            client.banks_sync()
        assert "secret" not in str(told.value)
        client.close_sync()


def test_a_redirect_is_not_followed() -> None:
    async def answer(request: Request) -> Response:
        return Response("", 307, {"Location": "http://127.0.0.1:1/elsewhere"})

    with run_app(answering(answer)) as url:
        client = Client(url, key=SECRET)
        with pytest.raises(ServerFailed, match="status 307"):
            client.banks_sync()
        client.close_sync()


def test_a_key_opens_what_it_is_for_and_is_told_nowhere(keyed_server: LiveServer) -> None:
    reading, writing = keyed_server.key("read", "a"), keyed_server.key("write", "a")
    with Client(keyed_server.url, "a", writing) as client:
        client.retain_sync("I have a cat.")
    with Client(keyed_server.url, "a", reading) as client:
        assert client.recall_sync("cat").hits
        assert client.reflect_sync("cat").found
        refused: list[Callable[[], object]] = [
            lambda: client.retain_sync("I have a dog."),
            lambda: client.forget_sync(bank=True),
            lambda: client.bank("b").status_sync(),
            lambda: client.bank("b").open_sync(),
        ]
        for refuse in refused:
            with pytest.raises(ServerDenied, match="This API key does not have") as told:
                refuse()
            assert reading not in repr(told.value) + repr(client) + repr(vars(client))
    for key in (None, SECRET):
        with (
            pytest.raises(ServerDenied, match="A valid API key is required") as told,
            Client(keyed_server.url, "a", key),
        ):
            raise AssertionError("it must not be entered")
        assert SECRET not in repr(told.value)


@pytest.mark.parametrize(
    ("url", "key"),
    [("ftp://localhost", None), ("http://me:s3cr3t@localhost", None), ("http://localhost", "two\nlines")],
    ids=["another protocol", "a password in the address", "a key of two lines"],
)
def test_what_can_not_be_an_address_or_a_key_is_refused_without_being_repeated(url: str, key: str | None) -> None:
    with pytest.raises(InvalidInput) as told:
        Client(url, key=key)
    assert "s3cr3t" not in str(told.value)
    assert "lines" not in str(told.value)


def test_too_large_a_body_is_told_as_bad_input(database: str, tmp_path: Path) -> None:
    (tmp_path / "large").write_bytes(b"x" * 5000)
    limits = Limits(body_bytes=1000, import_bytes=1000)
    with live_server(database, limits=limits) as server, Client(server.url, "a") as client:
        with pytest.raises(InvalidInput, match="1,000 bytes"):
            client.retain_sync("x" * 2000)
        with pytest.raises(InvalidInput, match="1,000 bytes"):
            client.bank("b").import_bank_sync(tmp_path / "large")
        with pytest.raises(NotFound):
            client.bank("b").status_sync()
