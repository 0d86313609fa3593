"""Invalid input raises an error and changes nothing; unusual queries are answered."""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import cast

import pytest
from builders import WordEmbedder, exported, open_memory, said
from pydantic import JsonValue

from databases import NewDatabase
from vmemo import InvalidInput, Memory, Message, NotFound, Profile, Settings, StoreError, VmemoError
from vmemo.models import Disposition

NAIVE = datetime(2024, 1, 1)  # noqa: DTZ001  that is the point
LONE = "half a character \ud800"
UNICODE = "lone surrogates|as a unicode string"
CONTENT = said("I met Anna Kowalski at the station.")


def nested(levels: int) -> dict[str, JsonValue]:
    """Return metadata with lists inside one another."""
    value: JsonValue = 1
    for _ in range(levels):
        value = [value]
    return {"x": value}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("bank")


@contextmanager
def unchanged(url: str, folder: Path) -> Generator[Memory]:
    """Open a memory with some content, and check at the end that no refused call changed it."""
    with open_memory(url) as memory:
        memory.retain_sync(CONTENT, document="diary", tags=["trip"], metadata={"page": 1})
        memory.retain_sync("Waiting words.", infer=False)
        before = content_of(memory, folder)
        yield memory
        assert content_of(memory, folder) == before


def content_of(memory: Memory, folder: Path) -> list[str]:
    """Return the export without the access counts, which successful recalls change."""
    return [re.sub(r'"access_count": ?\d+', "", line) for line in exported(memory, folder)]


@pytest.fixture(scope="module")
def memory(folder: Path) -> Iterator[Memory]:
    """A memory for input that is refused before the store is called."""
    with unchanged(f"sqlite:///{folder / 'memory.db'}", folder) as memory:
        yield memory


@pytest.fixture(scope="module")
def place(new_database: NewDatabase) -> Iterator[str]:
    with new_database() as url:
        yield url


@pytest.fixture(scope="module")
def each_memory(place: str, folder: Path) -> Iterator[Memory]:
    """A memory on each store, for input that only the store can judge."""
    with unchanged(place, folder) as memory:
        yield memory


def assert_refused(call: Callable[[], object], kind: type[VmemoError], words: str) -> None:
    with pytest.raises(kind, match=words):
        call()


def anything(value: object) -> str:
    """Values that a type checker rejects, but an untyped caller may pass."""
    return cast("str", value)


RETAINED: list[tuple[object, str]] = [
    ("", "content: must not be empty or blank"),
    (" \n\t ", "content: must not be empty or blank"),
    (None, "not NoneType"),
    (5, "not int"),
    (b"bytes", "not bytes"),
    ({"content": " "}, "content: must not be empty or blank"),
    ("nul \x00", "NUL"),
    (LONE, UNICODE),
    ("x" * 1_000_001, "at most 1000000 characters"),
    ([], "the list is empty"),
    ([""], "must not be empty or blank"),
    (["fine", None], "not NoneType"),
    (["fine", 5], "not int"),
    (["fine", ["nested"]], "not list"),
    ({"role": "user"}, "content: Field required"),
    ({"role": "boss", "content": "x"}, "'user', 'assistant', 'system', 'tool' or 'document'"),
    ({"content": "x", "contnet": "y"}, "There is no option 'contnet'"),
    ({"content": "x", "timestamp": NAIVE}, "datetime\\(..., tzinfo=UTC\\), or value.astimezone\\(\\) for local time"),
    (["fine", LONE], UNICODE),
]


@pytest.mark.parametrize(("content", "words"), RETAINED)
def test_content_that_cannot_be_retained_is_refused(memory: Memory, content: object, words: str) -> None:
    assert_refused(lambda: memory.retain_sync(anything(content)), InvalidInput, words)
    raw = lambda: memory.retain_sync(anything(content), infer=False)  # noqa: E731
    assert_refused(raw, InvalidInput, words)


@pytest.mark.parametrize(("content", "words"), [*RETAINED[:9], (["one", "two"], "retain\\(\\) takes lists")])
def test_a_message_that_cannot_be_stored_is_refused(memory: Memory, content: object, words: str) -> None:
    words = words if type(content) in (str, list, dict) else "one text or Message"
    assert_refused(lambda: memory.add_message_sync(anything(content)), InvalidInput, words)
    asked = lambda: memory.add_exchange_sync(anything(content), "Good.")  # noqa: E731
    assert_refused(asked, InvalidInput, words)
    answered = lambda: memory.add_exchange_sync("Fine.", anything(content))  # noqa: E731
    assert_refused(answered, InvalidInput, words)


MESSAGE_OPTIONS: list[tuple[str, object, str]] = [
    ("role", "boss", "'user', 'assistant', 'system', 'tool' or 'document'"),
    ("role", None, "role"),
    ("speaker", "", "speaker: must not be empty or blank"),
    ("speaker", "x" * 513, "at most 512"),
    ("speaker", 5, "speaker"),
    ("timestamp", NAIVE, "naive datetimes are refused"),
    ("timestamp", "2024", "timestamp: '2024' is not a date"),
    ("timestamp", "2024-01-01T10:00", "add Z or an offset"),
    ("timestamp", 5, "timestamp: must be a datetime or ISO 8601 text, not int"),
    ("timestamp", None, "timestamp: must be a datetime or ISO 8601 text, not NoneType"),
    ("document", "", "document: must not be empty or blank"),
    ("document", "nul \x00", "NUL"),
    ("document", LONE, UNICODE),
    ("document", "x" * 513, "at most 512"),
    ("tags", "trip", "tags"),
    ("tags", [""], "must not be empty or blank"),
    ("tags", [5], "tags"),
    ("tags", None, "tags"),
    ("metadata", "x", "metadata"),
    ("metadata", {"set": {1}}, "metadata"),
    ("metadata", {5: 1}, "metadata"),
    ("metadata", {"number": float("nan")}, "metadata"),
    ("metadata", {"text": LONE}, "metadata: must be JSON in valid Unicode"),
    ("metadata", nested(64), "metadata: must not be nested more than 64 levels deep"),
    ("metadata", nested(250), "metadata: must not be nested more than 64 levels deep"),
    ("metadata", {LONE: 1}, f"metadata: must be JSON in valid Unicode|{UNICODE}"),
    ("tag", ["trip"], "There is no option 'tag'; there are ttl, expires_at, document"),
]


@pytest.mark.parametrize(("option", "value", "words"), MESSAGE_OPTIONS)
def test_an_invalid_message_option_is_refused(memory: Memory, option: str, value: object, words: str) -> None:
    given = {option: value}
    for call in (
        lambda: memory.retain_sync("Fine.", **given),  # pyright: ignore[reportArgumentType]
        lambda: memory.add_message_sync("Fine.", **given),  # pyright: ignore[reportArgumentType]
        lambda: memory.retain_sync(["Fine.", "Good."], **given),  # pyright: ignore[reportArgumentType]
    ):
        assert_refused(call, InvalidInput, words)


@pytest.mark.parametrize("infer", [None, "no", 0])
def test_infer_must_be_a_boolean(memory: Memory, infer: object) -> None:
    call = lambda: memory.retain_sync("Fine.", infer=cast("bool", infer))  # noqa: E731
    assert_refused(call, InvalidInput, "infer: must be true or false, not")


@pytest.mark.parametrize("id", ["", "  ", "line\nbreak", LONE, "x" * 513])
def test_a_message_needs_an_id_that_can_be_cited(memory: Memory, id: str) -> None:
    message = Message.of({"id": id, "content": "Fine."})
    assert_refused(lambda: memory.retain_sync(message), InvalidInput, r"id: must")


def test_a_message_with_a_naive_time_cannot_be_made() -> None:
    with pytest.raises(InvalidInput, match=r"timestamp: a datetime needs a time zone; naive datetimes are refused"):
        Message(content="Fine.", timestamp=NAIVE)


QUERIES: list[tuple[object, str]] = [
    ("", "query: must have at least 1 character"),
    (" \n\t ", "query: must have at least 1 character"),
    ("\x00\x01\x02", "query: must have at least 1 character"),
    (None, "query: must be text, not None"),
    (5, "query: must be text, not 5"),
    (b"bytes", "query: must be text, not b'bytes'"),
    (["a"], r"query: must be text, not \['a'\]"),
    ("x" * 100_001, "query: must have at most 100000 characters"),
]


@pytest.mark.parametrize(("query", "words"), QUERIES)
def test_an_empty_query_is_refused(memory: Memory, query: object, words: str) -> None:
    for verb in (memory.recall_sync, memory.retrieve_sync, memory.reflect_sync):
        assert_refused(lambda verb=verb: verb(anything(query)), InvalidInput, words)


SIZES: list[tuple[object, str]] = [
    (0, "must be greater than or equal to 1, not 0"),
    (-1, "must be greater than or equal to 1, not -1"),
    (10**12, "must be less than or equal to 10+, not 10+"),
    (1.5, "must be a whole number, not 1.5"),
    (True, "must be a whole number, not True"),
    ("5", "must be a whole number, not '5'"),
    ("huge", "must be a whole number, not 'huge'"),
    (None, "must be a whole number, not None"),
]


@pytest.mark.parametrize(("size", "words"), SIZES)
def test_an_invalid_recall_size_is_refused(memory: Memory, size: object, words: str) -> None:
    size = cast("int", size)
    for call in (
        lambda: memory.recall_sync("station", max_tokens=size),
        lambda: memory.recall_sync("station", budget=size),
        lambda: memory.retrieve_sync("station", top_k=size),
    ):
        assert_refused(call, InvalidInput, words)


RECALL_OPTIONS: list[tuple[str, object, str]] = [
    ("networks", ["dreams"], "networks.0: must be 'world', 'experience', 'opinion' or 'observation', not 'dreams'"),
    ("networks", "world", "networks: must be a list, not 'world'"),
    ("networks", None, "networks: must be a list, not None"),
    ("networks", [5], "networks.0: must be 'world', .* not 5"),
    ("tags", "trip", "tags: must be a list, not 'trip'"),
    ("tags", [None], "tags.0: must be text, not None"),
    ("tags", [""], "tags.0: must not be empty"),
    ("tags", [LONE], UNICODE),
    ("tags_match", "some", "tags_match: must be 'all', 'any', 'exact'"),
    ("entities", "Anna", "entities: must be a list, not 'Anna'"),
    ("entities", [LONE], UNICODE),
    ("metadata", "page", "metadata: must be a mapping"),
    ("metadata", None, "metadata: must be a mapping"),
    ("metadata", {"page": {1}}, "metadata.page: input was not a valid JSON value"),
    ("metadata", {5: 1}, "metadata.5: must be text"),
    ("metadata", {"page": float("nan")}, "must be a finite number"),
    ("metadata", {"page": LONE}, "metadata: must be JSON in valid Unicode"),
    ("metadata", {"page": 10**30}, "too large to compare"),
    ("occurred", (NAIVE, NAIVE), "occurred: must be .* instance of Interval"),
    ("occurred", "2024", "occurred: must be .* instance of Interval"),
    ("at_time", NAIVE, "at_time: a datetime needs a time zone"),
    ("at_time", "2024", "at_time: '2024' is not a date and time"),
    ("at_time", "2024-01-01T10:00", "at_time: a datetime needs a time zone"),
    ("at_time", date(2024, 1, 1), "at_time: must be a datetime or ISO 8601 text, not date"),
    ("known_at", NAIVE, "known_at: a datetime needs a time zone"),
    ("known_at", 5, "known_at: must be a datetime or ISO 8601 text, not int"),
    ("include_expired", "yes", "include_expired: must be true or false, not 'yes'"),
    ("recency_half_life", 5, "recency_half_life: must be a timedelta"),
    ("recency_half_life", timedelta(0), "recency_half_life: must be longer than nothing"),
    ("recency_half_life", timedelta(-1), "recency_half_life: must be longer than nothing"),
    ("importance_weight", 2, "importance_weight: must be less than or equal to 1, not 2"),
    ("importance_weight", -0.1, "importance_weight: must be greater than or equal to 0, not -0.1"),
    ("importance_weight", float("nan"), "importance_weight: must be a finite number, not nan"),
    ("importance_weight", True, "importance_weight: must be a valid number, not True"),
    ("importance_weight", "x", "importance_weight: must be a valid number, not 'x'"),
    ("network", ["world"], "There is no option 'network'; there are (?:banks, )?networks"),
]


@pytest.mark.parametrize(("option", "value", "words"), RECALL_OPTIONS)
def test_an_invalid_recall_option_is_refused(memory: Memory, option: str, value: object, words: str) -> None:
    given = {option: value}
    for verb in (memory.recall_sync, memory.retrieve_sync, memory.reflect_sync):
        call = lambda verb=verb: verb("station", **given)  # noqa: E731  # pyright: ignore[reportArgumentType]
        assert_refused(call, InvalidInput, words)


FORGOTTEN: list[tuple[dict[str, object], type[VmemoError], str]] = [
    ({}, InvalidInput, "exactly one thing"),
    ({"messages": []}, InvalidInput, "exactly one thing"),
    ({"bank": False}, InvalidInput, "exactly one thing"),
    ({"messages": [CONTENT.id], "bank": True}, InvalidInput, "exactly one thing"),
    ({"document": "diary", "entity": "Anna Kowalski"}, InvalidInput, "exactly one thing"),
    ({"messages": CONTENT.id}, InvalidInput, "messages: must be a list"),
    ({"messages": 5}, InvalidInput, "messages: must be a list"),
    ({"messages": [5]}, InvalidInput, "must be text"),
    ({"messages": [LONE]}, InvalidInput, UNICODE),
    ({"messages": [CONTENT.id, "nobody"]}, NotFound, "There is no message 'nobody'"),
    ({"messages": ["nul \x00"]}, InvalidInput, "NUL"),
    ({"document": 5}, InvalidInput, "must be text"),
    ({"document": LONE}, InvalidInput, UNICODE),
    ({"document": ""}, InvalidInput, "document: must not be empty"),
    ({"document": "novel"}, NotFound, "There is no document 'novel'"),
    ({"entity": 5}, InvalidInput, "must be text"),
    ({"entity": LONE}, InvalidInput, UNICODE),
    ({"entity": "nobody"}, NotFound, "There is no entity 'nobody'"),
    ({"entity": "nul \x00"}, InvalidInput, "NUL"),
    ({"bank": "yes"}, InvalidInput, "bank: must be true or false"),
    ({"bank": 1}, InvalidInput, "bank: must be true or false"),
]


@pytest.mark.parametrize(("target", "kind", "words"), FORGOTTEN)
def test_an_ambiguous_forget_target_is_refused(
    memory: Memory, target: dict[str, object], kind: type[VmemoError], words: str
) -> None:
    call = lambda: memory.forget_sync(**target)  # noqa: E731  # pyright: ignore[reportArgumentType]
    assert_refused(call, kind, words)


@pytest.mark.parametrize("new", ["Ann", 5, {"name": "Ann"}])
def test_a_profile_that_cannot_be_stored_is_refused(memory: Memory, new: object) -> None:
    call = lambda: memory.profile_sync(cast("Profile", new))  # noqa: E731
    assert_refused(call, InvalidInput, "profile: must be an instance of Profile, not")


@pytest.mark.parametrize(
    ("field", "value"),
    [("name", ""), ("name", LONE), ("background", LONE), ("bias", 1.1), ("bias", -0.1), ("background", "x" * 601)],
)
def test_a_profile_out_of_bounds_cannot_be_made(field: str, value: object) -> None:
    with pytest.raises(InvalidInput, match=f"Profile is not valid: {field}"):
        Profile.of({field: value})


@pytest.mark.parametrize("trait", ["skepticism", "literalism", "empathy"])
@pytest.mark.parametrize("value", [0, 6, "high", 2.5])
def test_a_trait_ranges_from_one_to_five(trait: str, value: object) -> None:
    with pytest.raises(InvalidInput, match=f"Disposition is not valid: {trait}"):
        Disposition.of({trait: value})


PAGES: list[tuple[dict[str, object], type[VmemoError], str]] = [
    ({"limit": 0}, InvalidInput, "limit: must be greater than or equal to 1, not 0"),
    ({"limit": -1}, InvalidInput, "limit: must be greater than or equal to 1, not -1"),
    ({"limit": 1001}, InvalidInput, "limit: must be less than or equal to 1000, not 1001"),
    ({"limit": 10**30}, InvalidInput, "limit: must be less than or equal to 1000"),
    ({"limit": 1.5}, InvalidInput, "limit: must be a whole number, not 1.5"),
    ({"limit": "5"}, InvalidInput, "limit: must be a whole number, not '5'"),
    ({"limit": None}, InvalidInput, "limit: must be a whole number, not None"),
    ({"limit": True}, InvalidInput, "limit: must be a whole number, not True"),
    ({"after": "nobody"}, NotFound, "There is no 'nobody' to continue after"),
    ({"after": 5}, InvalidInput, "after: must be text, not 5"),
    ({"after": LONE}, InvalidInput, UNICODE),
    ({"after": ""}, InvalidInput, "after: must not be empty"),
    ({"after": "nul \x00"}, InvalidInput, "NUL"),
]


@pytest.mark.parametrize(("page", "kind", "words"), PAGES)
def test_an_invalid_page_is_refused(
    memory: Memory, page: dict[str, object], kind: type[VmemoError], words: str
) -> None:
    for verb in (memory.messages_sync, memory.facts_sync, memory.episodes_sync, memory.entities_sync):
        call = lambda verb=verb: verb(**page)  # noqa: E731  # pyright: ignore[reportArgumentType]
        assert_refused(call, kind, words)


@pytest.mark.parametrize("after", ["nobody", "🙂"])
def test_a_page_after_an_unknown_id_is_refused(each_memory: Memory, after: str) -> None:
    memory = each_memory
    for verb in (memory.messages_sync, memory.facts_sync, memory.episodes_sync, memory.entities_sync):
        with pytest.raises(NotFound, match="to continue after"):
            verb(after=after)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("fact", ["", "nobody", LONE, "nul \x00"])
def test_asking_why_about_an_unknown_fact_is_refused(each_memory: Memory, fact: str) -> None:
    assert_refused(lambda: each_memory.why_sync(fact), VmemoError, f"There is no fact|{UNICODE}|fact: must not")


@pytest.mark.parametrize("place", ["", "no/such/folder/bank.jsonl"])
def test_a_file_that_cannot_be_written_or_read_is_refused(memory: Memory, folder: Path, place: str) -> None:
    assert_refused(lambda: memory.export_sync(folder / place), InvalidInput, "can't be written")
    read = lambda: memory.bank("copy").import_bank_sync(folder / place)  # noqa: E731
    assert_refused(read, InvalidInput, "can't be read")
    assert memory.banks_sync() == ["default"]
    assert list(folder.parent.glob("*.partial")) == []


MEMORIES: list[tuple[dict[str, object], type[VmemoError], str]] = [
    ({"url": ""}, InvalidInput, "starts with sqlite:///"),
    ({"url": "postgresql:memory"}, InvalidInput, "starts with sqlite:///"),
    ({"url": "~nobody-here/memory.db"}, InvalidInput, "Give an absolute path"),
    ({"url": "mysql://localhost"}, InvalidInput, "starts with sqlite:///"),
    ({"url": "sqlite:"}, InvalidInput, "starts with sqlite:///"),
    ({"url": "sqlite:///"}, InvalidInput, "A database is a file path"),
    ({"url": "sqlite://relative.db"}, InvalidInput, "sqlite:///relative.db"),
    ({"url": "sqlite:///nul\x00.db"}, InvalidInput, "URL"),
    ({"url": 5}, InvalidInput, "text or a Path, not int"),
    ({"url": "neo4j://localhost/a/b"}, InvalidInput, "neo4j://user:password@host:7687/database"),
    ({"bank": ""}, InvalidInput, "must not be empty"),
    ({"bank": None}, InvalidInput, "must be text"),
    ({"bank": 5}, InvalidInput, "must be text"),
    ({"bank": "nul \x00"}, InvalidInput, "NUL"),
    ({"bank": LONE}, InvalidInput, UNICODE),
    ({"bank": "x" * 513}, InvalidInput, "at most 512"),
    ({"llm": "nosuch:model"}, InvalidInput, "nosuch"),
    ({"bank": "\x1freprocess 1"}, InvalidInput, "U\\+001F"),
    ({"llm": object()}, InvalidInput, "openai:gpt-5-mini"),
    ({"reranker": object()}, InvalidInput, "rerank()"),
    ({"embedder": 7}, InvalidInput, "an object with name, dimension and embed"),
    ({"embedder": "openai:"}, InvalidInput, "not an embedder"),
    ({"settings": {"fusion": "sum"}}, InvalidInput, "settings must be Settings"),
]


@pytest.mark.parametrize(("arguments", "kind", "words"), MEMORIES)
def test_an_invalid_memory_is_refused_at_once(arguments: dict[str, object], kind: type[VmemoError], words: str) -> None:
    given = {"url": "sqlite:///:memory:", "embedder": WordEmbedder(), **arguments}
    with pytest.raises(kind, match=words):
        Memory(**given)  # pyright: ignore[reportArgumentType]


def test_another_bank_of_a_memory_requires_a_name(memory: Memory) -> None:
    with pytest.raises(InvalidInput, match="must not be empty"):
        memory.bank(" ")


def test_an_unknown_fusion_is_refused() -> None:
    with pytest.raises(InvalidInput, match="fusion: must be 'sum' or 'rank', not 'magic'"):
        Settings(fusion=cast("object", "magic"))  # pyright: ignore[reportArgumentType]


def test_a_file_that_is_not_a_database_is_refused_and_unchanged(sqlite_url: str, tmp_path: Path) -> None:
    file = tmp_path / "memory.db"
    file.write_text("These are my notes, and no database. " * 100)
    with pytest.raises(StoreError, match="no plain SQLite database"):
        open_memory(sqlite_url).open_sync()
    assert file.read_text().startswith("These are my notes")


HOSTILE = [
    '"station" AND \'Anna',
    'NEAR("station" 5) OR *',
    'station* ^Anna -"x" {words}: a + b',
    "words:station",
    "AND OR NOT NEAR",
    "'; DROP TABLE messages; --",
    '" OR 1=1 --',
    "station\x00\x01\x1b[31m\x7f Anna",
    "station \ud800 Anna",
    "🙂 station 👩‍👩‍👧",
    "駅でアンナに会いましたか",
    "أين التقيت آنا؟",
    "где я встретил Анну?",
    "%s %d {} \\ / ~ ` $HOME",
    "?",
    "the of and",
    "station " * 12_500,
    "x" * 100_000,
    " ".join(f"word{n}" for n in range(9_000)),
    "\u202estation\u202c \u200bAnna\ufeff",
    "(" * 5_000,
    "vmemobank1",
]


@pytest.mark.parametrize("query", HOSTILE)
def test_a_hostile_query_gets_an_answer(each_memory: Memory, query: str) -> None:
    found = each_memory.recall_sync(query, max_tokens=500)
    assert found.tokens <= 500
    assert all(hit.text for hit in found.hits)
    assert len(each_memory.retrieve_sync(query, top_k=1).hits) <= 1
    assert each_memory.reflect_sync(query).extractive
    if "station" in query:
        assert any("station" in hit.text for hit in found.hits)


HOSTILE_NAMES = ["'; DROP TABLE facts; --", '"', "%", "_", "*", "🙂", "駅", "a\x01b", "[]", '{"a": 1}', "\\"]


@pytest.mark.parametrize("name", HOSTILE_NAMES)
def test_a_hostile_name_in_a_filter_finds_nothing_and_harms_nothing(each_memory: Memory, name: str) -> None:
    assert each_memory.recall_sync("station", tags=[name]).hits == ()
    assert each_memory.recall_sync("station", entities=[name]).hits == ()
    assert each_memory.recall_sync("station", metadata={name: name}).hits == ()
    assert each_memory.recall_sync("station", metadata={"page": name}).hits == ()
    assert each_memory.messages_sync(document=name) == []
    assert each_memory.recall_sync("station").hits


def test_filters_work_beside_a_null_character_in_metadata(url: str) -> None:
    with open_memory(url) as memory:
        memory.retain_sync("The kettle is red.", metadata={"page": 1, "note": "nul \x00", "nul \x00": 2})
        memory.retain_sync("The kettle is blue.", metadata={"page": 2})
        (red,) = memory.recall_sync("kettle", metadata={"page": 1}).hits
        (blue,) = memory.recall_sync("kettle", metadata={"page": 2}).hits
        assert (red.text, blue.text) == ("User: The kettle is red.", "User: The kettle is blue.")
        assert red.fact.metadata == {"page": 1, "note": "nul \x00", "nul \x00": 2}


@pytest.mark.parametrize("name", HOSTILE_NAMES)
def test_a_hostile_bank_name_is_an_ordinary_name(place: str, name: str) -> None:
    with open_memory(place, name) as memory:
        memory.retain_sync("The kettle is red.", document=name, tags=[name], metadata={name: name}, speaker=name)
        (hit,) = memory.recall_sync("kettle", tags=[name], metadata={name: name}).hits
        assert hit.fact.tags == (name,)
        memory.forget_sync(document=name)
        assert memory.recall_sync("kettle").hits == ()
        memory.forget_sync(bank=True)


@pytest.mark.parametrize("moment", [datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, 23, tzinfo=UTC)])
@pytest.mark.parametrize("text", ["Yesterday it rained.", "It will rain next month.", "Two centuries ago it rained."])
def test_messages_of_extreme_dates_are_retained(url: str, moment: datetime, text: str) -> None:
    with open_memory(url) as memory:
        memory.retain_sync(text, timestamp=moment)
        (hit,) = memory.recall_sync("When did it rain?").hits
        assert hit.fact.mentioned_at == moment
