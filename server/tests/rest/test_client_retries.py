"""The client retries what is safe to repeat, waits as the server asks, and never reveals its key."""

from __future__ import annotations

import asyncio
import socket
import stat
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event

import pytest
from fastapi import FastAPI, Request, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from live_server import LiveServer, live_server, run_app
from max_wait import MAX_WAIT
from vmemo import InvalidInput, NotFound, ServerDenied, ServerFailed, ServerUnavailable
from vmemo.client import Client, RetryPolicy
from vmemo.sync import portal
from vmemo_server.auth import Limits

SECRET = "vmemo_very-secret"


@dataclass
class RecordedSleep:
    """Records the seconds that the client would sleep."""

    seconds: list[float] = field(default_factory=list[float])

    async def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)

    def options(self, tries: int = 4) -> RetryPolicy:
        """Return the client's retry options, without randomness."""
        return RetryPolicy(attempts=tries, sleep=self, rng=lambda: 1.0)


@dataclass
class DroppedResponses:
    """Passes requests on, and drops the connection during the first responses to one path."""

    app: ASGIApp
    path: str
    times: int = 1
    keys: list[str | None] = field(default_factory=list["str | None"])

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not scope["path"].endswith(self.path):
            await self.app(scope, receive, send)
            return
        self.keys.append(Request(scope).headers.get("idempotency-key"))

        drops = len(self.keys) <= self.times

        async def send_headers_only(message: Message) -> None:
            # uvicorn closes the connection when the declared body does not follow.
            if not drops or message["type"] == "http.response.start":
                await send(message)

        await self.app(scope, receive, send_headers_only)


def run_without_lifespan(app: ASGIApp) -> AbstractContextManager[str]:
    """Run an application whose lifespan another server manages."""

    async def without_lifespan(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await receive()
            await send({"type": "lifespan.startup.complete"})
            await receive()
            await send({"type": "lifespan.shutdown.complete"})
        else:
            await app(scope, receive, send)

    return run_app(without_lifespan)


def app_of(handler: Callable[[Request], Awaitable[Response]]) -> FastAPI:
    """Return an application that handles every request with one function."""
    app = FastAPI(openapi_url=None)
    app.add_api_route("/{path:path}", handler, methods=["GET", "POST", "PUT", "DELETE"], response_model=None)
    return app


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return listening.getsockname()[1]


def test_unreachable_server_is_retried_with_growing_pauses() -> None:
    sleep = RecordedSleep()
    client = Client(f"http://127.0.0.1:{free_port()}", key=SECRET, retry=sleep.options())
    with pytest.raises(ServerUnavailable, match=r"can't be reached .* Nothing was sent"):
        client.retain_sync("I have a cat.")
    assert sleep.seconds == [0.25, 0.5, 1.0]
    client.close_sync()


def test_write_with_a_lost_response_is_sent_again_and_runs_once(server: LiveServer) -> None:
    dropped = DroppedResponses(server.app, "/messages")
    sleep = RecordedSleep()
    with run_without_lifespan(dropped) as url, Client(url, "a", retry=sleep.options()) as client:
        kept = client.retain_sync(["I have a cat.", "I have a dog."])
        assert len(dropped.keys) == 2
        assert len(set(dropped.keys)) == 1
        assert len(kept.stored) == 2
        assert [message.id for message in client.messages_sync()] == list(kept.stored)


def test_each_write_has_its_own_idempotency_key(server: LiveServer) -> None:
    dropped = DroppedResponses(server.app, "/messages", times=0)
    with run_without_lifespan(dropped) as url, Client(url, "a") as client:
        client.add_message_sync("I have a cat.")
        client.add_message_sync("I have a cat.")
        assert len(set(dropped.keys)) == 2
        assert len(client.messages_sync()) == 2


def test_deletion_and_import_with_a_lost_response_are_sent_again_and_run_once(
    server: LiveServer, tmp_path: Path
) -> None:
    file = tmp_path / "bank.jsonl"
    with Client(server.url, "a") as client:
        client.retain_sync("I have a cat.")
        client.export_sync(file)
    dropped = DroppedResponses(server.app, "/banks/a")
    with run_without_lifespan(dropped) as url:
        client = Client(url, "a", retry=RecordedSleep().options())
        assert client.forget_sync(bank=True).messages == 1
        assert len(dropped.keys) == 2
        client.close_sync()
    dropped = DroppedResponses(server.app, "/banks/a/import")
    with run_without_lifespan(dropped) as url, Client(url, "a", retry=RecordedSleep().options()) as client:
        assert client.import_bank_sync(file) == 1
        assert len(dropped.keys) == 2


def test_streamed_reflection_is_not_sent_again(server: LiveServer) -> None:
    dropped = DroppedResponses(server.app, "/reflect")
    sleep = RecordedSleep()

    async def stream(client: Client) -> None:
        async for _ in client.reflect_stream("Which pet do I have?"):
            pass

    with run_without_lifespan(dropped) as url, Client(url, "a", retry=sleep.options()) as client:
        client.retain_sync("I have a cat.")
        with pytest.raises(ServerFailed):
            portal.run(stream(client))
        assert (dropped.keys, sleep.seconds) == ([None], [])


def test_read_with_a_lost_response_is_sent_again(server: LiveServer) -> None:
    dropped = DroppedResponses(server.app, "/recall", times=2)
    with Client(server.url, "a") as client:
        client.retain_sync("I have a cat.")
    with run_without_lifespan(dropped) as url, Client(url, "a", retry=RecordedSleep().options()) as client:
        assert len(client.recall_sync("cat").hits) == 1
        assert dropped.keys == [None] * 3


@pytest.mark.parametrize("status", [429, 503])
def test_retry_after_of_a_busy_server_is_respected(status: int) -> None:
    responses = [Response("", status, {"Retry-After": "7"}), Response('{"items": ["a"]}')]
    sleep = RecordedSleep()

    async def respond(request: Request) -> Response:
        return responses.pop(0)

    with run_app(app_of(respond)) as url:
        client = Client(url, retry=sleep.options())
        assert client.banks_sync() == ["a"]
        assert sleep.seconds == [7.0]
        client.close_sync()


def test_long_retry_after_is_raised_at_once() -> None:
    async def respond(request: Request) -> Response:
        return Response("", 429, {"Retry-After": "3600"})

    sleep = RecordedSleep()
    with run_app(app_of(respond)) as url:
        client = Client(url, retry=sleep.options())
        with pytest.raises(ServerUnavailable, match="status 429"):
            client.banks_sync()
        assert sleep.seconds == []
        client.close_sync()


def test_rate_limited_requests_succeed_after_waiting(database: str) -> None:
    sleep = RecordedSleep()
    with live_server(database, keyless=False, limits=Limits(rate=60, burst=2)) as server:
        server.state.access.rates.clock = lambda: 60.0 * len(sleep.seconds)
        client = Client(server.url, "a", server.key(), retry=sleep.options())
        for _ in range(5):
            client.banks_sync()
        assert sleep.seconds == [2.0, 2.0]
        client.close_sync()


def test_silent_server_times_out() -> None:
    proceed = Event()

    async def respond(request: Request) -> Response:
        await asyncio.to_thread(proceed.wait, MAX_WAIT)
        return Response("{}")

    with run_app(app_of(respond)) as url:
        client = Client(url, timeout=0.2, retry=RecordedSleep().options())
        with pytest.raises(ServerUnavailable, match=r"silent for 0.2 seconds\. Nothing was changed"):
            client.banks_sync()
        with pytest.raises(ServerUnavailable, match="It may yet do what was asked"):
            client.process_sync()
        client.close_sync()
        proceed.set()


@pytest.mark.parametrize(
    ("body", "match"),
    [
        ('{"items": [1]}', r"something else than Page\[str\]: items.0: Input should be a valid string"),
        ("<html>secret</html>", "something else than .*: the body: Invalid JSON"),
    ],
    ids=["another schema", "html"],
)
def test_foreign_response_raises_an_error_without_its_text(body: str, match: str) -> None:
    async def respond(request: Request) -> Response:
        return Response(body)

    with run_app(app_of(respond)) as url:
        client = Client(url)
        with pytest.raises(ServerFailed, match=match) as error:
            client.banks_sync()
        assert "secret" not in str(error.value)
        client.close_sync()


def test_redirects_are_not_followed() -> None:
    async def respond(request: Request) -> Response:
        return Response("", 307, {"Location": "http://127.0.0.1:1/elsewhere"})

    with run_app(app_of(respond)) as url:
        client = Client(url, key=SECRET)
        with pytest.raises(ServerFailed, match="status 307"):
            client.banks_sync()
        client.close_sync()


def test_permissions_of_a_key_apply_and_its_secret_is_never_shown(keyed_server: LiveServer) -> None:
    reader, writer = keyed_server.key("read", "a"), keyed_server.key("write", "a")
    with Client(keyed_server.url, "a", writer) as client:
        client.retain_sync("I have a cat.")
    with Client(keyed_server.url, "a", reader) as client:
        assert client.recall_sync("cat").hits
        assert client.reflect_sync("cat").found
        forbidden: list[Callable[[], object]] = [
            lambda: client.retain_sync("I have a dog."),
            lambda: client.forget_sync(bank=True),
            lambda: client.bank("b").status_sync(),
            lambda: client.bank("b").open_sync(),
        ]
        for call in forbidden:
            with pytest.raises(ServerDenied, match=r"This API key does not have.*it has read permission for bank 'a'"):
                call()
            with pytest.raises(ServerDenied) as error:
                call()
            assert reader not in repr(error.value) + repr(client) + repr(vars(client))
    for key in (None, SECRET):
        with (
            pytest.raises(ServerDenied, match="A valid API key is required") as error,
            Client(keyed_server.url, "a", key),
        ):
            raise AssertionError("the client must not open")
        assert SECRET not in repr(error.value)


def test_key_opens_its_only_bank_unless_one_is_named(keyed_server: LiveServer, tmp_path: Path) -> None:
    one, several = keyed_server.key("admin", "of the key"), keyed_server.key("write", "b", "c-*")
    with Client(keyed_server.url, key=one) as client:
        client.retain_sync("I have a cat.")
        assert client.status_sync().bank == "of the key"
        assert client.reflect_sync("cat").found
        client.export_sync(tmp_path / "x.jsonl")
        assert client.banks_sync() == ["of the key"]
    assert stat.S_IMODE((tmp_path / "x.jsonl").stat().st_mode) == 0o600
    with Client(keyed_server.url, key=keyed_server.key("admin", "*")) as client:
        assert client.status_sync().bank == "default"
    with Client(keyed_server.url, key=several) as client:
        client.bank("c-1").retain_sync("I have a dog.")
        with pytest.raises(InvalidInput, match="The key is for several banks"):
            client.status_sync()
        with pytest.raises(ServerDenied, match=r"it has write permission for banks 'b', 'c-\*'"):
            client.bank("default").status_sync()


@pytest.mark.parametrize("key", ["vmemo_…", "vmemo_...", "${VMEMO_API_KEY}", "<your key>"])
def test_placeholder_of_the_documentation_is_named_as_such(keyed_server: LiveServer, key: str) -> None:
    with pytest.raises(InvalidInput, match=r"placeholder of the documentation.*`vmemo keys create` printed"):
        Client(keyed_server.url, key=key)
    with keyed_server.http() as plain:
        for name, value in ((b"Authorization", f"Bearer {key}"), (b"X-Api-Key", key)):
            response = plain.get("/v1/banks", headers=[(name, value.encode())])
            assert (response.status_code, "placeholder" in response.json()["detail"]) == (401, True)


@pytest.mark.parametrize(
    ("url", "key"),
    [("ftp://localhost", None), ("http://me:s3cr3t@localhost", None), ("http://localhost", "two\nlines")],
    ids=["another protocol", "a password in the URL", "a key of two lines"],
)
def test_invalid_address_or_key_is_rejected_without_repeating_it(url: str, key: str | None) -> None:
    with pytest.raises(InvalidInput) as error:
        Client(url, key=key)
    assert "s3cr3t" not in str(error.value)
    assert "lines" not in str(error.value)


def test_large_body_raises_invalid_input(database: str, tmp_path: Path) -> None:
    (tmp_path / "large").write_bytes(b"x" * 5000)
    limits = Limits(body_bytes=1000, import_bytes=1000)
    with live_server(database, limits=limits) as server, Client(server.url, "a") as client:
        with pytest.raises(InvalidInput, match="1,000 bytes"):
            client.retain_sync("x" * 2000)
        with pytest.raises(InvalidInput, match="1,000 bytes"):
            client.bank("b").import_bank_sync(tmp_path / "large")
        with pytest.raises(NotFound):
            client.bank("b").status_sync()
