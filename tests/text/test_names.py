"""Names found by rules, and their types."""

import pytest

from vmemo.models import EntityType
from vmemo.text.names import MAX_NAMES, find_names, names_apart
from vmemo.text.names.compare import name_form, name_similarity


def names(text: str, *speakers: str) -> list[str]:
    return [found.name for found in find_names(text, speakers=speakers)]


def type_of(text: str, name: str, *speakers: str) -> EntityType:
    kinds: dict[str, EntityType] = {f.name: f.type for f in find_names(text, speakers=speakers)}
    return kinds[name]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("We met Anna Karlsson at the lake.", ["Anna Karlsson"]),
        ("She studies at the University of Utrecht now.", ["University of Utrecht"]),
        ("I read Ludwig van Beethoven's letters.", ["Ludwig van Beethoven"]),
        ("He works with Mary O'Brien and Jean-Luc Picard.", ["Mary O'Brien", "Jean-Luc Picard"]),
        ("My favourite is J. K. Rowling by far.", ["J. K. Rowling"]),
        ("They bought it at Marks & Spencer yesterday.", ["Marks & Spencer"]),
        ("My iPhone 15 broke on the way.", ["iPhone 15"]),
        ("The report from NASA was on YouTube.", ["NASA", "YouTube"]),
        ('We watched "The Glass Menagerie" twice.', ["The Glass Menagerie"]),
        ("We watched 'The Glass Menagerie' twice.", ["The Glass Menagerie"]),
        ("Zofia called. Then Kraków was on the news.", ["Zofia", "Kraków"]),
        ("Golden Gate Bridge was foggy.", ["Golden Gate Bridge"]),
        ("Visiting Lisbon was a dream.", ["Lisbon"]),
        ("New York is loud.", ["New York"]),
        ("She was treated at St. Mary's Hospital.", ["St. Mary's Hospital"]),
        ("Take Anna's Tesla if you like.", ["Anna", "Tesla"]),
        ("I ran in Under Armour shoes.", ["Under Armour"]),
        ("Zoe\u0308 is late, and so is Zoë.", ["Zoë"]),
    ],
)
def test_names_are_found_as_written(text: str, expected: list[str]) -> None:
    assert names(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "   ",
        "Wow, that's great! Haha, thanks. OK.",
        "I'm sure it's fine. Y'all know I'll be there.",
        "See you on Monday or in March. Mon: soup. Tue: rice.",
        "Running late again. Unfortunately nobody called. However, dinner is ready.",
        "Awww! Yesss! Sooo good!",
        "WHAT. You did it? I CAN'T BELIEVE IT",
        "- Great food\n- Cheap drinks\n* Friendly people",
        "Ask my Mom or Dad. Grandma knows.",
        "Hey! Good morning! Happy birthday! Congrats!",
        "Look at https://Example.com/Path and write to Someone@Example.com",
        "It was 5 PM. Step 3 is next. Well-known facts.",
    ],
)
def test_other_capitalised_words_are_not_names(text: str) -> None:
    assert names(text) == []


@pytest.mark.parametrize(
    ("text", "name", "expected"),
    [
        ("I saw Dr. Varga today.", "Dr. Varga", "PERSON"),
        ("My sister Ximena is here.", "Ximena", "PERSON"),
        ("We had dinner with Robert.", "Robert", "PERSON"),
        ("Hey Oluwaseun!", "Oluwaseun", "PERSON"),
        ("Then Oluwaseun said no.", "Oluwaseun", "PERSON"),
        ("It is Oluwaseun's sister.", "Oluwaseun", "PERSON"),
        ("He joined Vandelay Industries.", "Vandelay Industries", "ORGANIZATION"),
        ("She teaches at Tilburg University.", "Tilburg University", "ORGANIZATION"),
        ("The flat is on Elm Street.", "Elm Street", "LOCATION"),
        ("We hiked around Lake Bled.", "Lake Bled", "LOCATION"),
        ("They live in Ljubljana.", "Ljubljana", "LOCATION"),
        ("We moved to Ljubljana.", "Ljubljana", "LOCATION"),
        ("I talked to Tanvi.", "Tanvi", "OTHER"),
        ("I believe in Tanvi.", "Tanvi", "OTHER"),
        ("He grew up in Austin.", "Austin", "LOCATION"),
        ("My old Nokia 3310 works.", "Nokia 3310", "PRODUCT"),
        ("We ran the Berlin Marathon.", "Berlin Marathon", "EVENT"),
        ("It was Christmas.", "Christmas", "EVENT"),
        ("She speaks it in French.", "French", "OTHER"),
    ],
)
def test_the_type_follows_from_the_name_or_its_context(text: str, name: str, expected: EntityType) -> None:
    assert type_of(text, name) == expected


def test_speakers_are_persons_and_keep_their_spelling() -> None:
    found = find_names("i told caroline that MELANIE is away", speakers=["Caroline", "Melanie"])
    assert [(f.name, f.type) for f in found] == [("Caroline", "PERSON"), ("Melanie", "PERSON")]


def test_a_speaker_is_found_by_first_name_and_by_full_name() -> None:
    assert names("caroline is here", "Caroline Hughes") == ["Caroline"]
    assert names("caroline hughes is here", "Caroline Hughes") == ["Caroline Hughes"]


def test_a_longer_name_that_contains_a_speaker_is_kept_whole() -> None:
    assert names("We heard Caroline Hughes sing.", "Caroline") == ["Caroline Hughes"]


def test_a_speaker_inside_another_word_is_not_found() -> None:
    assert names("the annals of history", "Ann") == []


def test_a_speaker_named_like_a_common_word_is_found_only_as_a_name() -> None:
    assert names("will you come? I will.", "Will") == []
    assert names("Will you come?", "Will") == []
    assert names("I asked Will about it.", "Will") == ["Will"]
    assert names("Will, are you there?", "Will") == ["Will"]


@pytest.mark.parametrize("role", ["user", "Assistant", "system", "Tool"])
def test_roles_are_not_names(role: str) -> None:
    assert names("the user asked the assistant, the system and the tool", role) == []


def test_a_quantity_is_not_part_of_a_name() -> None:
    assert names("We saw Priya 3 times.") == ["Priya"]


def test_each_name_is_returned_once_with_its_most_specific_type() -> None:
    found = find_names("I like Ljubljana. LJUBLJANA! Yes, we live in Ljubljana.")
    assert [(f.name, f.type) for f in found] == [("Ljubljana", "LOCATION")]


def test_at_most_twenty_names_are_returned() -> None:
    text = " and ".join(f"Qv{chr(97 + i // 26)}{chr(97 + i % 26)}" for i in range(100))
    assert len(names(text)) == MAX_NAMES == 20


@pytest.mark.parametrize(
    "text",
    [
        "A" * 100_000,
        "A " * 50_000,
        "A." * 50_000,
        "A-" * 50_000,
        "A'" * 50_000,
        "Ab & " * 20_000,
        "of the " * 20_000,
        '"' * 100_000,
        '"A ' * 30_000,
        "'A " * 30_000,
        "Dr. " * 30_000,
        "iPhone 1" * 10_000,
        "\x00\x01\x1b[31m\u202e\ufeff\ud800" * 1_000,
        "👩‍👩‍👧‍👦🎉" * 1_000,
        "İ" * 10_000,
        "ß" * 10_000,
    ],
)
def test_hostile_text_gives_few_names(text: str) -> None:
    assert len(find_names(text, speakers=["İpek", "a.*", "(", "🎉x"])) <= MAX_NAMES


@pytest.mark.parametrize(
    ("text", "speaker"),
    [
        ("昨日小明说他要去北京", "小明"),
        ("قال أحمد إنه سيأتي غدا", "أحمد"),
        ("אמר לי דוד שהוא בא", "דוד"),
        ("вчера иван звонил", "Иван"),
        ("नमस्ते राम कैसे हो", "राम"),
        ("🎉 josé 🎉", "José"),
    ],
)
def test_speakers_are_found_in_other_scripts(text: str, speaker: str) -> None:
    assert names(text, speaker) == [speaker]


def test_finding_names_is_deterministic() -> None:
    text = "Hey Mel, Dr. Varga and Anna Karlsson moved to Ljubljana."
    assert find_names(text, speakers=["Mel", "Jo"]) == find_names(text, speakers=["Jo", "Mel"])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Alice met Alice Cooper at the concert.", {"alice cooper"}),
        ("Alice's neighbour is Alice Cooper.", {"alice cooper"}),
        ("Alice: I met Alice Cooper!", {"alice cooper"}),
        ("User: I met Alice Cooper. Alice sings.", set[str]()),
        ("Alice Cooper: It is Alice again.", set[str]()),
        ("Alice: Put it from Alice Cooper.", set[str]()),
        ("I saw Alice Cooper and Alice Walker. Alice was late.", set[str]()),
    ],
)
def test_a_short_name_beside_the_long_one_in_a_sentence_is_set_apart(text: str, expected: set[str]) -> None:
    assert names_apart(text, ["Alice Walker", "Alice", "Alice Cooper"])["Alice"] == expected


@pytest.mark.parametrize(
    "phrase",
    [
        "artist friend of Calvin",
        "Artist Friend of Calvin",
        "the brother of Calvin",
        "Calvin and Dave",
        "Calvin the painter",
        "Calvin from work",
        "old neighbour Calvin",
    ],
)
def test_a_phrase_that_contains_a_name_is_not_that_person(phrase: str) -> None:
    assert name_similarity(name_form(phrase), name_form("Calvin"), person=True) == 0.0


@pytest.mark.parametrize(
    ("long", "short"),
    [("Ludwig van Beethoven", "Ludwig"), ("Alexander the Great", "Alexander"), ("Oscar de la Renta", "Oscar")],
)
def test_small_words_inside_a_name_make_no_phrase(long: str, short: str) -> None:
    assert name_similarity(name_form(long), name_form(short), person=True) > 0.8


def test_a_phrase_that_is_no_person_keeps_its_acronym() -> None:
    assert name_similarity(name_form("University of Bristol"), name_form("UOB"), person=False) > 0.8
