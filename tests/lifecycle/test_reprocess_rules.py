"""The rules of reprocessing, from records to what is kept, without a database."""

from __future__ import annotations

from vmemo.lifecycle.reprocess import (
    ReprocessRecords,
    is_formed,
    kept_change,
    kept_entities,
    kept_fact,
    pending_copy,
    seed_entities,
)
from vmemo.models import ConfidenceChange, Entity, EpisodeId, Fact, FactId, MessageId
from vmemo.models.changes import MergeRecord
from vmemo_conformance.samples import a_fact, a_message, an_entity, day, mention_of

M1, M2, M3 = MessageId("m1"), MessageId("m2"), MessageId("m3")


def an_opinion(text: str = "She gardens well.", **fields: object) -> Fact:
    return a_fact(text, network="opinion", confidence=0.5, **fields)


def test_an_opinion_without_an_episode_or_with_a_basis_was_formed() -> None:
    assert is_formed(an_opinion(messages=[M1]))
    assert is_formed(an_opinion(episodes=[EpisodeId("e")], basis=[FactId("f")]))
    assert not is_formed(an_opinion(episodes=[EpisodeId("e")]))
    assert not is_formed(a_fact("tulips"))


def test_a_copy_of_a_message_is_pending_unless_it_is_kept_verbatim() -> None:
    failed = a_message("tulips", state="grouped", error="timed out")
    assert pending_copy(failed) == failed.model_copy(update={"state": "pending", "error": None})
    raw = a_message("tulips", state="raw")
    assert pending_copy(raw) == raw


def test_facts_of_the_same_messages_stand_for_a_fact_or_else_those_of_its_episode() -> None:
    stated, unstated = a_fact("tulips", messages=[M1, M2]), a_fact("roses", messages=[M3])
    found = ReprocessRecords(
        behind={fact.id: fact for fact in (stated, unstated)},
        new_facts={M1: [FactId("new 1")], M2: [FactId("new 1"), FactId("new 2")]},
        episode_facts={M3: [FactId("near")]},
    )
    assert found.successors([stated.id]) == ["new 1", "new 2"]
    assert found.successors([unstated.id]) == ["near"]
    assert found.successors([FactId("forgotten")]) == []


def test_what_stands_for_the_basis_stands_for_an_observation_and_kept_facts_for_themselves() -> None:
    fact, kept = a_fact("tulips", messages=[M1]), an_opinion("Tulips are fine.")
    observation = a_fact("She gardens.", network="observation", basis=[fact.id, kept.id])
    found = ReprocessRecords(
        kept=[kept],
        behind={each.id: each for each in (fact, kept, observation)},
        new_facts={M1: [FactId("new")]},
    )
    assert set(found.successors([observation.id])) == {"new", kept.id}


def test_a_kept_fact_has_the_entities_of_the_same_names_and_supersedes_kept_facts_only() -> None:
    old, new = an_entity("Caroline", id="old"), an_entity("CAROLINE", id="new")
    gone = an_entity("Bergen", id="bergen")
    first = an_opinion(supersedes=FactId("extracted"), episodes=[EpisodeId("e")], basis=[FactId("f")])
    second = an_opinion(supersedes=first.id, entities=[mention_of(old, "Caro"), mention_of(gone)])
    found = ReprocessRecords(kept=[first, second], entities=[old, gone], new_entities=[new])
    kept = [kept_fact(each, found) for each in (first, second)]
    assert [each.supersedes for each in kept] == [None, first.id]
    assert [each.episodes for each in kept] == [(), ()]
    assert [(mention.id, mention.name_in_text) for mention in kept[1].entities] == [("new", "Caro"), ("bergen", "")]
    saved, unused = kept_entities(found, kept)
    assert ([entity.id for entity in saved], unused) == (["bergen"], [])


def test_evidence_of_a_confidence_change_becomes_what_stands_for_it() -> None:
    fact = a_fact("tulips", messages=[M1])
    change = ConfidenceChange(
        opinion=FactId("o"), stance="reinforce", before=0.5, after=0.6, evidence=(fact.id,), at=day(1)
    )
    found = ReprocessRecords(behind={fact.id: fact}, new_facts={M1: [FactId("new")]})
    assert kept_change(change, found).evidence == ("new",)


def test_names_that_are_another_s_stay_so_and_unused_seeds_are_deleted() -> None:
    old = [an_entity("Caroline", not_aliases=["Carol"]), an_entity("Nobody", not_aliases=["Someone"])]
    new: list[Entity] = [
        an_entity("Caroline", id="new", not_aliases=["Karl"], mentions=3),
        an_entity("Nobody", aliases=["Someone"]),
    ]
    saved, unused = kept_entities(ReprocessRecords(entities=old, new_entities=new), [])
    assert [(entity.id, entity.not_aliases) for entity in saved] == [("new", ("Karl", "Carol"))]
    assert unused == ["nobody"]


def test_a_new_derivation_knows_merged_entities_with_all_names_and_others_by_their_own() -> None:
    merged, parted, plain = (
        an_entity("Ann", aliases=["Annie"]),
        an_entity("Bob", aliases=["Bobby"], not_aliases=["Rob"]),
        an_entity("Eve", aliases=["Evie"]),
    )
    absorbed = an_entity("Annie")
    merge = MergeRecord(
        id="1", entity=merged.id, absorbed=absorbed.id, was=absorbed, names=("Annie",), reason="", at=day(1)
    )
    undone = merge.model_copy(update={"entity": plain.id, "undone_at": day(2)})
    seeds = seed_entities([merged, parted, plain], [merge, undone])
    assert seeds == [merged, parted.model_copy(update={"aliases": ()})]
