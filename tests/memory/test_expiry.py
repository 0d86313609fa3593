"""Messages with a time to live: hidden after it, and forgotten by maintenance."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from builders import NOON, WordEmbedder

from vmemo import InvalidInput, Memory, Message

CODE, CAT = "The door code is 4711.", "My cat is called Tux."
DAY = timedelta(days=1)


def texts(memory: Memory, **options: object) -> str:
    found = memory.recall_sync("What is the door code?", **options)  # pyright: ignore[reportArgumentType]
    return "\n".join(hit.text for hit in found.hits)


@pytest.mark.parametrize("infer", [True, False])
def test_an_expired_message_is_not_recalled_and_maintenance_leaves_no_byte(infer: bool, tmp_path: Path) -> None:
    with Memory(tmp_path / "memory.db", embedder=WordEmbedder()) as memory:
        memory.retain_sync(CAT)
        memory.retain_sync(CODE, infer=infer, ttl=DAY)
        assert "4711" in texts(memory)
        assert memory.maintain_sync().forgotten == 0
        memory.forget_sync(messages=[memory.messages_sync()[-1].id])
        memory.retain_sync(CODE, infer=infer, expires_at=datetime.now(UTC) - DAY)
        travel = NOON.replace(year=3000)
        for options in ({}, {"include_expired": True}, {"at_time": travel}, {"known_at": travel}):
            assert "4711" not in texts(memory, **options)
        assert memory.maintain_sync().forgotten == 1
        assert [message.content for message in memory.messages_sync()] == [CAT]
    assert all(b"4711" not in file.read_bytes() for file in tmp_path.iterdir())


def test_a_fact_expires_with_the_last_message_that_states_it(tmp_path: Path) -> None:
    end = datetime(3000, 1, 1, tzinfo=UTC)
    with Memory(":memory:", embedder=WordEmbedder()) as memory:
        memory.retain_sync([Message(content=CAT, expires_at=end), {"content": CODE, "expires_at": "3000-02-01"}])
        assert [fact.expires_at for fact in memory.facts_sync()] == [end, datetime(3000, 2, 1, tzinfo=UTC)]
        edited = memory.update_sync(memory.facts_sync()[0].id, "The cat is called Max.")
        assert edited.expires_at == end
        memory.export_sync(tmp_path / "bank.jsonl")
        copy = memory.bank("copy")
        copy.import_bank_sync(tmp_path / "bank.jsonl")
        copy.reprocess_sync()
        assert copy.get_sync(edited.id).expires_at == end
        assert copy.messages_sync()[0].expires_at == end
        memory.retain_sync(CODE)
        [code] = [fact for fact in memory.facts_sync() if "4711" in fact.text]
        assert (len(code.messages), code.expires_at) == (2, None)


def test_seconds_and_iso_durations_are_accepted_and_two_ends_are_refused() -> None:
    with Memory(":memory:", embedder=WordEmbedder()) as memory:
        memory.retain_sync(CAT, ttl=3600)
        memory.retain_sync(CODE, ttl="PT1H")
        first, second = (message.expires_at for message in memory.messages_sync())
        assert first is not None
        assert second is not None
        assert timedelta(minutes=59) < first - datetime.now(UTC) <= timedelta(hours=1)
        for wrong in ({"ttl": 0}, {"ttl": "soon"}, {"ttl": True}, {"ttl": 5, "expires_at": NOON}):
            with pytest.raises(InvalidInput):
                memory.retain_sync(CAT, **wrong)  # pyright: ignore[reportArgumentType]
