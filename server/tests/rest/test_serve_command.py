"""`vmemo serve` as a process: startup checks, logs and shutdown."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path
from threading import Event, Thread

import httpx2
import pytest
from process import environment, launched
from pydantic import JsonValue
from typer.testing import CliRunner

from live_server import live_server
from max_wait import MAX_WAIT
from vmemo import Memory
from vmemo.cli.app import app
from vmemo.sync import portal
from vmemo_conformance.fake_llm import ReceivedRequest
from vmemo_conformance.llm_server import ScriptedServer
from vmemo_server.launch import ServerLauncher
from vmemo_server.state import ServerState

SECRET_TEXT = "The safe behind the painting opens with 4711."


def http(url: str, key: str | None = None) -> httpx2.Client:
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    return httpx2.Client(base_url=url, headers=headers, timeout=MAX_WAIT, trust_env=False, verify=False)


def retain(client: httpx2.Client, text: str, **more: bool) -> httpx2.Response:
    return client.post("/v1/banks/a/messages", json={"messages": [{"content": text}], **more})


def test_logs_hold_requests_and_no_memory_text(tmp_path: Path) -> None:
    with launched(["serve", "--port", "0", "--db", "a.db", "--json"], tmp_path) as server, http(server.url) as client:
        assert retain(client, SECRET_TEXT).status_code == 200
        assert client.post("/v1/banks/a/recall", json={"query": "the painting"}).json()["hits"]
        assert client.post("/v1/banks/a/recall", json={"query": "4711", "nonsense": "4711"}).status_code == 422
        assert server.stop(signal.SIGTERM) == 0
    log = "".join(server.text)
    assert "painting" not in log
    assert "4711" not in log
    requests = [line for line in server.lines if line["event"] == "request"]
    assert [line["status"] for line in requests] == [200, 200, 422]
    assert {line["bank"] for line in requests} == {"a"}
    assert server.lines[-1]["event"] == "stopped"


def test_server_without_a_standard_error_stream_works(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "vmemo", "serve", "--port", str(port), "--db", "a.db"]
    closed = ["sh", "-c", 'exec "$@" 2>&-', "sh", *command]
    with (
        subprocess.Popen(closed, cwd=tmp_path, env=environment({}), stdout=subprocess.DEVNULL) as process,
        httpx2.Client(
            base_url=f"http://127.0.0.1:{port}",
            timeout=MAX_WAIT,
            trust_env=False,
            verify=False,
        ) as client,
    ):
        while process.poll() is None:
            try:
                client.get("/health")
                break
            except httpx2.ConnectError:
                time.sleep(0.1)
        assert retain(client, "I have a cat.", wait=False).status_code == 202
        while client.get("/v1/banks/a").json()["pending"]:
            time.sleep(0.1)
        assert client.get("/health/ready").status_code == 200
        process.send_signal(signal.SIGTERM)
        assert process.wait(MAX_WAIT) == 0


OPTIONS = {
    "rate": 7.0,
    "body_bytes": 1_001,
    "connections": 33,
    "grace": 6.0,
}


def test_limits_of_the_command_line_reach_the_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    launchers: list[ServerLauncher] = []

    async def run(self: ServerLauncher, memory: Memory) -> None:
        launchers.append(self)

    monkeypatch.setattr(ServerLauncher, "run", run)
    options = [part for name, value in OPTIONS.items() for part in (f"--{name.replace('_', '-')}", str(value))]
    result = CliRunner().invoke(app, ["serve", "--db", str(tmp_path / "a.db"), *options])
    assert result.exit_code == 0, result.output
    (launcher,) = launchers
    applied = {**asdict(launcher.limits), **asdict(launcher.options)}
    assert {name: applied[name] for name in OPTIONS} == OPTIONS
    refused = CliRunner().invoke(app, ["serve", "--db", str(tmp_path / "a.db"), "--connections", "0"])
    assert refused.exit_code == 2


def test_public_address_requires_a_key(tmp_path: Path) -> None:
    arguments = ["serve", "--host", "0.0.0.0", "--port", "0", "--db", str(tmp_path / "a.db")]
    refused = CliRunner().invoke(app, arguments, env={"VMEMO_ADMIN_KEY": None})
    assert refused.exit_code == 1
    assert "vmemo keys create" in refused.output


def test_first_key_is_required_at_once_by_a_running_server(database: str) -> None:
    with live_server(database) as server:
        with http(server.url) as client:
            assert client.get("/v1/banks").status_code == 200
        with Memory(database) as memory:
            secret = portal.run(ServerState(memory.store).create_key("agent"))[1]
        with http(server.url) as client:
            assert client.get("/v1/banks").status_code == 401
        with http(server.url, secret) as client:
            assert client.get("/v1/banks").status_code == 200


def test_running_retain_is_answered_before_shutdown(tmp_path: Path) -> None:
    called, proceed, responses = Event(), Event(), list[httpx2.Response]()

    def unusable(received: ReceivedRequest) -> JsonValue:
        called.set()
        proceed.wait(MAX_WAIT)
        return {"nothing": "of use"}

    with ScriptedServer(unusable) as model:
        arguments = ["serve", "--port", "0", "--db", "a.db", "--json", "--llm", f"{model.url}#scripted"]
        with launched(arguments, tmp_path) as server, http(server.url) as client:
            sender = Thread(target=lambda: responses.append(retain(client, "Ana plays the cello.")))
            sender.start()
            assert called.wait(MAX_WAIT)
            server.process.send_signal(signal.SIGTERM)
            proceed.set()
            assert server.process.wait(MAX_WAIT) == 0
            sender.join(MAX_WAIT)
    assert [(each.status_code, each.json()["pending"]) for each in responses] == [(202, 1)]
    with Memory(f"sqlite:///{tmp_path / 'a.db'}", "a") as memory:
        assert [message.content for message in memory.messages_sync()] == ["Ana plays the cello."]
        assert memory.status_sync().pending == 1


def test_retain_that_outlasts_the_grace_is_answered_with_what_is_stored(tmp_path: Path) -> None:
    called, proceed, responses = Event(), Event(), list[httpx2.Response]()

    def hang(received: ReceivedRequest) -> JsonValue:
        called.set()
        proceed.wait(MAX_WAIT)
        return {"nothing": "of use"}

    with ScriptedServer(hang) as model:
        arguments = ["serve", "--port", "0", "--db", "a.db", "--json", "--grace", "1", "--llm", f"{model.url}#scripted"]
        with launched(arguments, tmp_path) as server, http(server.url) as client:
            sender = Thread(target=lambda: responses.append(retain(client, "Ana plays the cello.")))
            sender.start()
            assert called.wait(MAX_WAIT)
            assert server.stop(signal.SIGTERM) == 0
            sender.join(MAX_WAIT)
        proceed.set()
    [response] = responses
    problem = response.json()
    assert (response.status_code, response.headers["content-type"]) == (503, "application/problem+json")
    assert (problem["type"], problem["retryable"]) == ("urn:vmemo:problem:ServerStopping", True)
    assert "retained messages stay" in problem["detail"]
    assert "with the same Idempotency-Key it takes effect once" in problem["detail"]
    assert [line["status"] for line in server.lines if line.get("event") == "request"] == [503]
    with Memory(f"sqlite:///{tmp_path / 'a.db'}", "a") as memory:
        assert [message.content for message in memory.messages_sync()] == ["Ana plays the cello."]
        assert memory.status_sync().pending == 1
