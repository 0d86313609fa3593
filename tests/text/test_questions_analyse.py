"""Types, times and sub-queries of queries."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import example, given, strategies as st

from vmemo.models import Interval, QueryType
from vmemo.text.questions import analyse_query

NOW = datetime(2024, 6, 12, 15, 30, tzinfo=UTC)
"""A Wednesday."""

EXAMPLES: dict[QueryType, list[str]] = {
    "temporal": [
        "When did I adopt the parrot?",
        "Do you remember when Ana moved to Lisbon?",
        "How long have I been learning Welsh?",
        "How many weeks ago did the boiler break?",
        "How many days were there between the audit and the launch?",
        "How many years have I known Ben?",
        "Which did I finish first, the shed or the fence?",
        "What year did my parents buy the cabin?",
        "On which day is the piano lesson?",
        "How old was Carla when she learned to sail?",
        "Did the concert come before or after the exam?",
        "since when does Omar own the bakery",
        "What did we eat last Friday?",
        "Who visited me in March 2023?",
        "pottery class last autumn",
        "What has Lena been reading lately?",
        "When and where did I lose my keys?",
        "When did her daughter object?",
        "How many days were there between the offer and the answer?",
        "Which came first, the wedding or the fair?",
        "What did I do in March 2023?",
        "Who called first, Ana or Ben?",
        "How long after the offer did they answer?",
        "Who visited last June?",
        "What year did I graduate?",
        "What have I been doing lately?",
        "Between which dates was the cat missing?",
        "In which months did she train?",
    ],
    "update": [
        "Where does Omar work now?",
        "What is my current weight?",
        "Do I still rent the garage?",
        "What is Ana's latest phone number?",
        "Who coaches the team these days?",
        "How many hens do I currently keep?",
        "Is Ben allergic to cats anymore?",
        "What did I use before I switched to the blue notebook?",
        "What was my previous landlord called?",
        "Has Carla found a flat yet?",
        "What is the most recent version of the budget?",
        "Where did Ana use to live, and is that what it is at the moment?",
        "What is my current order of medication?",
        "Has Ana moved yet?",
        "Have I changed my phone number?",
        "Have I stopped smoking by now, or do I still smoke?",
        "What is the latest order of the chapters?",
    ],
    "multi-hop": [
        "What do Ana and Ben both collect?",
        "What do my uncle and Carla have in common?",
        "Is Lena taller than Omar?",
        "Does Omar go to the same gym as Lena?",
        "How does my rent compare to Ben's rent?",
        "What does her sister's husband's company sell?",
        "Where does the person who repaired my bike live?",
        "What is the mayor of the town where Carla studies called?",
        "What kinds of trees did Omar plant?",
        "List all the recipes from Ana",
        "Where does she work and who is her boss?",
    ],
    "preference": [
        "Can you recommend a podcast?",
        "Could you please suggest a name for the boat?",
        "What should I cook for Ana?",
        "Should I buy the red bicycle?",
        "Any tips for sleeping better?",
        "I need some advice about my garden",
        "What would be a nice present for Omar?",
        "Help me choose a paint for the hall",
        "I'm looking for a quiet hotel",
        "What could I watch tonight?",
        "I have run out of novels. What would suit me next?",
        "Plan a birthday dinner for my wife.",
        "What is my favourite soup?",
        "Does Lena like spicy food?",
        "Which tea do I prefer?",
        "Who enjoys chess?",
        "Is Ben a fan of opera?",
        "What kind of music does Carla love?",
        "Would my mother enjoy a cruise?",
        "Can you suggest an order for the songs?",
        "What should I read next?",
        "Which steps would you suggest I take?",
        "What would you recommend after the surgery?",
        "Could you suggest how to order my bookshelf?",
    ],
    "assistant": [
        "What did you recommend for my back pain?",
        "What was the name of the café you mentioned?",
        "Which book did you suggest?",
        "Remind me what you said about visas",
        "How did you recommend I store the starter?",
        "What rank must an officer have, according to you?",
        "Which starter was it that you came up with?",
        "What was your advice on the loan?",
        "How many exercises did you list?",
        "When did you tell me about the strike?",
        "You told me about a museum in Porto.",
        "In our last conversation, what was the third option?",
        "What was the assistant's answer about taxes?",
        "Did the assistant explain the second rule?",
        "Can you repeat your previous answer?",
        "Which painters did you bring up?",
        "Who played the villain in the ad you scripted?",
        "What was the hiking trail we talked about?",
        "Did I like the hotel you've recommended?",
        "What have you written about lichens? You wrote a poem.",
        "What did you yourself say about the visa?",
        "Which order did you recommend placing?",
        "What was the summary you wrote about lichens?",
        "What order did you suggest for the exercises?",
        "Which summary did you give me of the novel?",
    ],
    "count": [
        "How many marathons have I run?",
        "How often do I water the ferns?",
        "How many times did Ana cancel?",
        "How much did I spend on paint in total?",
        "How much have I saved for the boat?",
        "What is the total weight of my luggage?",
        "What is the number of guests at the wedding?",
        "How many siblings does Omar have?",
        "How frequently does Lena call?",
        "How many hours a week does Ben practise?",
        "how many chairs did we order last month",
        "Count all the museums I went to",
        "How much time do I spend on trains?",
        "How many plants and books did I buy?",
    ],
    "factual": [
        "Who is my dentist?",
        "What colour is the front door?",
        "What kind of dog does my neighbour have?",
        "Where does Carla study?",
        "Which airline lost my bag?",
        "Did Omar pass the exam?",
        "What is the name of Lena's boat?",
        "Why did Ana quit the choir?",
        "How did Ben break his arm?",
        "Is the cabin near a lake?",
        "did ben sell the van",
        "I wonder where Omar keeps the ladder",
        "How much did the sofa cost?",
        "What does the new kitchen look like?",
        "When I was ill, who walked the dog?",
        "What did I tell you about my allergy?",
        "What did Ana recommend?",
        "Remind me of Ben's address",
        "What is my last name?",
        "What did Mrs. Alder plan for the farm before her daughter objected?",
        "Who lived in the flat before Tom moved in?",
        "What did the vet say after she examined the dog?",
        "What did I order at the restaurant?",
        "Who wrote the summary of the meeting?",
        "Where is the overview map kept?",
        "In order to get the visa, what did Ana need?",
        "What did he believe until the letter arrived?",
        "Which hotel did we book after the first one cancelled?",
        "What was on the table before the guests came?",
        "What did Ben order for lunch?",
        "Which overview did the teacher hand out?",
    ],
    "general": [
        "hello",
        "Hi there, how are you?",
        "How are you doing today?",
        "Thanks a lot!",
        "I still live in Oslo.",
        "I went to Paris last week and it rained all the time.",
        "What a day!",
        "What is it?",
        "Ana garden",
        "pottery",
        "Tell me about Omar",
        "The vet of Anna's dog moved to another town yesterday.",
        "My current job is fine.",
        "When I was young we had no car.",
        "ok",
    ],
}


@pytest.mark.parametrize(("type", "text"), [(type, text) for type, texts in EXAMPLES.items() for text in texts])
def test_queries_are_classified_by_what_they_ask_for(type: QueryType, text: str) -> None:
    assert analyse_query(text, NOW).type == type


@pytest.mark.parametrize(
    ("text", "type"),
    [
        ("How many books did you recommend last year?", "assistant"),
        ("Can you suggest what to do now?", "preference"),
        ("How long have I had my current car?", "temporal"),
        ("When should I leave for the airport?", "temporal"),
        ("What did the doctor say I should eat?", "factual"),
        ("How often do I run these days?", "update"),
        ("Do Ana and Ben both still work there?", "update"),
        ("How many books did both Ana and Ben read in 2023?", "count"),
        ("What do Ana and Ben both like?", "multi-hop"),
        ("What did I like most last summer?", "preference"),
        ("What activities did Ana do last week?", "temporal"),
        ("I am tired now. Where does Ana live?", "factual"),
    ],
)
def test_the_first_type_that_applies_decides(text: str, type: QueryType) -> None:
    assert analyse_query(text, NOW).type == type


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("Which came first, the trip to Oslo or the new job?", ["the trip to Oslo", "the new job"]),
        ("Who moved first, Ana or Ben?", ["Ana", "Ben"]),
        ("How many days passed between my dentist visit and the marathon?", ["my dentist visit", "the marathon"]),
        ("What is the difference between Ana's job and Ben's job?", ["Ana's job", "Ben's job"]),
        ("Where does she work and who is her boss?", ["Where does she work", "who is her boss"]),
        ("Where does Ana live? And what is her job?", ["Where does Ana live", "what is her job Ana"]),
        ("Do you know where Ben works and what he earns?", ["where Ben works", "what he earns Ben"]),
    ],
)
def test_a_compound_question_is_split_into_sub_queries(text: str, parts: list[str]) -> None:
    assert list(analyse_query(text, NOW).parts) == parts


@pytest.mark.parametrize(
    "text",
    [
        "Where does Carla study?",
        "When and where did I meet Ana?",
        "Did Simon and Garfunkel play in Oslo?",
        "How many black and white shirts did I buy?",
        "What happened between Ana and Ben?",
        "What happened between March and June 2023?",
        "How many days are there between 3 March 2024 and 9 March 2024?",
        "Who is the person who fixed my sink?",
        "What is the name of the book that I lost?",
        "What is Tom's sister's name?",
        "How did the interview of my wife go?",
        "What did I order for my aunt, and how much was it?",
        "Did the roof leak? Which one was it?",
        "What did you say about the trip and the hotel?",
        "Should I buy the boat or the van first?",
        "Where does Dr. Smith live?",
        "I wonder who sold the salt and pepper mill",
        "The dog of Tom's sister is ill.",
    ],
)
def test_a_simple_question_is_not_split(text: str) -> None:
    assert analyse_query(text, NOW).parts == ()


def test_there_are_at_most_four_sub_queries_and_none_is_the_whole_question() -> None:
    text = "Where is Ana? Where is Ben? Where is Carla? Where is Omar? Where is Lena?"

    parts = analyse_query(text, NOW).parts

    assert parts == ("Where is Ana", "Where is Ben", "Where is Carla", "Where is Omar")
    assert analyse_query("Where is Ana? Where is Ana?", NOW).parts == ()


def days(first: str | None, after_last: str | None) -> Interval:
    return Interval(
        start=datetime.fromisoformat(first).replace(tzinfo=UTC) if first else None,
        end=datetime.fromisoformat(after_last).replace(tzinfo=UTC) if after_last else None,
    )


@pytest.mark.parametrize(
    ("text", "during"),
    [
        ("What did I do last week?", days("2024-06-03", "2024-06-10")),
        ("What happened between March and June 2023?", days("2023-03-01", "2023-07-01")),
        ("Where was I in May 2022 and in July 2022?", days("2022-05-01", "2022-08-01")),
        ("What did I buy today or yesterday?", days("2024-06-11", "2024-06-13")),
        ("Which came first, the trip in May 2022 or the job in July 2021?", days("2021-07-01", "2022-06-01")),
        ("What did I say yesterday concerning the party of 2019?", days("2024-06-11", "2024-06-12")),
        ("What did I do before 2020 that I did again in May 2022?", days("2022-05-01", "2022-06-01")),
        ("Who has visited since 2020?", days("2020-01-01", None)),
        ("Did it break before 2020 or after 2022?", None),
        ("What stood here in 1066?", days("1066-01-01", "1067-01-01")),
        ("It rained last week. What did I do yesterday?", days("2024-06-11", "2024-06-12")),
        ("I was in Rome last week. Which hotel was it?", days("2024-06-03", "2024-06-10")),
        ("I went to Paris last week.", days("2024-06-03", "2024-06-10")),
    ],
)
def test_the_time_of_a_query_is_found(text: str, during: Interval | None) -> None:
    assert analyse_query(text, NOW).during == during


@pytest.mark.parametrize(
    "text",
    [
        "When did I first visit Oslo?",
        "How many days ago did I buy it?",
        "What year was it?",
        "How long does it take?",
        "What do I do now?",
        "May I ask who owns the boat?",
    ],
)
def test_a_time_that_is_asked_for_does_not_limit_the_search(text: str) -> None:
    assert analyse_query(text, NOW).during is None


def test_days_start_at_midnight_in_the_time_zone_of_the_query() -> None:
    there = timezone(timedelta(hours=9))

    during = analyse_query("What did I do yesterday?", datetime(2024, 6, 12, 1, 0, tzinfo=there)).during

    assert during == Interval(
        start=datetime(2024, 6, 11, tzinfo=there),
        end=datetime(2024, 6, 12, tzinfo=there),
    )


def test_only_the_beginning_of_a_long_query_is_analysed() -> None:
    filling = "The weather was fine and nothing happened. " * 60

    assert analyse_query(filling + "When did I leave?", NOW).type == "general"
    assert analyse_query("When did I leave? " + filling, NOW).type == "temporal"


HOSTILE = [
    "",
    " ",
    "?",
    "?!" * 50_000,
    "x" * 100_000,
    "how many days " * 8_000,
    "who is first, " * 8_000,
    "Ana and Ben both " * 6_000,
    "the dog of Tom's sister's " * 4_000,
    "which " * 20_000,
    "\x00\x01\ud800\u200b",
    "😀" * 3_000,
    "SELECT * FROM facts; -- \"' OR 1=1",
    "(((((*+?[]{}|^$\\",
    "İstanbul’da ne zaman buluştuk?",
    "昨天我吃了什么？",
    "متى انتقلت آنا؟",
    "Когда я встретил Анну?",
    "अना कहाँ रहती है?",
    "12345 67890",
    "and or and or between and",
    "'s 's 's of 's",
]


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_any_text_gets_an_answer(text: str) -> None:
    result = analyse_query(text, NOW)

    assert result.type in EXAMPLES
    assert len(result.parts) <= 4


WORDS = (
    "what which who when how many much long did does is Ana Ben Tom's sister's dog of the my and or both between first "
    "before since now last week 2022 March you said should like , ? . the person where in total books plants common "
    "Where"
).split()


@given(st.one_of(st.text(max_size=200), st.lists(st.sampled_from(WORDS), max_size=25).map(" ".join)))
@example("Which first, A or B?")
def test_every_sub_query_has_content(text: str) -> None:
    result = analyse_query(text, NOW)

    assert len(result.parts) <= 4
    assert len(set(result.parts)) == len(result.parts)
    assert all(part.strip() and part != text for part in result.parts)
    assert result == analyse_query(text, NOW)


@pytest.mark.parametrize(
    ("question", "start", "end"),
    [
        ("What did Ana do between March and May?", (2023, 3, 1), (2023, 6, 1)),
        ("Between March and May, where did we travel?", (2023, 3, 1), (2023, 6, 1)),
        ("Who visited us between May and August 2022?", (2022, 5, 1), (2022, 9, 1)),
    ],
)
def test_between_two_months_is_one_interval_to_the_end_of_the_second(
    question: str, start: tuple[int, int, int], end: tuple[int, int, int]
) -> None:
    analysis = analyse_query(question, datetime(2024, 1, 15, tzinfo=UTC))
    assert analysis.during == Interval(start=datetime(*start, tzinfo=UTC), end=datetime(*end, tzinfo=UTC))
    assert analysis.type == "temporal"


@pytest.mark.parametrize(
    ("question", "gathers"),
    [
        ("Summarize what we said about the house", True),
        ("How many times did I go hiking?", True),
        ("How often does Ana swim?", True),
        ("List all the books I read.", True),
        ("Name every pet I mentioned", True),
        ("What are all the restaurants we tried?", True),
        ("Where does Ana swim?", False),
        ("What is Ana's favourite book?", False),
    ],
)
def test_questions_that_count_or_list_gather_many_facts(question: str, gathers: bool) -> None:
    assert analyse_query(question, datetime(2024, 1, 15, tzinfo=UTC)).gathers is gathers
