"""A server comes up, answers, and stops with nothing left open."""

from __future__ import annotations

from live_server import LiveServer


def test_a_server_answers(server: LiveServer) -> None:
    with server.http() as client:
        assert client.get("/health").json() == {"status": "ok"}


def test_a_locked_server_answers_to_its_keys(keyed_server: LiveServer) -> None:
    with keyed_server.http() as client:
        assert client.get("/v1/banks").status_code == 401
    with keyed_server.http(keyed_server.key("read")) as client:
        assert client.get("/v1/banks").json() == {"items": [], "next": None}
