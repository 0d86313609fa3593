"""From messages to facts with the local engine."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest
from builders import NOON, TopicEmbedder, WordEmbedder, exported, open_memory, said

from vmemo import EmbeddingFailed, Memory, Message, Settings
from vmemo.models import Episode, Interval, Link, MessageId
from vmemo.models.search import Vectors
from vmemo.ports import TextKind

STORES = ("sqlite",)

ONE_TOPIC = TopicEmbedder({"": (1.0, 0.0)})
ALIKE = TopicEmbedder({f"line {n}.": (1.0, *np.eye(5)[n].tolist()) for n in range(5)})
"""Lines of one topic of which none repeats another: every cosine is one half."""


def sizes(episodes: Sequence[Episode]) -> list[int]:
    return [len(episode.messages) for episode in episodes]


def links(memory: Memory, folder: Path) -> list[Link]:
    records = [json.loads(line) for line in exported(memory, folder)]
    return [Link.of({k: v for k, v in r.items() if k != "record"}) for r in records if r["record"] == "link"]


# R1: what retain takes and returns


def test_text_is_retained_and_derived_at_once(url: str) -> None:
    with open_memory(url) as memory:
        done = memory.retain_sync("The kettle is red.", speaker="Mira", timestamp=NOON, tags=["kitchen"])
        (message,), (fact,) = memory.messages_sync(), memory.facts_sync()
        assert (done.stored, done.derived, done.skipped, done.revised, done.pending) == (
            (message.id,), (fact.id,), (), (), 0,
        )  # fmt: skip
        assert done.episodes == tuple(episode.id for episode in memory.episodes_sync()) == fact.episodes
        assert (done.usage.calls, done.usage.embedded_texts) == (0, 1)
        assert (message.content, message.speaker, message.timestamp) == ("The kettle is red.", "Mira", NOON)
        assert (fact.text, fact.network, fact.messages) == ("Mira: The kettle is red.", "world", (message.id,))
        assert (fact.mentioned_at, fact.valid_at, fact.tags, fact.engine) == (NOON, NOON, ("kitchen",), "local")
        assert (fact.invalid_at, fact.expired_at, fact.confidence, fact.access_count) == (None, None, None, 0)


def test_a_message_keeps_its_id_and_takes_shared_options(url: str) -> None:
    with open_memory(url) as memory:
        message = Message(id=MessageId("mine"), content="The kettle is red.", tags=("own",), metadata={"a": 1, "b": 1})
        done = memory.retain_sync(message, tags=["all"], metadata={"b": 2, "c": 3}, document="diary")
        (stored,) = memory.messages_sync(document="diary")
        assert done.stored == ("mine",)
        assert (stored.id, stored.tags, stored.metadata) == ("mine", ("own", "all"), {"a": 1, "b": 1, "c": 3})
        assert memory.facts_sync()[0].metadata == {"a": 1, "b": 1, "c": 3}


def test_a_list_may_mix_texts_and_messages(sqlite_url: str) -> None:
    with open_memory(sqlite_url) as memory:
        done = memory.retain_sync([said("The kettle is red.", speaker="Mira"), "So is the door."], speaker="Jon")
        assert [fact.text for fact in memory.facts_sync()] == ["Mira: The kettle is red.", "Jon: So is the door."]
        assert len(done.stored) == len(done.derived) == 2


def test_an_exchange_is_two_messages_and_the_speaker_is_the_user(sqlite_url: str) -> None:
    with open_memory(sqlite_url) as memory:
        stored = memory.add_exchange_sync("I started at Anthropic.", "I noted your new job.", speaker="Mira")
        assert (len(stored.stored), stored.derived, stored.pending) == (2, (), 2)
        assert len(memory.process_sync().derived) == 2
        assert [(fact.text, fact.network) for fact in memory.facts_sync()] == [
            ("Mira: I started at Anthropic.", "world"),
            ("Assistant: I noted your new job.", "experience"),
        ]


def test_the_same_document_again_changes_nothing_and_says_why(url: str, tmp_path: Path) -> None:
    lines = ["The kettle is red.", "The door is green.", "The kettle is red."]
    with open_memory(url) as memory:
        assert len(memory.retain_sync(lines, document="house").stored) == 3
        before = exported(memory, tmp_path)
        again = memory.retain_sync(lines, document="house")
        assert (again.stored, again.derived, again.usage.embedded_texts) == ((), (), 0)
        assert {skipped.reason for skipped in again.skipped} == {"document 'house' already contains this message"}
        assert len(again.skipped) == 3
        assert exported(memory, tmp_path) == before


def test_a_grown_document_adds_only_its_new_lines(url: str) -> None:
    with open_memory(url) as memory:
        memory.retain_sync(["The kettle is red.", "The door is green."], document="house")
        grown = memory.retain_sync(["The kettle is red.", "The door is green.", "The roof leaks."], document="house")
        assert (len(grown.stored), len(grown.derived), len(grown.skipped)) == (1, 1, 2)
        assert [m.content for m in memory.messages_sync()][-1] == "The roof leaks."


def test_the_same_lines_in_two_documents_or_in_none_are_kept_each_time(url: str) -> None:
    with open_memory(url) as memory:
        for document in ("one", "two", None, None):
            assert len(memory.retain_sync("The kettle is red.", document=document).stored) == 1
        assert memory.status_sync().messages == 4


def test_a_message_with_a_known_id_is_skipped(url: str) -> None:
    with open_memory(url) as memory:
        message = said("The kettle is red.")
        memory.retain_sync(message)
        again = memory.retain_sync(message)
        assert [skipped.reason for skipped in again.skipped] == ["a message with this id is already stored"]
        assert memory.status_sync().facts == 1


# R2: episodes


def test_a_pause_of_more_than_half_an_hour_splits_an_episode(sqlite_url: str) -> None:
    with open_memory(sqlite_url, embedder=ALIKE) as memory:
        memory.retain_sync([said(f"Line {n}.", at) for n, at in enumerate((0, 30, 60, 90.02, 100))])
        assert sizes(memory.episodes_sync()) == [3, 2]
        first, second = memory.episodes_sync()
        assert (first.previous, second.previous) == (None, first.id)
        assert (first.started_at, first.ended_at) == (NOON, NOON + timedelta(hours=1))


def test_an_episode_holds_at_most_25_messages_and_each_message_has_one(sqlite_url: str) -> None:
    with open_memory(sqlite_url, embedder=ONE_TOPIC) as memory:
        memory.retain_sync([said(f"Line {at}.", at) for at in range(40)])
        for at in range(40, 70):
            memory.add_message_sync(said(f"Line {at}.", at))
            memory.process_sync()
        episodes = memory.episodes_sync()
        assert max(sizes(episodes)) <= 25
        held = [id for episode in episodes for id in episode.messages]
        assert len(held) == len(set(held)) == 70


def test_interleaved_topics_are_separated(sqlite_url: str) -> None:
    topics = TopicEmbedder({"garden": (1.0, 0.1), "engine": (0.1, 1.0)})
    with open_memory(sqlite_url, embedder=topics) as memory:
        talk = [said(f"Something about the {('garden', 'engine')[n % 2]}, part {n}.", n) for n in range(8)]
        memory.retain_sync(talk)
        garden, engine = memory.episodes_sync()
        assert garden.messages == tuple(m.id for m in talk[::2])
        assert engine.messages == tuple(m.id for m in talk[1::2])


GARDEN = [
    "I planted tomatoes and basil in the garden this morning.",
    "Do your tomatoes get enough sun in the garden?",
    "Yes, the garden bed with the tomatoes faces south.",
    "My basil plants always wilt, the soil in my garden is too dry.",
    "Water the basil in the evening and mulch the garden soil.",
]
CAR = [
    "By the way, my car makes a grinding noise when I brake.",
    "The brake pads of the car may be worn, a mechanic should look.",
    "The mechanic wants four hundred for new brakes on the car.",
    "That is a lot for brake pads, ask another car workshop.",
    "I will drive the car to the workshop and compare prices for brakes.",
]


def test_a_clear_change_of_topic_splits_with_the_packaged_embedder(sqlite_url: str) -> None:
    with Memory(sqlite_url) as memory:
        talk = [said(line, n, speaker=("Mira", "Jon")[n % 2]) for n, line in enumerate([*GARDEN, *CAR])]
        memory.retain_sync(talk)
        assert [e.messages for e in memory.episodes_sync()] == [
            tuple(m.id for m in talk[:5]),
            tuple(m.id for m in talk[5:]),
        ]
        assert "garden" in memory.episodes_sync()[0].narrative
        assert memory.episodes_sync()[1].narrative.startswith("On 8 May 2023 Jon and Mira talked.")


def test_processing_after_each_exchange_continues_the_same_episode(sqlite_url: str) -> None:
    with Memory(sqlite_url) as memory:
        for n in range(0, 4, 2):
            memory.add_exchange_sync(GARDEN[n], GARDEN[n + 1], timestamp=NOON + timedelta(minutes=n))
            memory.process_sync()
        (episode,) = memory.episodes_sync()
        assert len(episode.messages) == 4
        assert {fact.episodes for fact in memory.facts_sync()} == {(episode.id,)}


@pytest.mark.parametrize("at_once", [True, False])
def test_an_episode_that_repeats_the_last_one_is_merged_with_it(sqlite_url: str, at_once: bool) -> None:
    topics = TopicEmbedder({"garden": (1.0, 0.0, 0.0), "engine": (0.0, 1.0, 0.0), "cellar": (0.0, 0.0, 1.0)})
    once = [said("The garden is green.", 0), said("I like the garden.", 1)]
    again = [said("The garden is green.", 60), said("I like the garden.", 61)]
    other = [said("The engine is loud.", 200), said("I hear the engine.", 201)]
    with open_memory(sqlite_url, embedder=topics) as memory:
        for part in [[*once, *again, *other]] if at_once else [once, again, other]:
            memory.retain_sync(part)
        assert sizes(memory.episodes_sync()) == [4, 2]


def test_documents_are_conversations_of_their_own(sqlite_url: str) -> None:
    with open_memory(sqlite_url, embedder=ONE_TOPIC) as memory:
        for n in range(3):
            memory.add_message_sync(said(f"Line {n} here.", n), document="here")
            memory.add_message_sync(said(f"Line {n} there.", n), document="there")
        memory.process_sync()
        assert sizes(memory.episodes_sync()) == [3, 3]


# R4: the turn's own words

SENTENCE = "On the walk number {} we saw a heron standing in the shallow water near the bridge. "


def test_a_long_turn_is_split_at_sentence_ends_without_an_overlap(sqlite_url: str) -> None:
    content = "".join(SENTENCE.format(n) for n in range(60)).strip()
    with open_memory(sqlite_url) as memory:
        memory.retain_sync(content, speaker="Mira", timestamp=NOON)
        texts = [fact.text for fact in memory.facts_sync()]
        pieces = [text.removeprefix("Mira: ") for text in texts]
        assert len(pieces) > 3
        assert all(text.startswith("Mira: On the walk number") and text.endswith(".") for text in texts)
        assert all(len(piece) <= 1600 for piece in pieces)
        assert " ".join(pieces) == content


@pytest.mark.parametrize("content", ["x" * 5000, "word " * 1000, "駅。" * 2000, "a\n" * 2500])
def test_a_long_turn_without_sentences_is_split(sqlite_url: str, content: str) -> None:
    with open_memory(sqlite_url) as memory:
        memory.retain_sync(content, speaker="M")
        pieces = [fact.text.removeprefix("M: ") for fact in memory.facts_sync()]
        assert all(0 < len(piece) <= 1600 for piece in pieces)
        assert sum(map(len, pieces)) >= len(content.strip()) - len(pieces)


def test_each_turn_is_attributed_to_its_speaker_or_its_role(sqlite_url: str) -> None:
    with open_memory(sqlite_url) as memory:
        memory.retain_sync([
            said("I like tea.", 0, speaker="Mira"),
            said("I like milk.", 1),
            said("I made tea.", 2, role="assistant"),
            said("Tea made.", 3, role="tool"),
            said("Be kind.", 4, role="system"),
        ])  # fmt: skip
        assert [(fact.text, fact.network) for fact in memory.facts_sync()] == [
            ("Mira: I like tea.", "world"),
            ("User: I like milk.", "world"),
            ("Assistant: I made tea.", "experience"),
            ("Tool: Tea made.", "experience"),
            ("System: Be kind.", "world"),
        ]


# R5: dates


def day(year: int, month: int, at: int) -> datetime:
    return datetime(year, month, at, tzinfo=UTC)


DATES = [
    ("I met Ann yesterday.", "I met Ann yesterday (= 7 May 2023).", day(2023, 5, 7), day(2023, 5, 8)),
    ("I met Ann last Friday.", "I met Ann last Friday (= 5 May 2023).", day(2023, 5, 5), day(2023, 5, 6)),
    ("I met Ann today.", "I met Ann today.", day(2023, 5, 8), day(2023, 5, 9)),
    ("I leave next month.", "I leave next month (= June 2023).", day(2023, 6, 1), day(2023, 7, 1)),
    ("I moved in 2019.", "I moved in 2019.", day(2019, 1, 1), day(2020, 1, 1)),
    ("I met Ann on 3 March 2022.", "I met Ann on 3 March 2022.", day(2022, 3, 3), day(2022, 3, 4)),
]


@pytest.mark.parametrize(("content", "text", "start", "end"), DATES)
def test_relative_dates_become_absolute_and_the_occurrence_is_their_interval(
    sqlite_url: str, content: str, text: str, start: datetime, end: datetime
) -> None:
    with open_memory(sqlite_url) as memory:
        memory.retain_sync(content, speaker="Mira", timestamp=NOON)
        (fact,) = memory.facts_sync()
        assert fact.text == f"Mira: {text}"
        assert (fact.occurred_start, fact.occurred_end) == (start, end)
        assert fact.valid_at == min(start, NOON)
        assert memory.messages_sync()[0].content == content


def test_an_assistants_words_are_not_altered_and_their_time_is_found(sqlite_url: str) -> None:
    with open_memory(sqlite_url) as memory:
        memory.retain_sync([Message(role="assistant", content="I booked it yesterday.", timestamp=NOON)])
        (fact,) = memory.facts_sync()
        assert fact.text == "Assistant: I booked it yesterday."
        assert (fact.occurred_start, fact.occurred_end) == (day(2023, 5, 7), day(2023, 5, 8))


def test_seasons_are_those_of_the_setting(sqlite_url: str) -> None:
    with Memory(sqlite_url, embedder=WordEmbedder(), settings=Settings(southern_seasons=True)) as memory:
        memory.retain_sync("I swam last summer.", speaker="Mira", timestamp=NOON)
        (fact,) = memory.facts_sync()
        assert fact.text == "Mira: I swam last summer (= December 2022 - February 2023)."
        found = memory.recall_sync("What did Mira do last summer?", now=NOON, explain=True)
        assert found.explanation is not None
        assert found.explanation.during == Interval(start=day(2022, 12, 1), end=day(2023, 3, 1))


def test_two_weeks_ago_is_resolved_to_about_that_day(sqlite_url: str) -> None:
    with open_memory(sqlite_url) as memory:
        memory.retain_sync("I met Ann two weeks ago.", timestamp=NOON)
        (fact,) = memory.facts_sync()
        assert "April 2023" in fact.text
        assert fact.occurred_start is not None
        assert fact.occurred_end is not None
        assert fact.occurred_start <= day(2023, 4, 24) < fact.occurred_end
        assert fact.occurred_end - fact.occurred_start <= timedelta(days=8)


def test_words_without_a_time_have_no_occurrence(sqlite_url: str) -> None:
    with open_memory(sqlite_url) as memory:
        memory.retain_sync("The kettle is red.", timestamp=NOON)
        (fact,) = memory.facts_sync()
        assert (fact.occurred_start, fact.occurred_end, fact.valid_at) == (None, None, NOON)


def test_the_embedded_text_includes_the_date_and_the_stored_text_does_not(sqlite_url: str) -> None:
    embedder = WordEmbedder()
    with open_memory(sqlite_url, embedder=embedder) as memory:
        memory.retain_sync("The kettle is red.", speaker="Mira", timestamp=NOON)
        assert embedder.documents == ["8 May 2023. Mira: The kettle is red."]
        assert memory.facts_sync()[0].text == "Mira: The kettle is red."


def test_times_are_kept_in_utc_whatever_zone_they_were_given_in(url: str) -> None:
    with open_memory(url) as memory:
        memory.retain_sync("The kettle is red.", timestamp=datetime.fromisoformat("2023-05-08T14:00:00+02:00"))
        (message,) = memory.messages_sync()
        assert message.timestamp == NOON
        assert message.timestamp.utcoffset() == timedelta(0)


# R7: entities


def names(memory: Memory) -> dict[str, set[str]]:
    return {entity.name: set(entity.aliases) for entity in memory.entities_sync()}


def test_nicknames_and_short_forms_resolve_to_one_entity_if_clear(sqlite_url: str) -> None:
    with open_memory(sqlite_url) as memory:
        memory.retain_sync(said("I had lunch with Robert Hale.", 0))
        memory.retain_sync(said("Bob Hale ordered soup.", 1))
        memory.retain_sync(said("Later I walked home with Robert.", 2))
        assert names(memory) == {"Robert Hale": {"Bob Hale", "Robert"}}
        (entity,) = memory.entities_sync()
        assert (entity.mentions, entity.first_seen) == (3, NOON)
        assert entity.last_seen == NOON + timedelta(minutes=2)


def test_two_people_with_the_same_name_stay_separate(sqlite_url: str) -> None:
    with open_memory(sqlite_url) as memory:
        memory.retain_sync(said("I had lunch with Anna Weber.", 0))
        memory.retain_sync(said("Then Anna Schmidt called me.", 1))
        memory.retain_sync(said("I told Anna about the soup.", 2))
        assert {"Anna Weber", "Anna Schmidt"} <= set(names(memory))
        assert all("Anna" not in aliases for aliases in names(memory).values())


def test_speakers_are_entities_of_their_facts(sqlite_url: str) -> None:
    with open_memory(sqlite_url) as memory:
        memory.retain_sync([said("I like tea.", 0, speaker="Mira"), said("So do I.", 1, speaker="Jon")])
        assert [[e.name for e in fact.entities] for fact in memory.facts_sync()] == [["Mira"], ["Jon"]]
        assert {entity.type for entity in memory.entities_sync()} == {"PERSON"}


# R8 and D7: links


def test_temporal_links_weigh_by_distance_and_end_after_a_day(url: str, tmp_path: Path) -> None:
    apart = TopicEmbedder({"one": (1, 0, 0, 0), "two": (0, 1, 0, 0), "three": (0, 0, 1, 0), "four": (0, 0, 0, 1)})
    hours = {"one": 0, "two": 6, "three": 23, "four": 60}
    with open_memory(url, embedder=apart) as memory:
        for word, hour in hours.items():
            memory.retain_sync(said(f"This is {word}.", 60 * hour))
        words = {fact.id: fact.text.removeprefix("User: This is ")[:-1] for fact in memory.facts_sync()}
        found = {(words[link.source], words[link.target]): link for link in links(memory, tmp_path)}
        assert {link.kind for link in found.values()} == {"temporal"}
        assert {pair: link.weight for pair, link in found.items()} == {
            ("two", "one"): pytest.approx(math.exp(-6 / 24)),
            ("three", "two"): pytest.approx(math.exp(-17 / 24)),
            ("three", "one"): pytest.approx(math.exp(-23 / 24)),
        }


@pytest.mark.parametrize("at_once", [True, False])
def test_semantic_links_weigh_by_cosine_from_07(url: str, tmp_path: Path, at_once: bool) -> None:
    topics = TopicEmbedder({"red": (1.0, 0.0), "pink": (0.8, 0.6), "blue": (0.6, 0.8)})
    talk = [said(f"A {colour} kettle.", 6000 * n) for n, colour in enumerate(("red", "pink", "blue"))]
    with open_memory(url, embedder=topics) as memory:
        for part in [talk] if at_once else [[message] for message in talk]:
            memory.retain_sync(part)
        colour = {fact.id: fact.text.split()[2] for fact in memory.facts_sync()}
        found = {(colour[link.source], colour[link.target]): link for link in links(memory, tmp_path)}
        assert {link.kind for link in found.values()} == {"semantic"}
        assert {pair: link.weight for pair, link in found.items()} == {
            ("pink", "red"): pytest.approx(0.8, abs=0.01),
            ("blue", "pink"): pytest.approx(0.96, abs=0.01),
        }


@pytest.mark.parametrize("at_once", [True, False])
def test_a_fact_has_at_most_five_links_of_each_kind_and_entity_links_are_not_stored(
    url: str, tmp_path: Path, at_once: bool
) -> None:
    talk = [said(f"Robert Hale made tea number {n}.", n) for n in range(12)]
    with open_memory(url, embedder=ONE_TOPIC) as memory:
        for part in [talk] if at_once else [[message] for message in talk]:
            memory.retain_sync(part)
        counts: dict[tuple[str, str], int] = {}
        for link in links(memory, tmp_path):
            assert link.source != link.target
            counts[link.source, link.kind] = counts.get((link.source, link.kind), 0) + 1
        assert {kind for _, kind in counts} == {"temporal", "semantic"}
        assert max(counts.values()) == 5
        assert memory.entities_sync()[0].mentions == 12


# R12: words alone


def test_a_message_stored_without_inference_is_found_by_words_only(url: str) -> None:
    embedder = WordEmbedder()
    with open_memory(url, embedder=embedder) as memory:
        done = memory.retain_sync("The kettle is red.", infer=False, speaker="Mira", timestamp=NOON)
        assert (len(done.stored), done.derived, done.pending) == (1, (), 0)
        assert memory.process_sync().derived == ()
        assert (memory.facts_sync(), memory.episodes_sync(), memory.entities_sync()) == ([], [], [])
        (hit,) = memory.recall_sync("Which colour has the kettle?").hits
        assert (hit.text, hit.verbatim, hit.fact.mentioned_at) == ("Mira: The kettle is red.", True, NOON)
        assert memory.recall_sync("Which colour has the teapot?").hits == ()
        assert memory.why_sync(hit.id).messages[0].content == "The kettle is red."
        assert memory.why_sync(hit.id).fact == hit.fact
        assert embedder.documents == []


# R13: nothing is lost


class Crooked:
    """An embedder whose vectors are of no use."""

    name = "hash"
    dimension = 64

    def __init__(self, vector: float, dimension: int) -> None:
        self._vector = (vector, dimension)

    async def embed(self, texts: Sequence[str], kind: TextKind) -> Vectors:
        value, dimension = self._vector
        return np.full((len(texts), dimension), value, np.float32)


def test_when_the_embedder_fails_messages_stay_and_a_later_process_completes_them_once(url: str) -> None:
    embedder = WordEmbedder()
    with open_memory(url, embedder=embedder) as memory:
        memory.retain_sync("The door is green.")
        embedder.broken = True
        with pytest.raises(EmbeddingFailed, match="the model's server is gone"):
            memory.retain_sync(["The kettle is red.", "The roof leaks."])
        with pytest.raises(EmbeddingFailed):
            memory.process_sync()
        status = memory.status_sync()
        (trouble,) = status.problems
        assert (status.messages, status.pending, status.facts) == (3, 2, 1)
        assert (trouble.messages, trouble.attempts) == (2, 2)
        assert "the model's server is gone" in trouble.error
        embedder.broken = False
        assert len(memory.recall_sync("kettle").hits) >= 1
        assert len(memory.process_sync().derived) == 2
        assert memory.process_sync().derived == ()
        after = memory.status_sync()
        assert (after.pending, after.facts, after.problems) == (0, 3, ())


@pytest.mark.parametrize(("value", "dimension"), [(float("nan"), 64), (0.0, 64), (1.0, 32)])
def test_unusable_vectors_are_not_stored(url: str, value: float, dimension: int) -> None:
    with open_memory(url, embedder=Crooked(value, dimension)) as memory:
        with pytest.raises(EmbeddingFailed):
            memory.retain_sync("The kettle is red.")
        assert (memory.status_sync().pending, memory.status_sync().facts) == (1, 0)
        assert len(memory.status_sync().problems) == 1
    with open_memory(url) as memory:
        assert len(memory.process_sync().derived) == 1


def test_concurrent_processing_derives_each_message_once(url: str) -> None:
    async def work() -> None:
        async with open_memory(url) as memory, open_memory(url) as other:
            await memory.add_message("The kettle is red.")
            await other.add_message("The door is green.")
            done = await asyncio.gather(*(m.process() for m in (memory, other, memory, other)))
            derived = [fact for each in done for fact in each.derived]
            assert len(derived) == len(set(derived)) == 2
            assert (await memory.status()).facts == 2

    asyncio.run(work())


def test_concurrent_retains_of_a_bank_each_report_the_facts_of_their_messages(url: str) -> None:
    async def run(memory: Memory) -> None:
        reports = await asyncio.gather(*(memory.retain(f"The kettle number {n} is red.") for n in range(6)))
        facts = {message: fact.id for fact in await memory.facts() for message in fact.messages}
        for report in reports:
            assert {facts[message] for message in report.stored} <= set(report.derived)

    with open_memory(url) as memory:
        asyncio.run(run(memory))


def test_episodes_are_the_same_if_another_memory_retains_each_message(tmp_path: Path) -> None:
    talk = ["The kettle is red.", "It boils fast.", "My bike has a flat tyre.", "The bike needs a chain.", "Tea!"] * 3
    messages = [said(text, n) for n, text in enumerate(talk)]
    with open_memory(str(tmp_path / "one.db")) as memory:
        for message in messages:
            memory.retain_sync(message)
        together = [(episode.title, episode.messages) for episode in memory.episodes_sync()]
    for message in messages:
        with open_memory(str(tmp_path / "each.db")) as memory:
            memory.retain_sync(message)
    with open_memory(str(tmp_path / "each.db")) as memory:
        assert [(episode.title, episode.messages) for episode in memory.episodes_sync()] == together


def test_more_messages_than_one_batch_are_all_derived(sqlite_url: str) -> None:
    with open_memory(sqlite_url) as memory:
        done = memory.retain_sync([said(f"Line {n} about the kettle.", 60 * n) for n in range(600)])
        assert len(set(done.derived)) == 600
        assert memory.status_sync().pending == 0
