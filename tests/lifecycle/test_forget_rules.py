"""The rules of forgetting, from records to what is deleted, without a database."""

from __future__ import annotations

from vmemo.lifecycle.forget import Reach, described_by, obsolete_jobs, reopen, shrink, sources_of
from vmemo.lifecycle.forget_names import orphans
from vmemo.models import BankId, EntityId, EpisodeId, Fact, FactId, MessageId
from vmemo.models.results import Job
from vmemo_conformance.samples import a_fact, a_message, an_entity, an_episode, day, mention_of

M1, M2, M3, M4 = (MessageId(f"m{n}") for n in range(1, 5))


def chain(*facts: tuple[str, str | None]) -> dict[FactId, Fact]:
    """Return facts by id, each with the one that it replaced."""
    return {FactId(id): a_fact(id, id=id, supersedes=old) for id, old in facts}


def test_messages_of_a_dissolved_episode_are_reached_once() -> None:
    said = [a_message(text, id=id) for text, id in (("one", M1), ("two", M2), ("three", M3))]
    reach = Reach({M1})
    assert reach.follow([an_episode("e", said)], []) == {M2, M3}
    assert reach.follow([an_episode("e", said)], []) == set()
    assert reach.requeued == {M2, M3}


def test_other_sources_of_a_fact_are_reached_but_not_the_evidence_of_a_formed_opinion() -> None:
    told = a_fact("tulips", messages=[M1, M2])
    formed = a_fact("I like tulips.", network="opinion", confidence=0.5, messages=[M3])
    stated = a_fact("Bo likes tulips.", network="opinion", confidence=0.5, messages=[M4], episodes=[EpisodeId("e")])
    assert sources_of([told, formed, stated]) == {M1, M2, M4}
    reach = Reach({M1})
    assert reach.follow([], [told, formed]) == {M2}
    assert set(reach.facts) == {told.id, formed.id}


def test_a_fact_whose_only_successor_is_deleted_is_current_again() -> None:
    assert reopen(chain(("oslo", "rome")), []) == (["rome"], {})


def test_a_fact_with_another_successor_stays_closed() -> None:
    left = chain(("bern", "rome")).values()
    assert reopen(chain(("oslo", "rome")), left) == ([], {})


def test_a_successor_replaces_the_first_fact_before_the_deleted_ones() -> None:
    deleted = chain(("bonn", "bern"), ("bern", "rome"))
    left = chain(("oslo", "bonn")).values()
    assert reopen(deleted, left) == ([], {"oslo": "rome"})


def test_a_successor_of_a_deleted_fact_that_replaced_nothing_replaces_nothing() -> None:
    assert reopen(chain(("rome", None)), chain(("oslo", "rome")).values()) == ([], {"oslo": None})


def test_deleted_facts_that_replace_each_other_end_the_search() -> None:
    deleted = chain(("bonn", "bern"), ("bern", "bonn"))
    assert reopen(deleted, chain(("oslo", "bonn")).values()) == ([], {"oslo": None})


def test_an_entity_that_only_deleted_facts_mention_is_an_orphan() -> None:
    ann, bo = an_entity("Ann", mentions=1), an_entity("Bo", mentions=2)
    deleted = [a_fact("Ann met Bo.", entities=[mention_of(ann), mention_of(bo)])]
    assert orphans([ann, bo], deleted) == {ann.id}


def test_only_observations_describe_an_entity() -> None:
    ann, bo = an_entity("Ann"), an_entity("Bo")
    facts = [
        a_fact("About Ann.", network="observation", entities=[mention_of(ann)]),
        a_fact("Bo sang.", entities=[mention_of(bo)]),
    ]
    assert described_by(facts, {ann.id, bo.id}) == {ann.id}
    assert described_by(facts, {bo.id}) == set()


def test_jobs_about_deleted_episodes_and_entities_are_obsolete() -> None:
    def job(id: int, kind: str, key: str = "", **detail: str) -> Job:
        return Job.of(
            {
                "id": id,
                "bank": BankId("a"),
                "kind": kind,
                "key": key,
                "detail": detail,
                "due": day(1),
                "created_at": day(1),
            }
        )

    jobs = [
        job(1, "extract", "m1", episode="gone"),
        job(2, "extract", "m2", episode="kept"),
        job(3, "observe", "ann"),
        job(4, "observe", "bo"),
        job(5, "process"),
    ]
    assert obsolete_jobs(jobs, {EpisodeId("gone")}, {EntityId("ann")}) == [1, 3]


def test_an_episode_shrinks_to_the_span_of_its_remaining_messages() -> None:
    said = [a_message(f"day {n}", timestamp=day(n)) for n in (1, 2, 3)]
    episode = an_episode("days", said)
    shrunk = shrink(episode, {message.id: message for message in said[1:]})
    assert shrunk is not None
    assert shrunk.messages == tuple(message.id for message in said[1:])
    assert (shrunk.started_at, shrunk.ended_at) == (day(2), day(3))
    assert shrink(episode, {}) is None
