"""Observations: neutral profiles of entities, written in the background and renewed when their facts change."""

from __future__ import annotations

import asyncio

from conversations import days, on_disk, open_memory, said, scripted_memory
from scripted_model import ScriptedModel

from vmemo import Memory
from vmemo.testing import RawText, ScriptedServer, StatusResponse

ALICE = [("Alice", "PERSON")]


def a_model() -> ScriptedModel:
    model = ScriptedModel()
    for thing in ("a dog", "a boat", "a harp", "a tent"):
        model.extracts(f"I have {thing}", f"Alice has {thing}.", entities=ALICE)
    model.extracts("sold the boat", "Alice has no boat any more.", entities=ALICE, supersedes="has a boat")
    return model


def tell(memory: Memory, *things: str) -> None:
    for n, thing in enumerate(things):
        memory.retain_sync([said(f"I have {thing}.", days(n))])


def test_an_entity_is_observed_once_enough_facts_are_known(url: str) -> None:
    with scripted_memory(url, a_model(), observe_delay=0.0) as (memory, _):
        tell(memory, "a dog", "a boat")
        memory.process_sync()
        assert memory.observations_sync() == []
        memory.retain_sync([said("I have a harp.", days(2))])
        memory.process_sync()
        found = memory.observations_sync("Alice")
        assert [fact.text for fact in found] == [
            "It is recorded: Alice has a harp.",
            "It is recorded: Alice has a boat.",
            "It is recorded: Alice has a dog.",
        ]
        assert all(fact.confidence is None and fact.network == "observation" for fact in found)
        behind = memory.why_sync(found[0].id).basis
        assert [origin.fact.text for origin in behind] == ["Alice has a harp."]
        assert behind[0].messages[0].content == "I have a harp."


def test_observations_are_marked_and_can_be_excluded(url: str) -> None:
    with scripted_memory(url, a_model(), observe_delay=0.0) as (memory, _):
        tell(memory, "a dog", "a boat", "a harp")
        memory.process_sync()
        assert "(observation)" in memory.recall_sync("What does Alice have?").to_prompt()
        only = memory.recall_sync("What does Alice have?", networks=["world"])
        assert {hit.fact.network for hit in only.hits} == {"world"}


def test_a_superseded_fact_renews_only_its_observations(url: str) -> None:
    with scripted_memory(url, a_model(), observe_delay=0.0) as (memory, _):
        tell(memory, "a dog", "a boat", "a harp")
        memory.process_sync()
        before = {fact.text: fact.id for fact in memory.observations_sync("Alice")}
        memory.retain_sync([said("I sold the boat.", days(9))])
        memory.process_sync()
        after = {fact.text: fact.id for fact in memory.observations_sync("Alice")}
        assert "It is recorded: Alice has a boat." not in after
        assert after["It is recorded: Alice has a dog."] == before["It is recorded: Alice has a dog."]


def test_forgetting_a_message_removes_its_observations(url: str) -> None:
    with scripted_memory(url, a_model(), observe_delay=0.0) as (memory, _):
        tell(memory, "a dog", "a boat", "a harp", "a tent")
        memory.process_sync()
        (secret,) = [message.id for message in memory.messages_sync() if "harp" in message.content]
        memory.forget_sync(messages=[secret])
        memory.process_sync()
        texts = [fact.text for fact in memory.observations_sync("Alice")]
        assert len(texts) == 3
        assert not any("harp" in text for text in texts)
        assert b"harp" not in on_disk(url)


def test_an_entity_with_little_news_is_not_observed_again(url: str) -> None:
    model = ScriptedModel()
    for n in range(12):
        model.extracts(f"item {n}.", f"Alice has item {n}.", entities=ALICE)
    with scripted_memory(url, model, observe_delay=0.0) as (memory, server):
        for n in range(12):
            memory.retain_sync([said(f"I have item {n}.", days(n))])
            memory.process_sync()
        described = [each.step for each in server.received].count("observe")
        # From three facts on, and then whenever a fifth is new; each time would be ten times.
        assert 3 <= described <= 7
        assert memory.jobs_sync() == []


def test_several_entities_are_observed_in_one_call(url: str) -> None:
    model = ScriptedModel()
    for name in ("Alice", "Bruno", "Carla"):
        for n in range(3):
            model.extracts(f"{name} did {n}", f"{name} did {n}.", entities=[(name, "PERSON")])
    with scripted_memory(url, model, observe_delay=0.0) as (memory, server):
        lines = [said(f"{name} did {n}.", days(n)) for n in range(3) for name in ("Alice", "Bruno", "Carla")]
        for line in lines:
            memory.add_message_sync(line)
        memory.process_sync()
        memory.process_sync()
        assert {fact.entities[0].name for fact in memory.observations_sync()} == {"Alice", "Bruno", "Carla"}
        assert [each.step for each in server.received].count("observe") <= 3


def test_a_failed_observation_is_reported_and_blocks_nothing(url: str) -> None:
    with scripted_memory(url, a_model(), observe_delay=0.0, retry_initial_seconds=0.0) as (memory, server):
        server.faults("observe", [StatusResponse(500)])
        tell(memory, "a dog", "a boat", "a harp")
        status = memory.status_sync()
        assert (status.pending, status.facts) == (0, 3)
        (backlog,) = status.backlog
        assert (backlog.kind, backlog.failed) == ("observe", 1)
        assert "LLMUnavailable" in (backlog.error or "")
        memory.process_sync()
        assert len(memory.observations_sync()) == 3
        assert memory.status_sync().backlog == ()


def test_an_observation_without_evidence_is_rejected(url: str) -> None:
    made_up = '{"profiles": [{"entity": "E1", "statements": [{"text": "Alice is a spy.", "facts": ["F99"]}]}]}'
    with scripted_memory(url, a_model(), observe_delay=0.0) as (memory, server):
        server.faults("observe", [RawText(made_up)] * 2)
        tell(memory, "a dog", "a boat", "a harp")
        assert memory.observations_sync() == []
        assert "names no fact" in (memory.status_sync().backlog[0].error or "")


def test_observations_are_written_in_the_background(url: str) -> None:
    async def run(server: ScriptedServer) -> int:
        async with open_memory(url, server, observe_delay=0.05, background=True, poll_seconds=0.01) as memory:
            for n, thing in enumerate(("a dog", "a boat", "a harp")):
                await memory.retain([said(f"I have {thing}.", days(n))])
            async with asyncio.timeout(20):
                while not await memory.observations():  # noqa: ASYNC110  this is what a user would see
                    await asyncio.sleep(0.02)
            return len(await memory.observations())

    with ScriptedServer(a_model()) as server:
        assert asyncio.run(run(server)) == 3


def test_jobs_left_by_a_process_are_done_by_the_next(url: str) -> None:
    with ScriptedServer(a_model()) as server:
        with open_memory(url, server, observe_delay=0.0, background=False) as memory:
            for n, thing in enumerate(("a dog", "a boat", "a harp")):
                memory.add_message_sync(said(f"I have {thing}.", days(n)))
        with open_memory(url, server, observe_delay=0.0, background=False) as memory:
            outcome = memory.work_sync(once=True)
            assert not outcome.errors
            assert len(memory.observations_sync()) == 3
            assert memory.jobs_sync() == []
