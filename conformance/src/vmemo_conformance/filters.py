"""Filters of a scope: networks, tags, entities, metadata, occurrence. Each holds for every way of searching facts."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from pydantic import JsonValue

from vmemo.models import Interval, MessageId, Network
from vmemo.models.records import TagsMatch
from vmemo.models.search import Scope, SearchRequest
from vmemo.models.select import FactSelect, MessageSelect
from vmemo.ports import Store
from vmemo_conformance.samples import (
    BANK,
    EMBEDDER,
    EVERYTHING,
    a_batch,
    a_fact,
    an_entity,
    day,
    matches,
    mention_of,
    near,
    quotes,
    search,
    store_fact,
    store_messages,
    with_vector,
)
from vmemo_conformance.suite import StoreSuite, on_store

MOMENT = timedelta(microseconds=1)
VALUES: dict[str, JsonValue] = {
    "one": 1,
    "text": "1",
    "true": True,
    "false": False,
    "zero": 0,
    "null": None,
    "half": 0.5,
    "object": {"a": 1, "b": [1, "x", None]},
    "list": ["x", {"y": 2}],
    "quote": 'it\'s "1"',
    "snow": "Ünïcode ❄️",
}


class FilterConformance(StoreSuite):
    """The filters of `Scope`."""

    @on_store
    async def test_standing_instructions_come_newest_first_within_tags_metadata_and_time(self, store: Store) -> None:
        await store_fact(store, "plain", mentioned_at=day(9))
        await store_fact(store, "ana", instruction=True, tags=["ana"], metadata={"team": 1}, mentioned_at=day(1))
        await store_fact(store, "ben", instruction=True, tags=["ben"], mentioned_at=day(3))
        await store_fact(store, "old", instruction=True, valid_at=day(1), invalid_at=day(4), mentioned_at=day(2))
        everyone = Scope(bank=BANK)
        assert await _instructions(store, everyone) == ["ben", "ana"]
        assert await _instructions(store, everyone, limit=1) == ["ben"]
        topical = everyone.replace(entities=("Oslo",), networks=("opinion",))
        assert await _instructions(store, topical) == ["ben", "ana"]
        assert await _instructions(store, everyone.replace(tags=("ana",))) == ["ana"]
        assert await _instructions(store, everyone.replace(metadata={"team": 1})) == ["ana"]
        assert await _instructions(store, everyone.replace(at_time=day(3))) == ["ben", "old", "ana"]
        listed = await store.facts(BANK, FactSelect(instructions=True, current=True, newest_first=True))
        assert [fact.text for fact in listed] == ["ben", "ana"]
        assert all(fact.instruction for fact in listed)

    @on_store
    async def test_a_network_filter_returns_only_its_facts(self, store: Store) -> None:
        names: tuple[Network, ...] = ("world", "experience", "opinion", "observation")
        for name in names:
            await store_fact(store, f"tulips {name}", network=name)
        for wanted in (names[:0], names[:1], names[2:], names):
            expected = {f"tulips {name}" for name in wanted or names}
            assert await _texts(store, Scope(bank=BANK, networks=tuple(wanted))) == expected

    @on_store
    async def test_a_fact_must_have_every_tag(self, store: Store) -> None:
        for tags in ((), ("a",), ("b",), ("a", "b"), ('quo"te', "ü%_")):
            await store_fact(store, "tulips " + "".join(tags), tags=tags)
        assert await _texts(store, _tagged("a")) == {"tulips a", "tulips ab"}
        assert await _texts(store, _tagged("a", "b")) == {"tulips ab"}
        assert await _texts(store, _tagged('quo"te')) == await _texts(store, _tagged("ü%_")) == {'tulips quo"teü%_'}
        assert await _texts(store, _tagged("A")) == await _texts(store, _tagged("%")) == set()

    @on_store
    async def test_the_tag_rule_decides_which_tags_a_fact_must_have(self, store: Store) -> None:
        for tags in ((), ("a",), ("a", "b"), ("a", "b", "c"), ("c",)):
            await store_fact(store, "tulips " + "".join(tags), tags=tags)
            await store_messages(store, "roses " + "".join(tags), tags=tags)
        await store_fact(store, "tulips believed", network="observation")
        table: tuple[tuple[TagsMatch, set[str]], ...] = (
            ("all", {"ab", "abc"}),
            ("any", {"a", "ab", "abc"}),
            ("exact", {"ab"}),
            ("all_or_none", {"", "ab", "abc"}),
            ("any_or_none", {"", "a", "ab", "abc"}),
        )
        for rule, expected in table:
            scope = _tagged("a", "b").replace(tags_match=rule)
            assert await _texts(store, scope) == {f"tulips {name}" for name in expected}, rule
            heard = await store.messages(
                BANK, MessageSelect(ids=[MessageId(id) for id in await quotes(store, "roses", scope)])
            )
            assert {message.content for message in heard} == {f"roses {name}" for name in expected}, rule
            assert "tulips believed" in await _texts(store, EVERYTHING.replace(tags_match=rule)), rule

    @on_store
    async def test_entities_are_named_by_id_name_or_alias(self, store: Store) -> None:
        bob = an_entity("Robert Smith", id="e1", aliases=["Bob", "Élodie's Bób"])
        zoe = an_entity("Zoë Ångström", id="e2")
        facts = [
            a_fact("tulips bob", entities=[mention_of(bob)]),
            a_fact("tulips zoe", entities=[mention_of(zoe)]),
            a_fact("tulips both", entities=[mention_of(bob), mention_of(zoe)]),
            a_fact("tulips nobody"),
        ]
        assert await store.commit(replace(await a_batch(store, facts), entities=[bob, zoe]))
        bobs, zoes = {"tulips bob", "tulips both"}, {"tulips zoe", "tulips both"}
        for name in ("e1", "Robert Smith", "robert smith", "BOB", "élodie's BÓB"):
            assert await _texts(store, _mentioning(name)) == bobs, name
        for name in ("e2", "ZOË ÅNGSTRÖM", "zoë ångström"):
            assert await _texts(store, _mentioning(name)) == zoes, name
        assert await _texts(store, _mentioning("bob", "e2")) == bobs | zoes
        for name in ("Robert", "", "E%", "nobody"):
            assert await _texts(store, _mentioning(name)) == set(), name

    @on_store
    async def test_facts_and_messages_are_found_by_their_speakers(self, store: Store) -> None:
        for speaker in ("Ana", "Ben", None):
            [said] = await store_messages(store, f"roses {speaker}", speaker=speaker)
            stated = a_fact(f"tulips {speaker}", messages=[said.id])
            assert await store.commit(await a_batch(store, [stated]))
        believed = a_fact("tulips believed", network="opinion", confidence=0.5)
        assert await store.commit(await a_batch(store, [believed]))
        for names in (("Ana",), ("Ben", "Ana"), ("ana",), ("An", "\x00")):
            scope = Scope(bank=BANK).replace(speakers=names)
            known = {name for name in names if name in ("Ana", "Ben")}
            assert await _texts(store, scope) == {f"tulips {name}" for name in known}, names
            heard = await store.messages(
                BANK, MessageSelect(ids=[MessageId(id) for id in await quotes(store, "roses", scope)])
            )
            assert {message.content for message in heard} == {f"roses {name}" for name in known}, names

    @on_store
    async def test_metadata_is_compared_with_its_type(self, store: Store) -> None:
        for name, value in VALUES.items():
            await store_fact(store, f"tulips {name}", metadata={"key": value, "name": name})
        await store_fact(store, "tulips none")
        for name, value in VALUES.items():
            assert await _texts(store, _with(key=value)) == {f"tulips {name}"}, name
        assert await _texts(store, _with(key=1, name="one")) == {"tulips one"}
        assert await _texts(store, _with(key=1, name="text")) == set()
        assert await _texts(store, _with(key=[])) == await _texts(store, _with(other=None)) == set()

    @on_store
    async def test_nested_metadata_is_compared_whole_whatever_the_order_of_its_keys(self, store: Store) -> None:
        await store_fact(store, "tulips", metadata={"key": {"b": [1, "x"], "a": 1}})
        assert await _texts(store, _with(key={"a": 1, "b": [1, "x"]})) == {"tulips"}
        others: tuple[JsonValue, ...] = ({"a": 1}, {"a": 1, "b": ["x", 1]}, {"a": "1", "b": [1, "x"]})
        for other in others:
            assert await _texts(store, _with(key=other)) == set(), other

    @on_store
    async def test_keys_of_metadata_are_taken_literally(self, store: Store) -> None:
        await store_fact(store, "tulips dot", metadata={"a.b": 1, '"': 2, "$": 3})
        await store_fact(store, "tulips deep", metadata={"a": {"b": 1}})
        assert await _texts(store, Scope(bank=BANK, metadata={"a.b": 1})) == {"tulips dot"}
        assert await _texts(store, Scope(bank=BANK, metadata={'"': 2, "$": 3})) == {"tulips dot"}

    @on_store
    async def test_occurrences_overlap_half_open_ranges(self, store: Store) -> None:
        await store_fact(store, "tulips", occurred_start=day(10), occurred_end=day(12), mentioned_at=day(20))
        table = (
            (day(10), day(12), True),
            (day(1), day(10), False),
            (day(1), day(10) + MOMENT, True),
            (day(12), day(13), False),
            (day(12) - MOMENT, day(13), True),
            (day(11), day(11) + MOMENT, True),
            (None, day(10), False),
            (None, day(11), True),
            (day(11), None, True),
            (day(12), None, False),
            (None, None, True),
            (day(19), day(21), False),
        )
        for start, end, found in table:
            assert bool(await _texts(store, _during(Interval(start=start, end=end)))) is found, (start, end)

    @on_store
    async def test_open_ends_of_an_occurrence_reach_to_the_time_of_mention(self, store: Store) -> None:
        spans = {"point": (None, None), "since": (day(10), None), "until": (None, day(10)), "instant": (day(4), day(4))}
        for name, (start, end) in spans.items():
            await store_fact(store, f"tulips {name}", occurred_start=start, occurred_end=end, mentioned_at=day(15))
        await store_fact(store, "tulips ahead", occurred_start=day(25), mentioned_at=day(15))
        table = (
            (day(15), day(16), {"point", "since"}),
            (day(12), day(13), {"since"}),
            (day(4), day(5), {"instant"}),
            (day(3), day(4), set[str]()),
            (day(25), day(26), {"ahead"}),
            (day(16), day(17), set[str]()),
        )
        for start, end, names in table:
            found = await _texts(store, _during(Interval(start=start, end=end)))
            assert found - {"tulips until"} == {f"tulips {name}" for name in names}, (start, end)
        assert "tulips until" in await _texts(store, _during(Interval(end=day(10))))

    @on_store
    async def test_filters_are_combined(self, store: Store) -> None:
        for tag in ("a", "b"):
            for number in (1, 2):
                await store_fact(store, f"tulips {tag}{number}", tags=[tag], metadata={"n": number})
        scope = Scope(bank=BANK, tags=("a",), metadata={"n": 2}, networks=("world",))
        assert await _texts(store, scope) == {"tulips a2"}

    @on_store
    async def test_the_best_facts_that_pass_the_filters_are_found(self, store: Store) -> None:
        """A limit counts what passes the filter, not what would have passed without it."""
        facts = [a_fact(f"tulips {n}", tags=["rare"] if n == 77 else []) for n in range(100)]
        items = [with_vector(fact, EMBEDDER.vector("tulips")) for fact in facts]
        assert await store.commit(await a_batch(store, items))
        assert await matches(store, "tulips", _tagged("rare"), limit=1) == [facts[77].id]
        assert await near(store, EMBEDDER.vector("tulips"), _tagged("rare"), limit=1) == [facts[77].id]

    @on_store
    async def test_messages_are_filtered_by_message_fields(self, store: Store) -> None:
        old, new = day(2), day(8)
        [first] = await store_messages(store, "tulips", timestamp=old, recorded_at=old, tags=["a"], metadata={"n": 1})
        [second] = await store_messages(
            store, "tulips", timestamp=new, recorded_at=new, tags=["a", "b"], metadata={"n": "1"}
        )
        table = (
            (EVERYTHING, {first.id, second.id}),
            (_tagged("a"), {first.id, second.id}),
            (_tagged("a", "b"), {second.id}),
            (_with(n=1), {first.id}),
            (_during(Interval(start=old, end=new)), {first.id}),
            (_during(Interval(start=new)), {second.id}),
            (Scope(bank=BANK, at_time=old), {first.id}),
            (Scope(bank=BANK, known_at=old), {first.id}),
            (Scope(bank=BANK, known_at=old - MOMENT), set[str]()),
            (_mentioning("tulips"), set[str]()),
            (Scope(bank=BANK, networks=("world",)), {first.id, second.id}),
            (Scope(bank=BANK, networks=("opinion",)), set[str]()),
        )
        for scope, expected in table:
            assert set(await quotes(store, "tulips", scope)) == expected, scope


def _tagged(*tags: str) -> Scope:
    return Scope(bank=BANK, tags=tags)


def _mentioning(*names: str) -> Scope:
    return Scope(bank=BANK).replace(entities=names)


def _with(**metadata: JsonValue) -> Scope:
    return Scope(bank=BANK, metadata=metadata)


def _during(occurred: Interval) -> Scope:
    return Scope(bank=BANK, occurred=occurred)


async def _texts(store: Store, scope: Scope) -> set[str]:
    """Return the texts of the facts in a scope, which must be the same by keywords and by vector."""
    worded = await matches(store, "tulips", scope)
    nearest = await near(store, EMBEDDER.vector("tulips"), scope)
    assert set(worded) == set(nearest), scope
    return {fact.text for fact in await store.facts(BANK, FactSelect(ids=worded))}


async def _instructions(store: Store, scope: Scope, *, limit: int = 9) -> list[str]:
    """Return the texts of the standing instructions in the order that a search returns them."""
    found = await search(store, SearchRequest(scope=scope, limit=1, instructions=limit))
    return [fact.text for fact in await store.facts(BANK, FactSelect(ids=found.instructions))]
