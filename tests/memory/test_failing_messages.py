"""A message that cannot be processed stays pending with its error, and does not hold up the others."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

import pytest

from vmemo import ExtractionFailed, Memory
from vmemo.models import Message
from vmemo.models.changes import ExtractionResult
from vmemo.providers import LocalExtractor
from vmemo.retain.local_extraction import SLICE_CHARACTERS
from vmemo.text.split import split_text
from vmemo_conformance.embedders import HashEmbedder

STORES = ("sqlite",)

CATS = [f"My cat number {n} is called Tom{n}." for n in range(20)]


class FragileExtractor(LocalExtractor):
    """An extractor that fails unexpectedly for some messages, until it is repaired."""

    def __init__(self) -> None:
        super().__init__()
        self.repaired = False

    async def read(self, messages: Sequence[Message], before: Message | None) -> ExtractionResult:
        """Raise an error that is not one of vmemo for messages with the word "fragile"."""
        if not self.repaired and any("fragile" in message.content for message in messages):
            raise ZeroDivisionError("a rule has failed")
        return await super().read(messages, before)


def memory(url: str, extractor: LocalExtractor | None = None) -> Memory:
    return Memory(url, embedder=HashEmbedder("hash", 64), llm=extractor)


def test_the_others_of_a_batch_are_processed(sqlite_url: str) -> None:
    with memory(sqlite_url, FragileExtractor()) as bank:
        retained = bank.retain_sync([*CATS[:10], "This one is fragile.", *CATS[10:], "fragile"])
        assert len(retained.derived) == len(CATS)
        assert retained.pending == 2
        status = bank.status_sync()
        assert status.pending == 2
        assert status.facts == len(CATS)


def test_the_error_is_on_the_message_and_later_messages_are_processed(sqlite_url: str) -> None:
    extractor = FragileExtractor()
    with memory(sqlite_url, extractor) as bank:
        with pytest.raises(ExtractionFailed, match=r"ZeroDivisionError .* stored and queued: do not retain") as raised:
            bank.retain_sync("This one is fragile.")
        assert [message.id for message in bank.messages_sync()] == list(raised.value.stored)
        assert isinstance(raised.value.__cause__, ZeroDivisionError)
        with pytest.raises(ExtractionFailed, match=r"the next retain\(\) or process\(\), or a worker, processes them"):
            bank.process_sync()
        for cat in CATS[:3]:
            assert len(bank.retain_sync(cat).derived) == 1
        problems = bank.status_sync().problems
        assert "a rule has failed" in str(problems)
        extractor.repaired = True
        assert len(bank.process_sync().derived) == 1
        assert bank.status_sync().pending == 0


@pytest.mark.parametrize(
    ("timestamp", "text"),
    [
        (datetime(9999, 12, 31, tzinfo=UTC), "See you on Monday."),
        (datetime(1, 1, 1, tzinfo=UTC), "We met on Sunday."),
    ],
)
def test_a_message_at_the_end_of_the_calendar_is_processed(sqlite_url: str, timestamp: datetime, text: str) -> None:
    with memory(sqlite_url) as bank:
        retained = bank.retain_sync([Message(content=text, timestamp=timestamp), *CATS])
        assert len(retained.derived) == len(CATS) + 1
        assert bank.recall_sync("What happened on Monday or on Sunday?", now=timestamp).hits


def test_a_long_message_is_processed_in_slices_with_the_same_result(sqlite_url: str) -> None:
    text = " ".join(f"On 5 May {year} Anna met Bob in Rome." for year in range(1900, 2000)) * 30
    assert len(text) > 3 * SLICE_CHARACTERS
    with memory(sqlite_url) as bank:
        derived = bank.retain_sync(text).derived
        facts = [bank.why_sync(id).fact for id in derived]
    chunks = split_text(text)
    assert [fact.text for fact in facts] == [f"User: {chunk}" for chunk in chunks]
    assert all(fact.occurred_start and {"Anna", "Bob"} <= {each.name for each in fact.entities} for fact in facts)
