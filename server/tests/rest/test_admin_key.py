"""The admin key of the environment: created once, rotated, and never made valid again after it was revoked."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from vmemo import InvalidInput, Memory
from vmemo.sync import portal
from vmemo_conformance.embedders import HashEmbedder
from vmemo_server.state import ServerState

FIRST, SECOND = "first-" + "a" * 32, "second-" + "b" * 32


@pytest.fixture
def auth(sqlite_url: str) -> Iterator[ServerState]:
    with Memory(sqlite_url, embedder=HashEmbedder()) as memory:
        yield ServerState(memory.store)


def test_key_is_created_once_and_replaced_by_another_value(auth: ServerState) -> None:
    async def start_three_servers() -> None:
        await asyncio.gather(*(auth.ensure_admin_key(FIRST) for _ in range(3)))

    other, secret = portal.run(auth.create_key("agent"))
    portal.run(start_three_servers())
    found = portal.run(auth.find_key(FIRST))
    assert found is not None
    assert (found.permission, found.banks) == ("admin", ("*",))
    portal.run(auth.ensure_admin_key(SECOND))
    assert portal.run(auth.find_key(FIRST)) is None
    assert portal.run(auth.find_key(SECOND)) is not None
    assert portal.run(auth.find_key(secret)) == other
    assert len(portal.run(auth.keys())) == 3


def test_revoked_key_stays_revoked(auth: ServerState) -> None:
    portal.run(auth.ensure_admin_key(FIRST))
    (key,) = portal.run(auth.keys())
    portal.run(auth.revoke(key.id))
    with pytest.raises(InvalidInput, match="revoked") as refused:
        portal.run(auth.ensure_admin_key(FIRST))
    assert FIRST not in str(refused.value)
    assert portal.run(auth.find_key(FIRST)) is None


def test_secret_of_a_lesser_key_is_refused(auth: ServerState) -> None:
    _, secret = portal.run(auth.create_key("agent", permission="write"))
    with pytest.raises(InvalidInput, match="no admin"):
        portal.run(auth.ensure_admin_key(secret))


@pytest.mark.parametrize("weak", ["x" * 31, "a secret of many words and spaces", "ä" * 40])
def test_weak_secret_is_refused_without_repeating_it(auth: ServerState, weak: str) -> None:
    with pytest.raises(InvalidInput, match="at least 32 characters") as refused:
        portal.run(auth.ensure_admin_key(weak))
    assert weak not in str(refused.value)
    assert portal.run(auth.keys()) == []
