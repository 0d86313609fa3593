"""Tense cues: words that show whether a clause is about the past or the future."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from typing import Literal, NamedTuple

from vmemo.text.lazy_regex import LazyPattern

Tense = Literal["future", "past", "arranged", "reported"]
"""`arranged` is a past act about a future date ("booked"); `reported` is one if a preposition points forward."""

PRONOUN = "i|we|he|she|they|it|you|there"
POSSESSIVE = "my|our|your|his|her|their"
_BEFORE_STATE = tuple(
    f"{word} "
    for word in (
        " is; are; am; not; be; being; get; gets; getting; the; a; an; my; our; his; their; to;'m;’m;'re;’re;n't;n’t"
    ).split(";")
)
"""A participle after these is a state or an adjective: "is closed", "the planned trip"."""
_EVENTS = (
    "appointments?|exams?|tests?|interviews?|meetings?|deadlines?|flights?|date|surgery|operation|check-?ups?"
    "|reservations?|bookings?|tickets?|party|class(?:es)?|lessons?|shifts?|games?|match|recital|concert|race|dinner"
    "|lunch|calls?|presentation|talk|viewings?|hearing|wedding|visitors?|trip|rehearsals?|sessions?|show|plans?"
)
_THIRD_PERSON_VERBS = (
    "starts|begins|opens|leaves|arrives|flies|lands|moves|comes|goes|returns|departs|ends|finishes|closes|expires"
    "|turns|graduates|retires|resumes|launches|takes place|kicks off|gets (?:married|back|here|home|in)"
)
_PLURAL_VERBS = (
    "start|begin|open|leave|arrive|fly|land|move|come|go|return|depart|finish|close|graduate|retire|launch|travel"
    "|meet|get (?:married|back|here|home|in|together)"
)
PARTICIPLE = (
    r"been|had|gone|done|come|said|told|made|met|left|lost|won|paid|sold|kept|felt|found|held|read|put|cut|let|sat"
    r"|slept|spent|stood|run|become|known|shown|flown|grown|worn|torn|born|\w+(?:ed|en|ght)"
)
"""Participles, which make "should have" refer to the past."""
_FUTURE = (
    rf"(?:will|won['’]t|shall|['’]ll)\b(?: (?:not|\w+ly|{PRONOUN})\b)*(?: (?:have|be|get)(?: (?:{PARTICIPLE})\b)?)?",
    rf"(?:should|must|might|(?:{PRONOUN}) may)\b(?! (?:have|of) (?:\w+ly )?(?:{PARTICIPLE})\b)",
    r"(?:gonna|upcoming|coming up|planning|looking forward|can['’]t wait|let['’]s|hopefully|good luck|deadline|see you"
    r"|remind me|don['’]t forget|save the date|ready for|excited (?:for|about)|gotta|available|plans? for|works|suits"
    rf"|(?:am|are|is|be|you|i|['’](?:m|re|s)) free|(?:could|would) (?:you|we)|{_THIRD_PERSON_VERBS})\b",
    r"(?:was|were|been) (?:just |also |actually )?"
    r"(?:thinking (?:of|about)|considering|looking (?:at|into)|hoping|wondering)\b",
    r"been (?:wanting|meaning|dreaming|planning|thinking|looking)\b",
    r"can(?:not|['’]t)?\b(?! (?:believe|remember|recall|forget|stop))|due\b(?! to\b)",
    r"hopes? (?:you|your|it|the|they|he|she|that|to)\b|(?:would|['’]d) (?:(?:love|like|prefer) to|rather)\b",
    r"(?:going|plans?|hoping|wants?|needs?|ha(?:ve|s)(?: got)?|['’](?:ve|s) got|ought|supposed|decided|promised"
    r"|intend(?:s|ing)?|aim(?:s|ing)?|expect(?:s|ing)?|planned|scheduled|agreed) to\b",
    rf"(?:wants?|needs?|(?:would|['’]d) like)\b(?= (?:[\w'’-]+ ){{1,6}}?(?:{PARTICIPLE}|ready|in place) by\b)",
    r"(?:(?:have|has)(?: got)?|['’]ve(?: got)?|['’]s got) "
    rf"(?:(?:an?|another|the|one|two|three|no|{POSSESSIVE}) (?:[\w'’-]+ ){{0,2}})?(?:{_EVENTS})\b",
    rf"(?:i|we|they|you) (?:\w+ly |both |all |then |also )?(?:{_PLURAL_VERBS})\b",
    r"(?:is|are|am|isn['’]t|aren['’]t|['’](?:s|re|m))"
    rf"(?: (?!(?:the|an?|this|that|there|been|{POSSESSIVE})\b)\w+){{0,2}} "
    r"(?!\w*thing\b|(?:wedding|evening|morning|during|spring|thanksgiving)\b)"
    r"\w+ing\b(?! about (?!\w+ing\b))(?: \w+ed\b)?",
)
_ARRANGED = (
    r"(?:booked|reserved|(?:re)?scheduled|postponed|pencill?ed|invited|registered|confirmed|planned|arranged"
    r"|signed (?:\w+ )?up|(?:got|bought) (?:\w+ )?tickets"
    r"|(?:agreed|settled|decided) (?:up)?on(?= (?:the )?[\w ]{3,20} (?:for|as) (?:the|an?|my|our|his|her|their)))\b"
)
_REPORTED = (
    r"(?:said|told|asked|gave|given|agreed|promised|offered|decided|signed|pushed|moved|delayed|slipped|shifted"
    r"|extended|renewed|accepted|granted|enrolled|hired|rented|bought|ordered|saved|paid)\b"
)
_PAST = (
    r"(?:was|were|had|did|didn['’]t|wasn['’]t|been|went|came|ago|recently|back in|remember(?! to\b)|recall"
    r"|since (?:the|that|then|my|our|his|her|their)|(?:thanks|thank you|sorry) (?:for|about))\b",
    r"(?<!['’]ve )(?<!['’]s )(?<!has )(?<!have )got\b",
)
_PAST_VERBS = (
    r"(?:made|took|saw|met|ate|left|found|felt|won|began|wrote|ran|flew|drove|spent|broke|fell|knew|thought|heard|kept"
    r"|lost|held|sold|sent|built|stood|taught|caught|brought|grew|drew|sang|swam|rode|rose|spoke|woke|wore|led|slept"
    r"|became|chose|forgot|threw|sat|born|gone|seen|freed|guaranteed)\b",
    r"(?<!will )(?<!['’]ll )(?<!['’]s )(?:quit|hit|hurt|beat|done)\b",
    r"(?!(?:hundred|fred|alfred|jared|ahmed|mohamed|wicked|naked|sacred|rugged)\b)\w+[^\We]ed\b",
)
_BY_DATE = LazyPattern(
    r" by (?:(?:the|early|mid|late|end of)[ -])?(?:\d|jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec|mon|tue|wed|thu"
    r"|fri|sat|sun|next|tomorrow|end)"
)
_UNFULFILLED = r"(?:was|were|had) (?:supposed|going|meant|planning|about|hoping) to\b"
_NAMED = r"an? [\w-]+ (?:called|named)\b"
_CUES: dict[str, tuple[Tense | None, tuple[str, ...]]] = {
    "named": (None, (_NAMED,)),
    "unfulfilled": ("past", (_UNFULFILLED,)),
    "arranged": ("arranged", (_ARRANGED,)),
    "future": ("future", _FUTURE),
    "reported": ("reported", (_REPORTED,)),
    "past": ("past", _PAST),
    "past_verb": ("past", _PAST_VERBS),
}
"""Tense and patterns by type of cue; the earlier type wins if two match at the same word."""


_GROUPS = (f"(?P<{name}>{'|'.join(patterns)})" for name, (_, patterns) in _CUES.items())
_CUE = LazyPattern(rf"(?:\b(?=\w)|(?=['’]))(?:{'|'.join(_GROUPS)})")


class TenseCues(NamedTuple):
    """The cues of a text in order: the offset and the tense of each."""

    offsets: list[int]
    tenses: list[Tense]

    def last(self, begin: int, end: int) -> Tense | None:
        """Return the tense of the last cue between the offsets."""
        place = bisect_left(self.offsets, end) - 1
        return self.tenses[place] if place >= 0 and self.offsets[place] >= begin else None

    def first(self, begin: int, end: int) -> Tense | None:
        """Return the tense of the first cue between the offsets."""
        place = bisect_left(self.offsets, begin)
        return self.tenses[place] if place < len(self.offsets) and self.offsets[place] < end else None

    def mention_past(self, begin: int, end: int) -> bool:
        """Return True if a cue between the offsets is in a past tense."""
        first, last = bisect_left(self.offsets, begin), bisect_left(self.offsets, end)
        return any(tense in ("past", "reported") for tense in self.tenses[first:last])


def find_cues(lowered: str, spans: Iterable[tuple[int, int]]) -> TenseCues:
    """Return the cues within the spans of a lower-case text. Spans are in order and may overlap."""
    offsets: list[int] = []
    tenses: list[Tense] = []
    searched = 0
    for begin, end in spans:
        for match in _CUE.finditer(lowered, max(begin, searched), end):
            name = match.lastgroup or "named"
            tense = _CUES[name][0]
            in_future = bool(tenses) and tenses[-1] == "future" and offsets[-1] >= begin
            if tense and not (name == "past_verb" and _is_state(lowered, match.start(), match.end(), in_future)):
                offsets.append(match.start())
                tenses.append(tense)
        searched = max(searched, end)
    return TenseCues(offsets, tenses)


def _is_state(lowered: str, start: int, end: int, in_future: bool) -> bool:
    """Return True for a participle that is an adjective, or a result that is wanted: "I need it painted by May"."""
    return lowered.endswith(_BEFORE_STATE, 0, start) or (in_future and _BY_DATE.match(lowered, end) is not None)
