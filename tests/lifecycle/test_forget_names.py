"""The names that are left after forgetting, from records, without a database."""

from __future__ import annotations

from collections.abc import Sequence

from vmemo.lifecycle.forget_names import NameRecords, owned_names
from vmemo.models import Entity, EntityId, Fact, FactId
from vmemo.models.changes import AbsorbedMention, EntityMention, MergeRecord
from vmemo_conformance.samples import a_fact, an_entity, day, mention_of

ROSA = an_entity("Rosalind", id="rosa", aliases=["Roz", "Zaza"], mentions=2)
BO = an_entity("Bo", id="bo", mentions=3)


def deleted_about(*entities: Entity) -> dict[FactId, Fact]:
    fact = a_fact("Something was said.", entities=[mention_of(entity) for entity in entities])
    return {fact.id: fact}


def a_merge(
    keep: Entity, absorbed: Entity, *, mentions: Sequence[AbsorbedMention] = (), undone: bool = False
) -> MergeRecord:
    return MergeRecord(
        id=f"{absorbed.id} into {keep.id}",
        entity=keep.id,
        absorbed=absorbed.id,
        was=absorbed,
        names=(absorbed.name, *absorbed.aliases),
        reason="They sound alike.",
        at=day(1),
        mentions=tuple(mentions),
        undone_at=day(2) if undone else None,
    )


def test_an_entity_keeps_the_names_that_remaining_facts_use() -> None:
    records = NameRecords(deleted_facts=deleted_about(ROSA), affected=[ROSA])
    assert records.names_to_check() == {ROSA.id: {"Rosalind", "Roz", "Zaza"}}
    left = records.remaining({ROSA.id: {"roz"}})
    assert (left.changed[ROSA.id].name, left.changed[ROSA.id].aliases) == ("Roz", ())
    assert left.deleted == set()


def test_an_entity_whose_names_are_all_used_does_not_change() -> None:
    left = NameRecords(deleted_facts=deleted_about(ROSA), affected=[ROSA]).remaining(
        {ROSA.id: {"rosalind", "roz", "zaza"}}
    )
    assert (left.kept, left.changed) == ({ROSA.id: ROSA}, {})


def test_an_entity_without_a_name_or_a_fact_left_is_deleted() -> None:
    orphan = an_entity("Eve", mentions=1)
    records = NameRecords(deleted_facts=deleted_about(ROSA, orphan), affected=[ROSA, orphan])
    assert orphan.id not in records.names_to_check()
    left = records.remaining({ROSA.id: set()})
    assert left.deleted == {ROSA.id, orphan.id}
    assert left.kept == {}


def test_the_forgotten_entity_is_deleted_even_if_no_fact_mentions_it() -> None:
    assert NameRecords(deleted_facts={}, forgotten=BO.id).remaining({}).deleted == {BO.id}


def test_a_mention_by_a_name_that_is_no_longer_used_is_by_the_own_name() -> None:
    mentions = [
        EntityMention(fact=FactId(f), entity=ROSA.id, name_in_text=said) for f, said in (("f1", "Roz"), ("f2", "Zaza"))
    ]
    records = NameRecords(deleted_facts=deleted_about(ROSA), affected=[ROSA], mentions=mentions)
    assert records.remaining({ROSA.id: {"rosalind", "roz"}}).unused_mentions == mentions[1:]


def test_mentions_of_deleted_facts_are_not_looked_at() -> None:
    deleted = deleted_about(ROSA)
    mention = EntityMention(fact=next(iter(deleted)), entity=ROSA.id, name_in_text="The secret one")
    records = NameRecords(deleted_facts=deleted, affected=[ROSA], mentions=[mention])
    assert "The secret one" not in records.names_to_check()[ROSA.id]
    assert records.remaining({ROSA.id: {"rosalind"}}).unused_mentions == []


def test_a_merge_keeps_the_names_in_use_and_loses_its_reason() -> None:
    fact = FactId("remaining")
    said = [
        AbsorbedMention(fact=fact, name_in_text="Zaza"),
        AbsorbedMention(fact=next(iter(deleted := deleted_about(BO)))),
    ]
    merge = a_merge(BO, ROSA, mentions=said)
    records = NameRecords(deleted_facts=deleted, affected=[BO], merges=[merge], existing={BO.id})
    assert records.names_to_check() == {BO.id: {"Bo", "Rosalind", "Roz", "Zaza"}}
    left = records.remaining({BO.id: {"bo", "roz"}})
    [kept] = left.changed_merges.values()
    assert (kept.names, kept.reason) == (("Roz",), "")
    assert kept.was is not None
    assert (kept.was.name, kept.was.aliases) == ("Roz", ())
    assert kept.mentions == (AbsorbedMention(fact=fact),)
    assert left.merges == {merge.id: kept}


def test_a_merge_without_a_name_in_use_is_deleted() -> None:
    merge = a_merge(BO, ROSA)
    left = NameRecords(deleted_facts=deleted_about(BO), affected=[BO], merges=[merge], existing={BO.id}).remaining(
        {BO.id: {"bo"}}
    )
    assert (left.deleted_merges, left.merges) == ([merge.id], {})


def test_merges_of_entities_that_lost_nothing_stay() -> None:
    eve = an_entity("Eve", id="eve", mentions=9)
    merge = a_merge(eve, ROSA)
    left = NameRecords(deleted_facts=deleted_about(BO), affected=[BO], merges=[merge], existing={eve.id}).remaining(
        {BO.id: {"bo"}}
    )
    assert (left.merges, left.changed_merges, left.deleted_merges) == ({merge.id: merge}, {}, [])


def test_merges_go_with_the_entity_that_others_were_merged_into() -> None:
    eve = an_entity("Eve", id="eve", mentions=1)
    inner, outer = a_merge(BO, ROSA), a_merge(eve, BO)
    records = NameRecords(
        deleted_facts=deleted_about(eve), affected=[eve], forgotten=eve.id, merges=[inner, outer], existing={eve.id}
    )
    assert set(records.remaining({}).deleted_merges) == {inner.id, outer.id}


def test_an_undone_merge_goes_with_the_entity_that_was_separated() -> None:
    merge = a_merge(BO, ROSA, undone=True)
    records = NameRecords(deleted_facts={}, forgotten=ROSA.id, merges=[merge], existing={BO.id, ROSA.id})
    assert records.names_to_check() == {BO.id: {"Rosalind", "Roz", "Zaza"}}
    assert records.remaining({BO.id: set()}).deleted_merges == [merge.id]


def test_not_aliases_are_dropped_from_entities_and_from_what_merges_absorbed() -> None:
    eve = an_entity("Eve", id="eve", not_aliases=["Anna", "Zoe"])
    merge = a_merge(BO, an_entity("Ann", id="ann", not_aliases=["Zoe"]))
    left = NameRecords(deleted_facts={}, merges=[merge], existing={BO.id}).remaining({})
    assert left.not_aliases([eve]) == {"Anna", "Zoe"}
    cleaned = left.without_not_aliases([eve], {"Zoe"})
    assert cleaned.changed[EntityId("eve")].not_aliases == ("Anna",)
    [kept] = cleaned.changed_merges.values()
    assert kept.was is not None
    assert kept.was.not_aliases == ()


def test_entities_as_they_are_left_own_their_remaining_names() -> None:
    left = NameRecords(deleted_facts=deleted_about(ROSA), affected=[ROSA], forgotten=BO.id).remaining(
        {ROSA.id: {"roz"}}
    )
    assert owned_names(["ROZ", "Zaza", "Bo"], left.current([ROSA, BO])) == {"ROZ"}
