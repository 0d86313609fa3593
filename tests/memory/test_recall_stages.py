"""The stages of a recall together: channels, analysis, time, reranking and explanation."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from builders import NOON, TopicEmbedder, WordEmbedder, exported, open_memory, said, write_facts

from databases import NewDatabase
from vmemo import Fact, Interval, InvalidInput, Memory, Recalled, Settings, VmemoError
from vmemo.models import Channel, FactId, Network, Reranking
from vmemo.models.search import Encoding, Vector
from vmemo.models.settings import CHANNEL_WEIGHTS, WEIGHTS_BY_TYPE
from vmemo.ports import Embedder, TextKind
from vmemo_conformance.samples import TokenHashEmbedder

STORES = ("sqlite",)

CHANNELS: list[Channel] = ["semantic", "keyword", "graph", "temporal", "verbatim"]
NAIVE = datetime(2024, 1, 1)  # noqa: DTZ001  that is the point
FIRST = "Which came first, the trip to Oslo or the new job?"


def day(month: int, at: int, year: int = 2023) -> datetime:
    return datetime(year, month, at, 12, tzinfo=UTC)


def a_fact(id: str, text: str, at: datetime = NOON, **more: object) -> Fact:
    plain = {"id": id, "bank": "default", "network": "world", "text": text, "tokens": 5}
    return Fact.of({**plain, "mentioned_at": at, "recorded_at": at, "valid_at": at, **more})


def texts(found: Recalled) -> list[str]:
    return [hit.text for hit in found.hits]


def ids(found: Recalled) -> list[FactId]:
    return [hit.id for hit in found.hits]


def reset(
    url: str, embedder: Embedder | None = None, *, reranker: object = "none", settings: Settings | None = None
) -> Memory:
    """The memory of a database with other stages."""
    return Memory(url, embedder=embedder or WordEmbedder(), reranker=reranker, settings=settings)


class OneTopic(WordEmbedder):
    """Embeds all texts alike, so that only time and rerankers distinguish them."""

    def vector(self, text: str) -> Vector:
        """The vector of everything."""
        return super().vector("everything")


# Channels


@pytest.fixture(scope="module")
def trip(new_database: NewDatabase) -> Iterator[str]:
    """A bank in which every channel has something to find for `ASKED`."""
    with new_database() as url:
        with open_memory(url) as memory:
            memory.retain_sync([
                said("Mira flew to Oslo yesterday.", 0, speaker="Jon"),
                said("Mira plays the cello in a quartet.", 600, speaker="Jon"),
                said("The gardener pruned an apple tree.", 60_000, speaker="Jon"),
            ])  # fmt: skip
            memory.retain_sync("Oslo was cold.", infer=False, timestamp=NOON)
        yield url


ASKED = "Where did Mira fly to on 7 May 2023?"


def test_every_channel_finds_facts_and_reports_how_many(trip: str) -> None:
    with reset(trip) as memory:
        found = memory.recall_sync(ASKED + " Oslo", explain=True)
        assert {channel for hit in found.hits for channel in hit.channels} == set(CHANNELS)
        assert found.explanation
        assert set(found.explanation.candidates) == set(found.explanation.weights) == set(CHANNELS)
        for channel in CHANNELS:
            brought = [hit.channels[channel].rank for hit in found.hits if channel in hit.channels]
            assert sorted(brought) == list(range(1, found.explanation.candidates[channel] + 1))


@pytest.mark.parametrize("channel", CHANNELS)
def test_a_disabled_channel_finds_nothing(trip: str, channel: Channel) -> None:
    others = frozenset(CHANNELS) - {channel}
    with reset(trip, settings=Settings(channels=others)) as memory:
        found = memory.recall_sync(ASKED + " Oslo", explain=True)
        assert {brought for hit in found.hits for brought in hit.channels} == others
        assert found.explanation
        assert set(found.explanation.candidates) == set(found.explanation.weights) == others
        assert all(hit.channels for hit in found.hits)


@pytest.mark.parametrize("channel", CHANNELS)
def test_a_channel_works_alone(trip: str, channel: Channel) -> None:
    with reset(trip, settings=Settings(channels=frozenset({channel}))) as memory:
        found = memory.recall_sync(ASKED + " Oslo", explain=True)
        assert found.hits
        assert all(set(hit.channels) == {channel} for hit in found.hits)
        assert all(hit.score > 0 for hit in found.hits)


def test_without_channels_nothing_is_found(trip: str) -> None:
    with reset(trip, settings=Settings(channels=frozenset[Channel]())) as memory:
        assert memory.recall_sync(ASKED).hits == ()


# Analysis: parts and time


def test_sub_queries_find_what_the_whole_question_does_not(url: str) -> None:
    topics = TopicEmbedder({"which": (0.0, 0.0, 1.0), "oslo": (1.0, 0.0, 0.0), "job": (0.0, 1.0, 0.0)})
    only: frozenset[Channel] = frozenset({"semantic"})
    with reset(url, topics, settings=Settings(channels=only)) as memory:
        memory.retain_sync([said("We flew to Oslo.", 0), said("She took a job.", 60_000)])
        found = memory.recall_sync(FIRST, explain=True)
        assert sorted(texts(found)) == ["User: She took a job.", "User: We flew to Oslo."]
        assert found.explanation
        assert found.explanation.parts == ("the trip to Oslo", "the new job")
    with reset(url, topics, settings=Settings(channels=only, analysis=False)) as memory:
        assert memory.recall_sync(FIRST).hits == ()


def test_a_sub_query_weighs_less_than_the_whole_question(url: str) -> None:
    topics = TopicEmbedder({"which": (0.0, 0.0, 1.0), "oslo": (1.0, 0.0, 0.0), "job": (0.0, 1.0, 0.0)})
    with reset(url, topics, settings=Settings(channels=frozenset({"semantic"}))) as memory:
        memory.retain_sync([said("We flew to Oslo.", 0), said("I wonder which tea it was.", 60_000)])
        whole, part = memory.recall_sync(FIRST).hits
        assert (whole.text, part.text) == ("User: I wonder which tea it was.", "User: We flew to Oslo.")
        assert whole.score > 2 * part.score


def test_without_analysis_a_question_has_no_type_no_time_and_no_parts(trip: str) -> None:
    with reset(trip, settings=Settings(analysis=False)) as memory:
        for question in (ASKED, FIRST, "How many trips did Mira take last week?"):
            found = memory.recall_sync(question, explain=True)
            why = found.explanation
            assert why
            assert (why.type, why.during, why.parts) == ("general", None, ())
            assert "temporal" not in why.candidates
            assert all("temporal" not in hit.channels for hit in found.hits)


@pytest.fixture(scope="module")
def dinners(new_database: NewDatabase) -> Iterator[str]:
    """The same dinner on four Mondays."""
    with new_database() as url:
        mondays = {"1 May": day(5, 1), "8 May": day(5, 8), "15 May": day(5, 15), "22 May": day(5, 22)}
        facts = [a_fact(name, "We had dinner at the harbour.", at) for name, at in mondays.items()]
        asyncio.run(write_facts(url, facts, OneTopic()))
        yield url


MOMENTS = [
    ("Where did we have dinner on 8 May 2023?", day(7, 1), "8 May"),
    ("Where did we have dinner last week?", day(5, 24), "15 May"),
    ("Where did we have dinner last week?", day(5, 10), "1 May"),
    ("Where did we have dinner two weeks ago?", day(5, 22), "8 May"),
    ("Where did we have dinner today?", day(5, 22), "22 May"),
]


@pytest.mark.parametrize("reranker", ["none", "late"])
@pytest.mark.parametrize(("question", "now", "expected"), MOMENTS)
def test_a_question_with_a_time_finds_what_happened_then_first(
    dinners: str, question: str, now: datetime, expected: str, reranker: str
) -> None:
    with reset(dinners, OneTopic(), reranker=reranker) as memory:
        found = memory.recall_sync(question, now=now, explain=True)
        assert ids(found)[0] == expected
        assert found.hits[0].score > found.hits[1].score == found.hits[-1].score
        assert ["temporal" in hit.channels for hit in found.hits] == [True, False, False, False]
        assert found.explanation
        assert found.explanation.during
        assert found.explanation.type == "temporal"
        assert found.explanation.weights == {**CHANNEL_WEIGHTS, **WEIGHTS_BY_TYPE["temporal"]}


def test_a_question_without_a_time_has_no_temporal_channel(dinners: str) -> None:
    with reset(dinners, OneTopic()) as memory:
        found = memory.recall_sync("Where did we have dinner?", now=day(5, 24), explain=True)
        assert len({hit.score for hit in found.hits}) == 1
        assert all("temporal" not in hit.channels for hit in found.hits)
        assert found.explanation
        assert found.explanation.during is None
        assert "temporal" not in found.explanation.candidates
        assert "temporal" not in found.timings


def test_a_time_without_facts_leaves_the_order_unchanged(dinners: str) -> None:
    with reset(dinners, OneTopic()) as memory:
        found = memory.recall_sync("Where did we have dinner in 1999?", explain=True)
        assert len(found.hits) == 4
        assert len({hit.score for hit in found.hits}) == 1
        assert found.explanation
        assert found.explanation.candidates["temporal"] == 0


def test_a_time_filter_applies_to_the_temporal_channel(dinners: str) -> None:
    with reset(dinners, OneTopic()) as memory:
        found = memory.recall_sync(
            "Where did we have dinner in May 2023?", occurred=Interval(start=day(5, 10), end=day(5, 16))
        )
        assert ids(found) == ["15 May"]
        assert "temporal" in found.hits[0].channels


def test_recency_is_counted_from_now(dinners: str) -> None:
    with reset(dinners, OneTopic()) as memory:
        found = memory.recall_sync("dinner", now=day(5, 22), recency_half_life=timedelta(days=7))
        best = found.hits[0].score
        assert [hit.score / best for hit in found.hits] == pytest.approx([1.0, 0.5, 0.25, 0.125])


# C10: the explanation


def test_an_explanation_shows_the_query_analysis_and_the_channel_counts(trip: str) -> None:
    with reset(trip) as memory:
        why = memory.recall_sync(ASKED, explain=True).explanation
        assert why
        assert why.type == "temporal"
        assert why.during == Interval(start=datetime(2023, 5, 7, tzinfo=UTC), end=datetime(2023, 5, 8, tzinfo=UTC))
        assert why.parts == ()
        assert [entity.name for entity in why.entities] == ["Mira"]
        assert why.weights == {**CHANNEL_WEIGHTS, **WEIGHTS_BY_TYPE["temporal"]}
        assert why.candidates["temporal"] == 1
        assert why.candidates["verbatim"] == 0
        assert (why.reranker, why.reranked) == ("none", 0)


def test_a_fact_found_by_several_sub_queries_is_one_candidate(trip: str) -> None:
    with reset(trip) as memory:
        why = memory.recall_sync("Which came first, the trip to Oslo or the cello of Mira?", explain=True).explanation
        assert why
        assert len(why.parts) == 2
        assert max(why.candidates.values()) <= 3


def test_a_path_leads_from_an_entity_or_a_fact_to_the_hit(trip: str) -> None:
    with reset(trip) as memory:
        found = memory.recall_sync("Which hobbies does Mira have?", explain=True)
        assert found.explanation
        (mira,) = found.explanation.entities
        cello = next(hit for hit in found.hits if "cello" in hit.text)
        assert (cello.path[-1].target, cello.path[-1].kind, cello.path[-1].via) == (cello.id, "entity", "Mira")
        known = {mira.id, *(hit.id for hit in found.hits)}
        for hit in found.hits:
            assert bool(hit.path) == ("graph" in hit.channels)
            assert all(step.source in known for step in hit.path)
            assert all(step.target == after.source for step, after in zip(hit.path, hit.path[1:], strict=False))


def test_a_hit_shows_the_effect_of_the_reranker(url: str) -> None:
    judge = Judge({"blue": 5.0, "red": 1.0})
    with reset(url, reranker=judge) as memory:
        memory.retain_sync([said("The red kettle.", 0), said("The blue kettle.", 60_000)])
        found = memory.recall_sync("kettle", explain=True)
        assert found.explanation
        assert (found.explanation.reranker, found.explanation.reranked) == ("judge", 2)
        moves = [hit.reranking for hit in found.hits]
        assert moves == [Reranking(before=2, after=1, score=5.0), Reranking(before=1, after=2, score=1.0)]


def test_recall_explains_nothing_by_default(trip: str) -> None:
    with reset(trip, TokenHashEmbedder(), reranker="late") as memory:
        for found in (memory.recall_sync(ASKED), memory.retrieve_sync(ASKED, explain=False)):
            assert found.explanation is None
            assert found.hits
            assert all((hit.path, hit.reranking) == ((), None) for hit in found.hits)
            assert all(hit.channels for hit in found.hits)


def test_an_explanation_changes_neither_hits_nor_order(trip: str) -> None:
    with reset(trip, reranker=Judge({"Oslo": 2.0})) as memory:
        plain, told = (memory.recall_sync(ASKED, explain=explain) for explain in (False, True))
        assert [(hit.id, hit.score, hit.channels) for hit in plain.hits] == [
            (hit.id, hit.score, hit.channels) for hit in told.hits
        ]
        assert memory.retrieve_sync(ASKED, explain=True).explanation == told.explanation


def test_an_explained_recall_can_be_written_as_json_and_read_again(trip: str) -> None:
    with reset(trip, reranker=Judge({"Oslo": 2.0})) as memory:
        found = memory.recall_sync(ASKED + " Oslo", explain=True)
        assert Recalled.model_validate_json(found.model_dump_json()) == found


@pytest.mark.parametrize("explain", [False, True])
def test_timings_include_every_stage(trip: str, explain: bool) -> None:
    with reset(trip) as memory:
        timings = memory.recall_sync(ASKED, explain=explain).timings
        assert set(timings) == {
            "analyse", "embed", "entities", "semantic", "keyword", "graph", "temporal", "verbatim", "fuse", "rerank",
            "load", "search", "filter", "instructions", "order", "revisions", "judge", "total",
        }  # fmt: skip
        assert all(0 <= value <= timings["total"] for value in timings.values())


OPTIONS: list[tuple[str, object, str]] = [
    ("explain", "yes", "explain: must be true or false"),
    ("explain", 1, "explain: must be true or false"),
    ("explain", None, "explain: must be true or false"),
    ("now", NAIVE, "now: a datetime needs a time zone"),
    ("now", "yesterday", "now: 'yesterday' is not a date"),
    ("now", 5, "now: must be a datetime or ISO 8601 text, not int"),
]


@pytest.mark.parametrize(("option", "value", "words"), OPTIONS)
def test_invalid_recall_stages_are_refused_and_change_nothing(
    sqlite_url: str, tmp_path: Path, option: str, value: object, words: str
) -> None:
    with open_memory(sqlite_url) as memory:
        memory.retain_sync("The kettle is red.")
        before = exported(memory, tmp_path)
        given = {option: value}
        for verb in (memory.recall_sync, memory.retrieve_sync, memory.reflect_sync):
            with pytest.raises(InvalidInput, match=words):
                verb("kettle", **given)  # pyright: ignore[reportArgumentType]
        assert exported(memory, tmp_path) == before


# C7: rerankers


class Judge:
    """A reranker of one's own: it scores by the words it is told, and notes what it read."""

    name = "judge"

    def __init__(self, scores: Mapping[str, float], error: Exception | None = None) -> None:
        self._scores = scores
        self._error = error
        self.asked: list[str] = []
        self.read: list[str] = []

    async def rerank(self, query: str, texts: Sequence[str]) -> list[float]:
        """The scores, or the error."""
        self.asked.append(query)
        self.read += texts
        if self._error:
            raise self._error
        return [max((score for word, score in self._scores.items() if word in text), default=0.0) for text in texts]


@pytest.fixture(scope="module")
def kettles(new_database: NewDatabase) -> Iterator[str]:
    """Three kettles that differ in one word, with token vectors."""
    with new_database() as url:
        with open_memory(url, embedder=TokenHashEmbedder()) as memory:
            memory.retain_sync([
                said("The red kettle.", 0),
                said("The blue kettle.", 60_000),
                said("The green kettle.", 120_000),
            ])  # fmt: skip
        yield url


def test_no_reranker_leaves_the_fused_order(kettles: str) -> None:
    with reset(kettles, TokenHashEmbedder(), reranker="none") as memory:
        found = memory.recall_sync("kettle", explain=True)
        assert texts(found) == ["User: The red kettle.", "User: The blue kettle.", "User: The green kettle."]
        assert all(hit.reranking is None for hit in found.hits)


def test_a_custom_reranker_reorders(kettles: str) -> None:
    judge = Judge({"green": 9.0, "blue": 4.0})
    with reset(kettles, TokenHashEmbedder(), reranker=judge) as memory:
        found = memory.recall_sync("kettle")
    assert judge.asked == ["kettle"]
    assert texts(found) == ["User: The green kettle.", "User: The blue kettle.", "User: The red kettle."]


def test_late_interaction_reranks_facts_with_token_vectors(kettles: str) -> None:
    with reset(kettles, TokenHashEmbedder(), reranker="late") as memory:
        found = memory.recall_sync("green kettle", explain=True)
        assert found.explanation
        assert (found.explanation.reranker, found.explanation.reranked) == ("late", 3)
        assert all(hit.reranking and hit.reranking.score is not None for hit in found.hits)
        assert found.hits[0].text == "User: The green kettle."
        scores = [hit.score for hit in found.hits]
        assert scores == sorted(scores, reverse=True)


def test_late_interaction_is_the_default(kettles: str) -> None:
    with Memory(kettles, embedder=TokenHashEmbedder()) as memory:
        why = memory.recall_sync("red kettle", explain=True).explanation
        assert why
        assert (why.reranker, why.reranked) == ("late", 3)


class RecordingEmbedder(TokenHashEmbedder):
    """Records what is encoded."""

    def __init__(self) -> None:
        super().__init__()
        self.encoded: list[tuple[str, TextKind]] = []

    async def encode(self, texts: Sequence[str], kind: TextKind) -> list[Encoding]:
        self.encoded.extend((text, kind) for text in texts)
        return await super().encode(texts, kind)


def test_late_interaction_encodes_the_question_once_and_no_candidate(kettles: str) -> None:
    embedder = RecordingEmbedder()
    with reset(kettles, embedder, reranker="late") as memory:
        assert memory.recall_sync("green kettle", explain=True).hits[0].reranking
    assert embedder.encoded == [("green kettle", "query")]


def test_late_interaction_without_token_vectors_is_no_reranking(kettles: str) -> None:
    orders: list[list[tuple[FactId, float]]] = []
    for reranker in ("late", "none"):
        with reset(kettles, WordEmbedder(), reranker=reranker) as memory:
            found = memory.recall_sync("red kettle", explain=True)
            assert found.explanation
            assert found.explanation.reranked == 0
            assert all(hit.reranking is None for hit in found.hits)
            orders.append([(hit.id, hit.score) for hit in found.hits])
    assert orders[0] == orders[1]


def test_a_reranker_reads_date_and_context_which_are_not_shown(url: str) -> None:
    judge = Judge({})
    with reset(url, reranker=judge) as memory:
        memory.retain_sync([said("Which instrument do you play?", 0, speaker="Jon"), said("The cello.", 1)])
        found = memory.recall_sync("cello")
    read = next(text for text in judge.read if "User: The cello." in text)
    assert read.startswith("8 May 2023. User: The cello.")
    assert "Which instrument do you play?" in read
    assert "User: The cello." in texts(found)


def test_a_verbatim_message_is_recalled_regardless_of_the_reranker(url: str) -> None:
    judge = Judge({"red": 1.0})
    with reset(url, reranker=judge) as memory:
        memory.retain_sync("The red kettle.")
        memory.retain_sync("The blue kettle.", infer=False)
        found = memory.recall_sync("kettle", explain=True)
        (quoted,) = [hit for hit in found.hits if hit.verbatim]
        assert quoted.reranking
        assert quoted.reranking.score is None
        assert not any("blue" in text for text in judge.read)


def test_a_failed_reranker_is_reported_and_recall_works_without_it(url: str, tmp_path: Path) -> None:
    with reset(url, reranker=Judge({}, ConnectionError("gone"))) as memory:
        memory.retain_sync("The red kettle.")
        before = exported(memory, tmp_path)
        with pytest.raises(VmemoError, match=r"'judge' failed .*gone.*reranker=\"none\""):
            memory.recall_sync("kettle")
        assert exported(memory, tmp_path) == before
    with reset(url, reranker="none") as memory:
        assert texts(memory.recall_sync("kettle")) == ["User: The red kettle."]


@pytest.mark.parametrize("kind", [str, Path])
def test_a_missing_reranker_model_raises_at_the_first_recall(
    sqlite_url: str, tmp_path: Path, kind: type[str | Path]
) -> None:
    missing = tmp_path / "no" / "model"
    with reset(sqlite_url, reranker=kind(missing)) as memory:
        memory.retain_sync("The red kettle.")
        with pytest.raises(InvalidInput, match=r"no/model can't be used as a cross-encoder: there is no model.onnx"):
            memory.recall_sync("kettle")


@pytest.mark.parametrize("reranker", [5, object(), ["late"], True])
def test_an_object_that_is_not_a_reranker_is_refused_at_once(reranker: object) -> None:
    with pytest.raises(InvalidInput, match='A reranker is "late", "none"'):
        Memory("sqlite:///:memory:", embedder=WordEmbedder(), reranker=reranker)


# Opinions and observations


@pytest.fixture(scope="module")
def minds(new_database: NewDatabase) -> Iterator[str]:
    """A fact of each network about the same thing."""
    with new_database() as url:
        facts = [
            a_fact("w", "Mira bought a red kettle."),
            a_fact("e", "I told Mira how to clean a red kettle.", network="experience"),
            a_fact("p", "I believe Mira loves her red kettle.", network="opinion", confidence=0.8, basis=["w"]),
            a_fact("o", "Mira collects every red kettle.", network="observation", basis=["w", "e"]),
        ]
        asyncio.run(write_facts(url, facts, WordEmbedder()))
        yield url


def test_opinions_are_recalled_like_facts_and_observations_for_a_summary(minds: str) -> None:
    with reset(minds) as memory:
        assert set(ids(memory.recall_sync("red kettle"))) == {"w", "e", "p"}
        found = memory.recall_sync("Summarize red kettle")
        assert set(ids(found)) == {"w", "e", "p", "o"}
        by_id = {fact.id: fact for fact in found.facts}
        assert by_id[FactId("p")].confidence == 0.8
        assert by_id[FactId("o")].basis == ("w", "e")
        assert all({"semantic", "keyword"} <= set(hit.channels) for hit in found.hits)


NETWORKS: list[tuple[list[Network], set[str]]] = [
    (["opinion"], {"p"}),
    (["observation"], {"o"}),
    (["opinion", "observation"], {"p", "o"}),
    (["world", "experience"], {"w", "e"}),
]


@pytest.mark.parametrize(("networks", "expected"), NETWORKS)
def test_recall_can_be_limited_to_opinions_and_observations(
    minds: str, networks: list[Network], expected: set[str]
) -> None:
    with reset(minds) as memory:
        assert set(ids(memory.recall_sync("red kettle", networks=networks))) == expected


def test_a_prompt_marks_opinions_and_observations(minds: str) -> None:
    with reset(minds) as memory:
        prompt = memory.recall_sync("Summarize red kettle").to_prompt()
        lines = re.sub(r"\] \d\d:\d\d", "]", prompt).splitlines()
        assert "- [p] (opinion) I believe Mira loves her red kettle." in lines
        assert "- [o] (observation) Mira collects every red kettle." in lines
        assert "- [w] Mira bought a red kettle." in lines
        assert "- [e] I told Mira how to clean a red kettle." in lines


def test_why_shows_the_basis_of_a_recalled_opinion(minds: str) -> None:
    with reset(minds) as memory:
        assert [behind.fact.id for behind in memory.why_sync("p").basis] == ["w"]


def test_a_reranker_reads_opinions_too(minds: str) -> None:
    judge = Judge({"believe": 9.0})
    with reset(minds, reranker=judge) as memory:
        found = memory.recall_sync("Summarize red kettle", explain=True)
        scores = {hit.id: hit.reranking.score for hit in found.hits if hit.reranking}
        assert scores == {"w": 0.0, "e": 0.0, "p": 9.0, "o": 0.0}
