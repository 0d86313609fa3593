"""Merging entities and undoing it, from records to changes, without a database."""

from __future__ import annotations

from datetime import datetime

import pytest

from vmemo.errors import InvalidInput
from vmemo.lifecycle.entity_merges import (
    MentionedEntity,
    added_mentions,
    added_names,
    plan_merge,
    plan_undo,
)
from vmemo.models import Entity, EntityId, FactId
from vmemo.models.changes import Changes, EntityMention, MergeRecord
from vmemo_conformance.samples import BANK, an_entity, day

NOW = day(9)


def mentioned(entity: Entity, **said: str) -> MentionedEntity:
    """Return an entity with its mentions, by fact the name that is used."""
    mentions = [
        EntityMention(fact=FactId(f), entity=entity.id, name_in_text=name, mentioned_at=day(3))
        for f, name in said.items()
    ]
    return MentionedEntity(entity=entity, mentions=mentions)


def joined(keep: MentionedEntity, absorb: MentionedEntity, *merges: MergeRecord) -> tuple[Changes, MergeRecord]:
    return plan_merge(BANK, keep, absorb, merges, reason="same person", now=NOW)


def after(changes: Changes, keep: MentionedEntity) -> MentionedEntity:
    """Return the keeping entity as it is after a merge."""
    return MentionedEntity(entity=changes.entities[0], mentions=[*keep.mentions, *changes.mentions])


BOB = an_entity("Bob", id="bob", aliases=["Bobby"], first_seen=day(2), last_seen=day(4))
ANN = an_entity("Ann", id="ann", aliases=["Annie", "bobby"], type="PERSON", first_seen=day(1), last_seen=day(3))


def test_a_merge_joins_names_times_and_not_aliases() -> None:
    keep = mentioned(BOB.model_copy(update={"type": "OTHER", "not_aliases": ("Annie", "Zoe")}))
    changes, _ = joined(keep, mentioned(ANN.model_copy(update={"not_aliases": ("Eve",)})))
    [kept] = changes.entities
    assert (kept.name, kept.aliases, kept.type) == ("Bob", ("Bobby", "Ann", "Annie"), "PERSON")
    assert (kept.first_seen, kept.last_seen, kept.not_aliases) == (day(1), day(4), ("Zoe", "Eve"))


def test_a_merge_moves_mentions_under_the_absorbed_name() -> None:
    changes, merge = joined(mentioned(BOB, both=""), mentioned(ANN, both="", alone="", other="Annie"))
    assert {(m.fact, m.entity, m.name_in_text) for m in changes.mentions} == {
        ("alone", "bob", "Ann"),
        ("other", "bob", "Annie"),
    }
    assert list(changes.deleted.entities) == [ANN.id]
    assert [(m.fact, m.name_in_text, m.both) for m in merge.mentions] == [
        ("both", None, True),
        ("alone", None, False),
        ("other", "Annie", False),
    ]
    assert added_mentions(merge) == {"alone": "Ann", "other": "Annie"}


def test_a_merge_records_names_that_the_remaining_entity_had_before() -> None:
    _, merge = joined(mentioned(BOB), mentioned(ANN))
    assert (merge.names, merge.own) == (("Ann", "Annie", "bobby"), ("bobby",))
    assert added_names(merge) == {"ann", "annie"}


def test_undoing_a_merge_restores_both_entities() -> None:
    keep = mentioned(BOB, own="")
    changes, merge = joined(keep, mentioned(ANN, lent="Annie"))
    undone, separated = plan_undo(BANK, merge, after(changes, keep), [merge], now=NOW)
    assert separated == ANN.id
    ann, bob = undone.entities
    assert (ann.name, ann.aliases, ann.first_seen, ann.last_seen) == (ANN.name, ANN.aliases, day(1), day(3))
    assert (bob.name, bob.aliases, bob.first_seen, bob.last_seen) == ("Bob", ("Bobby",), day(2), day(4))
    assert "Bob" in ann.not_aliases
    assert set(bob.not_aliases) == {"Ann", "Annie"}
    assert [(m.fact, m.entity, m.name_in_text) for m in undone.mentions] == [("lent", "ann", "Annie")]
    assert [m.fact for m in undone.deleted.mentions] == ["lent"]
    assert [m.undone_at for m in undone.merges] == [NOW]


def test_a_mention_of_both_stays_with_the_remaining_entity_when_a_merge_is_undone() -> None:
    keep = mentioned(BOB, both="")
    changes, merge = joined(keep, mentioned(ANN, both=""))
    undone, _ = plan_undo(BANK, merge, after(changes, keep), [merge], now=NOW)
    assert [(m.fact, m.entity) for m in undone.mentions] == [("both", "ann")]
    assert undone.deleted.mentions == []


def test_a_later_mention_under_a_lost_name_moves_to_the_separated_entity() -> None:
    keep = mentioned(BOB)
    changes, merge = joined(keep, mentioned(ANN))
    kept = after(changes, keep)
    later = EntityMention(fact=FactId("later"), entity=BOB.id, name_in_text="ANN", mentioned_at=day(8))
    undone, _ = plan_undo(BANK, merge, MentionedEntity(entity=kept.entity, mentions=[later]), [merge], now=NOW)
    assert [(m.fact, m.entity) for m in undone.mentions] == [("later", "ann")]
    assert undone.entities[0].last_seen == day(8)


def test_a_name_that_another_merge_brought_as_well_stays() -> None:
    keep, other = mentioned(BOB), an_entity("Annie", id="annie")
    first, merge = joined(keep, mentioned(ANN))
    second, also = joined(after(first, keep), mentioned(other), merge)
    undone, _ = plan_undo(BANK, merge, after(second, keep), [merge, also], now=NOW)
    assert undone.entities[1].aliases == ("Bobby", "Annie")


def test_bare_names_become_an_entity_of_their_own() -> None:
    merge = MergeRecord(id="named", entity=BOB.id, names=("Ann",), reason="", at=day(1))
    known = BOB.model_copy(update={"aliases": ("Ann",)})
    undone, separated = plan_undo(BANK, merge, mentioned(known, said="Ann"), [merge], now=NOW)
    [record] = undone.merges
    assert isinstance(record, MergeRecord)
    assert record.parted == separated
    new, kept = undone.entities
    assert (new.id, new.name, kept.aliases) == (separated, "Ann", ())
    assert [(m.fact, m.entity) for m in undone.mentions] == [("said", separated)]


def test_a_merge_that_brought_the_only_name_can_not_be_undone() -> None:
    merge = MergeRecord(id="named", entity=EntityId("ann"), names=("Ann",), reason="", at=day(1))
    with pytest.raises(InvalidInput, match="no other name"):
        plan_undo(BANK, merge, mentioned(an_entity("Ann")), [merge], now=NOW)


@pytest.mark.parametrize(("seen", "expected"), [(day(4), day(4)), (day(7), day(7))])
def test_times_that_changed_since_the_merge_stay(seen: datetime, expected: datetime) -> None:
    keep = mentioned(BOB)
    changes, merge = joined(keep, mentioned(ANN))
    kept = changes.entities[0].model_copy(update={"last_seen": seen})
    undone, _ = plan_undo(BANK, merge, MentionedEntity(entity=kept), [merge], now=NOW)
    assert undone.entities[1].last_seen == expected
