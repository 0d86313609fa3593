"""Facts similar to each of a batch."""

from __future__ import annotations

from vmemo.models import FactId
from vmemo.models.search import Scored
from vmemo.retain.revise import Similar, merge_similar, similar_in_batch
from vmemo_conformance.samples import a_fact, at_cosine, with_vector


def test_a_fact_is_similar_to_earlier_facts_of_its_batch_only() -> None:
    first, other, last = (
        with_vector(a_fact(name), at_cosine(cosine)) for name, cosine in (("first", 1.0), ("other", 0.1), ("last", 0.9))
    )
    found = list(similar_in_batch([first, other, last], 0.7, 5))
    assert [each.ids for each in found] == [[], [], [first.fact.id]]


def test_of_equal_facts_of_a_batch_the_earlier_ones_are_similar() -> None:
    batch = [with_vector(a_fact(name), at_cosine(1.0)) for name in "abcd"]
    *_, last = similar_in_batch(batch, 0.5, 2)
    assert last.ids == [batch[0].fact.id, batch[1].fact.id]


def test_an_empty_batch_has_no_similar_facts() -> None:
    assert list(similar_in_batch([], 0.5, 2)) == []


def test_stored_facts_come_before_equal_ones_of_the_batch() -> None:
    near, far, new = FactId("near"), FactId("far"), FactId("new")
    stored = [Scored(near, 0.9), Scored(far, 0.4)]
    merged = merge_similar(stored, Similar([new], [0.9]))
    assert merged == Similar([near, new, far], [0.9, 0.9, 0.4])
