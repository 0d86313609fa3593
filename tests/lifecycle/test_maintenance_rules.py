"""The rules of maintenance, from records to changes, without a database."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from vmemo.lifecycle.maintain import EpisodeSpan, consecutive, faded, join_changes, settled, strength, with_narratives
from vmemo.models import BankRevision, EpisodeId, Fact, utc_now
from vmemo.models.changes import AddedSource, Deletions
from vmemo.models.records import shifted
from vmemo.models.results import Job
from vmemo_conformance.samples import BANK, START, a_fact, a_message, an_episode, day


def extraction_of(episode: str) -> Job:
    now = utc_now()
    return Job(
        id=1, bank=BANK, kind="extract", key="x", detail={"episode": episode}, requests=1, due=now, created_at=now
    )


def test_episodes_are_settled_once_processed_and_not_queued_for_extraction() -> None:
    done, waiting = a_message("tulips", state="derived"), a_message("roses", state="grouped")
    one, two = an_episode("tulips", [done]), an_episode("roses", [waiting])
    assert settled([one], [done], [extraction_of(two.id)])
    assert not settled([one, two], [done, waiting], [])
    assert not settled([one], [done], [extraction_of(one.id)])


def test_joining_keeps_one_episode_and_moves_the_facts_of_the_other_to_it() -> None:
    said = [a_message("tulips", document="talk"), a_message("roses"), a_message("lilies", document="talk")]
    kept, absorbed = an_episode("flowers", said), an_episode("roses", said[1:])
    facts = [a_fact("roses"), a_fact("lilies")]
    revision = BankRevision("a", 7)
    changes = join_changes(BANK, kept, absorbed.id, messages=said, facts=facts, revision=revision)
    assert (changes.revision, changes.episodes, changes.deleted) == (
        revision,
        [kept],
        Deletions(episodes=[absorbed.id]),
    )
    assert changes.sources == [AddedSource(fact=fact.id, episodes=(kept.id,)) for fact in facts]
    assert set(changes.without_pending) == {"talk", None}


def test_a_narrative_that_was_rewritten_meanwhile_stays() -> None:
    one, two = an_episode("tulips", []), an_episode("roses", [])
    rewritten = two.model_copy(update={"narrative": "Rewritten."})
    changed = with_narratives([one, rewritten], [one, two], ["Tulips.", "Roses."])
    assert changed == [one.model_copy(update={"narrative": "Tulips."})]


def test_an_episode_that_was_deleted_meanwhile_is_not_saved_again() -> None:
    one, two = an_episode("tulips", []), an_episode("roses", [])
    assert [episode.id for episode in with_narratives([two], [one, two], ["Tulips.", "Roses."])] == [two.id]


def aged(text: str, *, recalls: int = 0, age: float = 0, **fields: object) -> Fact:
    stated = day(1) - timedelta(days=age)
    return a_fact(text, importance=0.5, access_count=recalls, recorded_at=stated, **fields)


def weight(fact: Fact, *, now: datetime, half_life: float) -> float:
    return strength(fact, fact.recorded_at, now, half_life)


def test_no_setting_leads_beyond_the_first_or_last_time() -> None:
    now = day(5)
    assert shifted(now, 86_400) == day(6)
    assert shifted(now, 1e30).year == shifted(now, float("inf")).year == 9999
    assert shifted(now, -1e30).year == 1
    assert weight(aged("x"), now=now, half_life=1e12) == pytest.approx(0.5)


def test_a_fact_loses_half_of_its_importance_in_a_half_life() -> None:
    assert weight(aged("new"), now=day(1), half_life=10) == 0.5
    assert weight(aged("old", age=10), now=day(1), half_life=10) == 0.25
    assert weight(aged("recalled", age=10, recalls=2), now=day(1), half_life=10) == 0.65
    assert weight(aged("from the future", age=-10), now=day(1), half_life=10) == 0.5


def test_weak_facts_fade_unless_others_need_them_or_they_are_pinned_or_stated_again() -> None:
    again = a_message("again", recorded_at=day(1))
    weak, needed, recalled = aged("weak", age=20), aged("evidence", age=20), aged("recalled", age=20, recalls=5)
    repeated, pinned = aged("repeated", age=20, messages=[again.id]), aged("pinned", age=20, pinned=True)
    facts = [weak, aged("strong"), needed, recalled, repeated, pinned]
    said = {again.id: again.recorded_at}
    assert faded(facts, said, {needed.id}, below=0.3, half_life=10, now=day(1)) == [weak.id]


class Talk:
    """Episodes with a message at each of some minutes."""

    def __init__(self) -> None:
        self.episodes: list[EpisodeSpan] = []

    def add(self, topic: str, *minutes: int, document: str | None = "talk") -> str:
        start, end = (START + timedelta(minutes=at) for at in (min(minutes), max(minutes)))
        self.episodes.append(EpisodeSpan(EpisodeId(topic), document, start, end, len(minutes)))
        return topic

    def pairs(self, *, largest: int = 25) -> list[tuple[str, str]]:
        return [*consecutive(self.episodes, gap=timedelta(minutes=30), largest=largest)]


def test_episodes_of_a_document_that_follow_each_other_closely_are_pairs() -> None:
    talk = Talk()
    one, two, three = talk.add("tulips", 0, 5), talk.add("roses", 10, 20), talk.add("lilies", 50)
    talk.add("far", 81)
    talk.add("letters", 52, document="letters")
    assert talk.pairs() == [(one, two), (two, three)]


def test_paired_episodes_are_small_together() -> None:
    talk = Talk()
    one, two = talk.add("tulips", 0, 1, 2), talk.add("roses", 3, 4)
    assert talk.pairs(largest=5) == [(one, two)]
    assert talk.pairs(largest=4) == []


def test_messages_without_a_document_are_one_document_whatever_the_order_of_their_arrival() -> None:
    talk = Talk()
    two, one = talk.add("roses", 2, document=None), talk.add("tulips", 0, document=None)
    assert talk.pairs() == [(one, two)]


def test_interleaved_episodes_are_a_pair_once() -> None:
    talk = Talk()
    one, two = talk.add("tulips", 0, 4), talk.add("roses", 2, 6)
    assert talk.pairs() == [(one, two)]
