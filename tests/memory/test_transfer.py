"""Export and import: a bank as JSON Lines, whole or not at all."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from builders import NOON, WordEmbedder, exported, open_memory
from exports import Line, alone, assert_refused, fill, repeated, replaced

from databases import NewDatabase
from vmemo import EmbedderMismatch, InvalidInput, Memory, StoreBusy
from vmemo.embedding.token_counter import count_tokens
from vmemo.models import BankId, Entity, FactId, Link, MessageId
from vmemo.models.records import line_key
from vmemo.ports import Item
from vmemo.transfer import files
from vmemo_conformance.samples import TokenHashEmbedder

STORES = ("sqlite",)


@pytest.fixture(scope="module")
def source(new_database: NewDatabase) -> Iterator[str]:
    """A bank with something of everything."""
    with new_database() as url:
        with open_memory(url) as memory:
            fill(memory)
        yield url


@pytest.fixture(scope="module")
def file(source: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Its export."""
    path = tmp_path_factory.mktemp("source") / "bank.jsonl"
    with open_memory(source) as memory:
        memory.export_sync(path)
    return path


def test_an_imported_bank_exports_to_the_same_bytes(file: Path, url: str, tmp_path: Path) -> None:
    with open_memory(url) as memory:
        assert memory.import_bank_sync(file) == 5
        assert memory.export_sync(tmp_path / "again.jsonl") == len(file.read_bytes().splitlines())
    assert (tmp_path / "again.jsonl").read_bytes() == file.read_bytes()


def test_links_are_exported_in_pages_of_facts_to_the_same_bytes(
    file: Path, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "PAGE", 2)
    pages: list[int] = []
    with open_memory(url) as memory:
        memory.import_bank_sync(file)
        store = memory.store
        links = store.links

        async def counted(bank: BankId, facts: Sequence[FactId] | None = None) -> list[Link]:
            assert facts is not None
            pages.append(len(facts))
            return await links(bank, facts)

        monkeypatch.setattr(store, "links", counted)
        memory.export_sync(tmp_path / "pages.jsonl")
    assert len(pages) > 1
    assert max(pages) == 2
    assert (tmp_path / "pages.jsonl").read_bytes() == file.read_bytes()


def test_a_bank_moves_to_the_other_store_and_back_unchanged(postgres_url: str, sqlite_url: str, tmp_path: Path) -> None:
    first, second, third = (tmp_path / f"{n}.jsonl" for n in range(3))
    with open_memory(sqlite_url) as memory:
        fill(memory)
        memory.export_sync(first)
    with open_memory(postgres_url) as memory:
        memory.import_bank_sync(first)
        memory.export_sync(second)
        hits = memory.recall_sync("Who met Robert Hale?").hits
    with open_memory(sqlite_url, "back") as memory:
        memory.import_bank_sync(second)
        memory.export_sync(third)
        assert [hit.id for hit in memory.recall_sync("Who met Robert Hale?").hits] == [hit.id for hit in hits]
    assert first.read_bytes() == second.read_bytes()
    assert first.read_bytes().splitlines()[1:] == third.read_bytes().splitlines()[1:]


@pytest.fixture(scope="module")
def tokens_file(new_database: NewDatabase, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The export of a bank whose embedder gave token vectors for its first facts, and none for the later ones."""
    path = tmp_path_factory.mktemp("tokens") / "bank.jsonl"
    with new_database() as url:
        with open_memory(url, embedder=TokenHashEmbedder()) as memory:
            fill(memory)
        with open_memory(url) as memory:
            memory.retain_sync("The kettle is red.", timestamp=NOON)
            memory.export_sync(path)
    return path


def test_token_vectors_are_exported_with_their_facts_and_imported_to_the_same_bytes(
    tokens_file: Path, url: str, tmp_path: Path
) -> None:
    lines: list[Line] = [json.loads(line) for line in tokens_file.read_text(encoding="utf-8").splitlines()]
    found = [(line["text"], line.get("token_width"), line.get("token_vectors")) for line in lines if "network" in line]
    assert ("User: The kettle is red.", None, None) in found
    packed = {text: base64.b64decode(str(vectors)) for text, width, vectors in found if width == 8}
    assert len(packed) == 3
    assert all(vectors and len(vectors) % 8 == 0 for vectors in packed.values())
    with open_memory(url, embedder=TokenHashEmbedder()) as memory:
        memory.import_bank_sync(tokens_file)
        memory.export_sync(tmp_path / "again.jsonl")
        assert memory.recall_sync("Who met Robert Hale?").hits
    assert (tmp_path / "again.jsonl").read_bytes() == tokens_file.read_bytes()


def test_a_bank_with_token_vectors_switches_to_an_embedder_without_them(
    tokens_file: Path, url: str, tmp_path: Path
) -> None:
    with open_memory(url, embedder=WordEmbedder("other", 32)) as memory:
        memory.import_bank_sync(tokens_file)
        memory.reembed_sync()
        assert not any("token_vectors" in line for line in exported(memory, tmp_path))
        assert memory.recall_sync("Robert Hale").hits


def test_an_imported_bank_recalls_like_the_exported_one(source: str, file: Path, url: str) -> None:
    with open_memory(url, "home") as home, open_memory(source) as old:
        memory = home.bank("default")
        memory.import_bank_sync(file)
        for query in ("Who met Robert Hale?", "words alone", "read yet", "山田"):
            hits, before = memory.recall_sync(query).hits, old.recall_sync(query).hits
            assert hits
            assert [(hit.id, hit.text) for hit in hits] == [(hit.id, hit.text) for hit in before]
            # PostgreSQL adds scores in the order of its rows, so that the last bit may differ.
            assert [hit.score for hit in hits] == pytest.approx([hit.score for hit in before])
        assert memory.profile_sync().name == "Ada"
        assert memory.status_sync().pending == 1
        assert len(memory.process_sync().derived) == 1
        assert memory.facts_sync()[-1].text == "Tool: Not read yet."


def test_tokens_and_vector_lengths_of_a_file_are_not_believed(file: Path, sqlite_url: str, tmp_path: Path) -> None:
    lines: list[dict[str, object]] = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    changed = next(line for line in lines if line["record"] == "fact")
    vector = np.frombuffer(base64.b64decode(str(changed["embedding"])), "<f2")
    changed["embedding"] = base64.b64encode((vector * 1000).astype("<f2").tobytes()).decode()
    changed["tokens"] = 0
    forged = tmp_path / "forged.jsonl"
    forged.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    with open_memory(sqlite_url) as memory:
        memory.import_bank_sync(forged)
        facts = memory.facts_sync(limit=1000, with_embeddings=True)
    assert all(fact.tokens == count_tokens(fact.text) for fact in facts)
    assert [float(np.linalg.norm(fact.embedding or ())) for fact in facts] == pytest.approx(
        [1.0] * len(facts), abs=0.01
    )


def test_keys_and_states_of_messages_are_not_believed(file: Path, url: str, tmp_path: Path) -> None:
    lines: list[Line] = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    talk = [line for line in lines if line.get("document") == "talk"]
    assert [line["state"] for line in talk] == ["derived"] * 3
    own = next(line for line in lines if line.get("content") == "Not read yet.")
    talk[0]["key"] = line_key("user", None, "The key is forged.", time=None, number=1)
    for line in talk:
        line["state"] = "pending"
    forged = tmp_path / "forged.jsonl"
    forged.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    with open_memory(url) as memory:
        memory.import_bank_sync(forged)
        stored = {message.id: message for message in memory.messages_sync()}
        assert [stored[MessageId(str(line["id"]))].key for line in talk] == [None, talk[1]["key"], talk[2]["key"]]
        # What is processed already is not processed again, and the line that the file claims to hold can be retained.
        assert [message.id for message in stored.values() if message.state == "pending"] == [own["id"]]
        facts = memory.status_sync().facts
        assert len(memory.retain_sync("The key is forged.", document="talk").stored) == 1
        assert memory.status_sync().facts == facts + 2


def test_a_bank_can_be_imported_under_another_name_beside_the_first(file: Path, url: str, tmp_path: Path) -> None:
    with open_memory(url, "home") as home:
        home.bank("default").import_bank_sync(file)
        copy = home.bank("copy")
        copy.import_bank_sync(file)
        assert copy.banks_sync() == ["copy", "default", "home"]
        assert {fact.bank for fact in copy.facts_sync()} == {"copy"}
        copy.export_sync(tmp_path / "copy.jsonl")
    first, *rest = (tmp_path / "copy.jsonl").read_text(encoding="utf-8").splitlines()
    head, *original = file.read_text(encoding="utf-8").splitlines()
    assert rest == original
    assert {**json.loads(first), "id": "default"} == json.loads(head)


def test_importing_over_a_bank_with_messages_is_refused(file: Path, url: str, tmp_path: Path) -> None:
    with open_memory(url) as memory:
        memory.retain_sync("The kettle is red.")
        before = exported(memory, tmp_path)
        with pytest.raises(InvalidInput, match="holds messages already"):
            memory.import_bank_sync(file)
        assert exported(memory, tmp_path) == before


def test_a_bank_of_another_embedder_is_imported_whole_and_can_be_switched(file: Path, url: str) -> None:
    with open_memory(url, "home", WordEmbedder("other", 32)) as home:
        memory = home.bank("default")
        assert memory.import_bank_sync(file) == 5
        with pytest.raises(EmbedderMismatch, match="vmemo reembed"):
            memory.recall_sync("Robert Hale")
        assert memory.reembed_sync() == 3
        assert memory.recall_sync("Robert Hale").hits


def test_a_failed_export_leaves_the_earlier_file_unchanged(url: str, tmp_path: Path) -> None:
    file = tmp_path / "bank.jsonl"
    with open_memory(url) as memory:
        memory.export_sync(file)
        before = file.read_bytes()
        memory.retain_sync("The kettle is red.")
        file.with_name(file.name + ".partial").mkdir()
        with pytest.raises(InvalidInput, match="can't be written"):
            memory.export_sync(file)
    assert file.read_bytes() == before


def retain_meanwhile(memory: Memory, monkeypatch: pytest.MonkeyPatch, *, attempts: int) -> None:
    """Derive another fact after the messages were read, in the given number of attempts to export."""
    read, numbers = files.paged, iter(range(attempts))

    async def paged(page: Callable[[Any], Awaitable[Sequence[Item]]]) -> AsyncGenerator[Item]:
        async for record in read(page):
            if isinstance(record, Entity) and (number := next(numbers, None)) is not None:
                await memory.retain(f"Robert moved to town {number}.")
            yield record

    monkeypatch.setattr(files, "paged", paged)


def test_a_bank_that_changes_during_its_export_is_read_again(
    url: str, sqlite_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_memory(url) as memory:
        fill(memory)
        retain_meanwhile(memory, monkeypatch, attempts=1)
        memory.export_sync(tmp_path / "bank.jsonl")
        facts = memory.facts_sync()
    with open_memory(sqlite_url, "copy") as copy:
        copy.import_bank_sync(tmp_path / "bank.jsonl")
        assert [fact.text for fact in copy.facts_sync()] == [fact.text for fact in facts]
    assert any("town 0" in fact.text for fact in facts)


def test_a_bank_that_never_stops_changing_is_not_exported(
    sqlite_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_memory(sqlite_url) as memory:
        fill(memory)
        retain_meanwhile(memory, monkeypatch, attempts=1000)
        with pytest.raises(StoreBusy, match="changed during each of 5 attempts"):
            memory.export_sync(tmp_path / "bank.jsonl")
    assert list(tmp_path.glob("*.jsonl*")) == []


def test_a_cancelled_export_leaves_no_partial_file(url: str, tmp_path: Path) -> None:
    partial = tmp_path / "bank.jsonl.partial"

    async def cancel_while_writing() -> None:
        async with open_memory(url) as memory:
            export = asyncio.create_task(memory.export(tmp_path / "bank.jsonl"))
            while not partial.exists():  # noqa: ASYNC110 - the file is what others see
                await asyncio.sleep(0)
            export.cancel()
            with pytest.raises(asyncio.CancelledError):
                await export

    asyncio.run(cancel_while_writing())
    assert list(tmp_path.glob("*.jsonl*")) == []


@pytest.fixture(scope="module")
def here(new_database: NewDatabase) -> Iterator[Memory]:
    """A bank that broken files are to be imported beside."""
    with new_database() as url, alone(url) as memory:
        yield memory


def without(kind: str) -> Callable[[list[Line]], int]:
    """Leave out the lines of a kind; what refers to them is broken."""

    def change(lines: list[Line]) -> int:
        needed = {"message": "episode", "entity": "fact", "episode": "fact", "fact": "link"}[kind]
        lines[:] = [line for line in lines if line["record"] != kind]
        return next(n for n, line in enumerate(lines, start=1) if line["record"] == needed)

    return change


def headless(lines: list[Line]) -> int:
    del lines[0]
    return 1


BROKEN: list[tuple[str, Callable[[list[Line]], int], str]] = [
    ("no head", headless, "not the head"),
    ("another format", replaced("bank", format="something"), "not the head"),
    ("a later version", replaced("bank", version=2), "not the head"),
    ("a bank without a dimension", replaced("bank", dimension=0), "dimension"),
    ("an unknown record", replaced("message", record="dream"), "no known record 'dream'"),
    ("no record", replaced("message", record=None), "no known record None"),
    ("a list as record", replaced("message", record=[]), "no known record"),
    ("blank content", replaced("message", content=" "), "content: must not be empty"),
    ("a naive time", replaced("message", timestamp="2024-01-01T00:00:00"), "naive datetimes are refused"),
    ("an unknown role", replaced("message", role="boss"), "role"),
    ("an unknown field", replaced("message", colour="red"), "colour"),
    ("an unknown network", replaced("fact", network="dreams"), "network"),
    ("confidence of no opinion", replaced("fact", confidence=0.5), "confidence belongs to opinions only"),
    ("no vector", replaced("fact", embedding=""), "no embedding of dimension 64"),
    ("a vector that is no base64", replaced("fact", embedding="***"), "no embedding of dimension 64"),
    ("a vector that is no text", replaced("fact", embedding=[1, 2]), "no embedding of dimension 64"),
    ("a link of no kind", replaced("link", kind="magic"), "kind"),
    ("a link too heavy", replaced("link", weight=2), "weight"),
    ("a fact without an id", replaced("fact", id=" "), "is a fact without an id"),
    ("a message twice", repeated("message"), "repeats message"),
    ("an entity twice", repeated("entity"), "repeats entity"),
    ("an episode twice", repeated("episode"), "repeats episode"),
    ("a fact twice", repeated("fact"), "repeats fact"),
    ("a link twice", repeated("link"), "repeats link"),
    ("messages missing", without("message"), "refers to message"),
    ("entities missing", without("entity"), "refers to entity"),
    ("episodes missing", without("episode"), "refers to episode"),
    ("facts missing", without("fact"), "refers to fact"),
    ("an unknown basis", replaced("fact", basis=["nobody"]), "refers to fact 'nobody'"),
    ("an unknown context", replaced("fact", context_from="nobody"), "refers to message 'nobody'"),
]


def in_bytes(*numbers: int) -> str:
    """Signed bytes as an export writes them."""
    return base64.b64encode(bytes(number % 256 for number in numbers)).decode("ascii")


UNREADABLE: list[tuple[str, dict[str, object]]] = [
    ("no width", {"token_width": None}),
    ("a width without vectors", {"token_vectors": None}),
    ("a width of nothing", {"token_width": 0}),
    ("a width below nothing", {"token_width": -8}),
    ("a width that is no number", {"token_width": "8"}),
    ("a width that is a truth", {"token_width": True}),
    ("a broken width", {"token_width": 8.5}),
    ("a width beyond all vectors", {"token_width": 10**30}),
    ("an empty text", {"token_vectors": ""}),
    ("an empty text of great width", {"token_vectors": "", "token_width": 10**30}),
    ("no base64", {"token_vectors": "***"}),
    ("base64 cut short", {"token_vectors": "AAA"}),
    ("other letters", {"token_vectors": "ÄÄÄÄ"}),
    ("no text", {"token_vectors": [1, 2, 3]}),
    ("half a row", {"token_vectors": in_bytes(*range(12))}),
    ("a number below -1", {"token_vectors": in_bytes(*range(7), -128)}),
]


@pytest.mark.parametrize("fields", [case[1] for case in UNREADABLE], ids=[case[0] for case in UNREADABLE])
def test_unreadable_token_vectors_stop_the_import(
    tokens_file: Path, here: Memory, tmp_path: Path, fields: dict[str, object]
) -> None:
    lines: list[Line] = [json.loads(line) for line in tokens_file.read_text(encoding="utf-8").splitlines()]
    at = replaced("fact", **fields)(lines)
    text = "".join(json.dumps(line) + "\n" for line in lines)
    assert_refused(here, tmp_path, text.encode(), rf"line {at}\b.*token vectors")


@pytest.mark.parametrize(("change", "words"), [case[1:] for case in BROKEN], ids=[case[0] for case in BROKEN])
def test_a_broken_line_is_named_and_nothing_is_imported(
    file: Path, here: Memory, tmp_path: Path, change: Callable[[list[Line]], int], words: str
) -> None:
    lines: list[Line] = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    at = change(lines)
    text = "".join(json.dumps(line) + "\n" for line in lines)
    assert_refused(here, tmp_path, text.encode(), rf"line {at}\b.*{words}")


RAW: list[tuple[str, bytes, str]] = [
    ("an empty file", b"", "line 1 is not the head"),
    ("no JSON", b"hello\n", "line 1 is not JSON"),
    ("no object", b"[]\n", "line 1 is not an object"),
    ("no UTF-8", b"HEAD\n\xff\xfe\n", "line 2 is not JSON in UTF-8"),
    ("a torn line", b'HEAD\n{"record": "mess', "line 2 is not JSON"),
    ("an empty line", b"HEAD\n\n", "line 2 is not JSON"),
    ("brackets without end", b"HEAD\n" + b"[" * 100_000, "line 2 is not JSON"),
    ("half a character", b'HEAD\n{"record": "message", "content": "\\ud800"}\n', "line 2 is not JSON in UTF-8"),
]


@pytest.mark.parametrize(("content", "words"), [case[1:] for case in RAW], ids=[case[0] for case in RAW])
def test_a_file_that_is_not_an_export_is_refused(
    file: Path, here: Memory, tmp_path: Path, content: bytes, words: str
) -> None:
    head = file.read_bytes().splitlines()[0]
    assert_refused(here, tmp_path, content.replace(b"HEAD", head), words)
