"""Entity names: a text finds the entities of its bank that it names."""

from __future__ import annotations

from dataclasses import replace

from vmemo.lifecycle.forget import forget
from vmemo.models import Entity, Mention
from vmemo.models.changes import ForgetTarget
from vmemo.models.select import EntitySelect, MessageSelect
from vmemo.ports import Store
from vmemo_conformance.samples import (
    BANK,
    OTHER,
    a_bank,
    a_batch,
    a_fact,
    an_entity,
    day,
    mention_of,
    named_entities,
    store_entities,
    store_messages,
    store_story,
)
from vmemo_conformance.search import HOSTILE
from vmemo_conformance.suite import StoreSuite, on_store

SCRIPTS = (
    ("Мария Кюри", "Что открыла МАРИЯ КЮРИ?", "Мариям здесь нет."),
    ("Ελένη", "Πού μένει η Ελένη;", "Ελένης"),
    ("ליאור", "איפה ליאור?", "ליאורה"),
    ("ليلى", "أين ليلى؟", "ليلىى"),
    ("नरेन्द्र मोदी", "क्या नरेन्द्र मोदी आए?", "नरेन्द्र आए"),
    ("李明", "昨天李明去了哪里？", "昨天王明去了哪里？"),
    ("京都", "京都で何を食べた？", "東京で何を食べた？"),
    ("スターバックス", "駅前のスターバックスで会った", "スターが来た"),
    ("부산", "부산에서 무엇을 했나요?", "서울에서 무엇을 했나요?"),
    ("เชียงใหม่", "ฉันไปเชียงใหม่เมื่อวาน", "ฉันไปภูเก็ต"),
    ("Zoë Ångström", "Where is zoë ångström?", "Where is Zoëlla?"),
    ("Zoe\u0308 Lund", "Where is Zo\u00eb Lund?", "Where is Zo Lund?"),
    ("José", "¿Dónde está jose?", "Where is Joseph?"),
    ("STRAẞE", "die straße", "der Strand"),
)
"""A name, a text that holds it, and one that does not."""


class EntityNameConformance(StoreSuite):
    """The search for entities by name."""

    @on_store
    async def test_a_name_is_found_in_any_case_as_a_whole_word(self, store: Store) -> None:
        anna = an_entity("Anna", id="e1", type="PERSON")
        await store_entities(store, anna, an_entity("Bern"))
        for text in ("Anna", "Where is anna?", "ANNA!", "(Anna)", "Anna, who else?", "*anna*", "\tAnna\n"):
            assert await named_entities(store, BANK, text) == [mention_of(anna)], text
        for text in ("", "Annabel", "Joanna", "Annas", "An na", "nobody"):
            assert await named_entities(store, BANK, text) == [], text

    @on_store
    async def test_a_possessive_names_its_owner(self, store: Store) -> None:
        await store_entities(store, *map(an_entity, ("Anna", "Anna S.", "O'Brien", "McDonald's", "Jess")))
        table = (
            ("Anna's dog", {"Anna"}),
            ("ANNA\u2019S dog", {"Anna"}),
            ("What did Anna S. say?", {"Anna S."}),
            ("O'Brien's and O\u2019Brien", {"O'Brien"}),
            ("at McDonald\u2019s", {"McDonald's"}),
            ("Jess' coat", {"Jess"}),
        )
        for text, names in table:
            assert await _named(store, text) == names, text

    @on_store
    async def test_a_longer_name_hides_the_names_inside_it(self, store: Store) -> None:
        names = ("Anna", "Anna Smith", "Smith", "New York", "York", "New York Times", "Times Square")
        await store_entities(store, *map(an_entity, names))
        table = (
            ("Anna Smith went home.", {"Anna Smith"}),
            ("Smith met Anna.", {"Smith", "Anna"}),
            ("Anna met anna smith.", {"Anna", "Anna Smith"}),
            ("The New\nYork  Times", {"New York Times"}),
            ("From York to New York", {"York", "New York"}),
            ("New York Times Square", {"New York Times", "Times Square"}),
            ("Anna, Smith", {"Anna Smith"}),
        )
        for text, expected in table:
            assert await _named(store, text) == expected, text

    @on_store
    async def test_a_name_of_many_words_is_found(self, store: Store) -> None:
        names = ("The Lord of the Rings", "Bill and Melinda Gates Foundation", "St. Mary-le-Bow", "Route 66")
        await store_entities(store, *map(an_entity, names))
        for name in names:
            assert await _named(store, f"Who told me about {name.lower()} back then?") == {name}

    @on_store
    async def test_an_entity_is_found_by_each_of_its_names_and_once(self, store: Store) -> None:
        bob = an_entity("Robert Hale", id="e1", type="PERSON", aliases=["Bob", "Bobby H.", "robert hale"])
        await store_entities(store, bob)
        for text in ("Robert Hale", "bob", "Where is Bobby H?", "Bob, that is Robert Hale"):
            assert await named_entities(store, BANK, text) == [mention_of(bob)], text
        assert await named_entities(store, BANK, "Robert and Bobby") == []

    @on_store
    async def test_all_entities_of_one_name_are_found(self, store: Store) -> None:
        await store_entities(store, an_entity("Sam", id="e1"), an_entity("Samuel", id="e2", aliases=["SAM"]))
        assert {mention.id for mention in await named_entities(store, BANK, "Sam?")} == {"e1", "e2"}

    @on_store
    async def test_names_of_every_script_are_found(self, store: Store) -> None:
        await store_entities(store, *(an_entity(name, id=name) for name, *_ in SCRIPTS))
        for name, text, other in SCRIPTS:
            assert await _named(store, text) == {name}, text
            assert await _named(store, other) == set(), other

    @on_store
    async def test_names_of_another_bank_are_never_found(self, store: Store) -> None:
        await store.create_bank(a_bank(OTHER))
        await store_entities(store, an_entity("Anna", id="e1", aliases=["Ann"]), an_entity("Oslo"), bank=OTHER)
        await store_entities(store, an_entity("Bern", id="e1", aliases=["Oslo"]))
        text = "Anna, or Ann, of Bern and Oslo"
        assert await named_entities(store, BANK, text) == [Mention(id=an_entity("x", id="e1").id, name="Bern")]
        assert {mention.name for mention in await named_entities(store, OTHER, text)} == {"Anna", "Oslo"}
        await forget(store, BANK, ForgetTarget(bank=True))
        assert {mention.name for mention in await named_entities(store, OTHER, text)} == {"Anna", "Oslo"}

    @on_store
    async def test_a_renamed_entity_is_found_by_its_new_names_only(self, store: Store) -> None:
        await store_entities(store, an_entity("Anna Smith", id="e1", aliases=["Annie", "Nan"]))
        await store_entities(store, an_entity("Anna Jones", id="e1", aliases=["Nan"], last_seen=day(9)))
        assert await _named(store, "Anna Smith, called Annie") == set()
        assert await _named(store, "Anna Jones") == await _named(store, "Nan") == {"Anna Jones"}

    @on_store
    async def test_names_of_a_refused_batch_are_not_found(self, store: Store) -> None:
        batch = replace(await a_batch(store), entities=[an_entity("Anna")])
        await store_entities(store, an_entity("Bern"))
        assert await store.commit(batch) is False
        assert await _named(store, "Anna in Bern") == {"Bern"}

    @on_store
    async def test_a_forgotten_entity_is_no_longer_found(self, store: Store) -> None:
        story = await store_story(store)
        assert await _named(store, "Caroline in Oslo") == {"Caroline", "Oslo"}
        await forget(store, BANK, ForgetTarget(messages=[story.messages[0].id]))
        assert await _named(store, "Caroline in Oslo") == {"Caroline"}
        await forget(store, BANK, ForgetTarget(entity=story.entities[0].id))
        assert await _named(store, "Caroline in Oslo") == set()
        await store_entities(store, an_entity("Oslo"))
        await forget(store, BANK, ForgetTarget(bank=True))
        await store.create_bank(a_bank())
        assert await _named(store, "Caroline in Oslo") == set()

    @on_store
    async def test_names_that_only_forgotten_text_used_are_no_longer_found(self, store: Store) -> None:
        rosalind = an_entity("Rosalind", id="e1", aliases=["Roz", "Zaza"])
        await _told(store, rosalind, "Roz came by.", "Rosalind is called Zaza.")
        assert await _named(store, "Zaza") == {"Rosalind"}
        await forget(store, BANK, ForgetTarget(messages=[(await store.messages(BANK, MessageSelect()))[1].id]))
        assert await _named(store, "Rosalind, or Zaza") == set()
        assert await _named(store, "Roz") == {"Roz"}

    @on_store
    async def test_a_name_without_words_is_stored_and_forgotten(self, store: Store) -> None:
        await _told(store, an_entity("🌷", id="e1"), "A 🌷 on Monday.", "A 🌷 on Tuesday.")
        assert len(await named_entities(store, BANK, "a 🌷")) <= 1
        await forget(store, BANK, ForgetTarget(messages=[(await store.messages(BANK, MessageSelect()))[1].id]))
        assert [(entity.name, entity.mentions) for entity in await store.entities(BANK, EntitySelect())] == [("🌷", 1)]

    @on_store
    async def test_no_text_raises_when_names_are_searched(self, store: Store) -> None:
        await store_entities(store, an_entity("tulips"))
        for text in HOSTILE:
            assert await _named(store, text) <= {"tulips"}, text[:50]
        assert await _named(store, '" OR "tulips') == {"tulips"}


async def _named(store: Store, text: str) -> set[str]:
    return {mention.name for mention in await named_entities(store, BANK, text)}


async def _told(store: Store, entity: Entity, *lines: str) -> None:
    """Messages, each with a fact that mentions the entity."""
    said = await store_messages(store, *lines)
    facts = [a_fact(m.content, messages=[m.id], entities=[mention_of(entity)]) for m in said]
    assert await store.commit(replace(await a_batch(store, facts), entities=[entity], pending=[m.id for m in said]))
