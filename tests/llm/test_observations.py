"""Observations: neutral profiles of entities, written in the background and renewed when their facts change."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import pytest
from conversations import days, on_disk, open_memory, said, scripted_memory
from pydantic import JsonValue
from scripted_model import ScriptedModel

from vmemo import Memory
from vmemo.models import records
from vmemo.reflect import profiles
from vmemo_conformance.fake_llm import RawText, ReceivedRequest, StatusResponse
from vmemo_conformance.llm_server import ScriptedServer

STORES = ("sqlite",)

ALICE = [("Alice", "PERSON")]
FACT = re.compile(r"^F\d+ [E\d ]*\| (.*)$", re.MULTILINE)


def early(**more: Any) -> dict[str, Any]:
    """Return settings by which profiles are made at once."""
    return {"observe_delay": 0.0, **more}


@pytest.fixture
def three_facts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let three facts make a profile."""
    monkeypatch.setattr(records, "PERSON_FACTS", 3)
    monkeypatch.setattr(profiles, "LEAST_NEW_FACTS", 3)


def a_model() -> ScriptedModel:
    model = ScriptedModel()
    for thing in ("a dog", "a boat", "a harp", "a tent"):
        model.extracts(f"I have {thing}", f"Alice has {thing}.", entities=ALICE)
    model.extracts("sold the boat", "Alice has no boat any more.", entities=ALICE, supersedes="has a boat")
    return model


def tell(memory: Memory, *things: str) -> None:
    for n, thing in enumerate(things):
        memory.retain_sync([said(f"I have {thing}.", days(n))])


@pytest.mark.usefixtures("three_facts")
def test_an_entity_is_observed_once_enough_facts_are_known(sqlite_url: str) -> None:
    with scripted_memory(sqlite_url, a_model(), **early()) as (memory, _):
        tell(memory, "a dog", "a boat")
        memory.process_sync()
        assert memory.observations_sync() == []
        memory.retain_sync([said("I have a harp.", days(2))])
        memory.process_sync()
        found = memory.observations_sync("Alice")
        assert [fact.text for fact in found] == [
            "It is recorded: Alice has a dog.",
            "It is recorded: Alice has a boat.",
            "It is recorded: Alice has a harp.",
        ]
        assert all(fact.confidence is None and fact.network == "observation" for fact in found)
        behind = memory.why_sync(found[0].id).basis
        assert [origin.fact.text for origin in behind] == ["Alice has a dog."]
        assert behind[0].messages[0].content == "I have a dog."


@pytest.mark.usefixtures("three_facts")
def test_observations_have_a_share_of_the_budget_only_if_a_profile_is_asked_for(url: str) -> None:
    with scripted_memory(url, a_model(), **early()) as (memory, _):
        tell(memory, "a dog", "a boat", "a harp")
        memory.process_sync()
        plain = memory.recall_sync("What does Alice have?", explain=True)
        assert {hit.fact.network for hit in plain.hits} == {"world"}
        assert plain.explanation is not None
        assert not plain.explanation.profile
        about = memory.recall_sync("Tell me about Alice.", max_tokens=80, explain=True)
        observed = [hit for hit in about.hits if hit.fact.network == "observation"]
        assert about.explanation is not None
        assert about.explanation.profile
        assert observed
        assert sum(hit.tokens for hit in observed) <= 16
        assert all(hit.channels and not hit.truncated for hit in observed)
        assert {fact.text for fact in plain.facts} <= {fact.text for fact in about.facts}
        assert "(observation)" in about.to_prompt(200)
        assert {hit.fact.network for hit in memory.retrieve_sync("Who is Alice?", top_k=4).hits} == {"world"}
        only = memory.recall_sync("What does Alice have?", networks=["observation"])
        assert len(only.hits) == 3
        facts = memory.recall_sync("Tell me about Alice.", networks=["world"])
        assert {hit.fact.network for hit in facts.hits} == {"world"}


@pytest.mark.usefixtures("three_facts")
def test_a_statement_closes_together_with_the_facts_behind_it(url: str) -> None:
    with scripted_memory(url, a_model(), **early()) as (memory, server):
        tell(memory, "a dog", "a boat", "a harp")
        memory.process_sync()
        before = {fact.text: fact.id for fact in memory.observations_sync("Alice")}
        # The model is not available, so nothing but the program can close the statement.
        server.faults("observe", [StatusResponse(500)] * 9)
        memory.retain_sync([said("I sold the boat.", days(9))])
        after = {fact.text: fact.id for fact in memory.observations_sync("Alice")}
        assert after == {text: id for text, id in before.items() if "boat" not in text}
        recalled = memory.recall_sync("Tell me about Alice.", networks=["observation"])
        assert not any("has a boat" in fact.text for fact in recalled.facts)
        (closed,) = [fact for fact in memory.facts_sync() if fact.text == "It is recorded: Alice has a boat."]
        assert closed.invalid_at == days(9), "the time of the fact that ended it, not of processing"
        former = memory.recall_sync("Give me a summary of what Alice used to have.")
        assert not any("It is recorded: Alice has a boat" in fact.text for fact in former.facts)


@pytest.mark.usefixtures("three_facts")
def test_a_statement_closes_when_a_part_of_the_fact_behind_it_ends(sqlite_url: str) -> None:
    model = a_model()
    model.extracts("I row", "Alice has a kayak on the lake and rows every Sunday.", entities=ALICE)
    ends = {"supersedes": "has a kayak", "words_that_end": "rows every Sunday"}
    model.extracts("stopped", "Alice does not row any more.", entities=ALICE, **ends)
    with scripted_memory(sqlite_url, model, **early()) as (memory, server):
        tell(memory, "a dog", "a harp")
        memory.retain_sync([said("I row my kayak.", days(2))])
        memory.process_sync()
        assert any("kayak" in fact.text for fact in memory.observations_sync("Alice"))
        server.faults("observe", [StatusResponse(500)] * 9)
        memory.retain_sync([said("I stopped rowing.", days(9))])
        assert [fact.text for fact in memory.observations_sync("Alice")] == [
            "It is recorded: Alice has a dog.",
            "It is recorded: Alice has a harp.",
        ]


@pytest.mark.usefixtures("three_facts")
def test_a_statement_that_closed_with_a_part_is_shown_to_the_next_update(sqlite_url: str) -> None:
    model = a_model()
    model.extracts("my kayak", "Alice rows on Tuesday at Lee's and owns a kayak.", entities=ALICE, since="2024-01-01")
    ends = {"supersedes": "on Tuesday", "words_that_end": "rows on Tuesday at Lee's", "since": "2024-01-10"}
    model.extracts("on Friday", "Alice rows on Friday at Lee's.", entities=ALICE, **ends)
    with scripted_memory(sqlite_url, model, **early()) as (memory, server):
        tell(memory, "a dog", "a harp")
        memory.retain_sync([said("I row my kayak.", days(2))])
        memory.process_sync()
        memory.retain_sync([said("I row on Friday now.", days(9))])
        tell(memory, "a tent", "a boat")
        memory.process_sync()
        (kayak,) = [fact for fact in memory.facts_sync() if fact.text.startswith("Alice rows on Tuesday")]
        assert (kayak.invalid_at, len(kayak.claims)) == (None, 1)
        prompts = [each.user for each in server.received if each.step == "observe"][1:]
        assert any("outdated | It is recorded: Alice rows on Tuesday" in prompt for prompt in prompts)


@pytest.mark.usefixtures("three_facts")
def test_a_statement_of_which_a_fact_has_ended_is_marked_in_every_prompt(sqlite_url: str) -> None:
    model = a_model()
    model.extracts("I have a kite", "Alice has a kite.", entities=ALICE)

    def answer(asked: ReceivedRequest) -> JsonValue:
        if asked.step == "reflect":
            return {"text": "Not known.", "found": False}
        if asked.step != "observe":
            return model(asked)
        whole: JsonValue = {"text": "Alice has a dog, a boat and a harp.", "facts": ["F1", "F2", "F3"]}
        return {
            "profiles": [{"entity": "E1", "keep": ["S1"]} if "S1" in asked.user else {"entity": "E1", "write": [whole]}]
        }

    with scripted_memory(sqlite_url, answer, **early()) as (memory, server):
        tell(memory, "a dog", "a boat", "a harp")
        memory.process_sync()
        question = "Tell me about Alice."
        (whole,) = memory.recall_sync(question, networks=["observation"]).hits
        assert whole.status == "current"
        assert "maybe outdated" not in memory.context_sync(user="Alice").text
        memory.retain_sync([said("I sold the boat.", days(9))])
        (part,) = memory.recall_sync(question, networks=["observation"]).hits
        assert (part.id, part.status) == (whole.id, "maybe_outdated")
        (earlier,) = memory.recall_sync(question, networks=["observation"], at_time=days(5)).hits
        assert earlier.status == "current"
        assert "(maybe outdated) Alice has a dog" in memory.context_sync(user="Alice").text
        memory.reflect_sync(question)
        assert "S1 (maybe outdated) | Alice has a dog" in server.received[-1].user
        tell(memory, "a tent", "a kite")
        memory.process_sync()
        (asked,) = [each.user for each in server.received if each.step == "observe"][1:]
        assert 'S1 partly outdated ("Alice has a boat.") | Alice has a dog' in asked


@pytest.mark.usefixtures("three_facts")
def test_a_profile_without_support_is_shown_as_outdated_and_written_again(url: str) -> None:
    with scripted_memory(url, a_model(), **early()) as (memory, server):
        tell(memory, "a dog", "a boat", "a harp")
        memory.process_sync()
        memory.retain_sync([said("I sold the boat.", days(9))])
        memory.process_sync()
        prompt = [each.user for each in server.received if each.step == "observe"][-1]
        assert "S3 outdated | It is recorded: Alice has a boat." in prompt
        assert "S1 | It is recorded: Alice has a dog." in prompt
        texts = [fact.text for fact in memory.observations_sync("Alice")]
        assert "It is recorded: Alice has no boat any more." in texts
        assert "It is recorded: Alice has a boat." not in texts


@pytest.mark.usefixtures("three_facts")
def test_forgetting_a_message_removes_its_observations(url: str) -> None:
    with scripted_memory(url, a_model(), **early()) as (memory, _):
        tell(memory, "a dog", "a boat", "a harp", "a tent")
        memory.process_sync()
        (secret,) = [message.id for message in memory.messages_sync() if "harp" in message.content]
        memory.forget_sync(messages=[secret])
        memory.process_sync()
        texts = [fact.text for fact in memory.observations_sync("Alice")]
        assert len(texts) == 3
        assert not any("harp" in text for text in texts)
        assert b"harp" not in on_disk(url)


def items(count: int, *, length: int = 0) -> ScriptedModel:
    model = ScriptedModel()
    for n in range(count):
        model.extracts(f"item {n}.", f"Alice has item {n}{' and more' * length}.", entities=ALICE)
    return model


def observed(server: ScriptedServer) -> list[str]:
    return [each.user for each in server.received if each.step == "observe"]


@pytest.mark.usefixtures("three_facts")
def test_a_profile_is_updated_from_new_facts_only_and_keeps_who_the_person_is(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(profiles, "NEW_FACTS", 4)
    with scripted_memory(sqlite_url, items(16), **early()) as (memory, server):
        for n in range(16):
            memory.retain_sync([said(f"I have item {n}.", days(n))])
        prompts = observed(server)
        # At 3, 6, 10 and 14 facts: each update waits until the facts have doubled, and for 4 at most.
        assert len(prompts) == 4
        shown = [fact for prompt in prompts for fact in FACT.findall(prompt)]
        assert shown == [f"Alice has item {n}." for n in range(14)]
        assert "S1 | It is recorded: Alice has item 0." in prompts[-1]
        texts = [fact.text for fact in memory.observations_sync("Alice")]
        assert len(texts) == 5
        assert "It is recorded: Alice has item 0." in texts
        assert memory.jobs_sync() == []


def test_a_large_backlog_is_divided_into_prompts_of_limited_size(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(profiles, "PROMPT_CHARACTERS", 4_000)
    with scripted_memory(sqlite_url, items(30, length=30), **early()) as (memory, server):
        for n in range(30):
            memory.add_message_sync(said(f"I have item {n}.", days(n)))
        memory.process_sync()
        memory.process_sync()
        prompts = observed(server)
        assert len(prompts) == 4
        assert max(map(len, prompts)) <= 4_200
        assert len([fact for prompt in prompts for fact in FACT.findall(prompt)]) == 30
        assert memory.jobs_sync() == []


def test_one_call_shows_each_fact_once_for_all_entities_that_matter(sqlite_url: str) -> None:
    model = ScriptedModel()
    together = [("Alice", "PERSON"), ("Bruno", "PERSON"), ("Rome", "LOCATION")]
    for n in range(16):
        model.extracts(f"trip {n}.", f"Alice and Bruno made trip {n} to Rome.", entities=together)
    with scripted_memory(sqlite_url, model, observe_delay=0.0) as (memory, server):
        for n in range(16):
            memory.add_message_sync(said(f"We made trip {n}.", days(n)))
        memory.process_sync()
        memory.process_sync()
        (prompt,) = observed(server)
        assert len(FACT.findall(prompt)) == 16
        assert "F1 E1 E2 | Alice and Bruno made trip 0 to Rome." in prompt
        # A place has no profile.
        assert {fact.entities[0].name for fact in memory.observations_sync()} == {"Alice", "Bruno"}
        assert memory.jobs_sync() == []


@pytest.mark.usefixtures("three_facts")
def test_a_failed_observation_is_reported_and_blocks_nothing(sqlite_url: str) -> None:
    with scripted_memory(sqlite_url, a_model(), **early(), retry_initial_seconds=0.0) as (memory, server):
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


@pytest.mark.usefixtures("three_facts")
def test_an_observation_without_evidence_is_rejected(sqlite_url: str) -> None:
    made_up = '{"profiles": [{"entity": "E1", "write": [{"text": "Alice is a spy.", "facts": ["F99"]}]}]}'
    with scripted_memory(sqlite_url, a_model(), **early()) as (memory, server):
        server.faults("observe", [RawText(made_up)] * 2)
        tell(memory, "a dog", "a boat", "a harp")
        assert memory.observations_sync() == []
        assert "names no fact" in (memory.status_sync().backlog[0].error or "")


@pytest.mark.usefixtures("three_facts")
def test_observations_are_written_in_the_background(url: str) -> None:
    async def run(server: ScriptedServer) -> int:
        async with open_memory(url, server, **early(observe_delay=0.05, background=True, poll_seconds=0.01)) as memory:
            for n, thing in enumerate(("a dog", "a boat", "a harp")):
                await memory.retain([said(f"I have {thing}.", days(n))])
            async with asyncio.timeout(60):
                while not await memory.observations():  # noqa: ASYNC110  this is what a user would see
                    await asyncio.sleep(0.02)
            return len(await memory.observations())

    with ScriptedServer(a_model()) as server:
        assert asyncio.run(run(server)) == 3


@pytest.mark.usefixtures("three_facts")
def test_jobs_left_by_a_process_are_done_by_the_next(url: str) -> None:
    with ScriptedServer(a_model()) as server:
        with open_memory(url, server, **early(), background=False) as memory:
            for n, thing in enumerate(("a dog", "a boat", "a harp")):
                memory.add_message_sync(said(f"I have {thing}.", days(n)))
        with open_memory(url, server, **early(), background=False) as memory:
            outcome = memory.work_sync(once=True)
            assert not outcome.errors
            assert len(memory.observations_sync()) == 3
            assert memory.jobs_sync() == []
