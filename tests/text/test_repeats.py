"""Statements with the same words."""

import pytest

from vmemo.text.wording import needs_context, wording


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("I moved to Porto.", "i moved to porto"),
        ("I moved to Porto.", "I  moved\nto Porto!!!"),
        ("I'm allergic to nuts.", "I am allergic to nuts"),
        ("I don't eat meat", "I do not eat meat."),
        ("I can’t swim", "I cannot swim"),
        ("I moved to Porto.", "Well, I moved to Porto"),
        ("I moved to Porto.", "By the way, I moved to Porto, lol"),
        ("I moved to Porto.", "As I said, um, I moved to Porto. Thanks!"),
        ("We got the keys!", "“We got the keys” 🎉"),
        ("The rent is $1,200.", "the rent is $1,200"),
    ],
)
def test_case_punctuation_blanks_and_fillers_do_not_count(one: str, other: str) -> None:
    assert wording(one) == wording(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("I moved to Porto", "I moved to Lisbon"),
        ("I have 2 cats", "I have 3 cats"),
        ("It is -5 degrees", "It is 5 degrees"),
        ("I weigh 70.5 kg", "I weigh 705 kg"),
        ("I pay $20", "I pay €20"),
        ("I write C++", "I write C#"),
        ("I write C++", "I write C"),
        ("I eat meat", "I don't eat meat"),
        ("I eat meat", "I never eat meat"),
        ("The exam is on 5 May", "The exam is on 6 May"),
        ("The call is at 9:30", "The call is at 9:00"),
        ("Anna met Bob", "Bob met Anna"),
        ("I failed the exam", "I failed the exam again"),
        ("I live in Porto", "I lived in Porto"),
        ("You moved to Porto.", "You moved to Porto?"),
        ("我住在北京", "我住在上海"),
    ],
)
def test_a_number_a_name_a_date_a_negation_or_an_order_counts(one: str, other: str) -> None:
    assert wording(one) != wording(other)


def test_fillers_alone_are_kept() -> None:
    assert wording("Oh well") == ("well",)
    assert wording("") == wording("...") == ()


@pytest.mark.parametrize("text", ["I love it", "In May", "Porto", "Because of Anna", "Me too", "He moved there", ""])
def test_some_statements_mean_something_else_in_another_context(text: str) -> None:
    assert needs_context(wording(text))


@pytest.mark.parametrize("text", ["I moved to Porto", "I'm vegan", "My sister works at Initech"])
def test_a_complete_statement_needs_no_context(text: str) -> None:
    assert not needs_context(wording(text))
