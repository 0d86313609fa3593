"""Words that look back or ahead: "will", "booked", "was", in the order they stand in."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable
from functools import cache
from typing import Literal, NamedTuple

Tense = Literal["ahead", "behind", "arranged", "told"]
"""`arranged` is a past deed about a day to come, as in "booked"; `told` is one where a preposition must say so."""

PRONOUN = "i|we|he|she|they|it|you|there"
OWNER = "my|our|your|his|her|their"
_STATES = tuple(
    f"{word} "
    for word in (
        " is; are; am; not; be; being; get; gets; getting; the; a; an; my; our; his; their; to;'m;’m;'re;’re;n't;n’t"
    ).split(";")
)
"""A participle behind these is a state, a quality or still to happen: "is closed", "the planned trip"."""
_EVENTS = (
    "appointments?|exams?|tests?|interviews?|meetings?|deadlines?|flights?|date|surgery|operation|check-?ups?"
    "|reservations?|bookings?|tickets?|party|class(?:es)?|lessons?|shifts?|games?|match|recital|concert|race|dinner"
    "|lunch|calls?|presentation|talk|viewings?|hearing|wedding|visitors?|trip|rehearsals?|sessions?|show|plans?"
)
_GOES = (
    "starts|begins|opens|leaves|arrives|flies|lands|moves|comes|goes|returns|departs|ends|finishes|closes|expires"
    "|turns|graduates|retires|resumes|launches|takes place|kicks off|gets (?:married|back|here|home|in)"
)
_GO = (
    "start|begin|open|leave|arrive|fly|land|move|come|go|return|depart|finish|close|graduate|retire|launch|travel"
    "|meet|get (?:married|back|here|home|in|together)"
)
DONE = (
    r"been|had|gone|done|come|said|told|made|met|left|lost|won|paid|sold|kept|felt|found|held|read|put|cut|let|sat"
    r"|slept|spent|stood|run|become|known|shown|flown|grown|worn|torn|born|\w+(?:ed|en|ght)"
)
"""What follows "should have" when it looks back."""
_AHEAD = (
    rf"(?:will|won['’]t|shall|['’]ll)\b(?: (?:not|\w+ly|{PRONOUN})\b)*(?: (?:have|be|get)(?: (?:{DONE})\b)?)?",
    rf"(?:should|must|might|(?:{PRONOUN}) may)\b(?! (?:have|of) (?:\w+ly )?(?:{DONE})\b)",
    r"(?:gonna|upcoming|coming up|planning|looking forward|can['’]t wait|let['’]s|hopefully|good luck|deadline|see you"
    r"|remind me|don['’]t forget|save the date|ready for|excited (?:for|about)|gotta|available|plans? for|works|suits"
    rf"|(?:am|are|is|be|you|i|['’](?:m|re|s)) free|(?:could|would) (?:you|we)|{_GOES})\b",
    r"can(?:not|['’]t)?\b(?! (?:believe|remember|recall|forget|stop))|due\b(?! to\b)",
    r"hopes? (?:you|your|it|the|they|he|she|that|to)\b|(?:would|['’]d) (?:(?:love|like|prefer) to|rather)\b",
    r"(?:going|plans?|hoping|wants?|needs?|ha(?:ve|s)(?: got)?|['’](?:ve|s) got|ought|supposed|decided|promised"
    r"|intend(?:s|ing)?|aim(?:s|ing)?|expect(?:s|ing)?|planned|scheduled|agreed) to\b",
    r"(?:(?:have|has)(?: got)?|['’]ve(?: got)?|['’]s got) "
    rf"(?:(?:an?|another|the|one|two|three|no|{OWNER}) (?:[\w'’-]+ ){{0,2}})?(?:{_EVENTS})\b",
    rf"(?:i|we|they|you) (?:\w+ly |both |all |then |also )?(?:{_GO})\b",
    rf"(?:is|are|am|isn['’]t|aren['’]t|['’](?:s|re|m))(?: (?!(?:the|an?|this|that|there|been|{OWNER})\b)\w+){{0,2}} "
    r"(?!\w*thing\b|(?:wedding|evening|morning|during|spring|thanksgiving)\b)"
    r"\w+ing\b(?! about (?!\w+ing\b))(?: \w+ed\b)?",
)
_ARRANGED = (
    r"(?:booked|reserved|(?:re)?scheduled|postponed|pencill?ed|invited|registered|confirmed|planned|arranged"
    r"|signed (?:\w+ )?up|(?:got|bought) (?:\w+ )?tickets)\b"
)
_TOLD = (
    r"(?:said|told|asked|gave|given|agreed|promised|offered|decided|signed|pushed|moved|delayed|slipped|shifted"
    r"|extended|renewed|accepted|granted|enrolled|hired|rented|bought|ordered|saved|paid)\b"
)
_BEHIND = (
    r"(?:was|were|had|did|didn['’]t|wasn['’]t|been|went|came|ago|recently|back in|remember(?! to\b)"
    r"|since (?:the|that|then|my|our|his|her|their)|(?:thanks|thank you|sorry) (?:for|about))\b",
    r"(?<!['’]ve )(?<!['’]s )(?<!has )(?<!have )got\b",
)
_DID = (
    r"(?:made|took|saw|met|ate|left|found|felt|won|began|wrote|ran|flew|drove|spent|broke|fell|knew|thought|heard|kept"
    r"|lost|held|sold|sent|built|stood|taught|caught|brought|grew|drew|sang|swam|rode|rose|spoke|woke|wore|led|slept"
    r"|became|chose|forgot|threw|sat|born|gone|seen|freed|guaranteed)\b",
    r"(?<!will )(?<!['’]ll )(?<!['’]s )(?:quit|hit|hurt|beat|done)\b",
    r"(?!(?:hundred|fred|alfred|jared|ahmed|mohamed)\b)\w+[^\We]ed\b",
)
_MEANT = r"(?:was|were|had) (?:supposed|going|meant|planning|about|hoping) to\b"
_NAMED = r"an? [\w-]+ (?:called|named)\b"
_KINDS: dict[str, tuple[Tense | None, tuple[str, ...]]] = {
    "named": (None, (_NAMED,)),
    "meant": ("behind", (_MEANT,)),
    "arranged": ("arranged", (_ARRANGED,)),
    "ahead": ("ahead", _AHEAD),
    "told": ("told", (_TOLD,)),
    "behind": ("behind", _BEHIND),
    "did": ("behind", _DID),
}
"""What each kind says; the earlier one wins where two begin at the same word."""


@cache
def _pattern() -> re.Pattern[str]:
    """All cues as one expression, made at first use so that importing is cheap."""
    kinds = (f"(?P<{kind}>{'|'.join(patterns)})" for kind, (_, patterns) in _KINDS.items())
    return re.compile(rf"(?:\b(?=\w)|(?=['’]))(?:{'|'.join(kinds)})")


class Cues(NamedTuple):
    """The cues of a text in order: where each begins, and what it says."""

    places: list[int]
    tenses: list[Tense]

    def last(self, begin: int, end: int) -> Tense | None:
        """The cue nearest to the end of a piece."""
        place = bisect_left(self.places, end) - 1
        return self.tenses[place] if place >= 0 and self.places[place] >= begin else None

    def first(self, begin: int, end: int) -> Tense | None:
        """The cue nearest to the beginning of a piece."""
        place = bisect_left(self.places, begin)
        return self.tenses[place] if place < len(self.places) and self.places[place] < end else None

    def speaks_of_the_past(self, begin: int, end: int) -> bool:
        """Whether anything in a piece is told as past."""
        first, last = bisect_left(self.places, begin), bisect_left(self.places, end)
        return any(tense in ("behind", "told") for tense in self.tenses[first:last])


def cues(lowered: str, pieces: Iterable[tuple[int, int]]) -> Cues:
    """The cues in some pieces of a lower-case text, given in order; where they overlap it is read once."""
    places: list[int] = []
    tenses: list[Tense] = []
    read = 0
    for begin, end in pieces:
        for match in _pattern().finditer(lowered, max(begin, read), end):
            kind = match.lastgroup or "named"
            tense = _KINDS[kind][0]
            if tense and not (kind == "did" and lowered.endswith(_STATES, 0, match.start())):
                places.append(match.start())
                tenses.append(tense)
        read = max(read, end)
    return Cues(places, tenses)
