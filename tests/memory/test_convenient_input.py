"""Forms of input that users of other libraries pass: paths, chat messages and ISO times."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest
from builders import WordEmbedder, open_memory

from vmemo import Memory, Settings
from vmemo.memory.verbs import ChatMessage
from vmemo.settings import database_url

STORES = ("sqlite",)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home directory that is also the working directory."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("VMEMO_URL", raising=False)
    return tmp_path


@pytest.mark.parametrize(
    "given",
    ["~/x.db", Path("~/x.db"), "sqlite:///~/x.db", "x.db", "./x.db", Path("x.db"), "sqlite:///x.db", "{home}/x.db"],
)
def test_a_database_file_is_given_by_path_or_url(home: Path, given: str | Path) -> None:
    database = given.format(home=home) if isinstance(given, str) else given
    with Memory(database, embedder=WordEmbedder()) as memory:
        memory.retain_sync("The kettle is red.")
    assert (home / "x.db").exists()


@pytest.mark.parametrize(
    ("given", "url"),
    [
        (Path("/data/x.db"), "sqlite:////data/x.db"),
        ("C:\\data\\x.db", "sqlite:///C:\\data\\x.db"),
        ("./a:b.db", "sqlite:///./a:b.db"),
        (":memory:", "sqlite:///:memory:"),
        ("sqlite://", "sqlite://"),
        ("postgresql://user:secret@host/name", "postgresql://user:secret@host/name"),
    ],
)
def test_the_url_of_a_database(given: str | Path, url: str) -> None:
    assert database_url(given) == url


def test_a_database_in_memory_is_private_and_leaves_no_file(home: Path) -> None:
    with Memory(":memory:", embedder=WordEmbedder()) as memory, Memory(":memory:", embedder=WordEmbedder()) as other:
        memory.retain_sync("The kettle is red.")
        assert memory.status_sync().messages == 1
        assert other.status_sync().messages == 0
    assert list(home.iterdir()) == []


def test_the_database_is_the_argument_or_that_of_the_settings_or_of_the_environment(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def opened(url: str | None = None, settings: Settings | None = None) -> list[str]:
        with Memory(url, embedder=WordEmbedder(), settings=settings):
            pass
        files = sorted(home.glob("*.db"))
        for file in files:
            file.unlink()
        return [file.name for file in files]

    assert opened() == ["memory.db"]
    monkeypatch.setenv("VMEMO_URL", "~/environment.db")
    assert opened() == ["environment.db"]
    assert opened(settings=Settings(url="settings.db")) == ["settings.db"]
    assert opened("argument.db", Settings(url="settings.db")) == ["argument.db"]


CHATS: list[tuple[ChatMessage | Sequence[ChatMessage | str], list[tuple[str, str | None, str]]]] = [
    ({"role": "user", "content": "I like tea."}, [("user", None, "I like tea.")]),
    ({"role": "user", "content": "I like tea.", "name": "Ana"}, [("user", "Ana", "I like tea.")]),
    ({"content": "I like tea.", "speaker": "Ana"}, [("user", "Ana", "I like tea.")]),
    (
        [{"role": "developer", "content": "Be brief."}, {"role": "user", "content": "Hi Bo."}, "And I like tea."],
        [("system", None, "Be brief."), ("user", None, "Hi Bo."), ("user", None, "And I like tea.")],
    ),
    (
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "My cat"},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}},
                {"type": "text", "text": "is grey."},
            ],
        },
        [("user", None, "My cat\nis grey.")],
    ),
    (
        {
            "role": "assistant",
            "content": [{"type": "output_text", "text": "Noted."}],
            "refusal": None,
            "type": "message",
        },
        [("assistant", None, "Noted.")],
    ),
]


@pytest.mark.parametrize(("given", "stored"), CHATS)
def test_chat_messages_are_retained(
    given: ChatMessage | Sequence[ChatMessage | str], stored: list[tuple[str, str | None, str]]
) -> None:
    with open_memory(":memory:") as memory:
        memory.retain_sync(given)
        assert [(each.role, each.speaker, each.content) for each in memory.messages_sync()] == stored


def test_options_complete_chat_messages_and_those_without_text_are_reported() -> None:
    chat: list[ChatMessage] = [
        {"role": "user", "content": "What is 2 + 2?"},
        {"role": "assistant", "content": None, "tool_calls": [{"id": "1", "type": "function"}]},
        {"role": "tool", "content": "4", "tool_call_id": "1"},
        {"role": "assistant", "content": "Four.", "timestamp": "2024-02-01T10:00:00Z"},
    ]

    async def retained(memory: Memory) -> list[tuple[str, str]]:
        result = await memory.retain(chat, speaker="Ana", document="sums", timestamp="2024-01-01", infer=False)
        return [(each.what, each.reason) for each in result.skipped]

    with open_memory(":memory:") as memory:
        assert asyncio.run(retained(memory)) == [("message 2", "it has no text")]
        asked, result, answered = memory.messages_sync(document="sums")
    assert (asked.speaker, result.speaker, answered.speaker) == ("Ana", None, None)
    assert asked.timestamp == result.timestamp == datetime(2024, 1, 1, tzinfo=UTC)
    assert answered.timestamp == datetime(2024, 2, 1, 10, tzinfo=UTC)


def test_one_chat_message_is_added() -> None:
    with open_memory(":memory:") as memory:
        memory.add_message_sync({"role": "user", "content": "I like tea.", "name": "Ana"})
        (message,) = memory.messages_sync()
    assert (message.speaker, message.content) == ("Ana", "I like tea.")


@pytest.mark.parametrize(
    "time", ["2024-03-01", "2024-03-01T00:00:00Z", "2024-03-01T02:00+02:00", datetime(2024, 3, 1, tzinfo=UTC)]
)
def test_times_are_given_as_iso_text_or_aware_datetimes(time: str | datetime) -> None:
    with open_memory(":memory:") as memory:
        memory.retain_sync("The kettle is red.", timestamp=time)
        (message,) = memory.messages_sync()
        assert message.timestamp == datetime(2024, 3, 1, tzinfo=UTC)
        assert memory.retrieve_sync("kettle", at_time=time, now=time).hits
        assert not memory.retrieve_sync("kettle", at_time="2024-02-29").hits
        assert not memory.retrieve_sync("kettle", known_at="2024-02-29").hits


def test_a_list_of_tool_calls_alone_is_skipped_and_stores_nothing() -> None:
    with open_memory(":memory:") as memory:
        done = memory.retain_sync([{"role": "assistant", "content": None, "tool_calls": []}])
        assert [each.what for each in done.skipped] == ["message 1"]
        assert memory.messages_sync() == []
