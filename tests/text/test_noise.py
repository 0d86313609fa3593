"""Small talk, recalled lines, text about the conversation, and facts that their sources do not support."""

import pytest

from vmemo.models.recalled import LEGEND
from vmemo.text.meta_text import is_grounded, is_meta_text, strip_recalled
from vmemo.text.small_talk import is_small_talk

ONE = "0190a3c4-1111-7000-8000-0123456789ab"
TWO = "6f6d656d-7600-5000-8000-666163747300"


@pytest.mark.parametrize(
    "text",
    [
        "Hi!",
        "ok thanks",
        "lol",
        "Good morning, how are you?",
        "Heyyyy",
        "Thank you so much!!!",
        "hahahaha",
        "Got it, thanks!",
        "👍",
        "😂😂😂",
        "❤️ ",
        "...",
        "",
        "  \n ",
        "?",
        "Bye! Take care.",
        "How’s it going?",
        "You're welcome 😊",
        "Sounds good. See you later!",
        "hmmm",
        "Hallo, wie geht's?",
        "Vielen Dank!",
        "Tschüss",
        "Bonjour, ça va ?",
        "Merci beaucoup",
        "¡Hola! ¿Qué tal?",
        "muchas gracias",
        "Grazie mille",
        "Olá, tudo bem?",
        "Привет! Как дела?",
        "спасибо",
        "你好",
        "谢谢!",
        "こんにちは",
        "ありがとうございます。",
        "안녕하세요",
        "شكرا",
        "नमस्ते",
        "cảm ơn",
        "Dziękuję",
        "oh wow, that's great!",
    ],
)
def test_messages_without_content_are_small_talk(text: str) -> None:
    assert is_small_talk(text)


@pytest.mark.parametrize(
    "text",
    [
        "Hi Anna!",
        "yes",
        "no",
        "Thanks, Bob",
        "See you on Monday",
        "See you at 5",
        "ok 3",
        "1️⃣",
        "Hi, I moved to Berlin",
        "Good morning from Rome",
        "thanks for the book",
        "I love you",
        "How are your kids?",
        "Nice, the job is mine",
        "great dane",
        "sushi",
        "42",
        "₂",
        "hello@example.com",
        "#hello",
        "$",
        "ok/great",
        "Congrats on the wedding!",
        "I'm pregnant",
        "I'm not fine",
        "sorry, Rex died",
        "cancel it",
        "help",
        "Danke für das Buch",
        "Hola, soy Ana",
        "Привет, я Анна",
        "你好，我是安娜",
        "谢谢你的书",
        "こんにちは、田中です",
        "안녕하세요 저는 민수예요",
        "مرحبا أنا علي",
        "Cool car",
    ],
)
def test_a_message_with_content_is_not_small_talk(text: str) -> None:
    assert not is_small_talk(text)


def test_a_long_message_is_never_small_talk() -> None:
    assert not is_small_talk("thanks " * 20_000)
    assert not is_small_talk("ha" * 50_000)
    assert not is_small_talk("😂" * 100_000)


@pytest.mark.parametrize(
    ("text", "left"),
    [
        (f"## 8 May 2023: Moving\n- [{ONE}] Anna: I moved.", ""),
        (f"## 8 May 2023\n- [{ONE}] Anna: I moved.\n- [{TWO}] (current) Anna lives in Rome.", ""),
        (f"- [{ONE}] Anna: I moved.", ""),
        (f"  - [{ONE}] (until 8 May 2023) Anna: I moved.", ""),
        (f"- [{ONE.upper()}] (no longer believed, opinion) x", ""),
        (f"## 8 May 2023\n- [{ONE}] a\n\n## 9 June 2024: b: c\n- [{TWO}] d", ""),
        (f"## 8 May 2023\r\n- [{ONE}] a\r\n", ""),
        ("## 8 May 2023\n- [0f9a3c52] 09:30 Anna: I moved.\n  - [0f9a3c53] (former) b\n- [01a1e25d-75e81f] c", ""),
        ("## 8 May 2023\n- [0f9a3c52] a\n  b\n  \n  c\n\n## 9 May 2023\n- [0f9a3c53] d\nNow what?", "Now what?"),
        (f"{LEGEND} former: no longer true.\n\n## 8 May 2023\n- [0f9a3c52] a\n\nThanks.", "Thanks."),
        ("Memory holds nothing about this.", ""),
        ("  Memory holds nothing about this.\n", ""),
        (f"What is this?\n## 8 May 2023\n- [{ONE}] a", "What is this?"),
        (f"## 8 May 2023\n- [{ONE}] a\n\nPlease go on.", "Please go on."),
        (f"Before\n\n- [{ONE}] a\n\nAfter", "Before\n\nAfter"),
        (f"Memory holds nothing about this.\n- [{ONE}] a\nI see", "I see"),
        (f"## 8 May 2023: mine\nmy note\n- [{ONE}] a", "## 8 May 2023: mine\nmy note"),
        (f"我说：\n- [{ONE}] 安娜搬家了\n好的", "我说：\n好的"),
    ],
)
def test_recalled_lines_are_stripped(text: str, left: str) -> None:
    assert strip_recalled(text) == left


@pytest.mark.parametrize(
    "text",
    [
        "",
        "  indented stays \n\n\n\n as it is ",
        "## 8 May 2023: my diary\nI went to Rome.",
        "## 8 May 2023",
        "## May 2023\n- milk",
        "- [x] buy milk",
        "- [ ] buy milk",
        "- [1] a footnote",
        "- [12345678] an order",
        "## Orders\n- [12345678] an order",
        "## 8 May 2023: my orders\nSee below.\n- [12345678] an order",
        f"{LEGEND}\nis what it said",
        f"- [{ONE}]",
        f"- {ONE} without brackets",
        f"* [{ONE}] another mark",
        f"see [{ONE}] there",
        f"[{ONE}] no dash",
        f"- [{ONE[:-1]}] too short",
        f"- [{ONE}0] too long",
        f"- [{ONE[:-1]}g] no hex",
        "He said: Memory holds nothing about this.",
        "Memory holds nothing about this. Or does it?",
        "memory holds nothing about this",
        "- [Anna](https://example.com) a link",
        "\u2028## 8 May 2023",
    ],
)
def test_lines_that_resemble_a_recall_are_kept(text: str) -> None:
    assert strip_recalled(text) == text


def test_all_other_lines_of_a_long_message_are_kept() -> None:
    own = "## 8 May 2023\n" * 20_000 + "- [" * 20_000
    assert strip_recalled(own) == own
    assert strip_recalled(f"- [{ONE}] a\n" * 2_000 + "own") == "own"


@pytest.mark.parametrize(
    "text",
    [
        "The assistant greeted the user.",
        "The assistant greeted the user and offered help.",
        "The user greeted the assistant",
        "The user asked a question.",
        "The user asked some questions",
        "The AI offered help.",
        "The AI assistant offered its assistance to the user.",
        "I greeted the user.",
        "I offered to help.",
        "The user thanked the assistant.",
        "The user said hello.",
        "The user said goodbye to the assistant.",
        "The user and the assistant exchanged greetings.",
        "The assistant is ready to help.",
        "The assistant asked how it can help",
        "The user expressed gratitude.",
        "The user started the conversation.",
        "The assistant wished the user a nice day.",
        "I am an AI language model.",
        "I’m an AI and have no feelings.",
        "As an AI language model, I can't do that.",
        "The assistant is an AI.",
        "I'm here to help",
        "The conversation was about travel.",
        "This conversation is between a user and an assistant.",
        "The dialogue ended with a farewell.",
        "The conversation contains no facts.",
        "The chat does not mention anything.",
        "No facts were found.",
        "No new information",
        "There are no relevant facts to extract from the conversation.",
        "Nothing to remember",
        "None",
        "N/A",
        "n/a.",
        "null",
        "string",
        '"string"',
        "Here are the extracted facts:",
        "",
        " . ",
    ],
)
def test_text_about_the_conversation_is_meta_text(text: str) -> None:
    assert is_meta_text(text)


@pytest.mark.parametrize(
    "text",
    [
        "The assistant recommended Yosemite to Alice.",
        "I recommended Yosemite to Alice.",
        "The user asked about flights to Rome.",
        "The user asked for help with her taxes.",
        "The user thanked the assistant for finding her flight to Rome.",
        "The user asked a question about her pension.",
        "The assistant offered help with the move to Berlin.",
        "Alice greeted the President.",
        "Alice thanked Bob for the book.",
        "Alice asked a question at the congress.",
        "The user works on an AI language model.",
        "Alice is an AI researcher.",
        "The user is an AI researcher in Rome.",
        "I am a nurse.",
        "Bob is an agent.",
        "The user is an agent for Allianz.",
        "The user's conversation with her boss was about money.",
        "The conversation between Anna and her boss was tense.",
        "The discussion was about the budget.",
        "No one came to Alice's party.",
        "No facts could sway Bob's jury.",
        "Nothing makes Alice happier than the sea.",
        "None of Bob's brothers lives in Rome.",
        "The user has no children.",
        "Unknown Pleasures is Bob's favourite record.",
        "Alice writes JSON schemas for a living.",
        "Alice plays a string instrument.",
        "Bob extracts facts from old letters.",
        "The user returned the JSON book to the shop.",
        "Alice listed all the facts in court.",
        "Every fact of the case was known to Bob.",
        "Here is where Alice was born: Rome.",
        "The model Alice built won a prize.",
        "The agent sold Alice's house.",
        "The bot that Bob wrote posts haiku.",
        "The speaker at the congress was Alice.",
        "The assistant booked a table for two.",
        "The user said hello to Anna's mother in Rome.",
        "The episode of Lost that Bob loves is the first.",
        "The user turned 34.",
        "安娜住在柏林。",
        "Анна живёт в Берлине.",
    ],
)
def test_facts_about_the_world_are_not_meta_text(text: str) -> None:
    assert not is_meta_text(text)


def test_long_and_hostile_facts_are_classified() -> None:
    for text in ("the " * 30_000, "no " * 40, "the user and the user " * 9, "I " * 99, "\x00" * 100_000):
        is_meta_text(text)
    assert not is_meta_text("The conversation was about " + "a" * 100_000)


@pytest.mark.parametrize(
    ("text", "sources"),
    [
        ("Anna moved to Berlin.", ["Anna: I moved to Berlin!"]),
        ("Anna is moving.", ["User: She moved."]),
        ("Anna likes it.", ["Anna: yes"]),
        ("The flat costs 900 euros.", ["User: 900 a month"]),
        ("The user lives in Berlin.", ["User: Ich wohne in Berlin."]),
        ("The user is a teacher.", ["User: Ich bin Lehrer von Beruf"]),
        ("The user is a teacher.", ["User: 我是老师"]),
        ("Anna is a teacher.", ["Анна: я учительница"]),
        ("Anna lives in Rome.", ["アンナ: ローマに住んでいます"]),
        ("安娜搬到柏林了", ["User: 我搬到柏林"]),
        ("Анна живёт в Берлине", ["Анна: живу в Берлине"]),
        ("安娜 900", ["Anna: it costs 900"]),
        ("安娜用 iPhone", ["User: my iPhone"]),
        ("Zoe came.", ["Zoë: here"]),
        ("The dogs bark.", ["User: my dog", "User: hello"]),
        ("Price: 12", ["User: nothing", "User: 12"]),
    ],
)
def test_a_fact_that_shares_a_term_with_its_sources_is_grounded(text: str, sources: list[str]) -> None:
    assert is_grounded(text, sources)


@pytest.mark.parametrize(
    ("text", "sources"),
    [
        ("Alice works at Google.", ["Bob: I like the sea."]),
        ("The user likes pizza.", ["User: I am so tired of this"]),
        ("The user likes pizza.", ["User: hello to all of you"]),
        ("The assistant was here for you.", ["Assistant: and it is all we have"]),
        ("She is at it and they are too.", ["Bob: She is at it and they are too."]),
        ("Alice is 30.", ["Bob: 31"]),
        ("", ["Bob: hello"]),
        ("...", ["Bob: ..."]),
        ("Alice works at Google.", []),
        ("Alice works at Google.", [""]),
        ("Alice works at Google.", ["Bob: 😂"]),
        ("Alice works at Google.", ["Bob: 123"]),
        ("安娜在谷歌工作", ["Bob: I like the sea."]),
        ("Алиса работает", ["Bob: I like the sea."]),
        ("Алиса работает", ["鲍勃: 我喜欢大海"]),
        ("安娜在谷歌工作", ["鲍勃: 我喜欢大海"]),
    ],
)
def test_a_fact_that_shares_no_term_is_not_grounded(text: str, sources: list[str]) -> None:
    assert not is_grounded(text, sources)


def test_a_fact_that_shares_a_term_with_known_facts_is_grounded() -> None:
    assert is_grounded("Rex is ill.", ["User: he is ill-ish, poor thing"], known=["Anna's dog is called Rex."])
    assert is_grounded("Rex died.", ["User: he passed away"], known=["Anna's dog is called Rex."])
    assert not is_grounded("Alice works at Google.", ["User: he passed away"], known=["Anna's dog is called Rex."])
