"""Repeats, messages that state nothing, and long replies of the assistant, with the local engine."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

import pytest
from builders import NOON, TopicEmbedder, exported, open_memory, said

from vmemo import Memory
from vmemo.models import Fact
from vmemo.recall import load
from vmemo_conformance.embedders import HashEmbedder

STORES = ("sqlite",)

DAY = 24 * 60


def texts(memory: Memory) -> list[str]:
    return [fact.text for fact in memory.facts_sync()]


def recalled(memory: Memory, question: str) -> list[str]:
    return [hit.text for hit in memory.recall_sync(question).hits]


def only_fact(memory: Memory) -> Fact:
    (fact,) = memory.facts_sync()
    return fact


# Repeats


def test_the_same_sentence_retained_three_times_comes_back_once(url: str) -> None:
    with open_memory(url) as memory:
        retained = [memory.retain_sync(said("I moved to Porto.", n * DAY)) for n in range(3)]
        fact = only_fact(memory)
        assert recalled(memory, "Where did I move?") == ["User: I moved to Porto."]
        assert fact.messages == tuple(id for each in retained for id in each.stored)
        assert [len(each.derived) for each in retained] == [1, 0, 0]
        assert [each.revised for each in retained] == [(), (fact.id,), (fact.id,)]


def test_a_repeat_in_one_batch_is_folded(url: str) -> None:
    with open_memory(url) as memory:
        memory.retain_sync(
            [said(text, n) for n, text in enumerate(("I moved to Porto.", "I have a dog.", "Well, i moved to PORTO!!"))]
        )
        moved, dog = memory.facts_sync()
        assert (moved.text, dog.text) == ("User: I moved to Porto.", "User: I have a dog.")
        assert [len(fact.messages) for fact in (moved, dog)] == [2, 1]


def test_a_repeat_on_a_later_day_confirms_the_fact_since_its_first_mention(url: str) -> None:
    with open_memory(url) as memory:
        memory.retain_sync(said("My sister Anna works at Initech in Berlin.", 0))
        memory.retain_sync(said("Yes, my sister Anna works at Initech in Berlin!", 40 * DAY))
        fact = only_fact(memory)
        assert (fact.valid_at, fact.invalid_at, fact.expired_at) == (NOON, None, None)
        sources = memory.why_sync(fact.id).messages
        assert [message.timestamp for message in sources] == [NOON, NOON + timedelta(days=40)]


def test_a_repeat_that_is_retained_late_but_was_said_before_moves_the_start_back(url: str) -> None:
    with open_memory(url) as memory:
        memory.retain_sync(said("I moved to Porto.", 10 * DAY))
        memory.retain_sync([said("I moved to Porto.", 0), said("I moved to Porto.", 5 * DAY)])
        (hit,) = memory.recall_sync("Where did I move?").hits
        assert (hit.fact.valid_at, len(hit.fact.messages)) == (NOON, 3)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("I have 2 cats.", "I have 3 cats."),
        ("I moved to Porto.", "I moved to Lisbon."),
        ("I eat meat.", "I don't eat meat."),
        ("The exam is on 5 May 2024.", "The exam is on 6 May 2024."),
        ("I ran ten miles today.", "I ran nine miles today."),
    ],
)
def test_a_statement_that_differs_in_a_number_a_name_a_negation_or_a_date_is_kept(
    sqlite_url: str, one: str, other: str
) -> None:
    with open_memory(sqlite_url) as memory:
        memory.retain_sync([said(one, 0), said(other, 1)])
        assert len(memory.facts_sync()) == 2


def test_the_same_words_about_another_day_are_kept(sqlite_url: str) -> None:
    with open_memory(sqlite_url) as memory:
        memory.retain_sync(said("I went to the dentist yesterday.", 0))
        memory.retain_sync(said("I went to the dentist yesterday.", 30 * DAY))
        assert len(texts(memory)) == 2


def test_the_same_words_of_another_speaker_are_kept(sqlite_url: str) -> None:
    with open_memory(sqlite_url) as memory:
        memory.retain_sync([said("I moved to Porto.", speaker="Ann"), said("I moved to Porto.", 1, speaker="Bob")])
        assert texts(memory) == ["Ann: I moved to Porto.", "Bob: I moved to Porto."]


def test_the_same_words_under_other_tags_or_metadata_are_kept(sqlite_url: str) -> None:
    with open_memory(sqlite_url) as memory:
        memory.retain_sync("I moved to Porto.", tags=["work"])
        memory.retain_sync("I moved to Porto.", tags=["home"])
        memory.retain_sync("I moved to Porto.", metadata={"app": 1})
        assert len(texts(memory)) == 3
        assert len(memory.recall_sync("Where did I move?", tags=["home"], tags_match="all").hits) == 1


def test_an_answer_is_not_a_repeat_after_another_question(sqlite_url: str) -> None:
    with open_memory(sqlite_url) as memory:
        memory.retain_sync(
            [
                said("Did you try the new bakery?", 0, speaker="Ann"),
                said("I love it!", 1, speaker="Bob"),
                said("Did you read the novel?", 2, speaker="Ann"),
                said("I love it!", 3, speaker="Bob"),
            ]
        )
        assert texts(memory).count("Bob: I love it!") == 2


def test_a_former_state_that_is_stated_again_is_current_again(sqlite_url: str) -> None:
    with Memory(sqlite_url) as memory:
        for day, city in enumerate(("Rome", "Porto", "Rome")):
            memory.retain_sync(said(f"I live in {city}.", day * DAY))
        best = memory.recall_sync("Where do I live?").hits[0]
        assert (best.text, best.fact.valid_at) == ("User: I live in Rome.", NOON + timedelta(days=2))


def test_a_fact_stays_while_one_of_its_sources_is_left(url: str) -> None:
    with open_memory(url) as memory:
        first, second = (memory.retain_sync(said("I moved to Porto.", n * DAY)).stored[0] for n in range(2))
        memory.forget_sync(messages=[first])
        memory.process_sync()
        assert only_fact(memory).messages == (second,)
        memory.forget_sync(messages=[second])
        memory.process_sync()
        assert texts(memory) == []


def test_reprocess_folds_the_same_repeats(sqlite_url: str) -> None:
    with open_memory(sqlite_url) as memory:
        for day in range(3):
            memory.retain_sync(said("I moved to Porto.", day * DAY))
        before = only_fact(memory)
        memory.reprocess_sync()
        after = only_fact(memory)
        assert (after.text, after.messages, after.valid_at) == (before.text, before.messages, before.valid_at)


# Messages that state nothing

NOISE = ("ok", "thanks!", "lol nice", "How are you?", "Where do I live?")


@pytest.mark.parametrize("content", NOISE)
def test_a_message_that_states_nothing_is_kept_and_is_no_fact(url: str, tmp_path: Path, content: str) -> None:
    with open_memory(url) as memory:
        retained = memory.retain_sync([said("I live in Porto with my dog Rex.", 0), said(content, 1)])
        (fact,) = memory.facts_sync()
        assert (retained.derived, fact.text) == ((fact.id,), "User: I live in Porto with my dog Rex.")
        assert [message.content for message in memory.messages_sync()] == [fact.text.removeprefix("User: "), content]
        assert (memory.status_sync().pending, memory.status_sync().messages) == (0, 2)
        assert recalled(memory, content) in ([], [fact.text])
        records = [json.loads(line) for line in exported(memory, tmp_path)]
        assert content in [record.get("content") for record in records]
        # It belongs to the conversation.
        assert len(memory.episodes_sync()[0].messages) == 2


def test_the_users_question_does_not_rank_for_itself(sqlite_url: str) -> None:
    with open_memory(sqlite_url) as memory:
        memory.retain_sync("I live in Porto.")
        for _ in range(3):
            memory.retain_sync("Where do I live?")
        assert recalled(memory, "Where do I live?") == ["User: I live in Porto."]


def test_questions_are_found_by_a_question_about_them(sqlite_url: str) -> None:
    with open_memory(sqlite_url) as memory:
        memory.retain_sync("Can you recommend a good sushi place in Berlin?")
        assert recalled(memory, "sushi in Berlin") == []
        (hit,) = memory.recall_sync("What did I ask about sushi?").hits
        assert (hit.text, hit.verbatim) == ("User: Can you recommend a good sushi place in Berlin?", True)


def test_a_question_that_carries_a_statement_is_a_fact(sqlite_url: str) -> None:
    with open_memory(sqlite_url) as memory:
        memory.retain_sync("Did I tell you that I moved to Porto?")
        assert texts(memory) == ["User: Did I tell you that I moved to Porto?"]


def test_a_question_between_people_is_a_fact_if_it_names_something(sqlite_url: str) -> None:
    with open_memory(sqlite_url) as memory:
        memory.retain_sync(
            [
                said("How are you?", 0, speaker="Ann"),
                said("Did you get the job at Initech?", 1, speaker="Ann"),
                said("Yes, I start in May!", 2, speaker="Bob"),
            ]
        )
        assert texts(memory)[0] == "Ann: Did you get the job at Initech?"
        assert len(texts(memory)) == 2


def test_a_question_stays_the_context_of_its_answer(sqlite_url: str) -> None:
    with open_memory(sqlite_url) as memory:
        memory.add_exchange_sync("Which cheese goes with figs?", "Gorgonzola, or another blue one.", speaker="Ann")
        memory.process_sync()
        assert texts(memory) == ["Assistant: Gorgonzola, or another blue one."]
        assert only_fact(memory).context == "Ann: Which cheese goes with figs?"
        assert recalled(memory, "cheese with figs") == ["Assistant: Gorgonzola, or another blue one."]


def test_a_message_kept_verbatim_is_recalled_even_if_it_states_nothing(sqlite_url: str) -> None:
    with open_memory(sqlite_url) as memory:
        memory.retain_sync("Where do I live?", infer=False)
        assert recalled(memory, "Where do I live?") == ["User: Where do I live?"]


def test_forgetting_a_person_deletes_the_questions_about_them(url: str) -> None:
    with open_memory(url) as memory:
        memory.retain_sync([said("Zephyrine works at Initech.", 0), said("Where does Zephyrine work?", 100)])
        (entity,) = [each for each in memory.entities_sync() if each.name == "Zephyrine"]
        memory.forget_sync(entity=entity.id)
        assert memory.messages_sync() == []


def test_a_conversation_that_begins_with_a_greeting_is_one_episode(sqlite_url: str) -> None:
    with open_memory(sqlite_url, embedder=TopicEmbedder({"": (1.0, 0.0)})) as memory:
        memory.retain_sync([said("hi", 0), said("I live in Porto.", 1), said("ok", 2), said("I live in Porto now.", 3)])
        (episode,) = memory.episodes_sync()
        assert (len(episode.messages), episode.started_at) == (4, NOON)
        memory.retain_sync([said("thanks!", 4), said("I live in Porto, really.", 5)])
        assert memory.episodes_sync()[0].started_at == NOON


# Long replies of the assistant

REPLY = "\n\n".join(f"{n}. Porto has a famous bridge, a river and a port cellar number {n}. " * 12 for n in range(1, 9))


def test_a_result_has_no_two_facts_with_the_same_part_of_a_message(sqlite_url: str) -> None:
    with open_memory(sqlite_url) as memory:
        memory.retain_sync(said(REPLY, role="assistant"))
        found = [text.removeprefix("Assistant: ") for text in recalled(memory, "Tell me about Porto")]
        assert len(found) > 2
        assert sorted("\n\n".join(found).split()) == sorted(REPLY.split())


@pytest.mark.parametrize(
    ("length", "reply"),
    [
        ("REPLY_WEIGHT", "I recommend the bridge in Porto."),
        ("LONG_REPLY_WEIGHT", "I recommend the bridge in Porto, " + "the bridge in Porto, " * 30),
    ],
)
@pytest.mark.parametrize(
    ("question", "weight", "first"),
    [
        ("Which bridge is in Porto?", 1.0, "Assistant"),
        ("Which bridge is in Porto?", 0.4, "User"),
        ("Which bridge did you recommend in Porto?", 0.4, "Assistant"),
    ],
)
def test_a_reply_weighs_less_unless_the_question_asks_for_it(
    sqlite_url: str,
    length: str,
    reply: str,
    question: str,
    weight: float,
    first: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(load, length, weight)
    with Memory(sqlite_url, embedder=HashEmbedder()) as memory:
        memory.retain_sync(
            [said("I crossed a bridge in Porto on foot once.", 0), said(reply, 1, role="assistant")],
        )
        assert memory.recall_sync(question).hits[0].text.startswith(first)


def test_a_statement_of_the_user_takes_the_place_of_a_long_reply_in_the_budget(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(load, "LONG_REPLY_WEIGHT", 0.3)
    reply = "I recommend the bridge in Porto, " + "the bridge in Porto, " * 30
    with Memory(sqlite_url, embedder=HashEmbedder()) as memory:
        memory.retain_sync([said("I crossed a bridge in Porto on foot once.", 0), said(reply, 1, role="assistant")])
        long = max(fact.tokens for fact in memory.facts_sync())
        first, *rest = memory.recall_sync("Which bridge is in Porto?", max_tokens=long).hits
        assert first.text.startswith("User:")
        assert all(hit.truncated for hit in rest)


class PreferLong:
    """A reranker that prefers long texts."""

    name = "long"

    async def rerank(self, question: str, texts: Sequence[str]) -> list[float]:
        """Return the lengths of the texts."""
        return [float(len(text)) for text in texts]


def test_a_reranker_of_the_caller_decides_about_long_replies(sqlite_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load, "LONG_REPLY_WEIGHT", 0.1)
    reply = "I recommend the bridge in Porto, " + "the bridge in Porto, " * 30
    with Memory(sqlite_url, embedder=HashEmbedder(), reranker=PreferLong()) as memory:
        memory.retain_sync([said("I crossed a bridge in Porto on foot once.", 0), said(reply, 1, role="assistant")])
        assert memory.recall_sync("Which bridge is in Porto?").hits[0].text.startswith("Assistant:")
