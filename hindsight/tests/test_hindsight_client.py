"""Hindsight's official client, unchanged, against a vmemo server: every supported call."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from aiohttp import ClientResponseError
from hindsight_session import BANK, error_of, official, session, sync_client
from pydantic import JsonValue

from databases import store_at
from live_server import LiveServer, live_server
from vmemo import Profile
from vmemo.models import BankId
from vmemo.models.select import FactSelect
from vmemo_conformance.fake_llm import FakeLLM, ReceivedRequest, StatusResponse
from vmemo_conformance.samples import a_batch, a_fact

ALICE = "Alice works at Google in Paris."
BOB = "Bob moved to Oslo."
MISSION = "I help Ana."
TRAITS = ("skepticism", "literalism", "empathy")


def test_session_with_the_synchronous_client(server: LiveServer) -> None:
    with sync_client(server) as client:
        assert client.get_version().api_version == "1.1.0"
        made = client.create_bank(BANK, name="Ana", mission=MISSION, disposition={"skepticism": 5, "empathy": 1})
        assert (made.bank_id, made.name, made.mission, made.background) == (BANK, "Ana", MISSION, MISSION)
        assert (made.disposition.skepticism, made.disposition.literalism, made.disposition.empathy) == (5, 3, 1)
        retained = client.retain(BANK, ALICE, context="a talk", document_id="d/1", tags=["user:a"], metadata={"n": "1"})
        assert (retained.success, retained.items_count, retained.var_async, retained.operation_id) == (
            True,
            1,
            False,
            None,
        )
        assert client.retain_batch(BANK, [{"content": BOB}, {"content": "Bob likes tulips."}]).items_count == 2
        (found,) = client.recall(BANK, "Where does Alice work?", tags=["user:a"], tags_match="all_strict").results
        assert ALICE in found.text
        assert (found.type, found.context, found.document_id, found.tags) == ("world", "a talk", "d/1", ["user:a"])
        assert found.metadata == {"n": "1"}
        assert found.scores.final > 0
        assert "Alice works at Google" in client.reflect(BANK, "Where does Alice work?").text
        assert client.list_memories(BANK).total == 3
        assert client.get_bank_config(BANK)["config"]["disposition_skepticism"] == 5
        assert client.update_bank_config(BANK, disposition_empathy=4)["overrides"]["disposition_empathy"] == 4
        assert client.reset_bank_config(BANK)["overrides"] == {}
        assert client.delete_bank(BANK).deleted_count == 3


def test_version_features_and_health(server: LiveServer) -> None:
    async def script(client: Any) -> None:
        features = (await client.aget_version()).features
        assert (features.worker, features.bank_config_api, features.store_document_text) == (True, True, True)
        assert [
            features.observations,
            features.file_upload_api,
            features.document_export_api,
            features.llm_trace,
        ] == [False] * 4
        live = await client.monitoring.get_liveness()
        assert (live.status, live.uptime_seconds >= 0) == ("alive", True)
        assert await client.monitoring.health_endpoint_health_get() == {"status": "ok"}
        assert await client.monitoring.get_readiness() == {"status": "ok"}

    session(server, script)


def test_banks_are_listed_changed_and_deleted(server: LiveServer) -> None:
    async def script(client: Any) -> None:
        with pytest.warns(DeprecationWarning, match="deprecated"):
            assert (await client.banks.get_bank_profile("made by asking")).bank_id == "made by asking"
        await client.acreate_bank(BANK, reflect_mission=MISSION)
        await client.aretain(BANK, ALICE)
        page = await client.banks.list_banks(q="AGE", limit=1, offset=0)
        assert (page.total, page.banks[0].bank_id, page.banks[0].fact_count) == (1, BANK, 1)
        assert (await client.banks.list_banks()).total == 2
        changed = await client.banks.update_bank(BANK, {"name": "Eva"})
        assert (changed.name, changed.mission) == ("Eva", MISSION)
        requests = official("hindsight_client_api.models.update_disposition_request")
        traits = requests.UpdateDispositionRequest.model_validate({"disposition": dict.fromkeys(TRAITS, 2)})
        with pytest.warns(DeprecationWarning, match="deprecated"):
            assert (await client.banks.update_bank_disposition(BANK, traits)).disposition.empathy == 2
        assert (await client.aget_bank_config(BANK))["config"]["disposition_empathy"] == 2
        assert (await client.adelete_bank(BANK)).success
        assert (await error_of(client.alist_memories(BANK))).status == 404

    session(server, script)


def test_recall_options(server: LiveServer) -> None:
    async def script(client: Any) -> None:
        await client.aretain_batch(
            BANK,
            [
                {"content": ALICE, "tags": ["a"], "timestamp": "2024-05-01T10:00:00", "document_id": "one"},
                {"content": "Alice likes tulips.", "tags": ["b"]},
                {"content": "Alice has a cat."},
            ],
            document_tags=["all"],
        )
        await client.aretain(BANK, "Alice has a dog.")
        found = await client.arecall(BANK, "What of Alice?", include_entities=True, include_chunks=True, trace=True)
        assert len(found.results) == 4
        assert found.entities["Alice"].canonical_name == "Alice"
        dated = next(each for each in found.results if ALICE in each.text)
        assert found.chunks[dated.chunk_id].text == ALICE
        assert dated.mentioned_at == "2024-05-01T10:00:00+00:00"
        assert found.trace["explanation"]["reranker"]
        plain = await client.arecall(BANK, "What of Alice?")
        assert (plain.entities, plain.chunks, plain.source_facts, plain.trace) == (None, None, None, None)
        assert (await client.documents.get_chunk(dated.chunk_id)).chunk_text == ALICE
        few = await client.arecall(BANK, "What of Alice?", max_tokens=8, budget="low")
        assert 1 <= len(few.results) < 4
        cut = await client.arecall(BANK, "Google", include_chunks=True, max_chunk_tokens=3, tags=["a"], budget="high")
        assert [chunk.truncated for chunk in cut.chunks.values()] == [True]
        assert (await client.arecall(BANK, "Alice", types=["experience"])).results == []
        early = await client.arecall(BANK, "Alice today", query_timestamp="2024-05-01T12:00:00", trace=True)
        assert early.trace["explanation"]["during"]["start"].startswith("2024-05-01")

    session(server, script)


def test_tags_match_as_in_hindsight(server: LiveServer) -> None:
    items = {"a": ["a"], "ab": ["a", "b"], "abc": ["a", "b", "c"], "c": ["c"], "none": []}
    modes = {
        "any": {"a", "ab", "abc", "none"},
        "all": {"ab", "abc", "none"},
        "any_strict": {"a", "ab", "abc"},
        "all_strict": {"ab", "abc"},
        "exact": {"ab"},
    }

    async def script(client: Any) -> None:
        batch = [{"content": f"Tulips grow in garden {name}.", "tags": tags} for name, tags in items.items()]
        await client.aretain_batch(BANK, batch)
        for match, expected in modes.items():
            found = await client.arecall(BANK, "tulips", tags=["a", "b"], tags_match=match)
            assert {each.text.split()[-1].rstrip(".") for each in found.results} == expected, match
            page = await client.alist_memories(BANK, tags=["a", "b"], tags_match=match)
            assert {each.text.split()[-1].rstrip(".") for each in page.items} == expected, match

    session(server, script)


def test_progress_of_an_asynchronous_retain(server: LiveServer) -> None:
    async def script(client: Any) -> None:
        retained = await client.aretain(BANK, ALICE, retain_async=True)
        assert (retained.var_async, retained.usage) == (True, None)
        status = await client.operations.get_operation_status(BANK, retained.operation_id)
        while status.status in ("pending", "processing"):
            await asyncio.sleep(0.02)
            status = await client.operations.get_operation_status(BANK, retained.operation_id)
        assert (status.status, status.operation_type, status.error_message) == ("completed", "retain", None)
        assert len((await client.arecall(BANK, "Alice")).results) == 1
        assert (await error_of(client.operations.cancel_operation(BANK, retained.operation_id))).status == 409
        unknown = await client.operations.get_operation_status(BANK, "nothing")
        assert unknown.status == "not_found"

    session(server, script)


def test_operation_runs_once_and_its_id_belongs_to_its_items(server: LiveServer) -> None:
    async def script(client: Any) -> None:
        for _ in range(2):
            retained = await client.aretain(BANK, ALICE, retain_async=True, operation_id="op-1")
            assert (retained.operation_id, retained.items_count) == ("op-1", 1)
        assert (await client.documents.get_document(BANK, "op-1")).original_text == ALICE
        assert (await error_of(client.aretain(BANK, BOB, retain_async=True, operation_id="op-1"))).status == 409

    session(server, script)


def test_items_stay_queued_without_a_model_and_can_be_cancelled(database: str) -> None:
    unavailable = FakeLLM(lambda _: StatusResponse(503))
    with live_server(database, llm=unavailable) as server:

        async def script(client: Any) -> None:
            retained = await client.aretain(BANK, ALICE, document_id="d")
            assert (retained.success, retained.var_async) == (True, True)
            status = await client.operations.get_operation_status(BANK, retained.operation_id)
            assert status.status in ("pending", "processing")
            listed = await client.operations.list_operations(BANK, type="retain")
            assert listed.total >= 1
            assert {each.task_type for each in listed.operations} == {"retain"}
            assert (await client.banks.get_agent_stats(BANK)).total_documents == 1
            assert (await client.operations.cancel_operation(BANK, retained.operation_id)).success
            assert (await client.documents.list_documents(BANK)).total == 0

        session(server, script)


def test_repeated_document_is_replaced(server: LiveServer) -> None:
    async def script(client: Any) -> None:
        first = [{"content": ALICE}, {"content": BOB}]
        await client.aretain_batch(BANK, first, document_id="d")
        before = {each.id for each in (await client.alist_memories(BANK)).items if "Bob" in each.text}
        await client.aretain_batch(BANK, [{"content": BOB}, {"content": "Carol sings."}], document_id="d")
        assert (await client.documents.get_document(BANK, "d")).original_text == f"{BOB}\nCarol sings."
        after = {each.id for each in (await client.alist_memories(BANK)).items if "Bob" in each.text}
        assert before == after
        await client.aretain(BANK, ALICE, document_id="d", update_mode="append")
        assert (await client.documents.list_document_chunks(BANK, "d")).total == 3
        at = "2024-05-01T10:00:00+00:00"
        for tags in (["x"], ["y"]):
            await client.aretain(BANK, BOB, document_id="d", timestamp=at, tags=tags)
        assert (await client.documents.get_document(BANK, "d")).tags == ["y"]
        assert [each.tags for each in (await client.alist_memories(BANK)).items] == [["y"]]

    session(server, script)


def test_documents_are_listed_read_and_deleted(server: LiveServer) -> None:
    async def script(client: Any) -> None:
        await client.aretain(BANK, ALICE, document_id="talks/1", tags=["a"], metadata={"k": "v"})
        await client.aretain(BANK, BOB, document_id="talks/2")
        page = await client.documents.list_documents(BANK, q="talks", limit=1)
        assert (page.total, [each.id for each in page.items]) == (2, ["talks/2"])
        assert (await client.documents.list_documents(BANK, tags=["a"], tags_match="any_strict")).total == 1
        read = await client.documents.get_document(BANK, "talks/1")
        assert (read.original_text, read.memory_unit_count, read.document_metadata) == (ALICE, 1, {"k": "v"})
        (chunk,) = (await client.documents.list_document_chunks(BANK, "talks/1")).items
        assert (chunk.chunk_text, chunk.chunk_index) == (ALICE, 0)
        assert (await client.documents.delete_document(BANK, "talks/1")).memory_units_deleted == 1
        assert (await error_of(client.documents.get_document(BANK, "talks/1"))).status == 404

    session(server, script)


def test_memories_entities_tags_and_stats(server: LiveServer) -> None:
    async def script(client: Any) -> None:
        await client.aretain(BANK, ALICE, tags=["user:a", "x"], document_id="d")
        await client.aretain(BANK, "Alice moved to Rome.", tags=["user:b"])
        entities = await client.entities.list_entities(BANK, limit=1)
        assert (entities.total > 2, entities.items[0].canonical_name) == (True, "Alice")
        alice = await client.entities.get_entity(BANK, entities.items[0].id)
        assert (alice.mention_count, alice.observations) == (2, [])
        assert (await client.alist_memories(BANK, entity_id=alice.id)).total == 2
        assert (await client.alist_memories(BANK, document_id="d")).total == 1
        assert (await client.alist_memories(BANK, search_query="ROME", type="world")).total == 1
        assert (await client.alist_memories(BANK, start_date="2100-01-01")).total == 0
        assert (await client.alist_memories(BANK, state="invalidated")).total == 0
        (one,) = (await client.alist_memories(BANK, limit=1, offset=1)).items
        whole = await client.memory.get_memory(BANK, one.id)
        assert (whole["text"], whole["type"]) == (one.text, "world")
        tags = await client.memory.list_tags(BANK, q="USER:*")
        assert [(each.tag, each.count) for each in tags.items] == [("user:a", 1), ("user:b", 1)]
        stats = await client.banks.get_agent_stats(BANK, refresh=True)
        assert (stats.total_nodes, stats.total_documents, stats.nodes_by_fact_type) == (2, 2, {"world": 2})
        assert stats.total_links == sum(stats.links_by_link_type.values())
        cleared = await client.memory.clear_bank_memories(BANK)
        assert cleared.deleted_count == 2
        assert (await client.alist_memories(BANK)).total == 0

    session(server, script)


def test_observations_are_recalled_for_profiles_or_by_their_type(database: str) -> None:
    async def observe() -> None:
        store = store_at(database)
        await store.open()
        (fact,) = await store.facts(BankId(BANK), FactSelect())
        about = a_fact("Alice is a Googler.", bank=BANK, network="observation", basis=[fact.id])
        assert await store.commit(await a_batch(store, [about], bank=BankId(BANK)))
        await store.close()

    async def script(client: Any) -> None:
        async def types(query: str, **options: object) -> set[str]:
            return {each.type for each in (await client.arecall(BANK, query, **options)).results}

        assert await types("Where does Alice work?") == {"world"}
        assert await types("Where does Alice work?", types=["world", "observation"]) == {"world"}
        assert await types("Where does Alice work?", types=["observation"]) == {"observation"}
        assert await types("Tell me about Alice.") == {"world", "observation"}

    with live_server(database) as server:
        session(server, _retain_alice)
    asyncio.run(observe())
    with live_server(database) as server:
        session(server, script)


def test_model_answers_with_a_schema_and_merges_backgrounds(database: str) -> None:
    schema: dict[str, JsonValue] = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}

    def answer_question(asked: ReceivedRequest) -> JsonValue:
        cites = "[F1]" if "F1 |" in asked.user else ""
        fields: dict[str, JsonValue] = {"calls": [], "steps": [], "found": True, "opinions": [], "revised": []}
        return {**fields, "text": f"In Paris {cites}."}

    model = FakeLLM({"reflect": answer_question, "structure": {"city": "Paris"}, "background": _merge_background})
    with live_server(database) as server:
        session(server, _retain_alice)
    with live_server(database, llm=model) as server:

        async def script(client: Any) -> None:
            answer = await client.areflect(BANK, "Where?", include_facts=True, response_schema=schema, context="Work.")
            assert answer.text == "In Paris."
            assert (answer.structured_output, answer.structured_output_error) == ({"city": "Paris"}, None)
            assert [ALICE in each.text for each in answer.based_on.memories] == [True]
            assert answer.usage.input_tokens > 0
            assert "Context: Work." in model.received[0].user
            short = await client.areflect(BANK, "Where?", max_tokens=1)
            assert short.text == "In"
            with pytest.warns(DeprecationWarning, match="deprecated"):
                merged = await client.banks.add_bank_background(BANK, {"content": "You grew up in Colorado."})
            assert merged.mission == merged.background == "I grew up in Colorado."
            assert (await client.aget_version()).features.observations

        session(server, script)


def _merge_background(_: ReceivedRequest) -> JsonValue:
    return {"background": "I grew up in Colorado.", "replaced": []}


async def _retain_alice(client: Any) -> None:
    await client.aretain(BANK, ALICE)


UNSUPPORTED: tuple[tuple[str, dict[str, Any], str], ...] = (
    ("arecall", {"query": "x", "prefer_observations": True}, "prefer_observations"),
    ("arecall", {"query": "x", "min_scores": {"final": 0.5}}, "min_scores"),
    ("arecall", {"query": "x", "tag_groups": [{"tags": ["a"]}]}, "tag_groups"),
    ("arecall", {"query": "x", "tags_match": "exact"}, "tags_match"),
    ("areflect", {"query": "x", "include_tool_calls": True}, "tool_calls"),
    ("areflect", {"query": "x", "reflect_search_observations_max_tokens": 5}, "reflect_search"),
    ("aretain", {"content": "x", "entities": [{"text": "Bob"}]}, "entities"),
    ("aretain", {"content": "x", "strategy": "fast"}, "strategy"),
    ("aretain", {"content": "x", "timestamp": "unset"}, "timestamp"),
    ("aretain", {"content": "x", "observation_scopes": "per_tag"}, "observation_scopes"),
    ("alist_memories", {"consolidation_state": "done"}, "consolidation_state"),
)


def test_unsupported_options_are_named(server: LiveServer) -> None:
    async def script(client: Any) -> None:
        await client.acreate_bank(BANK)
        for call, options, named in UNSUPPORTED:
            error = await error_of(getattr(client, call)(BANK, **options))
            assert error.status == 501, named
            assert named in error.body
            assert "urn:vmemo:problem:NotImplemented" in error.body
        assert (await error_of(client.memory.clear_bank_memories(BANK, type="world"))).status == 501
        assert (await error_of(client.arecall(BANK, "x", types=["bogus"]))).status == 422

    session(server, script)


def test_images_are_rejected_and_text_blocks_are_joined(server: LiveServer) -> None:
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA=="}}

    async def script(client: Any) -> None:
        error = await error_of(client.aretain(BANK, [{"type": "text", "text": "See:"}, image]))
        assert (error.status, "content of type image" in error.body) == (501, True)
        assert (await client.banks.list_banks()).total == 0
        texts = [{"type": "text", "text": "Alice"}, {"type": "text", "text": "sings."}]
        await client.aretain(BANK, texts, document_id="d")
        assert (await client.documents.get_document(BANK, "d")).original_text == "Alice\nsings."

    session(server, script)


def test_unsupported_configuration_is_rejected_with_the_supported_fields(server: LiveServer) -> None:
    async def script(client: Any) -> None:
        await client.acreate_bank(BANK, enable_graph_retrieval=True)
        await client.aupdate_bank_config(BANK, enable_reranking=True, reflect_mission=MISSION)
        for call, options in ((client.aupdate_bank_config, {}), (client.acreate_bank, {"background": "b"})):
            with pytest.raises(ClientResponseError) as error:
                await call(BANK, retain_mission="Only names.", **options)
            assert error.value.status == 501
        with pytest.raises(ClientResponseError) as conflict:
            await client.acreate_bank(BANK, mission="a", background="b")
        assert conflict.value.status == 422
        assert (await client.aget_bank_config(BANK))["overrides"] == {"reflect_mission": MISSION}

    session(server, script)
    with server.http() as http:
        response = http.patch(
            f"/v1/default/banks/{BANK}/config", json={"updates": {"HINDSIGHT_API_RETAIN_MISSION": "x"}}
        )
        assert "reflect_mission, disposition_skepticism" in response.json()["detail"]


def test_keys_reach_only_their_own_banks(keyed_server: LiveServer) -> None:
    writer, reader = keyed_server.key("write", "agent*"), keyed_server.key("read", BANK)

    async def write(client: Any) -> None:
        await client.aretain(BANK, ALICE)
        await client.aretain("agent-2", BOB)
        assert (await error_of(client.aretain("other", ALICE))).status == 403
        assert (await error_of(client.adelete_bank(BANK))).status == 403
        (found,) = (await client.arecall("agent-2", "Bob")).results
        chunks.append(found.chunk_id)

    async def read(client: Any) -> None:
        assert len((await client.arecall(BANK, "Alice")).results) == 1
        assert [each.bank_id for each in (await client.banks.list_banks()).banks] == [BANK]
        for call in (
            client.documents.get_chunk(chunks[0]),
            client.arecall("agent-2", "Bob"),
            client.aretain(BANK, BOB),
            client.memory.clear_bank_memories(BANK),
        ):
            assert (await error_of(call)).status == 403

    async def nobody(client: Any) -> None:
        assert (await error_of(client.arecall(BANK, "Alice"))).status == 401

    chunks: list[str] = []
    session(keyed_server, write, writer)
    session(keyed_server, read, reader)
    session(keyed_server, nobody)


def test_writes_are_in_the_audit_log(server: LiveServer) -> None:
    async def script(client: Any) -> None:
        await client.aretain(BANK, ALICE)

    session(server, script)
    with server.http() as http:
        (entry,) = http.get("/v1/audit").json()["items"]
    assert (entry["interface"], entry["bank"], entry["verb"]) == (
        "hindsight",
        BANK,
        "POST /v1/default/banks/{bank_id}/memories",
    )


def test_long_mission_is_rejected_before_a_bank_is_created(server: LiveServer) -> None:
    async def script(client: Any) -> None:
        with pytest.raises(ClientResponseError) as error:
            await client.acreate_bank(BANK, mission="x" * 10_000)
        assert error.value.status == 422
        assert (await client.banks.list_banks()).total == 0
        assert (await client.acreate_bank(BANK)).name == Profile().name

    session(server, script)
