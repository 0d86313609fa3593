"""F4, F5: opinions are formed in the first person, kept once, moved by new evidence only, and never taken for facts."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta

import pytest
from pydantic import JsonValue
from reflect_fixtures import (
    NOON,
    answers_in_turn,
    asked_fields,
    character,
    mark_of,
    memory_with_model,
    opinion_json,
    retain_lines,
    said,
    says,
    systems,
)

from vmemo import Profile
from vmemo_conformance.fake_llm import ConnectionReset, ReceivedRequest

STORES = ("sqlite",)

COMMUTE = "Remote work saves people two hours of commuting a day."
TEAM = "Teams that do remote work meet rarely and lose shared routines."
LIKES = "I think remote work is a net positive because it leaves time for self-directed work."
DOUBTS = "I think remote work puts steady performance at risk because shared routines are lost."


def judging(opinion: str, confidence: float, *words: str) -> Callable[[ReceivedRequest], JsonValue]:
    """A model that forms an opinion on the memories which hold some words."""

    def answer(asked: ReceivedRequest) -> JsonValue:
        marks = [mark_of(asked, each) for each in words]
        cited = "".join(f"[{mark}]" for mark in marks)
        return says(f"{opinion} {cited}", opinions=[opinion_json(opinion, confidence, *marks)])

    return answer


# F4, and the paper's remote-work pair


def test_two_profiles_cite_the_same_facts_and_come_to_different_opinions(sqlite_url: str) -> None:
    """A trusting, flexible, empathetic one and a skeptical, literal, detached one."""
    pairs = ((character(1, 2, 5), LIKES), (character(5, 5, 1), DOUBTS))
    facts: list[set[str]] = []
    held: list[str] = []
    prompts: list[str] = []
    for place, (profile, opinion) in enumerate(pairs):
        bank = f"agent-{place}"
        retain_lines(sqlite_url, COMMUTE, TEAM, profile=profile, bank=bank)
        memory, model = memory_with_model(sqlite_url, judging(opinion, 0.8, "commuting", "routines"), bank)
        with memory:
            answer = memory.reflect_sync("What do you think of remote work?")
            facts.append({fact.text for fact in answer.facts})
            (formed,) = memory.opinions_sync()
            held.append(formed.text)
            assert [each.id for each in answer.formed] == [formed.id]
        prompts += systems(model)
    assert facts[0] == facts[1] == {f"Alice: {COMMUTE}", f"Alice: {TEAM}"}
    assert held == [LIKES, DOUBTS]
    assert prompts[0] != prompts[1]


def test_an_opinion_is_stored_with_reason_confidence_and_evidence(url: str) -> None:
    retain_lines(url, said("Remote work suits Vera.", NOON), profile=character(3, 3, 3))
    memory, _ = memory_with_model(url, judging("I think Vera thrives because remote work suits her.", 0.7, "suits"))
    asked = NOON + timedelta(days=3)
    with memory:
        memory.reflect_sync("Is Vera thriving, do you think?", now=asked)
        (opinion,) = memory.opinions_sync()
        assert (opinion.network, opinion.confidence, opinion.mentioned_at) == ("opinion", 0.7, asked)
        assert [mention.name for mention in opinion.entities] == ["Vera"]
        assert opinion.engine == "fake/reflect-16"
        chain = memory.why_sync(opinion.id)
        assert [behind.fact.text for behind in chain.basis] == ["Alice: Remote work suits Vera."]
        assert chain.basis[0].messages[0].content == "Remote work suits Vera."
        assert memory.trajectory_sync(opinion.id) == []


def test_an_opinion_is_recalled_later_as_an_opinion(sqlite_url: str) -> None:
    retain_lines(sqlite_url, COMMUTE, profile=character(3, 3, 3))
    memory, model = memory_with_model(
        sqlite_url,
        answers_in_turn(
            judging(LIKES, 0.8, "commuting"), lambda asked: says(f"I like it [{mark_of(asked, 'I think')}].")
        ),
    )
    with memory:
        formed = memory.reflect_sync("What do you think of remote work?").formed[0]
        answer = memory.reflect_sync("Do you like remote work?")
        assert "O1 (confidence 0.80) | " in model.received[1].user
        assert [opinion.id for opinion in answer.opinions] == [formed.id]
        assert answer.facts == ()
        assert answer.citations[0].network == "opinion"
        assert memory.recall_sync("remote work", networks=["opinion"]).facts[0].id == formed.id
        assert all(fact.network == "world" for fact in memory.recall_sync("remote work", networks=["world"]).facts)


def test_the_same_opinion_is_not_formed_twice_and_old_evidence_does_not_count_again(url: str) -> None:
    retain_lines(url, COMMUTE, profile=character(3, 3, 3))
    memory, _ = memory_with_model(url, judging(LIKES, 0.6, "commuting"))
    with memory:
        for _ in range(3):
            memory.reflect_sync("What do you think of remote work?")
        (opinion,) = memory.opinions_sync()
        assert opinion.confidence == 0.6
        assert memory.trajectory_sync(opinion.id) == []


def test_an_opinion_formed_again_on_new_evidence_is_reinforced(url: str) -> None:
    retain_lines(url, COMMUTE, profile=character(3, 3, 3))
    memory, _ = memory_with_model(
        url, answers_in_turn(judging(LIKES, 0.6, "commuting"), judging(LIKES, 0.6, "commuting", "lose"))
    )
    with memory:
        memory.reflect_sync("What do you think of remote work?")
        retain_lines(url, TEAM)
        answer = memory.reflect_sync("What do you think of remote work?")
        (move,) = answer.confidence_changes
        assert (move.stance, move.before, move.after) == ("reinforce", 0.6, 0.75)
        assert [memory.why_sync(id).fact.text for id in move.evidence] == [f"Alice: {TEAM}"]
        assert memory.opinions_sync()[0].confidence == 0.75
        assert memory.trajectory_sync(move.opinion) == [move]
        assert memory.why_sync(move.opinion).confidence_changes == (move,)


def revising(stance: str, words: str) -> Callable[[ReceivedRequest], JsonValue]:
    """A model that moves the opinion it is shown by a fact."""

    def answer(asked: ReceivedRequest) -> JsonValue:
        mark = mark_of(asked, words)
        revised: JsonValue = [{"opinion": "O1", "stance": stance, "evidence": [mark], "reason": f"because of {words}"}]
        return says(f"So it is [{mark}].", revised=revised)

    return answer


def test_confidence_changes_follow_the_fixed_steps_with_their_evidence(url: str) -> None:
    """The paper's example: .70, then .85 by a reinforcing fact, then .55 by a contradicting one."""
    python = "I think Python is the best general-purpose language for data science because of its libraries."
    retain_lines(url, "Python has many libraries for data science.", profile=character(3, 3, 3))
    script = answers_in_turn(
        judging(python, 0.7, "libraries for data science"),
        revising("reinforce", "ecosystem"),
        revising("contradict", "Julia"),
    )
    memory, _ = memory_with_model(url, script)
    question = "What do you think of Python for data science?"
    with memory:
        (opinion,) = memory.reflect_sync(question).formed
        retain_lines(url, "Python has the dominant ecosystem for data science and machine learning.")
        memory.reflect_sync(question)
        retain_lines(url, "Julia and Rust outpace Python for data science in many fields.")
        memory.reflect_sync(question)
        way = memory.trajectory_sync(opinion.id)
        assert [(move.before, move.stance, move.after) for move in way] == [
            (0.7, "reinforce", 0.85),
            (0.85, "contradict", 0.55),
        ]
        evidence = [[memory.why_sync(id).fact.text for id in move.evidence] for move in way]
        assert ["ecosystem" in evidence[0][0], "Julia" in evidence[1][0]] == [True, True]
        assert [move.reason for move in way] == ["because of ecosystem", "because of Julia"]
        assert memory.opinions_sync()[0].confidence == 0.55


READ = re.compile(r"^(\d+) \| [^|]* \| (.*)$", re.MULTILINE)


def reading(asked: ReceivedRequest, **names: JsonValue) -> JsonValue:
    """A model that reads each line as a fact, by default about remote work."""
    lines = READ.findall(asked.user.rpartition("Lines to read (")[2])
    facts: list[JsonValue] = [{"what": f"Alice says: {text}", "lines": [int(n)]} for n, text in lines]
    topics: JsonValue = {"Work": [int(n) for n, _ in lines]}
    return {"topics": topics, "facts": facts, "names": names or {"concept": ["Remote work"]}}


def weakening(asked: ReceivedRequest) -> JsonValue:
    """A model that finds every opinion weakened by the first new fact."""
    return {"assessments": [{"opinion": "O1", "stance": "weaken", "evidence": ["F1"], "reason": "routines are lost"}]}


def test_a_formed_opinion_changes_with_facts_retained_later(url: str) -> None:
    memory, _ = memory_with_model(
        url,
        judging(LIKES, 0.8, "commuting"),
        predict={"statements": []},
        extract=reading,
        judge={"verdicts": []},
        opinions=weakening,
        observe=ConnectionReset(),
    )
    with memory:
        memory.retain_sync([said(COMMUTE)])
        (opinion,) = memory.reflect_sync("What do you think of remote work?").formed
        assert [mention.name for mention in opinion.entities] == ["Remote work"]
        memory.retain_sync([said(TEAM, NOON + timedelta(days=1))])
        memory.process_sync()
        (move,) = memory.trajectory_sync(opinion.id)
        assert (move.stance, move.before, move.after, move.reason) == ("weaken", 0.8, 0.65, "routines are lost")
        assert [memory.why_sync(id).fact.text for id in move.evidence] == [f"Alice says: {TEAM}"]
        assert memory.reflect_sync("Do you like remote work?").confidence_changes == ()


def test_evidence_changes_an_opinion_once_however_often_it_is_cited(url: str) -> None:
    retain_lines(url, COMMUTE, profile=character(3, 3, 3))
    memory, _ = memory_with_model(
        url, answers_in_turn(judging(LIKES, 0.6, "commuting"), revising("weaken", "routines"))
    )
    with memory:
        memory.reflect_sync("What do you think of remote work?")
        retain_lines(url, TEAM)
        moved = [memory.reflect_sync("What do you think of remote work?").confidence_changes for _ in range(3)]
        assert [len(each) for each in moved] == [1, 0, 0]
        assert memory.opinions_sync()[0].confidence == 0.45


def test_a_new_opinion_can_replace_a_held_one_which_stays_in_its_trajectory(url: str) -> None:
    retain_lines(url, COMMUTE, profile=character(3, 3, 3))

    def anew(asked: ReceivedRequest) -> JsonValue:
        mark = mark_of(asked, "routines")
        return says(f"I doubt it now [{mark}].", opinions=[opinion_json(DOUBTS, 0.65, mark, instead_of="O1")])

    memory, _ = memory_with_model(
        url, answers_in_turn(judging(LIKES, 0.6, "commuting"), revising("weaken", "routines"), anew)
    )
    with memory:
        (old,) = memory.reflect_sync("What do you think of remote work?").formed
        retain_lines(url, TEAM)
        memory.reflect_sync("What do you think of remote work?")
        (new,) = memory.reflect_sync("What do you think of remote work?").formed
        assert [opinion.id for opinion in memory.opinions_sync()] == [new.id]
        assert new.supersedes == old.id
        (closed,) = [fact for fact in memory.facts_sync() if fact.id == old.id]
        assert closed.expired_at is not None
        assert [move.opinion for move in memory.trajectory_sync(new.id)] == [old.id]
        assert [fact.id for fact in memory.why_sync(old.id).superseded_by] == [new.id]


WRONG: dict[str, dict[str, JsonValue]] = {
    "no facts": opinion_json("I think so.", 0.5),
    "unknown facts": opinion_json("I think so.", 0.5, "F99"),
    "an opinion as evidence": opinion_json("I think so.", 0.5, "O1"),
    "third person": opinion_json("The speaker thinks that it is a good thing to do.", 0.5, "F1"),
    "nothing replaced": opinion_json("I think so.", 0.5, "F1", instead_of="O7"),
}


@pytest.mark.parametrize("opinion", WRONG.values(), ids=WRONG)
def test_an_invalid_opinion_is_reported_to_the_model_and_dropped(sqlite_url: str, opinion: JsonValue) -> None:
    retain_lines(sqlite_url, COMMUTE, profile=character(3, 3, 3))
    memory, model = memory_with_model(sqlite_url, says("It saves time [F1].", opinions=[opinion]))
    with memory:
        answer = memory.reflect_sync("What do you think of remote work?")
        assert len(model.received) == 2
        assert (answer.formed, answer.flaws) == ((), ())
        assert memory.opinions_sync() == []


def test_without_bias_no_opinion_is_requested_or_stored(sqlite_url: str) -> None:
    retain_lines(sqlite_url, COMMUTE, profile=Profile(bias=0.0))
    memory, model = memory_with_model(sqlite_url, judging(LIKES, 0.8, "commuting"))
    with memory:
        assert memory.reflect_sync("What do you think of remote work?").formed == ()
        assert not {"opinions", "revised"} & set(asked_fields(model.received[0]))
        assert memory.opinions_sync() == []


PAST: list[dict[str, object]] = [
    {"opinions": False},
    {"at_time": NOON},
    {"known_at": NOON},
    {"include_expired": True},
]


@pytest.mark.parametrize("options", PAST, ids=str)
def test_no_opinion_is_formed_if_disabled_or_for_questions_about_the_past(
    sqlite_url: str, options: dict[str, object]
) -> None:
    retain_lines(sqlite_url, COMMUTE, profile=character(3, 3, 3))
    memory, model = memory_with_model(sqlite_url, judging(LIKES, 0.8, "commuting"))
    with memory:
        memory.reflect_sync("What do you think of remote work?", **options)  # pyright: ignore[reportArgumentType]
        assert memory.opinions_sync() == []
        assert not {"opinions", "revised"} & set(asked_fields(model.received[0]))


# F5: evidence, profile and belief


def test_a_fact_is_never_proved_by_an_opinion(url: str) -> None:
    retain_lines(url, COMMUTE, TEAM, profile=character(3, 3, 3))

    def mixing(asked: ReceivedRequest) -> JsonValue:
        return says(f"It is [{mark_of(asked, 'I think')}] so [{mark_of(asked, 'routines')}].")

    memory, model = memory_with_model(url, answers_in_turn(judging(LIKES, 0.8, "commuting"), mixing))
    with memory:
        memory.reflect_sync("What do you think of remote work?")
        answer = memory.reflect_sync("What is known of remote work?")
        assert {fact.network for fact in answer.facts} == {"world"}
        assert {fact.network for fact in answer.opinions} == {"opinion"}
        parts = model.received[1].user
        facts, _, rest = parts.partition("Your opinions:")
        assert LIKES not in facts
        assert LIKES in rest
        assert COMMUTE not in rest


def test_an_opinion_based_on_a_verbatim_message_is_forgotten_with_it(url: str) -> None:
    memory, _ = memory_with_model(url, judging("I think Tom is a fine cat because he likes fish.", 0.7, "fish"))
    with memory:
        memory.retain_sync([said("My cat Tom likes fish.")], infer=False)
        (opinion,) = memory.reflect_sync("What do you think of the cat Tom?").formed
        (message,) = memory.messages_sync()
        assert opinion.messages == (message.id,)
        assert memory.why_sync(opinion.id).messages == (message,)
        memory.forget_sync(messages=[message.id])
        assert memory.opinions_sync() == []


@pytest.mark.parametrize("known", [True, False], ids=["known name", "name known later"])
def test_an_opinion_based_on_a_verbatim_message_changes_with_facts_about_what_it_names(
    sqlite_url: str, known: bool
) -> None:
    if known:
        retain_lines(sqlite_url, "I met Tom in Bergen.", "Tom met Ada.", said("Ada is here.", speaker="Tom"))
    memory, _ = memory_with_model(
        sqlite_url,
        judging("I think Tom is a fine cat because he likes fish.", 0.7, "fish"),
        extract=lambda asked: reading(asked, other=["Tom"]),
        judge={"verdicts": []},
        opinions=weakening,
        observe=ConnectionReset(),
    )
    with memory:
        memory.retain_sync([said("That cat likes fish.")], infer=False)
        (opinion,) = memory.reflect_sync("What do you think of the cat that likes fish?").formed
        memory.retain_sync([said("Yesterday the neighbours were bitten by Tom.", NOON + timedelta(days=1))])
        memory.process_sync()
        assert [(change.stance, change.after) for change in memory.trajectory_sync(opinion.id)] == [("weaken", 0.55)]


def test_an_opinion_is_forgotten_with_its_supporting_fact(url: str) -> None:
    retain_lines(url, said("Remote work suits Vera.", document="a"), profile=character(3, 3, 3))
    memory, _ = memory_with_model(url, judging("I think Vera thrives because remote work suits her.", 0.7, "suits"))
    with memory:
        memory.reflect_sync("Is Vera thriving, do you think?")
    with memory_with_model(url, says(""))[0] as memory:
        memory.forget_sync(document="a")
        assert memory.opinions_sync() == []
