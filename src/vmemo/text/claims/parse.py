"""What can be proved without a model: one short sentence that states the one value of something a subject has once.

Closing a fact hides its whole text, so a text that says anything besides its claim has none.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Literal, NamedTuple

from vmemo.text.claims.forms import Statement, match_statement
from vmemo.text.claims.values import VALUE_PARSERS, Attribute, fold_value
from vmemo.text.names.lexicon import all_names, is_common_word, normalize_word
from vmemo.text.names.places import place_level

_LONGEST = 300
_MOST_WORDS = 16
_VOICE = re.compile(r"([^\s:!?][^:!?\n]{0,60}): ")
_MACHINES = frozenset(("assistant", "tool", "system"))
_GREETING = (
    r"(?:hey|hi|hello|hiya|good (?:morning|afternoon|evening)|thanks|thank you|wow|yay|great news|good news|guess what)"
    r"(?: there| again| everyone| all|(?-i:(?: [A-Z]\w+){1,2}))?[,.!:]+"
)
_LEAD = re.compile(
    rf"{_GREETING} |(?:by the way|btw|fyi|just so you know|for the record|anyway|oh|well|so|yes|yeah|yep|ok|okay"
    r"|update|news)[,.!:]* |as of \d{1,2} [a-z]+ \d{4},? ",
    re.IGNORECASE,
)
_CALLED = re.compile(r"([A-Z]\w+)[,!] (?=(?:I|My|my)\b)")
_CORRECTING = re.compile(r"(?:no|nope|sorry|actually|correction|oops|wait|i meant?)[,.!:]+ |actually ", re.IGNORECASE)
_CHANGING = re.compile(
    r"(?:now|nowadays|these days|as of (?:today|now)),? "
    r"|i(?:'ve| have)? (?:just |recently )?(?:switched|changed) jobs[;,.!:]+ ",
    re.IGNORECASE,
)
_TRAILING = re.compile(r"[.!]+ (?:thanks|thank you|cheers|bye|take care)[.!]*$|[\s.!]+$", re.IGNORECASE)
_BREAK = re.compile(r"(?<!\bSt)(?<!\bMt)(?<!\bFt)[.!] |\.\.|: |\s[-–—]+\s|—")
_DENIED = re.compile(r", not (?:in |at |for |a |an )?(\S.*)$")
_INCHES = re.compile(r"(?<=\d'\d)(\d?)\"")
_FORBIDDEN = frozenset('?"“”„«»<>{}[]|`;*#\n\r\t\\…')
_REFUSED = frozenset(
    """not no never none neither nor and or but because so though although while when whenever where since until till
    unless if whether would could should might can must shall maybe perhaps probably possibly almost nearly roughly
    about around approximately supposedly apparently allegedly basically technically kinda sorta temporarily want
    wants wanted hope hopes hoped wish wishes plan plans planned dream dreams imagine imagined pretend pretends think
    thinks thought guess believe believes feel feels suppose consider considering going gonna used was were had been
    said says say told tells claims claimed heard hear reportedly also too both another either second part-time
    volunteer previously formerly once before soon tomorrow next like likes than joke joking kidding lol haha
    hahaha""".split()
)
_REFUSED_SMALL = frozenset(("will", "may"))
_UNSURE_ENDINGS = ("n't", "'ll", "'d")
_KIN = frozenset(
    "wife husband spouse mother mom mum father dad girlfriend boyfriend fiance fiancee fiancé fiancée".split()
)
_SAME_KIN = {"mom": "mother", "mum": "mother", "dad": "father", "fiancé": "fiance", "fiancée": "fiancee"}
_CHANGE_ONLY: frozenset[Attribute] = frozenset(("employer", "job", "name", "thing", "car"))
# Someone divorced is single as well, and who "got married" may tell of a time before a divorce.
_NEXT_STATUS = {
    "single": ("engaged", "married", "in a relationship"),
    "in a relationship": ("single",),
    "engaged": ("married", "single"),
    "married": ("divorced", "widowed", "single"),
}


class Claim(NamedTuple):
    """One value that a text states of a subject; `denied` is what it calls wrong, `detail` what it adds."""

    subject: str
    attribute: Attribute
    value: str
    mistaken: bool = False
    changes: bool = False
    about: str = ""
    denied: str = ""
    event: bool = False
    detail: str = ""


class _Sentence(NamedTuple):
    words: str
    corrects: bool
    changes: bool
    denied: str


class _Subject(NamedTuple):
    name: str
    rest: str
    owned: bool = False
    own: bool = False


def parse_claim(text: str) -> Claim | None:
    """The claim that is all a fact's text says: present, certain and affirmative; else None."""
    if len(text) > _LONGEST:
        return None
    text = unicodedata.normalize("NFKC", text).replace("’", "'").strip()
    found = _VOICE.match(text)
    voice = fold_value(found[1]) if found else ""
    sentence = _sentence(text[found.end() :] if found else text)
    subject = _subject(sentence.words, voice) if sentence and voice not in _MACHINES else None
    if sentence is None or subject is None or not subject.name:
        return None
    statement = match_statement(subject.rest, owned=subject.owned, own=subject.own)
    return _claim(subject.name, sentence, statement) if statement else None


def compare_claims(new: Claim, old: Claim) -> Literal["supersede", "duplicate"] | None:
    """What a newer claim shows about an older one; None leaves both standing."""
    if (new.subject, new.attribute, new.about) != (old.subject, old.attribute, old.about):
        return None
    if new.value == old.value:
        return "duplicate" if _adds_nothing(new, old) else None
    if old.detail or (new.denied and new.denied != old.value):
        return None
    if new.denied:
        return "supersede"
    if (new.attribute in _CHANGE_ONLY and not new.changes) or not _exclusive(new, old):
        return None
    return "supersede"


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


def _sentence(words: str) -> _Sentence | None:
    """The one sentence of a turn without greetings around it, or None if there are more."""
    corrects = changes = False
    words = _INCHES.sub(r"\1", words)
    for _ in range(5):
        if lead := _CORRECTING.match(words):
            corrects = True
        elif lead := _CHANGING.match(words):
            changes = True
        elif not (lead := _LEAD.match(words) or _addressed(words)):
            break
        words = words[lead.end() :]
    words = _without_symbols(words)
    if words.endswith(".."):
        return None
    words = _TRAILING.sub("", words)
    denied = _DENIED.search(words)
    words = words[: denied.start()] if denied else words
    if not words or len(words.split()) > _MOST_WORDS or _BREAK.search(words) or _FORBIDDEN & set(words):
        return None
    return None if _is_unsure(words) else _Sentence(words, corrects, changes, denied[1] if denied else "")


def _addressed(words: str) -> re.Match[str] | None:
    """A name that is called first; "Ideally, I live by the sea" calls nobody."""
    called = _CALLED.match(words)
    return called if called and normalize_word(called[1]) in all_names() else None


def _without_symbols(words: str) -> str:
    """The words without emoji at their end."""
    end = len(words)
    while end and (words[end - 1].isspace() or unicodedata.category(words[end - 1]) in ("So", "Sk", "Mn", "Cf")):
        end -= 1
    return words[:end]


def _is_unsure(words: str) -> bool:
    """Whether any word outside brackets denies, doubts, reports, joins or looks elsewhere in time."""
    for word in re.sub(r"\([^()]*\)", " ", words).split():
        plain = word.strip(",.!:")
        if plain in _REFUSED_SMALL or plain.casefold() in _REFUSED or plain.casefold().endswith(_UNSURE_ENDINGS):
            return True
    return False


def _subject(words: str, voice: str) -> _Subject | None:
    first, _, rest = words.partition(" ")
    match first.casefold():
        case "i":
            return _Subject(voice, rest, own=True)
        case "i'm" | "im":
            return _Subject(voice, f"is {rest}", own=True)
        case "i've":
            return _Subject(voice, f"has {rest}", own=True)
        case "my":
            return _of(voice, rest)
        case "the" if rest.startswith("user "):
            return _Subject("user", rest.removeprefix("user "))
        case "the" if rest.startswith("user's "):
            return _of("user", rest.removeprefix("user's "))
        case _:
            return _named(words)


def _of(owner: str, rest: str) -> _Subject | None:
    """Someone of whom there is one, or what the owner has."""
    word, _, after = rest.partition(" ")
    kin = word.casefold().removesuffix("'s")
    if not owner:
        return None
    if kin not in _KIN:
        return _Subject(owner, rest, owned=True)
    return _Subject(f"{owner}'s {_SAME_KIN.get(kin, kin)}", after, owned=word.endswith("'s"))


def _named(words: str) -> _Subject | None:
    """A subject of one to three capital words, the first of which is no ordinary one."""
    tokens = words.split()
    count = next((i for i, token in enumerate(tokens[:4]) if not token[:1].isupper() or token == "I"), 4)
    if not 0 < count < 4 or not _is_name(tokens[0]) or any(token.endswith(",") for token in tokens[:count]):
        return None
    owners = [i for i, token in enumerate(tokens[:count]) if token.endswith("'s")]
    if owners:
        end = owners[0] + 1
        return _of(fold_value(" ".join(tokens[:end]).removesuffix("'s")), " ".join(tokens[end:]))
    return _Subject(fold_value(" ".join(tokens[:count])), " ".join(tokens[count:]))


def _is_name(word: str) -> bool:
    plain = normalize_word(word)
    return plain in all_names() or not is_common_word(plain)


def _adds_nothing(new: Claim, old: Claim) -> bool:
    return not new.denied and new.detail in ("", old.detail) and (old.event or not new.event)


def _exclusive(new: Claim, old: Claim) -> bool:
    """Whether both values can't hold at once; one that may be the other said more exactly can."""
    mine, theirs = set(re.split(r"[\s,]+", new.value)), set(re.split(r"[\s,]+", old.value))
    if mine <= theirs or theirs <= mine:
        return False
    match new.attribute:
        case "residence":
            return _apart(new.value, old.value)
        case "employer":
            return not mine & theirs
        case "phone":
            return not (new.value.endswith(old.value) or old.value.endswith(new.value))
        case "age":
            return int(new.value) > int(old.value)
        case "relationship":
            return new.value in _NEXT_STATUS.get(old.value, ())
        case "timezone" | "weight" | "height":
            return _shape(new.value) == _shape(old.value)
        case _:
            return True


def _apart(new: str, old: str) -> bool:
    """Two known places of one size: neither holds the other, which nobody can tell of a town and a quarter."""
    sizes = place_level(new), place_level(old)
    return sizes[0] == sizes[1] and sizes[0] in ("city", "state", "country") and new.split(",")[0] != old.split(",")[0]


def _shape(value: str) -> str:
    """The way a zone or a measure is written: what is written in two ways may be the same."""
    if value.startswith("utc"):
        return "offset"
    return "area" if "/" in value else re.sub(r"^\w+$|[\d.]+", "", value)
