"""LangGraph with vmemo: the contract of its store, and an agent driven by a scripted model."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest
from langgraph.store.base import GetOp, InvalidNamespaceError, PutOp, SearchOp

from vmemo import Memory
from vmemo_conformance.embedders import HashEmbedder
from vmemo_conformance.fake_llm import FakeLLM, Refusal
from vmemo_conformance.llm_server import ScriptedServer
from vmemo_integrations.langgraph import VmemoStore

ANA, BEN = ("memories", "ana"), ("memories", "ben")


@pytest.fixture
def store(memory: Memory) -> VmemoStore:
    return VmemoStore(memory)


@pytest.mark.parametrize("key", ["plain", "", " ", "key with: 'quotes' / 日本", "k" * 2000, "nul\0"])
def test_a_value_comes_back_as_it_was_put(store: VmemoStore, key: str) -> None:
    value: dict[str, Any] = {
        "text": "tea\n\0",
        "n": 1,
        "f": 0.1,
        "none": None,
        "deep": {"list": [1, {"é": True}]},
        "": [],
    }
    store.put(ANA, key, value)
    item = store.get(ANA, key)
    assert item is not None
    assert (item.value, item.key, item.namespace) == (value, key, ANA)
    assert store.get(BEN, key) is None
    assert store.get(ANA, f"{key}2") is None


def test_a_secret_is_redacted_and_the_item_stays_readable(store: VmemoStore) -> None:
    secret = "sk-proj-abcdefghijklmnopqrstuvwxyz0123456789ABCD"
    store.put(ANA, secret, {"password": secret, "text": f"The key is {secret}.", "n": 1})
    item = store.get(ANA, secret)
    assert item is not None
    assert (item.key, item.value["n"]) == (secret, 1)
    assert secret not in str(item.value)


def test_a_new_value_replaces_the_old_one_for_reads_and_queries(store: VmemoStore, memory: Memory) -> None:
    store.put(ANA, "drink", {"text": "Ana drinks green tea."})
    first = store.get(ANA, "drink")
    store.put(ANA, "drink", {"text": "Ana drinks coffee."})
    [found] = store.search(ANA, query="green tea")
    assert first is not None
    assert found.value == {"text": "Ana drinks coffee."}
    assert found.created_at == first.created_at
    assert found.updated_at > first.updated_at
    facts = memory.bank("langgraph.memories.ana").facts_sync()
    assert [fact.text for fact in facts] == ["Document: Ana drinks coffee."]


def test_a_deleted_item_is_forgotten_and_its_namespace_is_not_listed(store: VmemoStore, memory: Memory) -> None:
    store.put(ANA, "drink", {"text": "Ana drinks green tea."})
    store.put(BEN, "drink", {"text": "Ben drinks milk."})
    store.delete(ANA, "drink")
    store.delete(ANA, "drink")
    store.delete(("nobody",), "drink")
    assert store.get(ANA, "drink") is None
    assert store.list_namespaces() == [BEN]
    assert not memory.bank("langgraph.memories.ana").facts_sync()
    assert "langgraph.nobody" not in memory.banks_sync()


def test_a_query_ranks_items_and_the_rest_follows_without_a_score(store: VmemoStore) -> None:
    store.put(ANA, "home", {"text": "The house is in Lisbon."})
    store.put(ANA, "pet", {"text": "The cat is called Miso."})
    store.put(ANA, "hidden", {"text": "The cat is called Tofu."}, index=False)
    found = store.search(ANA, query="What is the cat called?")
    assert found[0].key == "pet"
    assert found[0].score is not None
    assert {item.key: item.score for item in found}["hidden"] is None
    assert [item.key for item in store.search(ANA, query="the cat called", limit=1)] == ["pet"]
    assert {item.key: item.score for item in store.search(ANA, query="Tofu")}["hidden"] is None
    assert [item.key for item in store.search(ANA, query=" ")] == ["hidden", "pet", "home"]


def test_only_the_indexed_fields_are_searched(memory: Memory) -> None:
    store = VmemoStore(memory, fields=["title", "chapters[*].name"])
    store.put(ANA, "book", {"title": "Harbours", "chapters": [{"name": "Porto"}, {"name": "Cork"}], "note": "dull"})
    store.put(ANA, "film", {"title": "Deserts", "note": "splendid"}, index=["note"])
    store.put(ANA, "play", {"title": "Forests"}, index=[])
    bank = memory.bank("langgraph.memories.ana")
    assert {message.content for message in bank.messages_sync()} == {"Harbours\nPorto\nCork", "splendid", "…"}
    assert len(bank.facts_sync()) == 2


def test_a_search_covers_the_namespaces_under_its_prefix(store: VmemoStore) -> None:
    for namespace in (ANA, BEN, ("memo",), ("memories", "ana", "work")):
        store.put(namespace, "key", {"text": f"This is in {namespace[-1]}."})
    assert {item.namespace for item in store.search(("memories",))} == {ANA, BEN, (*ANA, "work")}
    assert {item.namespace for item in store.search(ANA, query="this")} == {ANA, (*ANA, "work")}
    assert len(store.search(())) == 4
    assert len(store.search((), limit=3, offset=2)) == 2


@pytest.mark.parametrize(
    ("wanted", "keys"),
    [
        ({"color": "red"}, {"a", "c"}),
        ({"color": "red", "size": {"$gt": 1}}, {"c"}),
        ({"size": {"$gte": 1, "$lt": 3}}, {"a", "b"}),
        ({"size": {"$lte": 1}}, {"a"}),
        ({"color": {"$ne": "red"}}, {"b", "d"}),
        ({"color": {"$eq": "blue"}}, {"b"}),
        ({"inner": {"x": 1}}, {"a"}),
        ({"inner": {"x": {"$gt": 1}}}, {"b"}),
        ({"tags": ["t"]}, {"c"}),
        ({"color": {"$gt": "green"}}, {"a", "c"}),
        ({"color": {"$gt": 1}}, set[str]()),
        ({"missing": None}, {"a", "b", "c", "d"}),
    ],
)
def test_filters_compare_values(store: VmemoStore, wanted: dict[str, Any], keys: set[str]) -> None:
    values: dict[str, dict[str, Any]] = {
        "a": {"color": "red", "size": 1, "inner": {"x": 1, "y": 2}},
        "b": {"color": "blue", "size": 2, "inner": {"x": 2}},
        "c": {"color": "red", "size": 3.5, "tags": ["t"]},
        "d": {},
    }
    store.batch([PutOp(ANA, key, value, index=False) for key, value in values.items()])
    assert {item.key for item in store.search(ANA, filter=wanted)} == keys


def test_an_unknown_operator_is_an_error(store: VmemoStore) -> None:
    store.put(ANA, "a", {"size": 1}, index=False)
    with pytest.raises(ValueError, match=r"'\$near'"):
        store.search(ANA, filter={"size": {"$near": 1}})


def test_a_filter_holds_for_a_query_too(store: VmemoStore) -> None:
    puts = [PutOp(ANA, f"{n}", {"text": f"The train number {n} was late.", "n": n}) for n in range(12)]
    store.batch(puts)
    assert [item.key for item in store.search(ANA, query="late train", filter={"n": 7})] == ["7"]


def test_namespaces_are_listed_by_pattern_and_depth(store: VmemoStore) -> None:
    names = [("a", "x", "v1"), ("a", "y", "v2"), ("a", "y", "v1"), ("b", "x", "v1"), ("ab",)]
    store.batch([PutOp(name, "key", {"n": 1}, index=False) for name in names])
    assert store.list_namespaces() == sorted(names)
    assert store.list_namespaces(prefix=("a",)) == sorted(name for name in names if name[0] == "a")
    assert store.list_namespaces(prefix=("a", "*", "v1")) == [("a", "x", "v1"), ("a", "y", "v1")]
    assert store.list_namespaces(suffix=("x", "*")) == [("a", "x", "v1"), ("b", "x", "v1")]
    assert store.list_namespaces(prefix=("a",), suffix=("v2",)) == [("a", "y", "v2")]
    assert store.list_namespaces(max_depth=2) == [("a", "x"), ("a", "y"), ("ab",), ("b", "x")]
    assert store.list_namespaces(limit=2, offset=1) == sorted(names)[1:3]


def test_reads_of_a_batch_come_before_its_writes_and_the_last_write_counts(store: VmemoStore) -> None:
    results = store.batch(
        [
            PutOp(ANA, "a", {"n": 1}),
            GetOp(ANA, "a"),
            PutOp(ANA, "a", {"n": 2}),
            SearchOp(ANA),
            PutOp(ANA, "b", {"n": 3}),
            PutOp(ANA, "b", None),
        ]
    )
    assert results == [None, None, None, [], None, None]
    assert [(item.key, item.value) for item in store.search(ANA)] == [("a", {"n": 2})]


def test_async_and_sync_calls_work_inside_one_event_loop(store: VmemoStore) -> None:
    async def check() -> None:
        await asyncio.gather(*(store.aput(ANA, f"{n}", {"text": f"Item {n} is here."}) for n in range(5)))
        assert len(store.search(ANA)) == 5
        assert {item.key for item in await store.asearch(ANA, query="item")} == set("01234")
        await store.adelete(ANA, "0")
        assert await store.aget(ANA, "0") is None
        assert await store.alist_namespaces() == [ANA]

    asyncio.run(check())


def test_namespaces_that_a_bank_name_cannot_express_are_refused(store: VmemoStore) -> None:
    for namespace in (("a.b",), ("",)):
        with pytest.raises(InvalidNamespaceError):
            store.batch([PutOp(namespace, "key", {"n": 1})])
    with pytest.raises(NotImplementedError):
        store.put(ANA, "key", {"n": 1}, ttl=5)


def test_a_value_is_stored_even_if_its_text_cannot_be_processed() -> None:
    llm = FakeLLM({"extract": Refusal()})
    with Memory(":memory:", llm=llm, embedder=HashEmbedder()) as memory:
        store = VmemoStore(memory)
        store.put(ANA, "drink", {"text": "Ana drinks green tea."})
        item = store.get(ANA, "drink")
        assert item is not None
        assert item.value == {"text": "Ana drinks green tea."}
        assert memory.bank("langgraph.memories.ana").status_sync().problems


def test_the_example_recalls_in_one_thread_what_was_said_in_another(
    run_example: Callable[[str], None], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "unused")
    with ScriptedServer({"": ["Noted.", "An apple."]}) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        run_example("langgraph")
        first, second = server.received
    assert "peanuts" not in first.system
    assert "I am allergic to peanuts." in second.system
    assert "peanuts" not in json.dumps(second.user)
    assert capsys.readouterr().out == "Noted.\nAn apple.\n"
