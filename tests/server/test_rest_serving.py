"""A server comes up, answers, and stops with nothing left open."""

from __future__ import annotations

from serving import Served


def test_a_server_answers(served: Served) -> None:
    with served.http() as client:
        assert client.get("/health").json() == {"status": "ok"}


def test_a_locked_server_answers_to_its_keys(locked: Served) -> None:
    with locked.http() as client:
        assert client.get("/v1/banks").status_code == 401
    with locked.http(locked.key("read")) as client:
        assert client.get("/v1/banks").json() == {"items": [], "next": None}
