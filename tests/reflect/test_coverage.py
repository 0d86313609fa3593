"""Second looks of reflect: orders and summaries by session, sub-questions, both sides, and who said what."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta

import pytest
from hypothesis import given, strategies as st
from pydantic import JsonValue
from reflect_fixtures import NOON, answers_in_turn, asked_fields, memory_with_model, retain_lines, said, says, shown

from vmemo import Fact, Hit
from vmemo.embedding.token_counter import count_tokens
from vmemo.models import FactId, MessageId, Role
from vmemo.reflect.condense import condense
from vmemo.reflect.coverage import asked_speaker, by_speaker, cover_course, cover_items, cover_sessions, interleave
from vmemo.reflect.date_math import describe_differences, times_of, wrong_length
from vmemo.reflect.evidence import Source
from vmemo.text.questions.subqueries import opposite_statements

count_tokens(" ")  # The counter is loaded once, before examples are timed.
LONG = " It took me a while, and there is more to say about it than fits here, as so often with such things." * 3


def hits_of(sessions: int, each: int, text: str = "Mira fixed the boat") -> list[Hit]:
    """Hits of several sessions, the last session first."""
    values = [
        {
            "id": f"{session}-{place}",
            "bank": "b",
            "network": "world",
            "text": f"User: {text} {place}.",
            "tokens": count_tokens(f"User: {text} {place}."),
            "mentioned_at": NOON + timedelta(days=session, minutes=place),
            "episodes": (f"e{session}",),
        }
        for session in reversed(range(sessions))
        for place in range(each)
    ]
    return [Hit(fact=Fact.of(each), score=1.0) for each in values]


def sources_of(hits: list[Hit]) -> dict[FactId, Source]:
    return {
        hit.id: Source((hit.fact.mentioned_at, hit.fact.mentioned_at, 0), MessageId(hit.id), "user") for hit in hits
    }


@given(st.integers(1, 12), st.integers(1, 12), st.integers(60, 900), st.sampled_from(["Mira fixed the boat", LONG]))
def test_lines_of_all_sessions_fit_in_order(sessions: int, each: int, tokens: int, text: str) -> None:
    hits = hits_of(sessions, each, text)
    chosen = cover_sessions(hits, sources_of(hits), max_tokens=tokens, min_line=20, count=count_tokens)
    assert sum(hit.tokens for hit in chosen) <= tokens
    assert [hit.fact.mentioned_at for hit in chosen] == sorted(hit.fact.mentioned_at for hit in chosen)
    covered = {hit.fact.episodes for hit in chosen}
    assert len(covered) >= min(sessions, max(1, tokens // 20) // 2)


def test_code_is_left_out_of_a_line() -> None:
    (hit,) = hits_of(1, 1)
    text = "User: I wrote this:\n```python\nprint(1)\n```\nIt fails with error 12."
    hit = with_text(hit, text)
    only = hit.model_copy(update={"fact": hit.fact.model_copy(update={"id": "code", "text": "User: ```\nx = 1\n```"})})
    code = "User: id = db.Column(db.Integer(), primary_key=True); return jsonify({'id': id})"
    rest = hit.model_copy(update={"fact": hit.fact.model_copy(update={"id": "rest", "text": code})})
    sources = sources_of([hit, only, rest])
    chosen = cover_sessions([hit, only, rest], sources, max_tokens=100, min_line=20, count=count_tokens)
    assert [each.text for each in chosen] == ["User: I wrote this: [code] It fails with error 12."]


def test_lines_that_are_counted_keep_short_code_and_whole_enumerations() -> None:
    (hit,) = hits_of(1, 1)
    listed = "I bought a fern, a cactus, an orchid and two basil plants."
    text = (
        f"User: ```\nid, name, mail\n``` are my columns. {'It was a rather quiet day with nothing to do. ' * 9}{listed}"
    )
    hit = hit.model_copy(update={"fact": hit.fact.model_copy(update={"text": text, "tokens": count_tokens(text)})})
    (line,) = cover_sessions(
        [hit],
        sources_of([hit]),
        max_tokens=60,
        min_line=96,
        count=count_tokens,
        question="How many plants and columns?",
    )
    assert "id, name, mail are my columns." in line.text
    assert line.text.endswith(listed)


def with_text(hit: Hit, text: str) -> Hit:
    return hit.model_copy(update={"fact": hit.fact.model_copy(update={"text": text, "tokens": count_tokens(text)})})


def test_the_values_in_long_code_that_are_counted_stay() -> None:
    (hit,) = hits_of(1, 1)
    code = "import csv\n" + "call(1)\n" * 40 + 'bird_names = ["wren", "robin", "finch"]\nrun(bird_names)\n'
    hit = with_text(hit, f"User: I count birds like this:\n```python\n{code}```\nIs it right?")

    question, sources = "How many different birds did I name?", sources_of([hit])
    (item,) = cover_items([hit], sources, max_tokens=90, count=count_tokens, question=question)
    assert 'bird_names = ["wren", "robin", "finch"] [code]' in item.text
    (line,) = cover_sessions([hit], sources, max_tokens=90, min_line=24, count=count_tokens, question=question)
    assert line.text == "User: I count birds like this: [code] Is it right?"


def test_an_order_has_each_statement_once_and_follow_up_questions_last() -> None:
    texts = (
        "hmm, so how do I keep the wrens away from the seeds of the other birds in winter?",
        "I built a feeder for the wrens in the garden.",
        "I built a feeder for wrens in the big garden.",
        "I built 2 feeders for the wrens in the garden.",
        "Robins nest in the shed.",
    )
    hits = [with_text(hit, f"User: {text}") for hit, text in zip(hits_of(1, 5), texts, strict=True)]
    chosen = cover_sessions(hits, sources_of(hits), max_tokens=44, min_line=24, count=count_tokens)
    assert [hit.text.removeprefix("User: ") for hit in chosen] == [texts[1], texts[3], texts[4]]


def items_of(hits: list[Hit], max_tokens: int) -> list[str]:
    chosen = cover_items(hits, sources_of(hits), max_tokens=max_tokens, count=count_tokens, question="How many birds?")
    assert sum(hit.tokens for hit in chosen) <= max_tokens
    return [hit.text.removeprefix("User: ") for hit in chosen]


def test_items_of_one_session_are_not_displaced_by_sessions_about_something_else() -> None:
    birds, others = hits_of(1, 8, "In the garden I saw a bird of the kind"), hits_of(9, 1, "I went by train to town")
    assert [text for text in items_of([*birds, *others[:8]], 130) if "bird" in text] == [
        hit.text.removeprefix("User: ") for hit in birds
    ]


def test_items_are_shown_without_repeated_sentences_of_a_day_and_empty_questions() -> None:
    texts = (
        "I saw 2 wrens at the pond. Can you tell me more about them?",
        "Thanks. I saw 3 wrens at the pond.",
        "What do they eat? I saw 2 wrens at the pond. My aunt saw an owl.",
        "What do owls eat?",
    )
    hits = [with_text(hit, f"User: {text}") for hit, text in zip(hits_of(1, 4), texts, strict=True)]
    shown_texts = items_of(hits, 200)
    assert shown_texts == [
        "I saw 2 wrens at the pond.",
        "Thanks. I saw 3 wrens at the pond.",
        "My aunt saw an owl.",
        texts[3],
    ]
    later = [*hits[:1], with_text(hits_of(2, 1)[0], f"User: {texts[0]}")]
    assert len(items_of(later, 200)) == 2


def test_replies_do_not_take_the_place_of_what_is_counted() -> None:
    hits = hits_of(1, 6)
    sources = sources_of(hits)
    for hit in hits[:3]:
        sources[hit.id] = replace(sources[hit.id], role="assistant")
    assert by_speaker(hits, sources, "count", "How many boats did I sell?") == [*hits[3:], *hits[:3]]


def test_a_date_a_title_and_a_number_are_not_divided() -> None:
    text = "On March 3, 2024, I met Dr. Weiss, and it cost $1,200.50 at 10:30."
    for tokens in range(8, 40):
        short = condense(f"User: {text}", tokens, count_tokens) or ""
        assert ("March 3" in short) == ("March 3, 2024" in short)
        assert ("Dr." in short) == ("Dr. Weiss" in short)
        assert ("1,2" in short) == ("$1,200.50 at 10:30" in short)


def test_the_best_hits_of_each_query_come_first() -> None:
    one, two, *others = hits_of(1, 8)
    assert interleave([[one, *others], [two, *others, one]])[:3] == [one, two, others[0]]


def test_short_lines_make_place_for_more_of_them() -> None:
    hits = hits_of(12, 1)
    chosen = cover_sessions(hits, sources_of(hits), max_tokens=200, min_line=96, count=count_tokens)
    assert len(chosen) == 12


def test_a_shortened_line_keeps_its_numbers_and_names() -> None:
    text = (
        "User: I'm working on the dashboard, and I want to make sure that it is fast, can you help me with that? After "
        "a long search through everything that could be slow it went from 800ms to 250ms with Redis, which is nice."
    )
    short = condense(text, 40, count_tokens)
    assert short is not None
    assert short.startswith("User: working on the dashboard, …")
    assert "from 800ms to 250ms with Redis" in short
    assert "help me" not in short
    assert count_tokens(short) <= 40


def test_a_reply_to_another_statement_is_not_attached() -> None:
    stall, knee, bread = hits_of(1, 3)
    texts = ("User: I want to open a stall.", "Assistant: Rest your knee, and cool it twice a day with ice in a cloth.")
    texts = (*texts, "Assistant: A stall needs a permit of the town, so call the market office early in the morning.")
    hits = [
        hit.model_copy(update={"fact": hit.fact.model_copy(update={"text": text, "tokens": count_tokens(text)})})
        for hit, text in zip((stall, knee, bread), texts, strict=True)
    ]
    roles: tuple[Role, ...] = ("user", "assistant", "assistant")
    sources = {
        hit.id: Source((NOON, NOON, place), MessageId(hit.id), role, content=hit.text)
        for place, (hit, role) in enumerate(zip(hits, roles, strict=True))
    }
    for found, number in ((hits[:2], 1), ([hits[0], hits[2]], 2)):
        chosen = cover_course(found, sources, max_tokens=400, count=count_tokens, question="How did my stall develop?")
        assert len(chosen) == number


@given(st.text(max_size=300), st.integers(1, 60))
def test_a_shortened_line_fits(text: str, tokens: int) -> None:
    short = condense(text, tokens, count_tokens)
    assert short is None or count_tokens(short) <= tokens


def test_an_order_lists_what_was_said_by_whom_in_order(sqlite_url: str) -> None:
    lines = ["The boat has a leak.", "The sail of the boat is torn.", "I painted the boat.", "The boat needs a name."]
    # All lines have one time, so only the order in which they were given remains.
    messages = [
        message
        for number, line in enumerate(lines)
        for message in (
            said(line, speaker=None).model_copy(update={"recorded_at": NOON + timedelta(seconds=2 * number)}),
            said(f"The boat of number {number} is fine, let us go on.", speaker=None, role="assistant").model_copy(
                update={"recorded_at": NOON + timedelta(seconds=2 * number + 1)}
            ),
        )
    ]
    retain_lines(sqlite_url, *messages)
    memory, model = memory_with_model(sqlite_url, says("1. The leak [F1]"))
    with memory:
        memory.reflect_sync("In what order did I bring up problems with the boat?", max_lookups=0)
        asked = model.received[0]
        assert [text.removeprefix("User: ") for text in shown(asked).values()] == lines
        assert list(shown(asked)) == ["F1", "F2", "F3", "F4"]
        assert "Facts, in the order in which they were said" in asked.user
        assert asked_fields(asked) == ["steps", "found", "text"]


def test_an_order_contains_questions_that_were_asked(sqlite_url: str) -> None:
    lines = [
        "I want to paint the boat.",
        "How do you clean a hull?",
        "And you?",
        "I bought a sail for the boat.",
    ]
    retain_lines(sqlite_url, *(said(line, NOON + timedelta(minutes=n), speaker=None) for n, line in enumerate(lines)))
    memory, model = memory_with_model(sqlite_url, says("1. Paint [F1]"))
    with memory:
        memory.reflect_sync("In what order did I bring up aspects of the boat and its hull?")
        texts = [text.removeprefix("User: ") for text in shown(model.received[0]).values()]
        assert texts == [lines[0], lines[1], lines[3]]
        assert not any("clean" in hit.text for hit in memory.recall_sync("the boat and its hull").hits)


def test_a_summary_covers_every_session(sqlite_url: str) -> None:
    lines = [said(f"My boat, part {n}: {LONG}", NOON + timedelta(days=n), speaker=None) for n in range(12)]
    retain_lines(sqlite_url, *lines)
    memory, model = memory_with_model(sqlite_url, says("It went well [F1]."))
    with memory:
        memory.reflect_sync("Give me a summary of how my boat developed.", max_tokens=1200)
        texts = list(shown(model.received[0]).values())
        assert [int(text.partition("part ")[2].partition(":")[0]) for text in texts] == list(range(12))


def test_a_summary_contains_what_changed_later(sqlite_url: str) -> None:
    retain_lines(
        sqlite_url,
        said("My allotment lies in Rome.", NOON),
        said("I live in Rome.", NOON + timedelta(minutes=1)),
        said("I now live in Oslo.", NOON + timedelta(days=30)),
    )
    memory, model = memory_with_model(sqlite_url, says("You moved [F1]."))
    with memory:
        memory.reflect_sync("Give me a summary of where Alice lives.")
    texts = list(shown(model.received[0]).values())
    assert "Alice: I live in Rome." in texts
    assert "Alice: I now live in Oslo." in texts


@pytest.mark.parametrize(
    ("question", "speaker"),
    [
        ("In what order did I bring up my fears?", "user"),
        ("List the order in which you suggested the exercises.", "assistant"),
        ("What is the order of the islands?", None),
        ("Give me the order in which we've discussed the chapters.", "user"),
    ],
)
def test_the_order_is_of_the_statements_of_one_speaker(question: str, speaker: str | None) -> None:
    assert asked_speaker(question) == speaker


def test_both_sides_of_a_yes_or_no_question_are_looked_for(sqlite_url: str) -> None:
    retain_lines(
        sqlite_url, "I have never used a lathe.", *[f"The lathe number {n} was loud today." for n in range(30)]
    )
    memory, model = memory_with_model(sqlite_url, says("Contradictory [F1]."))
    with memory:
        memory.reflect_sync("Have I ever used a lathe?", max_tokens=240)
        assert any("never used" in text for text in shown(model.received[0]).values())
        assert "ask which one is correct" in " ".join(model.received[0].system.split())


@pytest.mark.parametrize(
    ("question", "statements"),
    [
        ("Have I ever used a lathe?", ("I have never used a lathe",)),
        ("Did Omar ever own a bakery?", ("Omar never own a bakery",)),
        ("Is my knee healed?", ("my knee is not healed",)),
        ("Where do I live?", ()),
        ("Tell me about Omar.", ()),
    ],
)
def test_a_yes_or_no_question_has_a_statement_that_denies_it(question: str, statements: tuple[str, ...]) -> None:
    assert opposite_statements(question) == statements


def test_the_parts_of_a_question_are_recalled_one_by_one(sqlite_url: str) -> None:
    noise = [f"My dentist visit number {n} was short." for n in range(20)]
    retain_lines(sqlite_url, *noise, "I ran the marathon on 3 May 2023.", "My dentist visit was on 1 March 2023.")
    memory, model = memory_with_model(sqlite_url, says("63 days [F1]."))
    with memory:
        memory.reflect_sync("How many days passed between my dentist visit and the marathon?", max_tokens=200)
        asked = model.received[0]
        assert any("marathon" in text for text in shown(asked).values())
        assert "(3 May 2023): 63 days" in asked.user


# Who asks, and who said it


def test_the_one_who_asks_is_named(sqlite_url: str) -> None:
    retain_lines(sqlite_url, "My boat is red.")
    memory, model = memory_with_model(sqlite_url, says("Red [F1]."))
    with memory:
        memory.reflect_sync("What colour is my boat?")
        assert "\nAlice: What colour is my boat?\n" in model.received[0].user
        assert '"I" and "my" in the question mean the one who asks' in model.received[0].system


def test_nobody_is_named_in_a_question_without_i(sqlite_url: str) -> None:
    retain_lines(sqlite_url, "My boat is red.")
    memory, model = memory_with_model(sqlite_url, says("Red [F1]."))
    with memory:
        memory.reflect_sync("What colour is the boat of Alice?")
        assert "\nWhat colour is the boat of Alice?\n" in model.received[0].user


def test_nobody_is_named_if_several_people_speak(sqlite_url: str) -> None:
    retain_lines(sqlite_url, "My boat is red.", said("My boat is blue.", speaker="Ben"))
    memory, model = memory_with_model(sqlite_url, says("Red [F1]."))
    with memory:
        memory.reflect_sync("What colour is my boat?")
        memory.reflect_sync("What colour is my red boat?", max_tokens=12, max_lookups=0)
        assert "\nWhat colour is my boat?\n" in model.received[0].user
        assert "\nWhat colour is my red boat?\n" in model.received[1].user, "although only Alice is quoted"


def test_the_assistants_own_words_are_marked(sqlite_url: str) -> None:
    retain_lines(
        sqlite_url,
        said("I will paint my boat green this summer.", speaker=None),
        said(
            "You could paint your boat blue or white in spring.",
            NOON + timedelta(minutes=1),
            speaker=None,
            role="assistant",
        ),
    )
    memory, model = memory_with_model(sqlite_url, says("Green [F1]."))
    with memory:
        memory.reflect_sync("Which colour will I paint my boat?")
        marked = [line for line in model.received[0].user.splitlines() if "(yours)" in line]
        assert len(marked) == 1
        assert "blue or white" in marked[0]
        assert "outranks them" in model.received[0].system


# Lengths of time


def dated(text: str) -> Fact:
    values = {"id": FactId("f"), "bank": "b", "network": "world", "tokens": 1, "engine": "local"}
    return Fact.of(values | {"text": text, "mentioned_at": NOON})


def test_a_deadline_is_a_date_of_an_event() -> None:
    facts = [
        ("F1", dated("User: I scheduled the meeting for 15 March 2023.")),
        ("F2", dated("User: The prototype must be ready by 5 April 2023.")),
    ]
    pairs = describe_differences(facts, datetime(2024, 6, 1, tzinfo=UTC), events=["the meeting", "the prototype"])
    assert [pair.rpartition(": ")[2] for pair in pairs] == ["21 days, or 3 weeks"]


def test_all_dates_of_the_named_events_are_paired_and_no_others() -> None:
    facts = [
        ("F1", dated("User: The first sprint ended on 29 March 2023, and the analytics are due on 19 April 2023.")),
        ("F2", dated("User: I bought bread on 1 May 2023.")),
    ]
    pairs = describe_differences(
        facts, datetime(2024, 6, 1, tzinfo=UTC), events=["the end of the first sprint", "the analytics"]
    )
    assert pairs == ["From F1 (29 March 2023) to F1 (19 April 2023): 21 days, or 3 weeks"]


def test_facts_that_share_few_words_with_an_event_are_not_paired() -> None:
    facts = [
        ("F1", dated("User: The harbour fair opened on 3 May 2023.")),
        ("F2", dated("User: The harbour was dredged on 9 June 2023.")),
        ("F3", dated("User: The flood was on 20 May 2023.")),
    ]
    pairs = describe_differences(facts, datetime(2024, 6, 1, tzinfo=UTC), events=["the harbour fair opening", "flood"])
    assert [pair.partition(":")[0] for pair in pairs] == ["From F1 (3 May 2023) to F3 (20 May 2023)"]


def test_the_date_of_an_event_is_that_of_the_sentence_about_it() -> None:
    facts = [
        ("F1", dated("User: I was in Rome on 2 May 2023. The survey was done on 9 May 2023. I flew on 30 May 2023.")),
        ("F2", dated("User: I present the survey on 16 May 2023.")),
    ]
    events = ["the survey done", "present the survey"]
    pairs = describe_differences(facts, datetime(2024, 6, 1, tzinfo=UTC), events=events)
    assert [pair.partition(":")[0] for pair in pairs] == ["From F1 (9 May 2023) to F2 (16 May 2023)"]


@pytest.mark.parametrize(
    ("question", "order", "pairs"),
    [
        ("How long did the voyage last?", 0, 1),
        ("How many days ago did I sail?", 0, 0),
        ("Which did I do first?", 1, 0),
    ],
)
def test_only_the_times_that_are_asked_for_are_computed(question: str, order: int, pairs: int) -> None:
    facts = [("F1", dated("User: I sailed on 2 May 2023.")), ("F2", dated("User: I landed on 9 May 2023."))]
    found = describe_differences(facts, datetime(2024, 6, 1, tzinfo=UTC), question=question)
    assert sum(line.startswith("In order") for line in found) == order
    assert sum(line.startswith("From") for line in found) == pairs


def test_a_date_without_a_year_is_completed_by_the_time_of_its_message() -> None:
    facts = [
        ("F1", dated("Assistant: You finish the draft on July 10th.")),
        ("F2", dated("User: The review is on the 2nd of August.")),
    ]
    pairs = describe_differences(facts, datetime(2024, 6, 1, tzinfo=UTC), events=["the draft", "the review"])
    assert [pair.partition(":")[0] for pair in pairs] == ["From F1 (10 July 2024) to F2 (2 August 2024)"]


@pytest.mark.parametrize(
    "said", ["The exam is on 22 April.", "I had until 22 April.", "On 22 April the exam took place."]
)
def test_a_date_without_a_year_is_the_nearest_one_to_its_mention(said: str) -> None:
    for mentioned in (datetime(2024, 4, 1, tzinfo=UTC), datetime(2024, 5, 20, tzinfo=UTC)):
        fact = dated(f"User: {said}").model_copy(update={"mentioned_at": mentioned})
        assert {time.period.last for time in times_of(fact, mentioned).events} == {date(2024, 4, 22)}


def test_a_term_ahead_of_its_mention_is_not_in_a_past_year() -> None:
    fact = dated("User: The council wants the form by 15 October.").model_copy(
        update={"mentioned_at": datetime(2024, 2, 3, tzinfo=UTC)}
    )
    assert {time.period.last for time in times_of(fact, NOON).events} == {date(2024, 10, 15)}


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("It took 63 days [F1].", False),
        ("It took 9 weeks.", False),
        ("64 days, counting both ends", False),
        ("About 2 months", False),
        ("It took 56 days.", True),
        ("It took 8 weeks.", True),
        ("It took a while.", False),
    ],
)
def test_a_length_that_the_dates_do_not_have_is_found(text: str, wrong: bool) -> None:
    lengths = wrong_length(text, "2023-03-01", "2023-05-03")
    assert lengths == ("63 days, or 9 weeks, or 2 months and 2 days" if wrong else None)
    assert wrong_length(text, "soon", "2023-05-03") is None


@given(st.dates(date(1900, 1, 1), date(2100, 1, 1)), st.integers(0, 3000))
def test_the_exact_number_of_days_is_never_wrong(first: date, days: int) -> None:
    assert wrong_length(f"{days} days", first.isoformat(), (first + timedelta(days=days)).isoformat()) is None


def test_a_wrong_length_is_reported_to_the_model_once(sqlite_url: str) -> None:
    retain_lines(sqlite_url, "I saw the dentist on 1 March 2023.", "I ran the marathon on 3 May 2023.")
    spans: JsonValue = [{"start": "2023-03-01", "end": "2023-05-03"}]
    answers = (says("56 days [F1].", spans=spans), says("63 days [F1].", spans=spans))
    memory, model = memory_with_model(sqlite_url, answers_in_turn(*answers))
    with memory:
        answer = memory.reflect_sync("How many days passed between my dentist visit and the marathon?")
        assert "it is 63 days, or 9 weeks" in model.received[1].user
        assert answer.plain.startswith("63 days")
        assert "do not calculate" not in model.received[0].system
