"""Revision: stored facts are closed, get more sources and successors, and opinions change their confidence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime

from vmemo.errors import InvalidInput, VmemoError
from vmemo.models import BankId, Claim, ConfidenceChange, Fact, FactId, MessageId
from vmemo.models.changes import AddedSource, Changes, FactClosure
from vmemo.models.search import Scope
from vmemo.models.select import FactSelect
from vmemo.ports import Store
from vmemo_conformance.samples import (
    BANK,
    EMBEDDER,
    OTHER,
    a_bank,
    a_batch,
    a_fact,
    an_entity,
    an_episode,
    day,
    load,
    matches,
    mention_of,
    named_entities,
    near,
    snapshot,
    store_fact,
    store_messages,
)
from vmemo_conformance.suite import StoreSuite, on_store, on_two_stores, refused

MISSING = FactId("missing")
FAR = datetime(9000, 1, 1, tzinfo=UTC)


class RevisionConformance(StoreSuite):
    """Changes of stored facts and of opinions' confidence."""

    @on_store
    async def test_a_closed_fact_is_no_longer_current_and_time_travel_sees_it(self, store: Store) -> None:
        rome = await store_fact(store, "tulips rome", valid_at=day(2), recorded_at=day(3))
        assert await _seen(store) == {"rome"}
        oslo = a_fact("tulips oslo", valid_at=day(10), recorded_at=day(12), supersedes=rome.id)
        ends = FactClosure(fact=rome.id, invalid_at=day(10), expired_at=day(12))
        assert await store.commit(replace(await a_batch(store, [oslo]), closures=[ends]))
        assert await store.facts(BANK, FactSelect(ids=[rome.id])) == [
            rome.model_copy(update={"invalid_at": day(10), "expired_at": day(12)})
        ]
        assert (await load(store, BANK, [rome.id]))[0][0].expired_at == day(12)
        table = (
            (Scope(bank=BANK), {"oslo"}),
            (Scope(bank=BANK, include_expired=True), {"rome", "oslo"}),
            (Scope(bank=BANK, at_time=day(5)), {"rome"}),
            (Scope(bank=BANK, at_time=day(11)), {"oslo"}),
            (Scope(bank=BANK, known_at=day(5)), {"rome"}),
            (Scope(bank=BANK, at_time=day(11), known_at=day(5)), {"rome"}),
            (Scope(bank=BANK, known_at=day(13)), {"oslo"}),
        )
        for scope, expected in table:
            assert await _seen(store, scope) == expected, scope
        assert (await store.status(BANK)).closed_facts == 1

    @on_store
    async def test_claims_are_kept_and_replaced(self, store: Store) -> None:
        newer = await store_fact(store, "lilies rome")
        maybe = Claim(text="tulips", start=0, end=6, valid_at=day(1), outdated=0.5, replaced_by=newer.id)
        ended = maybe.model_copy(update={"text": "rome", "start": 7, "end": 11, "invalid_at": day(3), "outdated": 1.0})
        fact = await store_fact(store, "tulips rome", claims=(maybe, ended))
        for claims in ((maybe, ended), (ended,), ()):
            assert await store.commit(replace(await a_batch(store), claims={fact.id: claims}))
            [found] = await store.facts(BANK, FactSelect(ids=[fact.id]))
            assert found == fact.model_copy(update={"claims": claims})
            assert (await load(store, BANK, [fact.id]))[0] == [found]

    @on_store
    async def test_a_closure_without_an_end_keeps_the_stored_end(self, store: Store) -> None:
        fact = await store_fact(store, "tulips", invalid_at=day(9))
        await _close(store, FactClosure(fact=fact.id, expired_at=day(5)))
        await _close(store, FactClosure(fact=fact.id))
        [found] = await store.facts(BANK, FactSelect())
        assert (found.invalid_at, found.expired_at) == (day(9), day(5))
        await _close(store, FactClosure(fact=fact.id, invalid_at=day(3)))
        [found] = await store.facts(BANK, FactSelect())
        assert (found.invalid_at, found.expired_at) == (day(3), day(5))

    @on_store
    async def test_a_fact_closed_for_the_future_is_current_until_then(self, store: Store) -> None:
        fact = await store_fact(store, "tulips lease")
        await _close(store, FactClosure(fact=fact.id, invalid_at=FAR))
        assert await _seen(store) == {"lease"}
        assert await _seen(store, Scope(bank=BANK, at_time=FAR)) == set()

    @on_store
    async def test_a_batch_can_close_and_add_sources_to_its_own_facts(self, store: Store) -> None:
        [said] = await store_messages(store, "tulips")
        old, new = a_fact("tulips old"), a_fact("tulips new")
        batch = replace(
            await a_batch(store, [old, new]),
            pending=[said.id],
            closures=[FactClosure(fact=old.id, expired_at=day(2))],
            sources=[AddedSource(fact=new.id, messages=(said.id,))],
            successors={new.id: old.id},
        )
        assert await store.commit(batch)
        assert await _seen(store) == {"new"}
        assert (await store.facts(BANK, FactSelect(ids=[new.id])))[0].messages == (said.id,)
        assert [fact.id for fact in await store.facts(BANK, FactSelect(supersedes=[old.id]))] == [new.id]

    @on_two_stores
    async def test_a_closed_fact_is_visible_to_another_store(self, one: Store, other: Store) -> None:
        facts = [await store_fact(one, f"tulips {n}") for n in range(3)]
        assert await _seen(other) == {"0", "1", "2"}
        await _close(one, FactClosure(fact=facts[1].id, expired_at=day(2)))
        assert await _seen(other) == {"0", "2"}
        await store_fact(other, "tulips 3")
        await _close(other, FactClosure(fact=facts[0].id, invalid_at=day(2)))
        assert await _seen(one) == {"2", "3"}

    @on_store
    async def test_revising_a_missing_fact_writes_nothing(self, store: Store) -> None:
        await store.create_bank(a_bank(OTHER))
        theirs = await store_fact(store, "tulips theirs", bank=OTHER)
        mine = await store_fact(store, "tulips mine")
        before, revision = await snapshot(store), await store.revision(BANK)
        begun = await a_batch(store, [a_fact("tulips new")])
        for id in (MISSING, theirs.id):
            for batch in (
                replace(
                    begun,
                    closures=[FactClosure(fact=mine.id, expired_at=day(2)), FactClosure(fact=id, expired_at=day(2))],
                ),
                replace(begun, sources=[AddedSource(fact=id)]),
                replace(begun, sources=[AddedSource(fact=mine.id, messages=(MessageId(id),))]),
                replace(begun, successors={id: mine.id}),
                replace(begun, successors={mine.id: id}),
                replace(begun, confidence=[_a_move(id)]),
            ):
                assert id in str(await _refusal(store, batch))
                assert await snapshot(store) == before
                assert await store.revision(BANK) == revision
        assert [fact.expired_at for fact in await store.facts(OTHER, FactSelect())] == [None]

    @on_store
    async def test_a_fact_does_not_replace_itself(self, store: Store) -> None:
        fact = await store_fact(store, "tulips")
        with refused(InvalidInput):
            await store.commit(replace(await a_batch(store), successors={fact.id: fact.id}))

    @on_store
    async def test_a_fact_gets_further_sources_once(self, store: Store) -> None:
        said, again, third = await store_messages(store, "tulips one", "tulips two", "tulips three")
        first, second = an_episode("first", [said]), an_episode("second", [again, third])
        fact = a_fact("tulips", messages=[said.id], episodes=[first.id])
        begun = replace(await a_batch(store, [fact]), pending=[m.id for m in (said, again, third)])
        assert await store.commit(replace(begun, episodes=[first, second]))
        more = AddedSource(fact=fact.id, messages=(said.id, again.id, again.id), episodes=(first.id, second.id))
        for sourced in ([more], [more, AddedSource(fact=fact.id, messages=(third.id,))]):
            assert await store.commit(replace(await a_batch(store), sources=sourced))
        [found] = await store.facts(BANK, FactSelect())
        assert found.messages == (said.id, again.id, third.id)
        assert found.episodes == (first.id, second.id)
        assert [held.id for held in await store.facts(BANK, FactSelect(episode=second.id, with_embeddings=True))] == [
            fact.id
        ]
        assert (await load(store, BANK, [fact.id]))[0] == [found]

    @on_store
    async def test_a_stored_fact_becomes_a_successor_once(self, store: Store) -> None:
        first, second, third = [await store_fact(store, f"tulips {n}") for n in range(3)]
        assert await store.commit(replace(await a_batch(store), successors={second.id: first.id, third.id: second.id}))
        assert await store.commit(replace(await a_batch(store), successors={third.id: first.id}))
        found = {fact.id: fact.supersedes for fact in await store.facts(BANK, FactSelect())}
        assert found == {first.id: None, second.id: first.id, third.id: second.id}

    @on_store
    async def test_confidence_changes_are_ordered_and_set_the_confidence(self, store: Store) -> None:
        basis_fact = await store_fact(store, "tulips bloom")
        view = await _an_opinion(store, "I like tulips.")
        other = await _an_opinion(store, "I like roses.")
        up = _a_move(view.id, before=0.5, after=0.6, evidence=(basis_fact.id,), at=day(2))
        down = _a_move(view.id, stance="contradict", before=0.6, after=0.4, reason="They wilted.", at=day(3))
        aside = _a_move(other.id, stance="neutral", before=0.5, after=0.5, at=day(1))
        assert await store.commit(replace(await a_batch(store), confidence=[up, aside]))
        assert await store.commit(replace(await a_batch(store), confidence=[down]))
        assert await store.confidence_changes(BANK) == [aside, up, down]
        assert await store.confidence_changes(BANK, view.id) == [up, down]
        assert await store.confidence_changes(BANK, MISSING) == []
        assert [fact.confidence for fact in await store.facts(BANK, FactSelect(ids=[view.id, other.id]))] == [0.4, 0.5]

    @on_store
    async def test_a_batch_can_change_the_confidence_of_its_own_opinion(self, store: Store) -> None:
        basis_fact, view = a_fact("tulips bloom"), a_fact("I like tulips.", network="opinion", confidence=0.5)
        step = _a_move(view.id, before=0.5, after=0.7, evidence=(basis_fact.id,))
        assert await store.commit(replace(await a_batch(store, [basis_fact, view]), confidence=[step]))
        assert [fact.confidence for fact in await store.facts(BANK, FactSelect.believed("opinion"))] == [0.7]

    @on_store
    async def test_only_opinions_have_confidence_changes(self, store: Store) -> None:
        fact = await store_fact(store, "tulips")
        before = await snapshot(store)
        assert fact.id in str(await _refusal(store, replace(await a_batch(store), confidence=[_a_move(fact.id)])))
        assert await snapshot(store) == before

    @on_store
    async def test_believed_opinions_are_returned_in_order_with_vectors(self, store: Store) -> None:
        views = [await _an_opinion(store, f"I like {name}.") for name in ("tulips", "roses", "daisies", "lilies")]
        await store_fact(store, "A gardener.", network="observation")
        await _close(store, FactClosure(fact=views[1].id, expired_at=day(2)))
        await _close(store, FactClosure(fact=views[2].id, invalid_at=day(2)))
        await _close(store, FactClosure(fact=views[3].id, invalid_at=FAR))
        found = await store.facts(BANK, FactSelect.believed("opinion"))
        assert [fact.id for fact in found] == [views[0].id, views[3].id]
        assert all(fact.embedding is not None and len(fact.embedding) == EMBEDDER.dimension for fact in found)
        assert [fact.text for fact in await store.facts(BANK, FactSelect.believed("observation"))] == ["A gardener."]

    @on_store
    async def test_facts_about_an_entity_are_current_newest_first_without_opinions(self, store: Store) -> None:
        oslo = an_entity("Oslo")
        networks = ("world", "experience", "world", "observation", "world", "opinion")
        facts = [
            a_fact(
                f"Oslo {n}",
                network=network,
                mentioned_at=day((3, 5, 3, 8, 9, 9)[n]),
                confidence=0.5 if network == "opinion" else None,
                entities=[mention_of(oslo)],
            )
            for n, network in enumerate(networks)
        ]
        batch = replace(await a_batch(store, [*facts, a_fact("Bern", mentioned_at=day(20))]), entities=[oslo])
        assert await store.commit(replace(batch, closures=[FactClosure(fact=facts[4].id, expired_at=day(2))]))
        expected = [facts[1], facts[2], facts[0]]
        assert await store.facts(BANK, FactSelect.about(oslo.id, limit=100)) == expected
        assert await store.facts(BANK, FactSelect.about(oslo.id, limit=2)) == expected[:2]
        assert await store.facts(BANK, FactSelect.about(an_entity("Nobody").id, limit=100)) == []

    @on_store
    async def test_the_entity_name_used_by_a_fact_is_stored(self, store: Store) -> None:
        robert, anna = an_entity("Robert", aliases=["Bob"]), an_entity("Anna")
        facts = [
            a_fact("Bob came.", entities=[mention_of(anna), mention_of(robert, "Bob")]),
            a_fact("Robert came.", entities=[mention_of(robert)]),
            a_fact("Bob left.", entities=[mention_of(robert, "Bob")]),
            a_fact("Bobby left.", entities=[mention_of(robert, "Bobby")]),
        ]
        assert await store.commit(replace(await a_batch(store, facts), entities=[anna, robert]))
        ids = [fact.id for fact in facts]
        said = [{mention.name_in_text for mention in fact.entities if mention.id == robert.id} for fact in facts]
        for found in (await store.facts(BANK, FactSelect(ids=ids)), (await load(store, BANK, ids))[0]):
            assert [{m.name_in_text for m in fact.entities if m.id == robert.id} for fact in found] == said
            assert found == facts
        assert await named_entities(store, BANK, "Bob") == [mention_of(robert)]


def _a_move(opinion: FactId, **fields: object) -> ConfidenceChange:
    return ConfidenceChange.of(
        {"opinion": opinion, "stance": "reinforce", "before": 0.5, "after": 0.6, "at": day(1), **fields}
    )


async def _an_opinion(store: Store, text: str) -> Fact:
    return await store_fact(store, text, network="opinion", confidence=0.5, messages=[])


async def _close(store: Store, *closings: FactClosure) -> None:
    assert await store.commit(replace(await a_batch(store), closures=closings))


async def _refusal(store: Store, batch: Changes) -> VmemoError:
    try:
        await store.commit(batch)
    except InvalidInput as error:
        return error
    raise AssertionError("the batch was not refused")


async def _seen(store: Store, scope: Scope | None = None) -> set[str]:
    """Return the last words of the facts in a scope, which must be the same by keywords and by vector."""
    shown = scope or Scope(bank=BankId(BANK))
    worded: Sequence[FactId] = await matches(store, "tulips", shown)
    assert set(worded) == set(await near(store, EMBEDDER.vector("tulips"), shown)), shown
    return {fact.text.split()[-1] for fact in await store.facts(BANK, FactSelect(ids=worded))}
