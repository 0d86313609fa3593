"""The reader of the packaged encoder: what the local engine takes from messages."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from vmemo import Memory, Message, Settings

START = datetime(2025, 3, 1, 9, tzinfo=UTC)


@pytest.fixture
def memory() -> Iterator[Memory]:
    with Memory("sqlite:///:memory:") as opened:
        yield opened


def say(text: str, hours: int = 0, **fields: object) -> Message:
    return Message.of({"content": text, "speaker": "Ana", "timestamp": START + timedelta(hours=hours), **fields})


def current_instructions(memory: Memory) -> list[str]:
    found = memory.facts_sync(instructions=True)
    return [fact.text.partition(": ")[2] for fact in found if fact.expired_at is None]


@pytest.mark.parametrize(
    "text",
    [
        "Always give dates as MM/DD/YYYY.",
        "From now on answer me in at most three sentences.",
        "Always confirm submission dates when I ask about deadlines.",
        "Antworte mir bitte immer auf Deutsch und duze mich.",
    ],
)
def test_standing_instructions_are_facts_of_their_own(memory: Memory, text: str) -> None:
    memory.retain_sync(say(f"I moved to Oslo last week. {text}"))
    assert current_instructions(memory) == [text]
    assert any("Oslo" in fact.text and not fact.instruction for fact in memory.facts_sync())


def test_words_end_the_instruction_that_they_are_about(memory: Memory) -> None:
    memory.retain_sync(say("Always give dates as MM/DD/YYYY."))
    memory.retain_sync(say("Answer in three sentences from now on.", 1))
    memory.retain_sync(say("Forget the three sentence rule", 2))
    assert current_instructions(memory) == ["Always give dates as MM/DD/YYYY."]


def test_a_question_is_no_standing_instruction(memory: Memory) -> None:
    memory.retain_sync(
        Message(content="Should my answers be in metric units when I write to clients, or imperial?", role="user")
    )
    assert memory.facts_sync(instructions=True) == []


@pytest.mark.parametrize(
    "text",
    [
        "Now for once do me a full page, narrative, no points, on the garden.",
        "For the feast on the 24th find me one starter, no nuts no egg.",
        "Kindly draft me a letter of thanks to the bakery, short and formal.",
    ],
)
def test_a_request_for_once_is_no_standing_instruction(memory: Memory, text: str) -> None:
    memory.retain_sync([Message(role="user", speaker="Ana", content=text)])
    assert not [fact.text for fact in memory.facts_sync() if fact.instruction]


def test_a_day_of_every_month_is_no_sign_of_a_request_for_once(memory: Memory) -> None:
    text = "Always give me the rent summary by the 5th of each month."
    memory.retain_sync([Message(role="user", speaker="Ana", content=text)])
    assert [fact.text for fact in memory.facts_sync(instructions=True)] == [f"Ana: {text}"]


def test_quoted_words_are_no_instructions(memory: Memory) -> None:
    memory.retain_sync(say('My boss wrote: "Always send the report before nine and never call me."'))
    assert current_instructions(memory) == []


def test_small_talk_of_both_sides_stays_messages(memory: Memory) -> None:
    memory.retain_sync(
        [
            say("thanks, that's perfect!"),
            say("You're welcome! Anything else I can do for you?", 1, role="assistant", speaker=None),
            say("My daughter Mira starts school in Bergen on Monday.", 2),
        ]
    )
    assert [fact.text.partition(":")[0] for fact in memory.facts_sync()] == ["Ana"]
    assert len(memory.messages_sync()) == 3


@pytest.mark.parametrize("speaker", [None, "Ben"])
def test_short_plain_statements_are_facts_and_reactions_are_not(memory: Memory, speaker: str | None) -> None:
    stated = ["I live in Berlin.", "My sister is called Ana.", "Ich wohne in Graz.", "Vivo en Sevilla.", "I'm a nurse."]
    reactions = ["haha so true", "ok cool, thanks a lot", "danke, alles gut"]
    memory.retain_sync([say(text, hours, speaker=speaker) for hours, text in enumerate([*stated, *reactions])])
    assert [fact.text.partition(": ")[2] for fact in memory.facts_sync()] == stated


def test_an_instruction_in_japanese_does_not_take_its_whole_message(memory: Memory) -> None:
    memory.retain_sync(say("来月、大阪に引っ越します。これからはいつも日本語で、三文以内で答えてください。"))
    assert current_instructions(memory) == ["これからはいつも日本語で、三文以内で答えてください。"]


def test_persons_are_found_in_lower_case_and_are_typed(memory: Memory) -> None:
    memory.retain_sync(say("had lunch with priya in Lisbon"))
    types = {entity.name: entity.type for entity in memory.entities_sync()}
    assert types["Priya"] == "PERSON"
    assert types.get("Lisbon") != "PERSON"


def test_a_first_name_that_two_persons_share_names_neither_of_them(memory: Memory) -> None:
    memory.retain_sync(say("I had lunch with Dave Miller from accounting."))
    memory.retain_sync(say("Dave Kowalski fixed our roof.", 24))
    memory.retain_sync(say("I told Dave that the roof is dry now.", 25))
    facts = {fact.text: {entity.name for entity in fact.entities} for fact in memory.facts_sync()}
    assert facts["Ana: I told Dave that the roof is dry now."] == {"Ana"}


def test_reprocess_gives_the_same_facts_and_a_cache_on_disk_too(tmp_path: Path) -> None:
    said = [
        say("Thanks!"),
        say("I moved to Oslo. Always give dates as MM/DD/YYYY.", 1),
        say("Ok, great. My sister Nora lives in Turin.", 2),
    ]
    settings = Settings(embedding_cache=tmp_path / "vectors.db")
    found: list[list[tuple[str, bool, list[str]]]] = []
    for name in ("a.db", "b.db"):
        with Memory(f"sqlite:///{tmp_path / name}", settings=settings) as memory:
            memory.retain_sync(said)
            for _ in range(2):
                facts = memory.facts_sync()
                found.append([(f.text, f.instruction, sorted(e.name for e in f.entities)) for f in facts])
                memory.reprocess_sync()
    assert found[1:] == found[:1] * 3


@pytest.mark.parametrize(
    ("text", "date"),
    [
        # On a Sunday the day before may be meant, or the one of the week before.
        ("I'm back at my parents' house since last Saturday, to save.", None),
        ("I'm 70 in December and I'm handing over as captain.", "in December (= December 2025)"),
        ("We hired April from the shop, and she plays June in the musical.", None),
    ],
)
def test_a_time_that_the_rules_leave_open_gets_its_date_if_it_is_read_as_one(
    memory: Memory, text: str, date: str | None
) -> None:
    memory.retain_sync(say(text, timestamp=datetime(2025, 10, 12, 9, tzinfo=UTC)))
    [fact] = memory.facts_sync()
    assert fact.text.count("(=") == (date is not None)
    assert date is None or date in fact.text


@pytest.mark.parametrize(
    ("text", "day"),
    [
        ("My 1987 Volvo needs a new clutch, so the garage takes it on Tuesday.", 4),
        ("The 1998 novel about the winter war arrived, and we meet on 20 March.", 20),
        ("Always call me Ben. My 1987 Volvo needs a clutch, so the garage takes it on Tuesday.", 4),
    ],
)
@pytest.mark.parametrize("role", ["user", "assistant"])
def test_a_fact_occurs_at_the_time_that_is_read_as_a_date(memory: Memory, text: str, day: int, role: str) -> None:
    memory.retain_sync(say(text, role=role))
    found = [fact.occurred_start for fact in memory.facts_sync() if fact.occurred_start is not None]
    assert found == [datetime(2025, 3, day, tzinfo=UTC)]
