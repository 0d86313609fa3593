"""Parsing of claims, and the relation between two of them."""

import pytest

from vmemo.text.claims import Attribute, Claim, compare_claims, parse_claim


def claim(text: str) -> Claim:
    found = parse_claim(text)
    assert found is not None, text
    return found


@pytest.mark.parametrize(
    ("text", "subject", "attribute", "value"),
    [
        ("Caroline: I live in Berlin now.", "caroline", "residence", "berlin"),
        ("Caroline: i live in berlin", "caroline", "residence", "berlin"),
        ("Bob: I’m living in São Paulo!", "bob", "residence", "sao paulo"),
        ("Bob: I live in Freiberg.", "bob", "residence", "freiberg"),
        ("Bob: I'm based in the UK.", "bob", "residence", "uk"),
        ("Bob: I moved to Berlin.", "bob", "residence", "berlin"),
        ("Bob: I've just moved to Portland, Oregon!", "bob", "residence", "portland, oregon"),
        ("Bob: I moved to Rome last week (1-7 May 2023).", "bob", "residence", "rome"),
        ("Bob: Hey Mel! By the way, I live in Rome. Thanks!", "bob", "residence", "rome"),
        ("Bob: Melanie lives in Oslo.", "melanie", "residence", "oslo"),
        ("As of 5 May 2023, Caroline lives in St. Louis, Missouri.", "caroline", "residence", "st. louis, missouri"),
        ("The user lives in Hamburg.", "user", "residence", "hamburg"),
        ("Зоя: I live in Kyiv", "зоя", "residence", "kyiv"),
        ("Caroline works at Google in Mountain View.", "caroline", "employer", "google in mountain view"),
        ("Bob: I work for the World Bank", "bob", "employer", "world bank"),
        ("Bob: I just started at Google", "bob", "employer", "google"),
        ("Bob: I started a new job at Google!", "bob", "employer", "google"),
        ("Bob: I switched jobs; I work at Google now.", "bob", "employer", "google"),
        ("Bob: I just joined Google as a software engineer", "bob", "employer", "google"),
        ("Bob: I'm a nurse now", "bob", "job", "nurse"),
        ("Bob: I work as a data analyst.", "bob", "job", "data analyst"),
        ("Bob: I just got promoted to senior software engineer", "bob", "job", "senior software engineer"),
        ("User: My phone number is 555-0101.", "user", "phone", "5550101"),
        ("User: My new number is +49 30 1234567", "user", "phone", "49301234567"),
        ("Caroline's phone number is 555-0101.", "caroline", "phone", "5550101"),
        ("User: my email is Bob.B@example.com", "user", "email", "bob.b@example.com"),
        ("Bob: I'm married now 🎉", "bob", "relationship", "married"),
        ("Bob: I got engaged!", "bob", "relationship", "engaged"),
        ("Bob: My mom moved to Vienna", "bob's mother", "residence", "vienna"),
    ],
)
def test_a_short_sentence_is_parsed_as_a_claim(text: str, subject: str, attribute: Attribute, value: str) -> None:
    found = claim(text)
    assert (found.subject, found.attribute, found.value) == (subject, attribute, value)


@pytest.mark.parametrize(
    "text",
    [
        "Bob: I used to live in Berlin.",
        "Bob: I lived in Berlin.",
        "Bob: I have lived in Berlin since 2019.",
        "Bob: I will live in Berlin.",
        "Bob: I'll live in Berlin now.",
        "Bob: I'm going to live in Berlin.",
        "Bob: I might live in Berlin now.",
        "Bob: I want to live in Berlin.",
        "Bob: I hope I live in Berlin.",
        "Bob: If I live in Berlin",
        "Bob: Ideally, I live in Berlin.",
        "Bob: I don't live in Berlin.",
        "Bob: I no longer live in Berlin.",
        "Bob: Do I live in Berlin?",
        "Bob: I live in Berlin?",
        'Bob: "I live in Berlin."',
        "Bob: She says she lives in Berlin.",
        "Bob: Anna says I live in Berlin.",
        "Bob: Anna: I live in Berlin.",
        "Bob: She lives in Berlin.",
        "Bob: We live in Berlin.",
        "Bob: You live in Berlin.",
        "Bob: Everyone lives in Berlin.",
        "I live in Berlin.",
        "Assistant: I live in Berlin.",
        "Tool: My phone number is 555-0101.",
        "Bob: I live in Berlin and I love it.",
        "Bob: I live in Berlin because of work.",
        "Bob: I live in Berlin with my two cats.",
        "Bob: I live in Berlin. The rent is high.",
        "Bob: I live in Berlin - it's loud.",
        "Bob: I live in Berlin...",
        "Bob: I live in Berlin, it's great",
        "Bob: I live in Berlin lol",
        "Bob: I live in a small flat.",
        "Bob: I live in a city near LA, California.",
        "Bob: I live in fear now.",
        "Bob: I also live in Berlin.",
        "Bob: I moved to Notion.",
        "Bob: I moved to Berlin in 2010.",
        "Bob: I moved to Berlin years ago.",
        "Bob: I almost moved to Berlin.",
        "Bob: I work at night.",
        "Bob: I work at Google part-time.",
        "Bob: I work at Google on weekends.",
        "Bob: I just joined Instagram.",
        "Bob: I just started at Harvard.",
        "Bob: I joined Google as a designer.",
        "Bob: I became a teacher.",
        "Bob: I changed my name to Miller.",
        "Bob: I work as a team.",
        "Bob: I'm a terrible cook.",
        "Bob: I'm a vegetarian now.",
        "Bob: I'm a student now.",
        "Bob: I'm a nurse at the Charité.",
        "Bob: My sister lives in Berlin.",
        "Bob: My number is 7.",
        "Bob: My phone is dead.",
        "Bob: My email is broken.",
        "Bob: I'm 5 minutes away.",
        "Bob: I'm 34 weeks pregnant.",
        "Bob: I'm 3.",
        "Anna is 34.",
        "Bob: I'm about 34.",
        "Bob: I'm married to my job.",
        "Bob: I'm a single mom.",
        "Bob: One of my favorite movies is Alien.",
        "Bob: My favorite part is the ending.",
        "Bob: My favorite food is delicious.",
        "Bob: My favorite team is winning.",
        "Bob: My favourite is blue.",
        "Bob: My favourite colour is fading.",
        "Bob: I'm driving a Tesla now.",
        "Bob: I drive a hard bargain.",
        "Bob: I drive a Toyota to work.",
        "Bob: My time zone is weird.",
        "Bob: I weigh my options.",
        "Bob: No, I meant 555-0102.",
        "Bob: not Berlin",
        "Bob: ",
        ": I live in Berlin",
        "",
        "   ",
        "安娜: 我住在柏林。",
        "Анна: Я живу в Берлине.",
        "Bob: ich wohne jetzt in Berlin",
        "Bob: \x00\x00 I live in \u202e",
        "Bob: I live in ",
        "Bob: My",
        "Bob: I",
        "'s 's 's",
        "🎉🎉🎉",
    ],
)
def test_other_texts_are_not_claims(text: str) -> None:
    assert parse_claim(text) is None


@pytest.mark.parametrize(
    "text",
    [
        "Bob: " + "I live in Berlin " * 6_000,
        "Hey! " * 20_000,
        "Bob: I live in " + "A" * 100_000,
        ": " * 50_000,
        "Bob: " + "(" * 100_000,
        "Bob: I moved from " + "to " * 90,
        "My " + "'s" * 140,
        "Bob: My favorite " + "a " * 130,
        "Bob: I live in " + "A " * 140,
        "\U0001f389" * 100_000,
        "Bob: I'm 34" + " \u0301" * 140,
    ],
)
def test_hostile_texts_are_not_claims(text: str) -> None:
    assert parse_claim(text) is None or len(text) <= 300


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ("Bob: I live in Berlin.", "Bob: I live in Munich now."),
        ("Bob: I live in Berlin.", "Bob: I live in Munich."),
        ("Bob: I live in Berlin.", "Bob: I moved from Berlin to Munich."),
        ("Bob: I live in Berlin, Germany.", "Bob: I've moved to Springfield, Illinois."),
        ("Bob: I live in Germany", "Bob: I live in France"),
        ("Bob: I live in Texas", "Bob: I live in Ohio"),
        ("Bob lives in Berlin.", "Bob: I moved to Wien!"),
        ("Bob: I work at Apple.", "Bob: I work at Google now."),
        ("Bob: I work at Apple.", "Bob: I just started at Google."),
        ("Bob: I work at Apple in Cupertino.", "Bob: I work for Google instead."),
        ("Bob: I'm a banker", "Bob: I'm a baker now."),
        ("Bob: I'm a junior developer", "Bob: I'm now a senior developer."),
        ("Bob: My phone number is 555-0101.", "Bob: My new number is 555-0199."),
        ("Bob: My email is b@example.com", "Bob: My email is now bob@example.org"),
        ("Bob: I'm engaged", "Bob: I got married!"),
        ("Bob: I'm married", "Bob: I'm divorced now"),
        ("Bob: I work at Apple", "Bob: Actually, I work at Google, not Apple."),
    ],
)
def test_another_exclusive_value_supersedes_the_old_one(older: str, newer: str) -> None:
    assert compare_claims(claim(newer), claim(older)) == "supersede"


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ("Bob: I live in Berlin.", "Anna: I live in Munich now."),
        ("Bob: I live in Berlin.", "Bob: I live in Germany now."),
        ("Bob: I live in Germany.", "Bob: I moved to Berlin."),
        ("Bob: I live in New York.", "Bob: I live in Brooklyn now."),
        ("Bob: I live in Berlin.", "Bob: I live in Kreuzberg now."),
        ("Bob: I live in Berlin.", "Bob: I live in Berlin, Germany."),
        ("Bob: I live in Georgia.", "Bob: I live in Ohio."),
        ("Bob: I live in the UK.", "Bob: I live in Scotland now."),
        ("Bob: I moved to Berlin last week (1-7 May 2023).", "Bob: I moved to Munich."),
        ("Bob: I live in Berlin.", "Bob: I moved to Berlin yesterday (= 7 May 2023)."),
        ("Bob: I live in Berlin.", "Bob: I moved to Berlin."),
        ("Bob: I live in Berlin.", "Bob: Actually, I live in Rome, not Oslo."),
        ("Bob: I work at Apple.", "Bob: I work at Google."),
        ("Bob: I work at Google in Mountain View.", "Bob: I work at Google now."),
        ("Bob: I just joined Apple as a designer", "Bob: I just started at Google."),
        ("Bob: I'm a teacher", "Bob: I'm a translator"),
        ("Bob: I'm a nurse", "Bob: I'm a registered nurse now"),
        ("Bob: My phone number is 555-0101.", "Bob: My work number is 555-0199."),
        ("Bob: My phone number is 5550101.", "Bob: My phone number is +1 555 0101."),
        ("Bob: I'm divorced", "Bob: I'm single"),
        ("Bob: I'm divorced", "Bob: I got married."),
        ("Bob: I'm married", "Bob: I got engaged."),
        ("Bob: I'm in a relationship", "Bob: I'm married"),
        ("René: I live in Rome", "Rene: I live in Oslo"),
    ],
)
def test_compatible_claims_are_both_kept(older: str, newer: str) -> None:
    new = parse_claim(newer)
    assert new is None or compare_claims(new, claim(older)) is None


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ("Bob: I live in Berlin.", "Bob: I live in Berlin now."),
        ("Bob: I moved to Berlin.", "Bob: I live in Berlin."),
        ("Bob: I live in NYC.", "Bob lives in New York City."),
        ("Bob: My number is 555-0101", "Bob: Hey! My phone number is 555 0101."),
        ("Bob: I work at Google.", "Bob works for Google."),
    ],
)
def test_the_same_value_is_a_duplicate(older: str, newer: str) -> None:
    assert compare_claims(claim(newer), claim(older)) == "duplicate"


def test_only_an_explicit_correction_marks_the_old_value_as_mistaken() -> None:
    assert claim("Bob: Actually, my number is 555-0102, not 555-0101.").mistaken
    assert claim("Bob: Sorry, I live in Rome, not in Oslo.").mistaken
    assert not claim("Bob: Actually, my number is 555-0102.").mistaken
    assert not claim("Bob: My number is 555-0102, not 555-0101.").mistaken
    assert not claim("Bob: Actually, I live in Rome now, not Oslo.").mistaken
    assert parse_claim("Bob: Actually, I live in Rome, not far away.") is None
    assert parse_claim("Bob: I live in Rome, not Rome.") is None


@pytest.mark.parametrize(
    ("text", "changes"),
    [
        ("Bob: I work at Google.", False),
        ("Bob: I currently work at Google.", False),
        ("Bob: I still work at Google now.", False),
        ("Bob: I work at Google now.", True),
        ("Bob: I work at Google as an engineer now.", True),
        ("Bob: Now I work at Google.", True),
        ("Bob: I finally work at Google.", True),
        ("Bob: I've started working at Google.", True),
        ("Bob: I got a new job at Google.", True),
    ],
)
def test_claims_report_whether_the_value_changed(text: str, changes: bool) -> None:
    assert claim(text).changes is changes
