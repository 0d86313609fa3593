"""The facts that reflect shows to a model, and those that it quotes without one."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta, timezone

import pytest

from vmemo import Fact, Hit
from vmemo.embedding.token_counter import count_tokens
from vmemo.models import HitStatus, Role
from vmemo.reflect.evidence import Evidence, Source, excerpt
from vmemo.reflect.pipeline import close_hits, extractive_answer
from vmemo.text.tokens import terms

ASKED = datetime(2024, 6, 1, 12, tzinfo=UTC)
MORNING = datetime(2024, 5, 8, 9, 30, tzinfo=UTC)


def a_hit(id: str, text: str, at: datetime = MORNING, status: HitStatus = "current", **more: object) -> Hit:
    plain = {"id": id, "bank": "b", "network": "world", "text": text, "tokens": count_tokens(text), "mentioned_at": at}
    return Hit(fact=Fact.of({**plain, "recorded_at": at, **more}), score=1.0, status=status)


def a_claim(text: str, words: str, *, replaced_by: str = "b", **more: object) -> dict[str, object]:
    start = text.index(words)
    plain = {"text": words, "start": start, "end": start + len(words), "replaced_by": replaced_by}
    return {**plain, "outdated": 0.5, **more}


def rendered(hits: Sequence[Hit], asked_at: datetime = ASKED) -> str:
    evidence = Evidence(asked_at, count_tokens)
    evidence.add(hits, 10_000)
    return evidence.render("F")


def lines(hits: Sequence[Hit], asked_at: datetime = ASKED) -> list[str]:
    """Return the marks and notes of each fact, without its dates and text, in the order in which they are shown."""
    return [line.partition(" | ")[0] for line in rendered(hits, asked_at).splitlines()[1:-1] if " | " in line]


@pytest.mark.parametrize(
    ("status", "notes"), [("current", ""), ("maybe_outdated", " (maybe outdated)"), ("former", " (former)")]
)
def test_the_status_of_a_fact_is_noted(status: HitStatus, notes: str) -> None:
    assert lines([a_hit("a", "Mira works at Initech.", status=status)]) == [f"F1{notes}"]


def test_a_former_fact_names_its_replacement() -> None:
    new = a_hit("b", "Mira works at Globex.", MORNING + timedelta(days=1), supersedes="a")
    assert lines([new, a_hit("a", "Mira works at Initech.", status="former")]) == ["F2 (former, changed by F1)", "F1"]


def test_a_mark_is_on_the_part_that_may_be_outdated_and_names_the_newer_fact_if_it_is_shown() -> None:
    new, old = a_hit("b", "Mira works at Globex."), "Mira works at Initech. She has two cats."
    part = a_hit("a", old, status="maybe_outdated", claims=[a_claim(old, "Mira works at Initech.")])
    all_of_it = "Mira works at Hooli."
    whole = a_hit("c", all_of_it, status="maybe_outdated", claims=[a_claim(all_of_it, all_of_it)])
    assert "| [maybe outdated: Mira works at Initech.] She has two cats." in rendered([part])
    assert lines([whole]) == ["F1 (maybe outdated)"]
    assert "| [maybe outdated, see F1: Mira works at Initech.] She has two cats." in rendered([new, part])
    assert lines([new, whole]) == ["F1", "F2 (maybe outdated, see F1)"]
    ended = a_hit("a", old, claims=[a_claim(old, "She has two cats.", invalid_at=MORNING)])
    assert "| Mira works at Initech. [former, see F1: She has two cats.]" in rendered([new, ended])


@pytest.mark.parametrize("text", ["I'm so happy for you!", "Good evening.", "Congrats, that sounds like fun!"])
def test_a_cheer_is_not_marked_as_outdated(text: str) -> None:
    said = f"Ana: {text} I live in Rome."
    hit = a_hit("a", said, status="maybe_outdated", claims=[a_claim(said, text), a_claim(said, "I live in Rome.")])
    assert f"| Ana: {text} [maybe outdated: I live in Rome.]" in rendered([hit])


CODE = """Open the file first, because it may be missing, and then close it again.

```python
def load(path):
    if not path.exists(): pass
    return open(path), path.stat().st_size, 42
```

Call `load(a, b: c, d)` once, and log the size of what it returns. The timeout is 30 seconds, as far as I know."""


@pytest.mark.parametrize("question", ["What is the timeout?", "How big is the path's stat?", "How do I call load?"])
@pytest.mark.parametrize("tokens", [20, 40, 60])
def test_code_is_never_cut(question: str, tokens: int) -> None:
    text = excerpt(CODE, frozenset(terms(question)), tokens, count_tokens)
    assert ("def load" in text, text.count("```")) in ((True, 2), (False, 0))
    assert ("`load(a, b: c, d)`" in text) == ("`load" in text)
    cut = a_hit("a", CODE).truncate(tokens, count_tokens)
    assert cut is not None
    assert cut.text.count("```") in (0, 2)


def test_fewer_facts_are_near_enough_if_the_best_one_stands_out() -> None:
    def kept(second: float, *, may_search: bool) -> int:
        long = "Mira works at Initech, on the third floor, in the room at the end. " * 10
        scores = [1.0, second, *([0.8] * 8), *([0.45] * 5)]
        hits = [a_hit(str(n), long).model_copy(update={"score": score}) for n, score in enumerate(scores)]
        return len(close_hits(hits, may_search=may_search))

    assert (kept(0.95, may_search=True), kept(0.85, may_search=True)) == (15, 10)
    assert kept(0.85, may_search=False) == 15


def test_the_end_of_a_fact_is_shown_if_what_changed_it_is_not() -> None:
    new = a_hit("b", "Mira works at Globex.", MORNING + timedelta(days=1), supersedes="a")
    end = MORNING + timedelta(days=1)
    old = a_hit("a", "Mira works at Initech.", status="former", invalid_at=end, expired_at=end)
    for hits, number in (([old], 1), ([old, new], 0)):
        evidence = Evidence(ASKED, count_tokens)
        evidence.add(hits, 1000)
        assert evidence.render("F").count("no longer true since") == number


def test_instructions_among_the_facts_are_listed_with_the_others_newest_first() -> None:
    dates, units = (a_hit(id, f"User: Always give {id}.", MORNING, instruction=True) for id in ("dates", "units"))
    later = a_hit("times", "User: Always give times.", MORNING + timedelta(days=1), instruction=True)
    former = a_hit("old", "User: Never give times.", status="former", instruction=True)
    evidence = Evidence(ASKED, count_tokens, recalled_instructions=(dates.fact,))
    evidence.add([dates, units, former, later], 1000)
    assert [fact.id for fact in evidence.instructions] == ["times", "dates", "units"]


def test_mere_reactions_are_no_evidence() -> None:
    said = ("Ana: Hmm, that makes sense.", "Ana: Okay, I sold the van.", "Ana: Sure, that works for me!", "Ana: Oslo.")
    hits = [a_hit(str(place), text, engine="local") for place, text in enumerate(said)]
    evidence = Evidence(ASKED, count_tokens)
    evidence.add(hits, 1000)
    assert [hit.id for hit in evidence.hits.values()] == ["1", "3"]


@pytest.mark.parametrize(
    ("role", "engine", "network", "text", "is_own"),
    [
        ("assistant", "local", "experience", "Assistant: Try a splint.", True),
        ("user", "local", "experience", "Ana: I advised him to rest.", False),
        ("assistant", "model/extract-4", "world", "Ana is allergic to nuts.", False),
        ("user", "model/extract-4", "experience", "Ana was advised to rest.", True),
        ("user", "model/extract-4", "world", "I advised Ana to rest.", True),
        ("user", "model/extract-4", "world", "Ana was advised to rest.", False),
    ],
)
def test_only_the_assistants_own_statements_are_marked(
    role: Role, engine: str, network: str, text: str, is_own: bool
) -> None:
    hit = a_hit("a", text, engine=engine, network=network)
    evidence = Evidence(ASKED, count_tokens, sources={hit.id: Source((MORNING, MORNING, 0), role=role)})
    evidence.add([hit], 1000)
    assert ("F1 (yours)" in evidence.render("F")) == is_own


def test_facts_stand_in_the_order_in_which_they_were_said_under_their_day() -> None:
    later, first = a_hit("a", "x", MORNING + timedelta(minutes=5)), a_hit("b", "y")
    other_day = a_hit("d", "w", MORNING + timedelta(days=1))
    evidence = Evidence(ASKED, count_tokens)
    evidence.add([later, other_day, first], 100)
    assert evidence.render("F").splitlines()[1:-1] == [
        "Wednesday, 8 May 2024, 24 days ago:",
        "F3 | y",
        "F1 | x",
        "Thursday, 9 May 2024, 23 days ago:",
        "F2 | w",
    ]


def test_the_day_is_that_of_the_questions_time_zone() -> None:
    evidence = Evidence(ASKED.astimezone(timezone(timedelta(hours=2))), count_tokens)
    evidence.add([a_hit("a", "x", datetime(2024, 5, 8, 22, 30, tzinfo=UTC))], 100)
    assert "Thursday, 9 May 2024" in evidence.render("F")


def test_evidence_that_does_not_fit_is_truncated_and_not_replaced() -> None:
    long = a_hit("a", "Mira moved. " + "She likes the new flat by the river. " * 20)
    evidence = Evidence(ASKED, count_tokens)
    assert evidence.add([long, a_hit("b", "Short.")], 30) == 1
    (hit,) = evidence.hits.values()
    assert (hit.id, hit.truncated, evidence.tokens) == ("a", True, count_tokens(hit.text))
    assert evidence.tokens <= 30
    assert "\nF1 (shortened) | " in evidence.render("F")
    assert evidence.add([long, a_hit("b", "Short.")], 30) == 1, "a later lookup adds other facts"
    assert evidence.add([long], long.tokens, whole=True) == 0
    assert evidence.hits["F1"] == long, "a tool that shows whole facts restores the text"


def test_quoted_facts_are_marked_and_cited_by_short_ids() -> None:
    id = "0f9a3c52-7d1e-5b6f-9c3d-1e2f3a4b5c6d"
    old = a_hit(id, "Mira works at Initech.", status="former", invalid_at=datetime(2024, 5, 20, tzinfo=UTC))
    new = a_hit("b", "Mira works at Globex.", status="maybe_outdated")
    answer = extractive_answer("Where does Mira work?", [new, old], asked_at=ASKED)
    assert answer.readable().splitlines()[1:] == [
        "- 8 May 2024 (maybe outdated): Mira works at Globex. [b]",
        "- 8 May 2024 (former, until 20 May 2024): Mira works at Initech. [0f9a3c52]",
    ]
    assert f"[{id}]" in answer.text
