"""Questions that state nothing, and questions that carry a statement."""

import pytest

from vmemo.text.noise import is_bare_question, is_empty_question


@pytest.mark.parametrize(
    "text",
    [
        "Where do I live?",
        "where do i live",
        "What's my dog's name?",
        "what is my dog called",
        "Which city does Maya live in?",
        "Where does Maya work?",
        "Hey, do you remember my birthday?",
        "Do you know where I work?",
        "When did we last go to Lisbon?",
        "How many bikes do I own?",
        "What did I do on 5 May?",
        "Can you recommend a good sushi place in Berlin?",
        "What are some popular ways to cook salmon? And how long does it take?",
        "Is Anna still in Rome?",
        "Who’s coming tonight?",
        "Any other ideas?",
        "Ok, thanks. What about Porto?",
    ],
)
def test_a_question_that_states_nothing_is_bare(text: str) -> None:
    assert is_bare_question(text)


@pytest.mark.parametrize(
    "text",
    [
        "Did I tell you that I moved to Porto?",
        "Did I tell you I moved to Porto?",
        "Did you know Anna got married in June?",
        "Do you remember when we went to Rome?",
        "I moved to Porto, did I tell you?",
        "I moved to Porto?",
        "I live in Porto, right?",
        "How do I groom my poodle?",
        "What should I cook for my vegan sister?",
        "Can you help me train for a half marathon?",
        "What can I do about back pain, I sit all day?",
        "Where can I park now that the garage on Elm Street is closed?",
        "What is the best phone since mine broke?",
        "Which train should we take if we leave on Friday?",
        "How was your trip to Rome with Anna?",
        "Have you noticed any progress since you started training for the 5K?",
        "I have a dog. What should I feed him?",
        "My flight is at 9. When should I leave?",
        "What a lovely day",
        "What is important to me is my family",
        "When I was young, we lived in Oslo",
        "Name is Bob",
        "Porto",
        "Yes",
        "Can't wait to see you",
        "Look at this! [photo: a dog on a beach]",
        "Nice, isn't it? [photo: a dog on a beach]",
        "Wo wohne ich?",
        "私はどこに住んでいますか？",
        "",
        "?",
    ],
)
def test_a_question_that_carries_a_statement_is_not_bare(text: str) -> None:
    assert not is_bare_question(text)


def test_a_long_question_is_not_bare() -> None:
    assert is_bare_question("Where is the museum of the city?")
    assert not is_bare_question("Where is the museum of the city" + " of the city" * 30 + "?")


@pytest.mark.parametrize(
    "text",
    [
        "Really?",
        "How was your weekend?",
        "What's new?",
        "Any plans for today?",
        "So, how have you been?",
    ],
)
def test_a_question_that_names_nothing_is_empty(text: str) -> None:
    assert is_empty_question(text)


@pytest.mark.parametrize(
    "text", ["How was your trip?", "Did you get the job?", "How is Anna?", "I'm good, and you?", "Good morning", ""]
)
def test_a_question_that_names_something_is_not_empty(text: str) -> None:
    assert not is_empty_question(text)
