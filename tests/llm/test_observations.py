"""Observations: neutral profiles of entities, made in the background and made anew when their facts change."""

from __future__ import annotations

import asyncio

from model import Model
from talk import days, on_disk, open_memory, said, talking

from vmemo import Memory
from vmemo.testing import RawText, ScriptedServer, StatusResponse

ALICE = [("Alice", "PERSON")]


def a_model() -> Model:
    model = Model()
    for thing in ("a dog", "a boat", "a harp", "a tent"):
        model.tells(f"I have {thing}", f"Alice has {thing}.", entities=ALICE)
    model.tells("sold the boat", "Alice has no boat any more.", entities=ALICE, supersedes="has a boat")
    return model


def tell(memory: Memory, *things: str) -> None:
    for n, thing in enumerate(things):
        memory.retain_sync([said(f"I have {thing}.", days(n))])


def test_an_entity_is_described_once_enough_is_known_of_it(url: str) -> None:
    with talking(url, a_model(), observe_delay=0.0) as (memory, _):
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


def test_observations_are_marked_as_such_and_can_be_left_out(url: str) -> None:
    with talking(url, a_model(), observe_delay=0.0) as (memory, _):
        tell(memory, "a dog", "a boat", "a harp")
        memory.process_sync()
        assert "(observation)" in memory.recall_sync("What does Alice have?").to_prompt()
        only = memory.recall_sync("What does Alice have?", networks=["world"])
        assert {hit.fact.network for hit in only.hits} == {"world"}


def test_a_replaced_fact_makes_its_observation_anew_and_the_rest_stays(url: str) -> None:
    with talking(url, a_model(), observe_delay=0.0) as (memory, _):
        tell(memory, "a dog", "a boat", "a harp")
        memory.process_sync()
        before = {fact.text: fact.id for fact in memory.observations_sync("Alice")}
        memory.retain_sync([said("I sold the boat.", days(9))])
        memory.process_sync()
        after = {fact.text: fact.id for fact in memory.observations_sync("Alice")}
        assert "It is recorded: Alice has a boat." not in after
        assert after["It is recorded: Alice has a dog."] == before["It is recorded: Alice has a dog."]


def test_a_forgotten_message_leaves_no_observation_of_it(url: str) -> None:
    with talking(url, a_model(), observe_delay=0.0) as (memory, _):
        tell(memory, "a dog", "a boat", "a harp", "a tent")
        memory.process_sync()
        (secret,) = [message.id for message in memory.messages_sync() if "harp" in message.content]
        memory.forget_sync(messages=[secret])
        memory.process_sync()
        texts = [fact.text for fact in memory.observations_sync("Alice")]
        assert len(texts) == 3
        assert not any("harp" in text for text in texts)
        assert b"harp" not in on_disk(url)


def test_an_entity_of_which_little_is_new_is_not_described_again(url: str) -> None:
    model = Model()
    for n in range(12):
        model.tells(f"item {n}.", f"Alice has item {n}.", entities=ALICE)
    with talking(url, model, observe_delay=0.0) as (memory, server):
        for n in range(12):
            memory.retain_sync([said(f"I have item {n}.", days(n))])
            memory.process_sync()
        described = [each.step for each in server.received].count("observe")
        # From three facts on, and then whenever a fifth is new; each time would be ten times.
        assert 3 <= described <= 7
        assert memory.jobs_sync() == []


def test_several_entities_are_described_in_one_call(url: str) -> None:
    model = Model()
    for name in ("Alice", "Bruno", "Carla"):
        for n in range(3):
            model.tells(f"{name} did {n}", f"{name} did {n}.", entities=[(name, "PERSON")])
    with talking(url, model, observe_delay=0.0) as (memory, server):
        lines = [said(f"{name} did {n}.", days(n)) for n in range(3) for name in ("Alice", "Bruno", "Carla")]
        for line in lines:
            memory.add_message_sync(line)
        memory.process_sync()
        memory.process_sync()
        assert {fact.entities[0].name for fact in memory.observations_sync()} == {"Alice", "Bruno", "Carla"}
        assert [each.step for each in server.received].count("observe") <= 3


def test_a_failed_description_is_visible_and_keeps_nothing_from_being_known(url: str) -> None:
    with talking(url, a_model(), observe_delay=0.0, retry_initial_seconds=0.0) as (memory, server):
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


def test_a_profile_without_evidence_is_not_taken(url: str) -> None:
    made_up = '{"profiles": [{"entity": "E1", "statements": [{"text": "Alice is a spy.", "facts": ["F99"]}]}]}'
    with talking(url, a_model(), observe_delay=0.0) as (memory, server):
        server.faults("observe", [RawText(made_up)] * 2)
        tell(memory, "a dog", "a boat", "a harp")
        assert memory.observations_sync() == []
        assert "names no fact" in (memory.status_sync().backlog[0].error or "")


def test_the_library_describes_in_the_background_by_itself(url: str) -> None:
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


def test_what_was_left_when_a_program_ended_is_done_by_the_next(url: str) -> None:
    with ScriptedServer(a_model()) as server:
        with open_memory(url, server, observe_delay=0.0, background=False) as memory:
            for n, thing in enumerate(("a dog", "a boat", "a harp")):
                memory.add_message_sync(said(f"I have {thing}.", days(n)))
        with open_memory(url, server, observe_delay=0.0, background=False) as memory:
            outcome = memory.work_sync(once=True)
            assert not outcome.errors
            assert len(memory.observations_sync()) == 3
            assert memory.jobs_sync() == []
