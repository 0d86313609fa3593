"""The rules by which the revision model's probabilities close and link facts, without a database."""

from __future__ import annotations

from datetime import timedelta

from vmemo.models import Fact, utc_now
from vmemo.models.changes import FactClosure, NewFact
from vmemo.models.search import StatementPair
from vmemo.retain.revise import Revision
from vmemo.retain.revise_by_model import (
    Comparison,
    Outdated,
    apply,
    choose,
    closure,
    comparable,
    is_statement,
)
from vmemo_conformance.samples import a_fact, day, with_vector


def said(text: str, on: int, **fields: object) -> NewFact:
    """Return a fact of a day, recorded on the same day."""
    return with_vector(a_fact(text, id=text, mentioned_at=day(on), recorded_at=day(on), **fields))


ROME, BERN = said("Ana: I live in Rome.", 1), said("Ana: Sorry, I meant Bern.", 5)
OSLO = said("Ana: Scratch that, I live in Oslo.", 9)
PAIR = StatementPair("", "", 0, 0.5)


def outdated(older: NewFact, newer: NewFact, probability: float, *, closed: bool = True) -> Outdated:
    return Outdated(pair=Comparison(older, newer, PAIR, {}, probability), closed=closed)


def test_only_current_facts_that_a_person_stated_are_compared() -> None:
    assert is_statement(ROME.fact)
    for change in (
        {"network": "experience"},
        {"network": "observation"},
        {"invalid_at": day(3)},
        {"expired_at": day(3)},
    ):
        assert not is_statement(ROME.fact.model_copy(update=change))


def test_facts_of_one_message_or_of_other_tags_are_not_compared() -> None:
    def fact(message: str, *tags: str) -> Fact:
        return a_fact("text", messages=[message], tags=tags)

    assert comparable(fact("m1"), fact("m2"))
    assert comparable(fact("m1", "a", "b"), fact("m2", "b", "a"))
    assert not comparable(fact("m1"), fact("m1"))
    assert not comparable(fact("m1", "ana"), fact("m2", "bo"))


def test_a_correction_closes_a_possible_change_is_suspected_and_others_are_ignored() -> None:
    judged = [
        Comparison(ROME, OSLO, PAIR, {}, 0.95),
        Comparison(BERN, OSLO, PAIR, {}, 0.3),
        Comparison(ROME, BERN, PAIR, {}, 0.02),
    ]
    assert [(item.pair, item.closed) for item in choose(judged)] == [(judged[0], True), (judged[1], False)]


def test_a_newer_fact_closes_only_the_one_that_it_most_probably_outdates() -> None:
    judged = [Comparison(ROME, OSLO, PAIR, {}, 0.95), Comparison(BERN, OSLO, PAIR, {}, 0.97)]
    assert [item.closed for item in choose(judged)] == [False, True]


def test_the_first_of_several_changes_closes() -> None:
    judged = [Comparison(ROME, OSLO, PAIR, {}, 0.99), Comparison(ROME, BERN, PAIR, {}, 0.95)]
    assert [(item.pair.newer.fact.text, item.closed) for item in choose(judged)] == [
        (OSLO.fact.text, False),
        (BERN.fact.text, True),
    ]


def test_an_outdated_fact_ends_when_the_newer_one_was_stated() -> None:
    pair = Comparison(ROME, OSLO, PAIR, {}, 0.95)
    expected = FactClosure(fact=ROME.fact.id, invalid_at=day(9), expired_at=day(9))
    assert closure(pair, {OSLO.fact.id}) == expected
    assert closure(pair, {ROME.fact.id, OSLO.fact.id}) == expected


def test_late_news_of_an_earlier_time_has_ended_and_was_never_believed_to_last() -> None:
    assert closure(Comparison(ROME, OSLO, PAIR, {}, 0.95), {ROME.fact.id}).expired_at is None


def test_a_fact_that_ends_in_the_future_is_believed_until_then() -> None:
    tomorrow = utc_now() + timedelta(days=1)
    soon = with_vector(OSLO.fact.model_copy(update={"mentioned_at": tomorrow}))
    assert closure(Comparison(ROME, soon, PAIR, {}, 0.95), {OSLO.fact.id}) == FactClosure(
        fact=ROME.fact.id, invalid_at=tomorrow
    )


def test_a_new_fact_supersedes_the_most_probable_and_is_linked_to_all() -> None:
    done = Revision(facts=[OSLO])
    found = apply(done, [outdated(ROME, OSLO, 0.92), outdated(BERN, OSLO, 0.97)])
    assert [item.fact.supersedes for item in found.facts] == [BERN.fact.id]
    assert [closing.fact for closing in found.closings] == [ROME.fact.id, BERN.fact.id]
    assert [(link.source, link.target, link.kind, link.weight) for link in found.links] == [
        (OSLO.fact.id, ROME.fact.id, "replaces", 0.92),
        (OSLO.fact.id, BERN.fact.id, "replaces", 0.97),
    ]
    assert found.changed == {ROME.fact.id: ROME.fact, BERN.fact.id: BERN.fact}
    assert not found.successors


def test_a_stored_fact_supersedes_late_news() -> None:
    found = apply(Revision(facts=[ROME]), [outdated(ROME, OSLO, 0.95)])
    assert found.successors == {OSLO.fact.id: ROME.fact.id}
    assert found.facts == [ROME]


def test_a_suspected_fact_is_only_linked() -> None:
    found = apply(Revision(facts=[OSLO]), [outdated(ROME, OSLO, 0.5, closed=False)])
    assert [link.kind for link in found.links] == ["outdates"]
    assert (found.facts, found.closings, found.changed) == ([OSLO], [], {})
