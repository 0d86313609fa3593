"""Features of two statements, by which the revision model estimates if the later one makes the earlier one outdated.

They are properties of the words: cues of a change, or of something temporary, imagined, planned or added; other people;
words, names and numbers that both share. English.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

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
    "others": (rf"(?:my|her|his|our|their) (?:\w+ )?(?:{_RELATIVE})s?|the neighbou?rs?|somebody|someone|people"),
    "same": "still|same|as ever|as always|as usual|as before|again|unchanged|usual",
    "first person": "i|i'm|im|i've|i'll|i'd|my|me|we|we're|we've|our|us|mine",
}
_CUE = {name: LazyPattern(rf"\b(?:{source})\b") for name, source in _CUES.items()}
_EARLIER_CUES = ("imagined", "temporary", "planned", "joked", "past", "others", "now", "same", "first person")
_CHANGES = frozenset({"ended", "switched", "from now", "corrected"})
_WORD = LazyPattern(r"[a-z][a-z']+")
_NAME = LazyPattern(r"(?<=[a-z,;:] )[A-Z][a-z]+")
_NUMBER = LazyPattern(r"\d++(?:[.,:]\d++)*+")
_RELATIVES = LazyPattern(rf"\b(?:{_RELATIVE})\b")
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


@dataclass(frozen=True, kw_only=True)
class StatementCues:
    """The cues, words and other properties of one statement."""

    speaker: str
    cues: frozenset[str]
    words: frozenset[str]
    names: frozenset[str]
    numbers: frozenset[str]
    relatives: frozenset[str]
    asks: bool
    holds_question: bool
    quotes: bool


def examine(text: str) -> StatementCues:
    """Return the properties of a statement with its speaker in front."""
    speaker, colon, said = text.partition(": ")
    said = (said if colon else text)[:MAX_CHARACTERS].replace("’", "'")
    lowered = said.lower()
    return StatementCues(
        speaker=speaker if colon else "",
        cues=frozenset(name for name, pattern in _CUE.items() if pattern.search(lowered) is not None),
        words=frozenset(_stem(word) for word in _WORD.findall(lowered) if len(word) > 2 and word not in _COMMON),
        names=frozenset(_NAME.findall(said)),
        numbers=frozenset(_NUMBER.findall(said)),
        relatives=frozenset(_RELATIVES.findall(lowered)),
        asks=said.rstrip().endswith("?"),
        holds_question="?" in said,
        quotes='"' in said or "“" in said,
    )


def _stem(word: str) -> str:
    word = word.partition("'")[0]
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= 4:
            return word[: -len(ending)]
    return word


def change_features(earlier: StatementCues, later: StatementCues, *, days: int, cosine: float) -> dict[str, float]:
    """Return the features of two statements by their names."""
    found = (*_of_words(earlier, later), *_of_cues(earlier, later), *_of_distance(earlier, later, days, cosine))
    return {name: float(value) for name, value in found}


def _of_words(earlier: StatementCues, later: StatementCues) -> Iterator[tuple[str, float]]:
    shared = earlier.words & later.words
    yield "shares a word", bool(shared)
    yield "shares several words", len(shared) > 1
    yield "share of words", len(shared) / max(1, min(len(earlier.words), len(later.words)))
    yield "shares a name", bool(earlier.names & later.names)
    yield "other names", bool(earlier.names - later.names) and bool(later.names - earlier.names)
    yield "new name", bool(later.names - earlier.names)
    both = bool(earlier.numbers) and bool(later.numbers)
    yield "numbers differ", both and earlier.numbers.isdisjoint(later.numbers)
    yield "shares a number", bool(earlier.numbers & later.numbers)
    yield "shares a relative", bool(earlier.relatives & later.relatives)
    yield "another relative", bool(later.relatives - earlier.relatives)
    yield "lost relative", bool(earlier.relatives - later.relatives)
    yield "earlier asks", earlier.asks
    yield "later asks", later.asks
    yield "later holds a question", later.holds_question
    yield "earlier holds a question", earlier.holds_question
    yield "later quotes", later.quotes
    yield "earlier has a number", bool(earlier.numbers)
    yield "later has a number", bool(later.numbers)


def _of_distance(earlier: StatementCues, later: StatementCues, days: int, cosine: float) -> Iterator[tuple[str, float]]:
    clearly = max(0.0, cosine - 0.5) * 5
    yield "cosine", cosine * 5
    yield "clearly similar", clearly
    yield "clearly similar and shares a word", clearly * (not earlier.words.isdisjoint(later.words))
    yield "very similar", max(0.0, cosine - 0.65) * 5
    yield "days between", math.log1p(min(max(0, days), MAX_DAYS)) / 3
    yield "same day", days <= 0


def _of_cues(earlier: StatementCues, later: StatementCues) -> Iterator[tuple[str, float]]:
    shares = not earlier.words.isdisjoint(later.words)
    same_speaker, changed = earlier.speaker == later.speaker, not later.cues.isdisjoint(_CHANGES)
    yield "same speaker", same_speaker
    for name in _CUES:
        yield f"later {name}", name in later.cues
    for name in _EARLIER_CUES:
        yield f"earlier {name}", name in earlier.cues
    yield "change and shared word", changed and shares
    yield "change by same speaker", changed and same_speaker
    yield "both in first person", same_speaker and "first person" in earlier.cues & later.cues
