"""Features of two statements, by which the revision model estimates if the later one makes the earlier one outdated.

They are properties of the words: cues of a change, or of something temporary, imagined, planned or added; other people;
words, names and numbers that both share. English.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence, Set as AbstractSet
from functools import cache, lru_cache
from typing import NamedTuple

from vmemo.text.lazy_regex import LazyPattern

MAX_CHARACTERS = 1000
"""Characters of a statement that are examined."""
MAX_DAYS = 400
"""Days between two statements from which more make no difference."""

_MONTH = "january|february|march|april|may|june|july|august|september|october|november|december"
_WEEKDAY = "monday|tuesday|wednesday|thursday|friday|saturday|sunday"
_RELATIVE = (
    "sister|brother|cousin|friend|mate|neighbour|neighbor|mum|mom|dad|mother|father|aunt|uncle|boss|colleague|flatmate"
    "|roommate|wife|husband|ex|son|daughter|nephew|niece|gran|grandma|grandad|grandpa|boyfriend|girlfriend|partner"
    "|landlord|teacher|coach|kid|kids|parents|twins|baby|dog|cat"
)
_CUES = {
    "now": "now|these days|nowadays|currently|at last|finally|by now|already",
    "ended": (
        r"no more|no longer|any ?more|stopped|quit|gave up|given up|gave away|left|dropped|ditched|cancel\w*|sold"
        r"|closed|ended|it's over|done with|goodbye|farewell|split|broke up|divorc\w*|retired|resigned|lost|died"
        "|finished"
    ),
    "switched": (
        "move|moved|moving|switch|switched|swap|swapped|change|changed|instead|replaced|became|turned|traded|upgraded"
        "|renamed|transferred|took over|handed|promoted|shifted|rescheduled|postponed|pushed|rather than"
    ),
    "from now": (
        f"from now|from today|from here on|from next|from (?:{_WEEKDAY}|{_MONTH})|as of"
        f"|since (?:{_WEEKDAY}|{_MONTH}|last|then)|starting|started|begin|for good|permanently|going forward"
    ),
    "new": "new|newest|latest",
    "corrected": (
        "correction|actually|i was wrong|mistake|scrap|forget (?:what|the|that)|turns out|after all|make that|misspoke"
        "|update"
    ),
    "temporary": (
        f"this (?:week|weekend|month|morning|afternoon|evening|time|once|{_WEEKDAY})|tonight|today|till|until|while"
        "|for (?:a|two|three|four|the|six|one) (?:few )?(?:days?|weeks?|nights?|weekend|month)"
        r"|temporar\w*|just for|exception|only (?:today|this)"
    ),
    "imagined": (
        r"if|might|maybe|perhaps|would|could|wish|dream\w*|thinking (?:of|about)|someday|one day|consider\w*|hope"
        r"|wonder\w*|tempted|should"
    ),
    "planned": "will|going to|gonna|plan|planning|next (?:week|month|year|summer|spring)|tomorrow|soon|'ll",
    "added": "also|as well|too|another|second|extra|on top|joined|added|adding|plus|besides|both",
    "joked": r"lol|haha\w*|joke|joking|kidding|lmao",
    "past": (
        "used to|years ago|back then|back when|when i was|as a (?:kid|child|student)|grew up|in the old days|those days"
    ),
    "others": "|".join(
        (
            *(rf"{owner} (?:\w+ )?(?:{_RELATIVE})s?" for owner in ("my", "her", "his", "our", "their")),
            "the neighbou?rs?|somebody|someone|people",
        )
    ),
    "same": "still|same|as ever|as always|as usual|as before|again|unchanged|usual",
    "first person": "i|im|my|me|we|our|us|mine",
}
EARLIER = (
    "asks",
    "holds a question",
    "has a number",
    "imagined",
    "temporary",
    "planned",
    "joked",
    "past",
    "others",
    "now",
    "same",
    "first person",
)
LATER = ("asks", "holds a question", "quotes", "has a number", *_CUES)
"""Cues of the earlier and of the later statement that count by themselves."""
_CHANGES = frozenset({"ended", "switched", "from now", "corrected"})
_WORD = LazyPattern(r"[a-z][a-z']+")
_NAME = LazyPattern(r"(?<=[a-z,;:] )[A-Z][a-z]+")
_NUMBER = LazyPattern(r"\d++(?:[.,:]\d++)*+")
_RELATIVES = frozenset(_RELATIVE.split("|"))
_TOKEN = LazyPattern(r"\w+")
_PLAIN = LazyPattern("[a-z]+")
_GROUP = LazyPattern(r"\([^()]*\)\??")
_VARIABLE = LazyPattern(r"\0|\\w[*+]?|.[?*]")
_ENDINGS = ("ing", "ies", "es", "ed", "s")
_COMMON = frozenset(
    "about above after again all also always and another any anyone are around because been before being both but came"
    " can come could day days did does doing done down each even ever every few first for from get gets getting give"
    " good got had has have having her here him his how into its just know last like little long look lot made make"
    " makes many maybe more most much need never new next not nothing now off okay old one only other our out over own"
    " please really right said same say says see she should since some something soon still sure take tell than thanks"
    " that the their them then there these they thing things think this those though three time times today too two"
    " under until very want was way week weeks well went were what when where which while who why will with would year"
    " years yes yet you your".split()
)


class _CueTable:
    """The cues, divided for speed: single words are looked up in a set, the others are searched.

    A phrase with a word that every match contains is searched only in texts with this word.
    """

    def __init__(self, cues: Mapping[str, str]) -> None:
        self.words: dict[str, set[str]] = defaultdict(set)
        self.phrases_by_word: dict[str, list[_Phrase]] = defaultdict(list)
        self.phrases: list[_Phrase] = []
        for name, source in cues.items():
            for each in _alternatives(source):
                if _PLAIN.fullmatch(each) is not None:
                    self.words[each].add(name)
                    continue
                word, phrase = _required_word(each), _Phrase(name, _literal(each), LazyPattern(rf"\b(?:{each})\b"))
                (self.phrases_by_word[word] if word else self.phrases).append(phrase)

    def find(self, lowered: str, tokens: AbstractSet[str]) -> set[str]:
        """Return the cues in a text."""
        found = set[str]().union(*[self.words[word] for word in self.words.keys() & tokens])
        for word in self.phrases_by_word.keys() & tokens:
            _search(self.phrases_by_word[word], lowered, found)
        _search(self.phrases, lowered, found)
        return found


class _Phrase(NamedTuple):
    """An alternative of a cue with the longest text that every match contains."""

    cue: str
    literal: str
    pattern: LazyPattern


def _search(phrases: Sequence[_Phrase], lowered: str, found: set[str]) -> None:
    """Add the cues of the phrases that a text contains."""
    for name, literal, pattern in phrases:
        if literal in lowered and name not in found and pattern.compiled.search(lowered) is not None:
            found.add(name)


def _without_groups(alternative: str) -> str:
    plain = alternative
    while (shorter := _GROUP.sub("\0", plain)) != plain:
        plain = shorter
    return plain


def _required_word(alternative: str) -> str:
    """Return the longest word that every match of an alternative contains between blanks, or an empty string."""
    words = _without_groups(alternative).replace(" ?", "\0").split(" ")
    return max((word for word in words if _PLAIN.fullmatch(word)), key=len, default="")


def _literal(alternative: str) -> str:
    """Return the longest text that every match of an alternative contains."""
    return max(_VARIABLE.split(_without_groups(alternative)), key=len)


def _alternatives(source: str) -> Iterator[str]:
    """Yield the alternatives of a pattern, except those inside of parentheses."""
    open_part = ""
    for part in source.split("|"):
        open_part += part
        if open_part.count("(") == open_part.count(")"):
            yield open_part
            open_part = ""
        else:
            open_part += "|"


@cache
def _cue_table() -> _CueTable:
    return _CueTable(_CUES)


class StatementCues(NamedTuple):
    """The cues, words and other properties of one statement."""

    speaker: str
    cues: frozenset[str]
    words: frozenset[str]
    names: frozenset[str]
    numbers: frozenset[str]
    relatives: frozenset[str]


def examine(text: str) -> StatementCues:
    """Return the properties of a statement with its speaker in front."""
    speaker, colon, said = text.partition(": ")
    said = (said if colon else text)[:MAX_CHARACTERS].replace("’", "'")
    lowered = said.lower()
    tokens = frozenset(_TOKEN.compiled.findall(lowered))
    numbers = frozenset(_NUMBER.compiled.findall(said))
    cues = _cue_table().find(lowered, tokens)
    if "?" in said:
        cues.update(("holds a question", "asks") if said.rstrip().endswith("?") else ("holds a question",))
    if '"' in said or "“" in said:
        cues.add("quotes")
    if numbers:
        cues.add("has a number")
    return StatementCues(
        speaker=speaker if colon else "",
        cues=frozenset(cues),
        words=frozenset(map(_content_stem, _WORD.compiled.findall(lowered))) - _NO_WORD,
        names=frozenset(_NAME.compiled.findall(said)),
        numbers=numbers,
        relatives=_RELATIVES & tokens,
    )


@lru_cache(maxsize=16_384)
def _content_stem(word: str) -> str:
    """Return the word without its ending, or an empty string for a word that is common or short."""
    if word in _COMMON or len(word) <= 2:
        return ""
    word = word.partition("'")[0]
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= 4:
            return word[: -len(ending)]
    return word


_NO_WORD = frozenset({""})


def change_features(earlier: StatementCues, later: StatementCues, *, days: int, cosine: float) -> dict[str, float]:
    """Return the features of two statements by their names."""
    both = of_both(earlier, later, days=days, cosine=cosine)
    return {
        **{f"earlier {name}": float(name in earlier.cues) for name in EARLIER},
        **{f"later {name}": float(name in later.cues) for name in LATER},
        **{name: float(value) for name, value in zip(BOTH, both, strict=True)},
    }


BOTH = (
    "shares a word", "shares several words", "share of words", "shares a name", "other names", "new name",
    "numbers differ", "shares a number", "shares a relative", "another relative", "lost relative", "same speaker",
    "change and shared word", "change by same speaker", "both in first person", "cosine", "clearly similar",
    "clearly similar and shares a word", "very similar", "days between", "same day",
)  # fmt: skip
"""The names of the features of two statements together."""


def of_both(earlier: StatementCues, later: StatementCues, *, days: int, cosine: float) -> tuple[float, ...]:
    """Return the features of the two statements together, in the order of `BOTH`."""
    shared = len(earlier.words & later.words)
    new_name = bool(later.names - earlier.names)
    shares_number = not earlier.numbers.isdisjoint(later.numbers)
    same_speaker, changed = earlier.speaker == later.speaker, not later.cues.isdisjoint(_CHANGES)
    clearly = max(0.0, cosine - 0.5) * 5
    return (
        shared > 0,
        shared > 1,
        shared / max(1, min(len(earlier.words), len(later.words))),
        not earlier.names.isdisjoint(later.names),
        new_name and not earlier.names <= later.names,
        new_name,
        not shares_number and bool(earlier.numbers) and bool(later.numbers),
        shares_number,
        not earlier.relatives.isdisjoint(later.relatives),
        not later.relatives <= earlier.relatives,
        not earlier.relatives <= later.relatives,
        same_speaker,
        changed and shared > 0,
        changed and same_speaker,
        same_speaker and "first person" in earlier.cues and "first person" in later.cues,
        cosine * 5,
        clearly,
        clearly * (shared > 0),
        max(0.0, cosine - 0.65) * 5,
        math.log1p(min(max(0, days), MAX_DAYS)) / 3,
        days <= 0,
    )
