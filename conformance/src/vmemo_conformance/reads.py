"""Reads of facts, episodes, entities and links."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from vmemo.models import EntityId, EpisodeId, FactId, Link, Message, MessageId
from vmemo.models.changes import Changes
from vmemo.models.records import ShortId
from vmemo.models.select import EntitySelect, EpisodeSelect, FactSelect, MessageSelect, first_of
from vmemo.ports import BankReader, Store
from vmemo_conformance.samples import (
    BANK,
    MISSING_NUMBER,
    a_batch,
    a_fact,
    an_entity,
    an_episode,
    day,
    load,
    mention_of,
    store_entities,
    store_fact,
    store_messages,
    store_story,
)
from vmemo_conformance.suite import StoreSuite, on_store

MISSING = FactId("missing")
FAR = datetime(9000, 1, 1, tzinfo=UTC)


class ReadConformance(StoreSuite):
    """The typed reads, access counts and the status."""

    @on_store
    async def test_facts_by_id_keep_the_requested_order(self, store: Store) -> None:
        one, two, three = [await store_fact(store, text) for text in ("one", "two", "three")]
        found = await store.facts(BANK, FactSelect(ids=[three.id, MISSING, one.id, two.id]))
        assert found == [three, one, two]
        assert await store.facts(BANK, FactSelect(ids=[])) == []

    @on_store
    async def test_facts_are_paged_newest_mention_first(self, store: Store) -> None:
        facts = [await store_fact(store, str(n), mentioned_at=day(n % 3)) for n in range(7)]
        ordered = await store.facts(BANK, FactSelect(newest_first=True))
        assert [fact.mentioned_at for fact in ordered] == sorted((f.mentioned_at for f in facts), reverse=True)
        first = await store.facts(BANK, FactSelect(newest_first=True, limit=3))
        rest = await store.facts(BANK, FactSelect(newest_first=True, after=first[-1].id))
        assert [*first, *rest] == ordered
        early = await store.facts(BANK, FactSelect(mentioned_before=day(1)))
        assert {fact.mentioned_at for fact in early} == {day(0)}

    @on_store
    async def test_closed_facts_are_selected(self, store: Store) -> None:
        current = await store_fact(store, "current")
        over = await store_fact(store, "over", invalid_at=day(0))
        disbelieved = await store_fact(store, "disbelieved", expired_at=day(0))
        assert await store.facts(BANK, FactSelect(closed=True)) == [over, disbelieved]
        assert await store.facts(BANK, FactSelect(current=True)) == [current]

    @on_store
    async def test_entities_are_found_by_part_of_a_name_and_ordered_by_mentions(self, store: Store) -> None:
        ana, ben, cleo = an_entity("Ana Silva"), an_entity("Ben", aliases=("B_50%",)), an_entity("Cleo")
        await store_entities(store, ana, ben, cleo)
        for text, *about in (("one", ben, cleo), ("two", ben), ("three", cleo), ("four", cleo)):
            await store_fact(store, text, entities=tuple(mention_of(entity) for entity in about))

        async def names(**wanted: object) -> list[str]:
            found = await store.entities(BANK, EntitySelect(**wanted))  # pyright: ignore[reportArgumentType]
            return [entity.name for entity in found]

        assert await names(most_mentioned=True) == ["Cleo", "Ben", "Ana Silva"]
        assert await names(most_mentioned=True, offset=1, limit=1) == ["Ben"]
        assert await names(containing="SILV") == ["Ana Silva"]
        assert await names(containing="_50%") == ["Ben"]

    @on_store
    async def test_facts_and_messages_are_found_by_parts_of_their_text(self, store: Store) -> None:
        texts = ("Ana likes Ölçay's tea", "Ben paid 50% for a_b", "Ana paid 500 for a/b\\c", "ANA: ÖLÇAY called")
        messages = await store_messages(store, *texts)
        for number, text in enumerate(texts):
            await store_fact(store, text, mentioned_at=day(number))

        for parts, expected in (
            (["ana"], [0, 2, 3]),
            (["PAID", "ana"], [2]),
            (["ölçay"], [0, 3]),
            (["50%"], [1]),
            (["a_b"], [1]),
            (["b\\c"], [2]),
            (["tea", "50%"], []),
        ):
            found = await store.facts(BANK, FactSelect(containing=parts, newest_first=True))
            assert [fact.text for fact in found] == [texts[number] for number in reversed(expected)], parts
            archived = await store.messages(BANK, MessageSelect(containing=parts, last_first=True))
            stated = [message.content for message in archived if message.id in {each.id for each in messages}]
            assert stated == [texts[number] for number in reversed(expected)], parts
        page = MessageSelect(containing=["ana"], last_first=True, after=messages[3].id, limit=1)
        assert [message.content for message in await store.messages(BANK, page)] == [texts[2]]

    @on_store
    async def test_daily_counts_add_up(self, store: Store) -> None:
        assert await store.daily_counts(BANK) == []
        await store_messages(store, "one", "two", timestamp=day(4))
        # Their messages are of the first day.
        for number, mentioned in enumerate((1, 1, 4)):
            await store_fact(store, f"fact {number}", mentioned_at=day(mentioned))
        counted = [(each.day.day, each.messages, each.facts) for each in await store.daily_counts(BANK)]
        assert counted == [(1, 3, 2), (4, 2, 1)]

    @on_store
    async def test_records_are_found_by_their_short_ids(self, store: Store) -> None:
        ids = [
            "0f9a3c52-7d1e-5b6f-9c3d-000000000001",
            "0f9a3c52-7d1e-4b6f-9c3d-000000000002",
            "0f9a3c52-7d1e-7b6f-9c3d-00000075e81f",
            "0f9a3c53-7d1e-5b6f-9c3d-000000000001",
            "0f9a3c52",
        ]
        first, second, timed, next_one, _ = [await store_fact(store, id, id=FactId(id)) for id in ids]
        for short, expected in [
            (ShortId("0f9a3c52"), [first, second]),
            (ShortId("0f9a3c53"), [next_one]),
            (ShortId("0f9a3c52", "75e81f"), [timed]),
            (ShortId("0f9a3c52", "000001"), []),
            (ShortId("0f9a3c51"), []),
        ]:
            assert await store.facts(BANK, FactSelect(short_id=short)) == expected
        assert await store.facts(BANK, FactSelect(short_id=ShortId("0f9a3c52"), limit=1)) == [first]
        messages = [Message(content=id, id=MessageId(id)) for id in ids]
        await store.append(BANK, messages)
        found = await store.messages(BANK, MessageSelect(short_id=ShortId("0f9a3c52", "75e81f")))
        assert [message.id for message in found] == [ids[2]]

    @on_store
    async def test_pages_of_facts_are_complete_and_in_insertion_order(self, store: Store) -> None:
        facts = [await store_fact(store, f"fact {n}", mentioned_at=day(9 - n)) for n in range(5)]
        pages = [await store.facts(BANK, FactSelect(limit=2))]
        facts.append(await store_fact(store, "written while paging"))
        while page := await store.facts(BANK, FactSelect(after=pages[-1][-1].id, limit=2)):
            pages.append(page)
            assert len(pages) < 9, "paging must end"
        assert [fact for page in pages for fact in page] == facts
        assert [len(page) for page in pages] == [2, 2, 2]

    @on_store
    async def test_pages_of_episodes_are_complete(self, store: Store) -> None:
        episodes = [an_episode(f"title {n}", [], started_at=day(9 - n), ended_at=day(10 - n)) for n in range(5)]
        assert await store.commit(replace(await a_batch(store), episodes=episodes))
        found = await store.episodes(BANK, EpisodeSelect(limit=2))
        while page := await store.episodes(BANK, EpisodeSelect(after=found[-1].id, limit=2)):
            found += page
            assert len(found) < 99, "paging must end"
        assert found == episodes

    @on_store
    async def test_pages_of_entities_are_complete(self, store: Store) -> None:
        entities = [an_entity(name) for name in ("Zoe", "Ann", "Mia", "Bob", "Eve")]
        assert await store.commit(replace(await a_batch(store), entities=entities))
        found = await store.entities(BANK, EntitySelect(limit=2))
        while page := await store.entities(BANK, EntitySelect(after=found[-1].id, limit=2)):
            found += page
            assert len(found) < 99, "paging must end"
        assert found == entities

    @on_store
    async def test_messages_of_an_episode_are_in_time_order(self, store: Store) -> None:
        [second] = await store_messages(store, "late", timestamp=day(2))
        [first] = await store_messages(store, "early", timestamp=day(1))
        episode = an_episode("order", [second, first], previous=EpisodeId("earlier"))
        assert await store.commit(replace(await a_batch(store), pending=[first.id, second.id], episodes=[episode]))
        [found] = await store.episodes(BANK, EpisodeSelect(ids=[EpisodeId("missing"), episode.id]))
        assert found == episode.model_copy(update={"messages": (first.id, second.id)})

    @on_store
    async def test_loaded_facts_come_with_the_titles_of_their_episodes(self, store: Store) -> None:
        story = await store_story(store)
        moving, garden = story.episodes
        wanted = [fact.id for fact in reversed(story.facts)]
        loaded = await load(store, BANK, [*wanted, FactId("missing")])
        assert loaded == (await store.facts(BANK, FactSelect(ids=wanted)), {moving.id: "moving", garden.id: "garden"})
        assert await load(store, BANK, []) == ([], {})

    @on_store
    async def test_a_fact_that_was_loaded_before_is_loaded_as_it_is_now(self, store: Store) -> None:
        ann = an_entity("Ann")
        await store_entities(store, ann)
        fact = await store_fact(store, "Ann plays chess.", entities=(mention_of(ann),), metadata={"turn": 1})
        for _ in range(2):
            [found], _ = await load(store, BANK, [fact.id])
            assert found == fact
            found.metadata["turn"] = 2  # pyright: ignore[reportIndexIssue]
        renamed = ann.model_copy(update={"name": "Anna"})
        assert await store.commit(replace(await a_batch(store), entities=[renamed]))
        [found], _ = await load(store, BANK, [fact.id])
        assert [mention.name for mention in found.entities] == ["Anna"]

    @on_store
    async def test_an_error_of_a_function_that_reads_passes_through(self, store: Store) -> None:
        def fail(reader: BankReader) -> None:
            assert reader.load([MISSING_NUMBER]).facts == {}
            raise ValueError("not an error of the store")

        with pytest.raises(ValueError, match="not an error of the store"):
            await store.read(BANK, fail)

    @on_store
    async def test_the_last_episode_is_the_one_that_ended_last(self, store: Store) -> None:
        assert first_of(await store.episodes(BANK, EpisodeSelect(last_first=True, limit=1))) is None
        late = an_episode("late", [], started_at=day(1), ended_at=day(9))
        early = an_episode("early", [], started_at=day(2), ended_at=day(3))
        same = an_episode("stored later", [], started_at=day(1), ended_at=day(3))
        assert await store.commit(replace(await a_batch(store), episodes=[late, early, same]))
        assert first_of(await store.episodes(BANK, EpisodeSelect(last_first=True, limit=1))) == late
        for after, following in ((late, [same, early]), (same, [early]), (early, [])):
            assert await store.episodes(BANK, EpisodeSelect(last_first=True, after=after.id)) == following

    @on_store
    async def test_the_episode_of_a_message_is_found(self, store: Store) -> None:
        story = await store_story(store)
        [loose] = await store_messages(store, "in no episode")
        assert [first_of(await store.episodes(BANK, EpisodeSelect(messages=[m.id]))) for m in story.messages] == [
            story.episodes[0],
            story.episodes[0],
            story.episodes[1],
            story.episodes[1],
        ]
        assert first_of(await store.episodes(BANK, EpisodeSelect(messages=[loose.id]))) is None
        assert first_of(await store.episodes(BANK, EpisodeSelect(messages=[MessageId("missing")]))) is None

    @on_store
    async def test_the_facts_of_an_episode_come_with_their_embeddings(self, store: Store) -> None:
        story = await store_story(store)
        found = await store.facts(BANK, FactSelect(episode=story.episodes[1].id, with_embeddings=True))
        assert found == await store.facts(BANK, FactSelect(ids=[f.id for f in story.facts[2:4]], with_embeddings=True))
        assert all(fact.embedding for fact in found)
        assert await store.facts(BANK, FactSelect(episode=EpisodeId("missing"), with_embeddings=True)) == []

    @on_store
    async def test_entities_count_the_facts_that_mention_them(self, store: Store) -> None:
        await store_story(store)
        caroline, oslo = await store.entities(BANK, EntitySelect())
        assert (caroline.mentions, oslo.mentions) == (3, 1)
        assert await store.entities(BANK, EntitySelect(ids=[oslo.id, EntityId("missing")])) == [oslo]

    @on_store
    async def test_links_are_those_from_the_given_facts(self, store: Store) -> None:
        story = await store_story(store)
        temporal, causes = story.links
        assert _sorted(await store.links(BANK)) == _sorted(story.links)
        assert await store.links(BANK, [temporal.source, MISSING]) == [temporal]
        assert await store.links(BANK, [causes.target]) == []
        assert await store.links(BANK, []) == []

    @on_store
    async def test_two_facts_can_have_one_link_of_each_kind(self, store: Store) -> None:
        one, two = await store_fact(store, "one"), await store_fact(store, "two")
        kinds = ("temporal", "semantic", "causes", "caused_by", "enables", "prevents")
        links = [Link(source=two.id, target=one.id, kind=kind, weight=0.25) for kind in kinds]
        assert await store.commit(replace(await a_batch(store), links=links))
        assert _sorted(await store.links(BANK, [two.id])) == _sorted(links)

    @on_store
    async def test_successors_are_the_facts_that_supersede_it(self, store: Store) -> None:
        old = await store_fact(store, "lives in Rome", invalid_at=day(5), expired_at=day(5))
        new = await store_fact(store, "lives in Oslo", supersedes=old.id)
        assert await store.facts(BANK, FactSelect(supersedes=[old.id])) == [new]
        assert await store.facts(BANK, FactSelect(supersedes=[new.id])) == []
        assert await store.facts(BANK, FactSelect(supersedes=[MISSING])) == []

    @on_store
    async def test_facts_are_selected_by_what_they_refer_to(self, store: Store) -> None:
        story = await store_story(store)
        first, second, *_ = story.messages
        quoting = await store_fact(store, "She nodded.", context=first.content, context_from=first.id)
        resting = await store_fact(store, "A view.", network="opinion", confidence=0.5, basis=[quoting.id], messages=[])
        everything = await store.facts(BANK, FactSelect())
        both = [first.id, second.id]
        stated = [fact for fact in everything if {*fact.messages} & {*both}]
        assert stated
        assert await store.facts(BANK, FactSelect(messages=both)) == stated
        assert await store.facts(BANK, FactSelect(context=both)) == [
            fact for fact in everything if fact.context_from in both
        ]
        assert await store.facts(BANK, FactSelect(basis=[quoting.id, stated[0].id])) == [
            fact for fact in everything if {*fact.basis} & {quoting.id, stated[0].id}
        ]
        assert resting in await store.facts(BANK, FactSelect(basis=[quoting.id]))
        known = [entity.id for entity in story.entities]
        assert await store.facts(BANK, FactSelect(entities=known)) == [fact for fact in everything if fact.entities]
        for empty in (FactSelect(messages=[]), FactSelect(entities=[EntityId("missing")]), FactSelect(basis=[MISSING])):
            assert await store.facts(BANK, empty) == []

    @on_store
    async def test_entities_are_selected_by_name_and_by_their_not_aliases(self, store: Store) -> None:
        zoe = an_entity("Zoë Kowalski", aliases=["Zo"], not_aliases=["Anna"])
        await store_entities(store, zoe, an_entity("Bo"))
        for name in ("zoe kowalski", "ZO"):
            assert [found.id for found in await store.entities(BANK, EntitySelect(names=[name]))] == [zoe.id]
        assert await store.entities(BANK, EntitySelect(names=["Anna"])) == []
        assert [found.id for found in await store.entities(BANK, EntitySelect(with_not_aliases=True))] == [zoe.id]

    @on_store
    async def test_mentions_by_another_name_are_selected(self, store: Store) -> None:
        ann = an_entity("Anna")
        await store_entities(store, ann)
        await store_fact(store, "Anna came.", entities=[mention_of(ann)])
        other = await store_fact(store, "Ann left.", entities=[mention_of(ann, "Ann")])
        assert len(await store.mentions(BANK, [ann.id])) == 2
        assert [(m.fact, m.name_in_text) for m in await store.mentions(BANK, [ann.id], named=True)] == [
            (other.id, "Ann")
        ]

    @on_store
    async def test_recent_facts_are_current_and_nearest_in_time(self, store: Store) -> None:
        facts = {n: await store_fact(store, f"day {n}", mentioned_at=day(n)) for n in (1, 4, 6, 20)}
        await store_fact(store, "no longer believed", mentioned_at=day(5), expired_at=day(6))
        await store_fact(store, "no longer true", mentioned_at=day(5), invalid_at=day(6))
        ends = await store_fact(store, "true for long", mentioned_at=day(8), invalid_at=FAR)
        found = await store.facts(BANK, FactSelect(around=day(4), current=True, limit=4))
        assert found == [facts[4], facts[6], facts[1], ends]
        assert len(await store.facts(BANK, FactSelect(around=day(4), current=True, limit=99))) == 5
        assert await store.facts(BANK, FactSelect(around=day(4), current=True, limit=1)) == [facts[4]]

    @on_store
    async def test_entities_of_one_fact_co_occur(self, store: Store) -> None:
        ann, bob, eve, zoe = (an_entity(name) for name in ("Ann", "Bob", "Eve", "Zoe"))
        together = a_fact("Ann and Bob", entities=[mention_of(ann), mention_of(bob)])
        also = a_fact("Ann and Eve", entities=[mention_of(ann), mention_of(eve)])
        begun = await a_batch(store, [together, also])
        assert await store.commit(replace(begun, entities=[ann, bob, eve, zoe]))
        found = await store.cooccurring(BANK, [ann.id, bob.id, zoe.id])
        assert found == {ann.id: {bob.id, eve.id}, bob.id: {ann.id}, zoe.id: set()}

    @on_store
    async def test_access_counts_are_added(self, store: Store) -> None:
        one, two = await store_fact(store, "one", access_count=5), await store_fact(store, "two")
        await store.commit(Changes(bank=BANK, accesses={one.id: 2, MISSING: 1}))
        await store.commit(Changes(bank=BANK, accesses={one.id: 1}))
        assert [f.access_count for f in await store.facts(BANK, FactSelect(ids=[one.id, two.id]))] == [8, 0]

    @on_store
    async def test_the_status_counts_what_the_bank_holds(self, store: Store) -> None:
        await store_story(store)
        await store_messages(store, "pending")
        await store_fact(store, "closed", expired_at=day(3))
        status = await store.status(BANK)
        assert (status.messages, status.pending, status.episodes) == (6, 1, 2)
        assert (status.facts, status.closed_facts, status.entities, status.links) == (6, 1, 2, 2)
        assert (status.bank, status.embedder, status.dimension) == (BANK, "hash", 64)
        assert (status.problems, status.scrub_pending) == ((), False)


def _sorted(links: list[Link]) -> list[Link]:
    return sorted(links, key=lambda link: (link.source, link.target, link.kind))
