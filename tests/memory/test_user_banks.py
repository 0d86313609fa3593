"""One bank per user: any text is an id, banks share the opened database, and none sees another's memories."""

from __future__ import annotations

from uuid import UUID

import pytest
from builders import WordEmbedder, open_memory

from vmemo import InvalidInput, Memory

USERS = [
    *("ana@example.com", "Ana@example.com", "6f1c2d8e-9b1d-4f0c-8a57-2f6a1c0e3b44", "auth0|5f7c8ec7", "user:42", "42"),
    *("team/ana", "..", "%2F", "O'Brien; DROP TABLE facts", "山田", "zoë", "zoe\u0308", "🫖", " padded ", "x" * 512),
]


def test_any_text_can_be_the_id_of_a_user(url: str) -> None:
    with open_memory(url) as memory:
        for n, user in enumerate(USERS):
            memory.bank(user).retain_sync(f"My number is {n}.")
        assert set(memory.banks_sync()) == {"default", *USERS}
        for n, user in enumerate(USERS):
            assert [fact.text for fact in memory.bank(user).facts_sync()] == [f"User: My number is {n}."]


def test_banks_share_the_opened_store_and_the_models() -> None:
    embedder = WordEmbedder()
    with Memory(":memory:", embedder=embedder) as memory:
        # A database in memory has one connection, so another one would be empty.
        memory.bank("ana").retain_sync("The kettle is red.")
        assert memory.bank("ana").recall_sync("kettle").hits
        assert memory.bank("ben").recall_sync("kettle").hits == ()
        embedded = len(embedder.documents)
        memory.bank("ben").retain_sync("The kettle is red.")
        assert len(embedder.documents) == embedded, "the cache of vectors is shared"


@pytest.mark.parametrize(
    ("user", "rule"),
    [
        ("", "must not be empty"),
        ("  ", "must not be empty"),
        ("x" * 513, "at most 512"),
        ("a\x00b", "NUL"),
        ("\x1fhidden", "reserved"),
        ("\ud800", "unicode"),
        (42, r"must be text, not 42.*str"),
        (UUID(int=1), r"must be text, not UUID.*str"),
        (None, "must be text, not None"),
    ],
)
def test_other_ids_are_refused_with_the_rule(user: object, rule: str) -> None:
    with Memory(":memory:", embedder=WordEmbedder()) as memory, pytest.raises(InvalidInput, match=rule):
        memory.bank(user)  # pyright: ignore[reportArgumentType]
