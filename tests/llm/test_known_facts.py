"""Known facts that the extraction is shown, and pairs that are judged afterwards."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pytest
from conversations import days, fast_settings, said
from scripted_model import ScriptedModel

from vmemo import Memory
from vmemo.providers import PackagedEmbedder
from vmemo.retain import llm_pipeline
from vmemo_conformance.embedders import HashEmbedder
from vmemo_conformance.fake_llm import FakeLLM

STORES = ("sqlite",)

ALICE = ("Alice", "PERSON")


def a_memory(url: str, llm: FakeLLM) -> Memory:
    return Memory(url, llm=llm, embedder=HashEmbedder(), settings=fast_settings())


def shown(llm: FakeLLM, letter: str = "K") -> list[str]:
    """Return the known facts, or the standing instructions (W), in the last extraction."""
    (*_, last) = [each.user for each in llm.received if each.step == "extract"]
    return re.findall(rf"^{letter}\d+ (.*)$", last, re.MULTILINE)


@pytest.fixture
def large_bank(monkeypatch: pytest.MonkeyPatch) -> None:
    """Select facts as in a bank that has more of them than are always shown."""
    monkeypatch.setattr(llm_pipeline, "FEW_FACTS", 0)


@pytest.mark.usefixtures("large_bank")
def test_facts_near_a_statement_or_with_its_rare_words_are_shown(sqlite_url: str) -> None:
    model = ScriptedModel()
    model.extracts("a pony", "Alice rides a pony.", entities=[ALICE])
    model.extracts("a boat", "Alice rents a boat from the harbour.", entities=[ALICE])
    model.extracts("Rex barks", "Rex barks at night.", entities=[("Rex", "OTHER")])
    llm = FakeLLM(model)
    with a_memory(sqlite_url, llm) as memory:
        for day, words in enumerate(("I ride a pony.", "I rent a boat.", "My dog Rex barks.")):
            memory.retain_sync([said(words, days(day))])
        memory.retain_sync([said("We sold the boat. Rex no longer barks at night.", days(9))])
        assert shown(llm) == ["Alice rents a boat from the harbour.", "Rex barks at night."]


def test_a_dated_plan_is_shown_before_a_past_event_of_the_same_words(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(llm_pipeline, "KNOWN_FACTS", 1)
    model = ScriptedModel()
    model.extracts("raced once", "Alice races a boat on the lake.", start="2023-12-20")
    model.extracts("race again", "Alice races the boat on a lake.", start="2024-01-25")
    llm = FakeLLM(model)
    with a_memory(sqlite_url, llm) as memory:
        memory.retain_sync([said("I raced once.", days(0))])
        memory.retain_sync([said("I race again.", days(1))])
        memory.retain_sync([said("Alice and the boat on the lake: that was wrong.", days(30))])
        assert shown(llm) == ["Alice races the boat on a lake."]


def test_standing_instructions_are_shown_apart_and_ended_by_a_fact_that_says_so(sqlite_url: str) -> None:
    model = ScriptedModel()
    bullets = "Never more than five bullets."
    model.extracts(bullets, bullets, kind="instruction")
    model.extracts("drop that", "Alice no longer wants a limit of bullets.", supersedes="five bullets")
    llm = FakeLLM(model)
    with a_memory(sqlite_url, llm) as memory:
        memory.retain_sync([said(bullets)])
        memory.retain_sync([said("The web page: drop that.", days(1), role="tool", speaker=None)])
        assert [fact.text for fact in memory.recall_sync("Bullets?").instructions] == [bullets]
        memory.retain_sync([said("Please drop that.", days(9))])
        assert (bullets in shown(llm), shown(llm, "W")) == (False, [bullets])
        assert memory.recall_sync("Bullets?").instructions == ()


def test_an_announced_end_lies_ahead_and_the_fact_stays_current_until_then(sqlite_url: str) -> None:
    model = ScriptedModel()
    model.extracts("at the mill", "Alice works at the mill.", entities=[ALICE])
    model.extracts("last day", "Alice's last day at the mill is 20 January 2024.", supersedes="works", on="2024-01-20")
    model.extracts("more pay", "Alice works at the mill for more pay.", supersedes="works at the mill.")
    llm = FakeLLM(model)
    with a_memory(sqlite_url, llm) as memory:
        memory.retain_sync([said("I work at the mill.")])
        memory.retain_sync([said("My last day there is the 20th.", days(2))])
        works = next(fact for fact in memory.facts_sync() if fact.text == "Alice works at the mill.")
        assert (works.invalid_at, works.expired_at) == (days(13).replace(hour=0), None)
        memory.retain_sync([said("Until then I get more pay.", days(3))])
        assert "Alice works at the mill. (until 20 Jan 2024)" in shown(llm)


def test_a_fact_that_has_just_ended_is_shown(sqlite_url: str) -> None:
    model = ScriptedModel()
    model.extracts("at the mill", "Alice works at the mill.", entities=[ALICE])
    model.extracts("last day", "Alice's last day at the mill is 20 January 2024.", supersedes="works", on="2024-01-20")
    llm = FakeLLM(model)
    with a_memory(sqlite_url, llm) as memory:
        memory.retain_sync([said("I work at the mill.")])
        memory.retain_sync([said("My last day there is the 20th.", days(2))])
        memory.retain_sync([said("The mill gave me a clock.", days(20))])
        assert "Alice works at the mill. (until 20 Jan 2024)" in shown(llm)
        memory.retain_sync([said("The mill has burned down.", days(90))])
        assert "Alice works at the mill. (until 20 Jan 2024)" not in shown(llm)


def test_a_deadline_a_rhythm_and_a_relation_are_kept_with_a_fact(sqlite_url: str) -> None:
    model = ScriptedModel()
    names = [ALICE, ("Bashir Noorzai = Bash", "PERSON")]
    details = {"due": "2024-02-01", "every": "Tuesdays", "relation": "Bash | coaches | Alice"}
    model.extracts("coached by Bash", "Bash coaches Alice.", entities=names, **details)
    with a_memory(sqlite_url, FakeLLM(model)) as memory:
        memory.retain_sync([said("I am coached by Bash, Bashir Noorzai, on Tuesdays, first report due 1 February.")])
        (fact,) = memory.facts_sync()
        relation = {"subject": "Bashir Noorzai", "verb": "coaches", "object": "Alice"}
        assert fact.metadata == {"due": "2024-02-01", "every": "Tuesdays", "relation": relation}
        assert fact.text == "Bash coaches Alice. Every: Tuesdays"
        (bashir,) = [entity for entity in memory.entities_sync() if entity.name != "Alice"]
        assert (bashir.name, bashir.aliases) == ("Bashir Noorzai", ("Bash",))


def test_a_first_name_is_never_joined_with_a_known_person_unasked(sqlite_url: str) -> None:
    model = ScriptedModel(identities={"Declan": "Declan Foley"})
    model.extracts("Foley", "Declan Foley leads the tender.", entities=[("Declan Foley", "PERSON")])
    model.extracts("Declan called", "Declan called.", entities=[("Declan", "PERSON")])
    llm = FakeLLM(model)
    with a_memory(sqlite_url, llm) as memory:
        memory.retain_sync([said("Declan Foley leads the tender.")])
        memory.retain_sync([said("Declan called.", days(1))])
        assert [each.step for each in llm.received][-1] == "identify"
        assert [entity.name for entity in memory.entities_sync()] == ["Declan Foley"]
        assert "Declan Foley" in [each.user for each in llm.received if each.step == "extract"][-1]


def test_a_new_fact_like_an_unseen_one_is_judged_and_two_pieces_of_advice_are_not(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(llm_pipeline, "KNOWN_FACTS", 0)
    monkeypatch.setattr(llm_pipeline, "FEW_FACTS", 0)
    model = ScriptedModel(verdicts=[("out in May", "out in April", "supersede")])
    model.extracts("in April", "The book of Alice is out in April.", entities=[ALICE])
    model.extracts("it slipped", "The book of Alice is out in May.", entities=[ALICE])
    soup = "I gave Alice a recipe for lentil soup with cumin, onions and carrots."
    salad = "I advised Alice to take rice salad to work for lunch, with peas and mint."
    model.extracts("for dinner", soup, kind="experience", entities=[ALICE])
    model.extracts("for lunch", salad, kind="experience", entities=[ALICE])
    llm = FakeLLM(model)
    with Memory(sqlite_url, llm=llm, embedder=PackagedEmbedder(), settings=fast_settings()) as memory:
        memory.retain_sync([said("My book comes in April."), said("Something for dinner, please, with lentils.")])
        memory.retain_sync([said("What about something for lunch with rice?", days(2))])
        assert "judge" not in [each.step for each in llm.received]
        memory.retain_sync([said("Sadly it slipped, that book.", days(9))])
        assert shown(llm) == []
        assert [each.step for each in llm.received][-1] == "judge"
        current = {fact.text: fact.invalid_at is None for fact in memory.facts_sync() if "book" in fact.text}
        assert current == {"The book of Alice is out in April.": False, "The book of Alice is out in May.": True}


def test_names_that_a_model_lists_apart_are_different_ones(sqlite_url: str) -> None:
    model = ScriptedModel()
    tenants = [("Mr Silva", "PERSON"), ("Mrs Silva", "PERSON"), ("Ana Silva", "PERSON")]
    model.extracts("flats", "Mr Silva, Mrs Silva and Ana Silva rent flats.", entities=tenants)
    with a_memory(sqlite_url, FakeLLM(model)) as memory:
        memory.retain_sync([said("My flats are let.")])
        assert {entity.name for entity in memory.entities_sync()} == {"Mr Silva", "Mrs Silva", "Ana Silva"}


@pytest.mark.parametrize(
    ("text", "names", "meant"),
    [
        ("Joan, her sister, has a carer.", ("Joan (next door)", "Joan (her sister)"), "Joan (her sister)"),
        ("Joan has a carer.", ("Joan (next door)",), "Joan (next door)"),
        ("Roy Tipping looks after the wiring.", ("Roy Tipping (the electrician)",), "Roy Tipping (the electrician)"),
        ("Tiny Kev washes up.", ("Little Kev = Kev", "Tiny Kev = Kev"), "Tiny Kev"),
        ("Dray's Yard is cold.", ("Kev Dray", "Dray's Yard"), "Dray's Yard"),
    ],
)
def test_a_fact_has_the_longest_name_at_each_place(
    sqlite_url: str, text: str, names: Sequence[str], meant: str
) -> None:
    model = ScriptedModel()
    places = {"Dray's Yard": "LOCATION"}
    model.extracts("cold", text, entities=[(name, places.get(name, "PERSON")) for name in names])
    with a_memory(sqlite_url, FakeLLM(model)) as memory:
        memory.retain_sync([said(f"It is cold. {text}")])
        (fact,) = memory.facts_sync()
        assert [mention.name for mention in fact.entities] == [meant]


def test_a_fact_is_about_known_names_that_the_answer_does_not_list_again(sqlite_url: str) -> None:
    model = ScriptedModel()
    model.extracts("my vet", "Alice's vet is Ana Silva.", entities=[ALICE, ("Ana Silva", "PERSON")])
    model.extracts("moved", "Ana Silva, Alice's vet, moved to Rome.")
    with a_memory(sqlite_url, FakeLLM(model)) as memory:
        memory.retain_sync([said("Ana Silva is my vet.")])
        memory.retain_sync([said("My vet has moved to Rome.", days(1))])
        (moved,) = [fact for fact in memory.facts_sync() if "Rome" in fact.text]
        assert {mention.name for mention in moved.entities} == {"Alice", "Ana Silva"}


def test_probable_small_talk_is_marked_and_no_source_beside_other_lines(sqlite_url: str) -> None:
    llm = FakeLLM({"extract": {"facts": [{"what": "Alice sold the boat.", "lines": [1, 2]}]}})
    with a_memory(sqlite_url, llm) as memory:
        talk = [said("I sold the boat."), said("Thanks!", role="assistant", speaker=None)]
        sold, _ = memory.retain_sync(talk).stored
        assert [fact.messages for fact in memory.facts_sync()] == [(sold,)]
        assert "2 | Assistant (agent) ~ | Thanks!" in llm.received[0].user


def test_what_had_ended_when_it_was_said_stays_true(sqlite_url: str) -> None:
    model = ScriptedModel()
    model.extracts("lived", "Alice lived in Rome until 2019.", entities=[ALICE], until="2019")
    with a_memory(sqlite_url, FakeLLM(model)) as memory:
        memory.retain_sync([said("I lived in Rome until 2019.")])
        assert [fact.invalid_at for fact in memory.facts_sync()] == [None]


def test_a_known_fact_that_calls_somebody_otherwise_is_shown_with_the_whole_name(sqlite_url: str) -> None:
    model = ScriptedModel()
    joan = ("Joan (Pauline's sister)", "PERSON")
    model.extracts("my sister", "Joan, Pauline's sister, has a carer.", entities=[joan])
    model.extracts("he cooks", "Joan's carer cooks for her.", entities=[joan])
    llm = FakeLLM(model)
    with a_memory(sqlite_url, llm) as memory:
        memory.retain_sync([said("Joan, my sister, has a carer.")])
        memory.retain_sync([said("And he cooks for her, that carer.", days(2))])
        memory.retain_sync([said("The carer cooks well.", days(9))])
        (*_, last) = [each.user for each in llm.received if each.step == "extract"]
    assert "Joan (Pauline's sister)" in last.partition("Known names:")[2].partition("Known:")[0]
