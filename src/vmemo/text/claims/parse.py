"""Parsing of claims: short texts that state one value of an attribute that a subject has only one of.

A superseded fact is hidden as a whole, so a text that says anything besides its claim is not a claim.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from typing import NamedTuple

from vmemo.text.claims.compare import Claim
from vmemo.text.claims.forms import Statement, match_statement
from vmemo.text.claims.values import VALUE_PARSERS, fold_value
from vmemo.text.names.language import is_foreign
from vmemo.text.names.lexicon import all_names, is_common_word, normalize_word

_MAX_CHARS = 300
_MAX_PARSED = 8192
"""Texts whose claims stay in memory: each is compared with many others."""
_MAX_WORDS = 16
_SPEAKER_PREFIX = re.compile(r"([^\s:!?][^:!?\n]{0,60}): ")
_NON_HUMAN_SPEAKERS = frozenset(("assistant", "tool", "system", "document"))
_GREETING = (
    r"(?:hey|hi|hello|hiya|good (?:morning|afternoon|evening)|thanks|thank you|wow|yay|great news|good news|guess what)"
    r"(?: there| again| everyone| all|(?-i:(?: [A-Z]\w+){1,2}))?[,.!:]+"
)
_INTRODUCTION = re.compile(
    rf"{_GREETING} |(?:by the way|btw|fyi|just so you know|for the record|anyway|oh|well|so|yes|yeah|yep|ok|okay"
    r"|update|news)[,.!:]* |as of \d{1,2} [a-z]+ \d{4},? ",
    re.IGNORECASE,
)
_ADDRESSEE = re.compile(r"([A-Z]\w+)[,!] (?=(?:I|My|my)\b)")
_CORRECTION = re.compile(r"(?:no|nope|sorry|actually|correction|oops|wait|i meant?)[,.!:]+ |actually ", re.IGNORECASE)
_CHANGE = re.compile(
    r"(?:now|nowadays|these days|as of (?:today|now)),? "
    r"|i(?:'ve| have)? (?:just |recently )?(?:switched|changed) jobs[;,.!:]+ ",
    re.IGNORECASE,
)
_CLOSING = re.compile(
    r"(?<![.!])[.!]++ (?:thanks|thank you|cheers|bye|take care)[.!]*+$|(?<![\s.!])[\s.!]++$", re.IGNORECASE
)
_SECOND_SENTENCE = re.compile(r"(?<!\bSt)(?<!\bMt)(?<!\bFt)[.!] |\.\.|: |\s[-–—]+\s|—")
_DENIAL = re.compile(r", not (?:in |at |for |a |an )?(\S.*)")
_INCH_MARK = re.compile(r"(?<=\d'\d)(\d?)\"")
_FORBIDDEN_CHARS = frozenset('?"“”„«»<>{}[]|`;*#\n\r\t\\…')
_UNCERTAIN_WORDS = frozenset(
    """not no never none neither nor and or but because so though although while when whenever where since until till
    unless if whether would could should might can must shall maybe perhaps probably possibly almost nearly roughly
    about around approximately supposedly apparently allegedly basically technically kinda sorta temporarily want
    wants wanted hope hopes hoped wish wishes plan plans planned dream dreams imagine imagined pretend pretends think
    thinks thought guess believe believes feel feels suppose consider considering going gonna used was were had been
    said says say told tells claims claimed heard hear reportedly also too both another either second part-time
    volunteer previously formerly once before soon tomorrow next like likes than joke joking kidding lol haha
    hahaha""".split()
)
_MODAL_VERBS = frozenset(("will", "may"))
_UNCERTAIN_ENDINGS = ("n't", "'ll", "'d")
_RELATIVES = frozenset(
    "wife husband spouse mother mom mum father dad girlfriend boyfriend fiance fiancee fiancé fiancée".split()
)
_RELATIVE_SYNONYMS = {"mom": "mother", "mum": "mother", "dad": "father", "fiancé": "fiance", "fiancée": "fiancee"}


class _Sentence(NamedTuple):
    words: str
    corrects: bool
    changes: bool
    denied: str


class _Subject(NamedTuple):
    name: str
    predicate: str
    owned: bool = False
    first_person: bool = False


def parse_claim(text: str) -> Claim | None:
    """Return the claim of an English text that states one present, certain and affirmative value and nothing else."""
    return _parse(text) if len(text) <= _MAX_CHARS else None


@lru_cache(maxsize=_MAX_PARSED)
def _parse(text: str) -> Claim | None:
    text = unicodedata.normalize("NFKC", text).replace("’", "'").strip()
    prefix = _SPEAKER_PREFIX.match(text)
    speaker = fold_value(prefix[1]) if prefix else ""
    sentence = _single_sentence(text[prefix.end() :] if prefix else text)
    subject = _subject(sentence.words, speaker) if sentence and speaker not in _NON_HUMAN_SPEAKERS else None
    if sentence is None or subject is None or not subject.name:
        return None
    statement = match_statement(subject.predicate, owned=subject.owned, first_person=subject.first_person)
    return _claim(subject.name, sentence, statement) if statement and not is_foreign(sentence.words) else None


def _claim(subject: str, sentence: _Sentence, statement: Statement) -> Claim | None:
    changes = statement.changes or sentence.changes
    denied = ""
    if sentence.denied:
        denied = (
            VALUE_PARSERS[statement.attribute](sentence.denied) or ""
            if statement.attribute in VALUE_PARSERS
            else fold_value(sentence.denied)
        )
        if not denied or denied == statement.value:
            return None
    mistaken = bool(denied) and sentence.corrects and not changes
    return Claim(
        subject=subject,
        attribute=statement.attribute,
        value=statement.value,
        mistaken=mistaken,
        changes=changes,
        about=statement.about,
        denied=denied,
        event=statement.event,
        detail=statement.detail,
    )


def _single_sentence(words: str) -> _Sentence | None:
    """Return the only sentence of a message, without greetings around it, or None if it is not certain."""
    corrects = changes = False
    words = _INCH_MARK.sub(r"\1", words)
    for _ in range(5):
        if introduction := _CORRECTION.match(words):
            corrects = True
        elif introduction := _CHANGE.match(words):
            changes = True
        elif not (introduction := _INTRODUCTION.match(words) or _addressed(words)):
            break
        words = words[introduction.end() :]
    words = _strip_emoji(words)
    if words.endswith(".."):
        return None
    words = _CLOSING.sub("", words)
    if "\n" in words:
        return None
    denied = _DENIAL.search(words)
    words = words[: denied.start()] if denied else words
    if not words or len(words.split()) > _MAX_WORDS or _SECOND_SENTENCE.search(words) or _FORBIDDEN_CHARS & set(words):
        return None
    return None if _is_uncertain(words) else _Sentence(words, corrects, changes, denied[1] if denied else "")


def _addressed(words: str) -> re.Match[str] | None:
    """Match a name at the start that the message is addressed to; "Ideally, I live by the sea" has none."""
    match = _ADDRESSEE.match(words)
    return match if match and normalize_word(match[1]) in all_names() else None


def _strip_emoji(words: str) -> str:
    """Return the text without emoji at its end."""
    end = len(words)
    while end and (words[end - 1].isspace() or unicodedata.category(words[end - 1]) in ("So", "Sk", "Mn", "Cf")):
        end -= 1
    return words[:end]


def _is_uncertain(words: str) -> bool:
    """Return True if a word outside brackets negates, doubts, reports, conjoins or refers to another time."""
    for word in re.sub(r"\([^()]*\)", " ", words).split():
        plain = word.strip(",.!:")
        if (
            plain in _MODAL_VERBS
            or plain.casefold() in _UNCERTAIN_WORDS
            or plain.casefold().endswith(_UNCERTAIN_ENDINGS)
        ):
            return True
    return False


def _subject(words: str, speaker: str) -> _Subject | None:
    first, _, rest = words.partition(" ")
    match first.casefold():
        case "i":
            return _Subject(speaker, rest, first_person=True)
        case "i'm" | "im":
            return _Subject(speaker, f"is {rest}", first_person=True)
        case "i've":
            return _Subject(speaker, f"has {rest}", first_person=True)
        case "my":
            return _possession(speaker, rest)
        case "the" if rest.startswith("user "):
            return _Subject("user", rest.removeprefix("user "))
        case "the" if rest.startswith("user's "):
            return _possession("user", rest.removeprefix("user's "))
        case _:
            return _named_subject(words)


def _possession(owner: str, rest: str) -> _Subject | None:
    """Return a relative of whom the owner has one, or the owner with an attribute."""
    word, _, after = rest.partition(" ")
    relative = word.casefold().removesuffix("'s")
    if not owner:
        return None
    if relative not in _RELATIVES:
        return _Subject(owner, rest, owned=True)
    return _Subject(f"{owner}'s {_RELATIVE_SYNONYMS.get(relative, relative)}", after, owned=word.endswith("'s"))


def _named_subject(words: str) -> _Subject | None:
    """Return a subject of one to three capitalised words, the first of which is not a common word."""
    tokens = words.split()
    count = next((i for i, token in enumerate(tokens[:4]) if not token[:1].isupper() or token == "I"), 4)
    if not 0 < count < 4 or not _is_name(tokens[0]) or any(token.endswith(",") for token in tokens[:count]):
        return None
    owners = [i for i, token in enumerate(tokens[:count]) if token.endswith("'s")]
    if owners:
        end = owners[0] + 1
        return _possession(fold_value(" ".join(tokens[:end]).removesuffix("'s")), " ".join(tokens[end:]))
    return _Subject(fold_value(" ".join(tokens[:count])), " ".join(tokens[count:]))


def _is_name(word: str) -> bool:
    plain = normalize_word(word)
    return plain in all_names() or not is_common_word(plain)
