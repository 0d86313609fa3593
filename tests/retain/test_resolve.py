"""Entity resolution: clear matches are merged, uncertain names stay separate."""

from collections.abc import Mapping, Sequence, Set
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

import pytest

from vmemo.models import Entity, EntityId, EntityType
from vmemo.models.settings import RESOLUTION_WEIGHTS, ResolutionPart, Settings
from vmemo.retain.entities import EntityIndex, EntityResolution, NameSighting, resolve as resolve_drafts
from vmemo.text.names import name_use

NOW = datetime(2024, 5, 1, tzinfo=UTC)
LONG_AGO = NOW - timedelta(days=1000)
NOTHING: Mapping[EntityId, Set[EntityId]] = {}


class Resolved(NamedTuple):
    """A resolution, with the entity of each name."""

    resolution: EntityResolution
    ids: Mapping[str, EntityId]

    @property
    def entities(self) -> tuple[Entity, ...]:
        return self.resolution.entities


def resolve(
    found: Sequence[NameSighting],
    existing: Sequence[Entity] | EntityIndex,
    cooccurring: Mapping[EntityId, Set[EntityId]],
    weights: Mapping[ResolutionPart, float] = RESOLUTION_WEIGHTS,
) -> Resolved:
    """Resolve names, each of which is found in a draft of its own."""
    resolution = resolve_drafts([[each] for each in found], existing, cooccurring, weights)
    return Resolved(resolution, {name: id for ids in resolution.ids for name, id in ids.items()})


def entity(
    name: str, type: EntityType = "PERSON", *, id: str = "", aliases: tuple[str, ...] = (), seen: datetime = LONG_AGO
) -> Entity:
    return Entity(id=EntityId(id or name), name=name, type=type, aliases=aliases, first_seen=seen, last_seen=seen)


def sighting(name: str, type: EntityType = "PERSON", *beside: str, at: datetime = NOW) -> NameSighting:
    return NameSighting(name=name, type=type, at=at, beside=frozenset(beside))


def meets(found: str, *existing: Entity, type: EntityType = "PERSON") -> str | None:
    """The id of the known entity a name is resolved to, or None where it is new."""
    resolution = resolve([sighting(found, type)], existing, NOTHING)
    id = resolution.ids[found.casefold()]
    return id if id in {e.id for e in existing} else None


def saved(resolution: Resolved, id: str) -> Entity:
    return next(e for e in resolution.entities if e.id == id)


@pytest.mark.parametrize(
    ("found", "known"),
    [
        ("Caroline", "Caroline"),
        ("CAROLINE", "Caroline"),
        ("Ines", "Inés"),
        ("Mary OBrien", "Mary O'Brien"),
        ("Jean Luc Picard", "Jean-Luc Picard"),
        ("Caroline", "Caroline Hughes"),
        ("Caroline Hughes", "Caroline"),
        ("Bob", "Robert"),
        ("Robert", "Bob"),
        ("Bob Smith", "Robert Smith"),
        ("Bill", "William"),
        ("J. Smith", "John Smith"),
        ("John Smith", "J. Smith"),
        ("John Q. Smith", "John Smith"),
        ("John Quincy Smith", "John Q. Smith"),
        ("Mrs. Pelletier", "Anne Pelletier"),
        ("Dr. Varga", "Varga"),
        ("小明", "小明"),
    ],
)
def test_a_clear_match_is_recognised(found: str, known: str) -> None:
    assert meets(found, entity(known)) == known


@pytest.mark.parametrize(
    ("found", "known"),
    [
        ("John Smith", "John Doe"),
        ("John Smith", "Joan Smith"),
        ("John", "Joan"),
        ("Jon", "Joan"),
        ("J. Smith", "Karen Smith"),
        ("J. Smith", "J. Jones"),
        ("John Q. Smith", "John R. Smith"),
        ("John Smith", "John Smith Jr."),
        ("John Smith Sr.", "John Smith Jr."),
        ("Mr. Smith", "Mrs. Smith"),
        ("Christina", "Christine"),
        ("Caroline Johnson", "Caroline Johnston"),
        ("Marina", "Martina"),
        ("Erin", "Aaron"),
        ("J", "John"),
        ("Emma", "Emily"),
        ("Mary", "Rosemary"),
        ("Joan", "Joanna"),
        ("राम", "रमा"),
    ],
)
def test_different_people_stay_separate(found: str, known: str) -> None:
    assert meets(found, entity(known)) is None


@pytest.mark.parametrize(
    ("found", "known", "type", "same"),
    [
        ("The Hobbit", "Hobbit", "OTHER", True),
        ("Vandelay Inc.", "Vandelay", "ORGANIZATION", True),
        ("DoorDash", "Door Dash", "ORGANIZATION", True),
        ("New York City", "NYC", "LOCATION", True),
        ("U.S.", "US", "LOCATION", True),
        ("New York", "New York University", "ORGANIZATION", False),
        ("Lake Como", "Como", "LOCATION", False),
        ("iPhone 14", "iPhone 15", "PRODUCT", False),
        ("C++", "C#", "OTHER", False),
        ("C++", "C", "OTHER", False),
        ("Robert Street", "Bob Street", "LOCATION", False),
    ],
)
def test_things_and_places_match_only_by_the_same_name(found: str, known: str, type: EntityType, same: bool) -> None:
    assert meets(found, entity(known, type), type=type) == (known if same else None)


@pytest.mark.parametrize(
    ("found", "known", "same"),
    [
        ("PERSON", "LOCATION", False),
        ("PERSON", "ORGANIZATION", False),
        ("OTHER", "LOCATION", True),
        ("PERSON", "OTHER", True),
    ],
)
def test_types_must_be_compatible(found: EntityType, known: EntityType, same: bool) -> None:
    assert (meets("Paris", entity("Paris", known), type=found) == "Paris") is same


def test_a_clipped_name_matches_a_recently_seen_entity() -> None:
    assert meets("Mel", entity("Melanie", seen=NOW)) == "Melanie"
    assert meets("Melanie", entity("Mel", seen=NOW)) == "Mel"
    assert meets("Mel", entity("Melanie")) is None


def test_a_first_name_that_two_people_share_stays_unresolved() -> None:
    assert resolve([sighting("John")], [entity("John Smith"), entity("John Doe", seen=NOW)], NOTHING).ids == {}
    called = entity("John Smith", aliases=("John",))
    assert meets("John", called, entity("John Doe", seen=NOW)) == called.id


@pytest.mark.parametrize(
    ("text", "name", "known", "same"),
    [
        ("The new physio is a lad called Hamish.", "Hamish", "Hamish Watson", False),
        ("Me midwife's a Sam as well.", "Sam", "Sam", False),
        ("Steve Lumb. Different Steve.", "Steve Lumb", "Steve", False),
        ("The flat is Paul Geraghty's, not my Paul.", "Paul Geraghty", "Paul", False),
        ("My partner in the booth is Jana Reis, not my sister Jana.", "Jana Reis", "Jana", False),
        ("The new leader is her namesake Ada Eze.", "Ada Eze", "Ada", False),
        ("My agent is Robin Ashdown, and no relation to the Robins next door.", "Robin Ashdown", "Robin", False),
        ("Robin Ashdown asked me not to tell.", "Robin Ashdown", "Robin", True),
        ("Hamish came round with a carton.", "Hamish", "Hamish Watson", True),
        ("Steve Lumb wants more money.", "Steve Lumb", "Steve", True),
    ],
)
def test_words_that_introduce_another_bearer_of_a_name_keep_namesakes_apart(
    text: str, name: str, known: str, same: bool
) -> None:
    person = entity(known)
    found = NameSighting(name=name, type="PERSON", at=NOW, use=name_use(text, name, [name]))
    assert (resolve([found], [person], NOTHING).ids[name.casefold()] == person.id) is same


@pytest.mark.parametrize(
    ("text", "one", "other", "same"),
    [
        ("We are both here: Marguerite Abbott (Rita) and Jo.", "Marguerite Abbott", "Rita", True),
        ("Xana is Alexandra, by the way.", "Xana", "Alexandra", True),
        ("My boy's Wade Junior, folks call him Deuce.", "Wade Junior", "Deuce", True),
        ("Xana is Alexandra's sister.", "Xana", "Alexandra", False),
        ("We are both here: Rita and Jo.", "Rita", "Jo", False),
    ],
)
def test_two_names_that_a_text_equates_are_one_person(text: str, one: str, other: str, same: bool) -> None:
    names = [one, other]
    found = [NameSighting(name=name, type="PERSON", at=NOW, use=name_use(text, name, names)) for name in names]
    [ids] = resolve_drafts([found], [], NOTHING).ids
    assert (ids[one.casefold()] == ids[other.casefold()]) is same


def test_cooccurring_names_decide_between_two_candidates() -> None:
    smith, doe, maria = entity("John Smith"), entity("John Doe"), entity("Maria")
    met = {smith.id: {maria.id}}
    resolution = resolve([sighting("John", "PERSON", "Maria")], [smith, doe, maria], met)
    assert resolution.ids["john"] == smith.id


def test_recency_can_decide_between_two_candidates() -> None:
    smith, doe = entity("John Smith", seen=NOW), entity("John Doe")
    weights = Settings(resolution_weights={"nearness": 0.3}).resolution_weights
    assert resolve([sighting("John")], [smith, doe], NOTHING, weights).ids["john"] == smith.id


def test_a_known_short_name_keeps_its_own_entity() -> None:
    assert meets("John", entity("John"), entity("John Smith", seen=NOW), entity("John Doe")) == "John"


def test_a_misspelling_matches_only_with_cooccurring_names() -> None:
    known, maria = entity("Oluwaseun", seen=NOW), entity("Maria")
    alone = resolve([sighting("Oluwasegun")], [known, maria], NOTHING)
    together = resolve([sighting("Oluwasegun", "PERSON", "Maria")], [known, maria], {known.id: {maria.id}})
    assert alone.ids["oluwasegun"] != known.id
    assert together.ids["oluwasegun"] == known.id


def test_the_longer_name_becomes_the_name_and_the_shorter_an_alias() -> None:
    updated = saved(resolve([sighting("Caroline Hughes")], [entity("Caroline")], NOTHING), "Caroline")
    assert (updated.name, updated.aliases) == ("Caroline Hughes", ("Caroline",))


def test_a_full_given_name_replaces_its_nickname() -> None:
    updated = saved(resolve([sighting("Robert")], [entity("Bob")], NOTHING), "Bob")
    assert (updated.name, updated.aliases) == ("Robert", ("Bob",))


def test_a_shorter_or_other_form_becomes_an_alias_once() -> None:
    known = entity("Caroline Hughes", aliases=("Caro",))
    resolution = resolve([sighting("Caroline"), sighting("caro"), sighting("caroline")], [known], NOTHING)
    assert saved(resolution, known.id).aliases == ("Caro", "Caroline")


def test_an_alias_does_not_match_another_surname() -> None:
    known = entity("Caroline Hughes", aliases=("Caroline", "Caz"))
    assert meets("Caz", known) == known.id
    assert meets("Caroline Baker", known) is None


def test_a_short_name_is_not_extended_if_two_full_names_match() -> None:
    known = entity("John")
    together = resolve([sighting("John Smith"), sighting("John Doe")], [known], NOTHING)
    assert known.id not in together.ids.values()
    assert meets("John Doe", known, entity("John Smith")) is None


def test_sightings_update_the_times_and_the_type() -> None:
    known = entity("Wren", "OTHER", seen=NOW)
    later, earlier = NOW + timedelta(days=3), NOW - timedelta(days=3)
    updated = saved(resolve([sighting("Wren", at=later), sighting("Wren", at=earlier)], [known], NOTHING), "Wren")
    assert (updated.first_seen, updated.last_seen, updated.type) == (earlier, later, "PERSON")


def test_a_new_entity_has_the_sighted_name_type_and_times() -> None:
    resolution = resolve([sighting("Wren", "PERSON"), sighting("wren", "OTHER")], [], NOTHING)
    (new,) = resolution.entities
    assert (new.name, new.type, new.first_seen, new.last_seen) == ("Wren", "PERSON", NOW, NOW)
    assert resolution.ids == {"wren": new.id}


@pytest.mark.parametrize(
    "order", [("Caroline", "Caroline Hughes", "Carrie"), ("Caroline Hughes", "Carrie", "Caroline")]
)
def test_names_of_one_batch_match_in_any_order(order: tuple[str, ...]) -> None:
    resolution = resolve([sighting(name) for name in order], [], NOTHING)
    assert [e.name for e in resolution.entities] == ["Caroline Hughes"]
    assert len(set(resolution.ids.values())) == 1


def test_indistinguishable_namesakes_get_one_more_entity_at_most() -> None:
    twins = [entity("John Smith", id="a"), entity("John Smith", id="b")]
    first = resolve([sighting("John Smith")], twins, NOTHING)
    third = first.ids["john smith"]
    assert third not in {"a", "b"}
    again = resolve([sighting("John Smith")], [*twins, *first.entities], NOTHING)
    assert again.ids["john smith"] == third


def test_resolving_does_not_modify_the_index() -> None:
    index = EntityIndex([entity("Caroline")])
    resolution = resolve([sighting("Caroline Hughes"), sighting("Wren")], index, NOTHING)
    assert [e.name for e in index] == ["Caroline"]
    for changed in resolution.entities:
        index.put(changed)
    assert sorted(e.name for e in index) == ["Caroline Hughes", "Wren"]
    assert resolve([sighting("Wren")], index, NOTHING).ids["wren"] == resolution.ids["wren"]


def test_putting_an_entity_twice_keeps_one() -> None:
    one, other = entity("John"), entity("John", id="other")
    index = EntityIndex([one, other] * 200)
    assert list(index.named("John")) == [one.id, other.id]


def test_an_index_returns_the_candidates_of_a_name() -> None:
    index = EntityIndex([entity("Robert Smith"), entity("Caroline Hughes"), entity("John Smith")])
    assert index.candidates("Bob") == {"Robert Smith"}
    assert index.candidates("C. Hughes") == {"Caroline Hughes"}
    assert index.candidates("Wren") == set()


@pytest.mark.parametrize("name", ["", "   ", "\t\n"])
def test_a_blank_name_is_ignored(name: str) -> None:
    assert resolve_drafts([[sighting(name)]], [], NOTHING) == EntityResolution(entities=(), ids=[{}])


@pytest.mark.parametrize("name", ["A" * 100_000, "...", "🎉", "'", "\u202eمرحبا", "İstanbul", "the", "Dr.", "& & &"])
def test_unusual_names_resolve_to_themselves(name: str) -> None:
    first = resolve([sighting(name)], [], NOTHING)
    again = resolve([sighting(name)], first.entities, NOTHING)
    assert again.ids == first.ids


def test_a_name_shared_by_hundreds_matches_none() -> None:
    namesakes = [entity(f"John {chr(65 + i // 26)}{chr(97 + i % 26)}x", seen=NOW) for i in range(300)]
    assert meets("John", *namesakes) is None


def test_a_name_that_a_fact_sets_apart_from_a_longer_one_is_not_that_person() -> None:
    longer = NameSighting(name="Alice Cooper", type="PERSON", at=NOW, beside=frozenset({"Alice"}))
    short = NameSighting(
        name="Alice", type="PERSON", at=NOW, beside=frozenset({"Alice Cooper"}), apart=frozenset({"Alice Cooper"})
    )
    speaker = replace(short, speaks=True)
    assert "alice" not in resolve_drafts([[short, longer]], [], NOTHING).ids[0]
    assert len(set(resolve_drafts([[speaker, longer]], [], NOTHING).ids[0].values())) == 2
    known = entity("Alice Cooper", aliases=("Alice",))
    [ids] = resolve_drafts([[speaker, longer]], [known], NOTHING).ids
    assert ids["alice cooper"] == known.id
    assert ids["alice"] != known.id
