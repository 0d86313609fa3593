"""Analysis of a query: its type, tense, the time that it is about, and its sub-queries. Rules only, English."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from vmemo.models import Interval, QueryType, QuestionTense
from vmemo.text.lazy_regex import LazyPattern
from vmemo.text.temporal import TimeExpression, find_times
from vmemo.text.temporal.find import lower_same_length
from vmemo.text.tokens import STOP_WORDS

MAX_QUERY_CHARS = 2_000
"""Characters of a query that are analysed."""

# Types of questions, by which recall weighs its channels, and questions that many facts answer.

_LETTERS = LazyPattern(r"[^\W\d_]+")
_CONTENTLESS = STOP_WORDS | frozenset("s d m please know tell think mean say ok okay yes hi hello hey thanks".split())
_STATEMENT = LazyPattern(r"\W*(?:i|we|he|she|it|they|you|there|this|that|my|our|let|thanks?|hi|hello|hey|ok(?:ay)?)\b")
_SPOKEN = r"(?!need|proceed|exceed)[a-z]{2,}ed|said|told|gave|wrote|put|made|drew|chose|thought|taught"
_ASSISTANT = LazyPattern(
    rf"(?<!thank )\b(?:you|assistant|chatbot)(?:'d|'ve| had| have)?(?: \w+ly| just| already| once)? (?:{_SPOKEN})\b"
    r"|\b(?:did|had|have) (?:you(?! (?:know|remember|heard|hear|got|any|a)\b)|your|the assistant|the chatbot) \w"
    r"|\b(?:was|were|remember|recall|repeat|from|in|on|according to) your (?!opinion|view|mind|experience)\w+"
    r"|\bour (?:last |previous |earlier |past )?(?:chats?|conversations?|discussions?)\b|\bthe assistant's\b"
    r"|\bwe(?:'d|'ve| had)? (?:talked|discussed|chatted)\b|\bdid we (?:talk about|discuss)\b"
)
_ADVICE = LazyPattern(
    r"(?:^|[.?!] |you |please )(?:suggest|recommend)\b|\b(?:any|some) (?:\w+ )?(?:suggestions|advice|tips|ideas)\b"
    r"|(?:^|[.?!,]\s+)(?:plan|so should|should (?:i|we))\b|\bwould (?:suit|be an? (?:good|nice))\b|\bhelp me (?!rem)\w"
    r"|\b(?:what|which|where|how)\b.{0,40}\b(?:should|could|can|might|shall) (?:i|we) (?!have\b)\w|\blooking for\b"
)
_CUES: tuple[tuple[LazyPattern, QueryType], ...] = (
    (LazyPattern(r"\bhow (?:are|do) you(?: (?:do|doing))?\b|\bhow's it going\b|\bwhat(?:'s| is) up\b"), "general"),
    (
        LazyPattern(
            r"\bwhen(?:'s| (?:and|did|do|does|is|are|was|were|has|have|will|should))\b|\b(?:since|remember) when\b"
            r"|\bhow (?:long|soon|recently)\b|\bhow many (?:days|weeks|months|years)\b(?! (?:a|per|each|every) )"
            r"|\bhow old\b.{0,80}\bwhen\b|\b(?:what|which) (?:dates?|days?|months?|years?|time)\b|\bcame first\b"
            r"|\b(?:first|last|earlier|later)\b[^,:]{0,40}[,:] .{1,200}\bor\b|\bbefore or after\b|\b(?:late|recent)ly\b"
        ),
        "temporal",
    ),
    (
        LazyPattern(
            r"\b(?:latest|newest|most recent|current(?:ly)?|nowadays|at the moment|these days|any ?more|still|yet)\b"
            r"|(?<!until )(?<!by )(?<!from )(?<!just )\bnow\b(?!,? that\b)|\bused? to\b|\bprevious(?:ly)?\b"
            r"|\b(?:has|have|did|what(?:'s| has)?)\b.{0,80}\bchanged?\b|\bswitch(?:ed)? (?:to|from)\b"
        ),
        "update",
    ),
    (
        LazyPattern(
            r"\bhow (?:many|often|frequently)\b|\bnumber of\b|\bcount (?:how|the|all|my)\b|\bwhat percentage of\b"
            r"|\b(?:how much|what)\b.{0,120}\b(?:total|altogether|overall|on average)\b"
            r"|\bhow much\b.{0,60}\b(?:spen[dt]|saved|paid)\b"
        ),
        "count",
    ),
    (
        LazyPattern(
            r"\b(?:both|in common|compared?|versus|differences?|the same)\b|\b[a-z]{2,20}er than (?!\d|an?\b|usual\b)"
            r"|\bwhat (?:kinds|types) of\b|\b(?:list|name|show me) (?:all|every|each)\b|\b(?:what|who|where) else\b"
            r"|'s \w{1,30}'s\b|\bthe (?:person|man|woman|one|city|town|place|company) (?:who|that|whose|where)\b"
            r"|\bover the years\b| and (?:who|what|where|which) \w"
        ),
        "multi-hop",
    ),
    (
        LazyPattern(
            r"\bfavou?rites?\b|\bprefer(?:s|red|ences?)?\b|\b(?:fond|fan) of\b|\bwho (?:likes|loves|enjoys)\b"
            r"|\b(?:do|does|did|would)\b.{1,60}?(?<!look )(?<!feel )(?<!sound )(?<!be )\b(?:like|love|enjoy|hate)\b"
        ),
        "preference",
    ),
)
"""Cues of a question, the first of which decides."""
_EVERYTHING = LazyPattern(
    r"\bhow (?:many|often|frequently)\b|\b(?:number|total) of\b|\bcount (?:how|the|all|my)\b|\bin total\b|\bso far\b"
    r"|\b(?:list|name|give me|show me|tell me|what are|which|who are) (?:all|every|each|everything|everyone)\b"
    r"|\blist (?:the|my|his|her|our|their)\b|\ball (?:of )?(?:the|my|his|her|our|their) [\w-]+ (?:i|we|he|she)\b"
)
_COURSE = LazyPattern(
    r"\b(?:what|which|the) (?:order|sequence) (?:in which|did|do|have|of)\b|\bchronological|\bsummar(?:y of|i[sz]e)\b"
    r"|\b(?:timeline|recap|overview|rundown|story|history) (?:of|my|our|the)\b|\bsum up\b|, in order\b(?! to\b)"
    r"|\bhow (?:has|have|did)\b.{1,120}\b(?:progress|develop|unfold|evolve)(?:ed|d)?\b"
)
_SUBJECT = r"(?!(?:your?|it|this|that|when|how|the time)\b)[\w.-]+(?: [\w.-]+){0,3}\s*(?:[?.!]|$)"
"""A name or a short description at the end; a longer text or a possessive asks for something in particular."""
_NAME = r"(?!(?:your?|it|this|that|when|how|the|an?|my|our|his|her|their)\b)[\w.-]+(?: [\w.-]+)?\s*(?:[?.!]|$)"
_PROFILE = LazyPattern(
    rf"\b(?:tell me(?: more| something| all)?|everything|all you know|what do (?:you|we) know) about {_SUBJECT}"
    rf"|\bwho(?:'s| is| are| was) {_NAME}|\bwhat(?:'s| is| are| was) [\w.-]+(?: [\w.-]+){{0,3}} like\s*(?:[?.!]|$)"
    rf"|\bwhat (?:kind|sort|type) of (?:a )?person\b|\b(?:describe|introduce(?: me to)?) {_SUBJECT}|\bsummari[sz]e\b"
    r"|\bsum up\b|\bin summary\b|\b(?:summary|overview|profile|portrait|recap|rundown) (?:of|on|about)\b"
)


def query_type(text: str, questions: Sequence[str], *, timed: bool) -> QueryType:
    """Return the type of a query in lower case with the given questions; `timed` if it names a time."""
    if _ASSISTANT.search(text):
        return "assistant"
    asked = " ".join(questions)
    if _ADVICE.search(text) and not _CUES[1][0].search(asked):
        return "preference"
    if not questions or (set(_LETTERS.findall(text)) <= _CONTENTLESS and not timed):
        # At most eight words that state nothing are keywords.
        keywords = len(text.split(maxsplit=8)) <= 8 and _STATEMENT.match(text) is None
        return "temporal" if timed and keywords else "general"
    for cue, type in _CUES:
        if cue.search(asked):
            return type
    return "temporal" if timed else "factual"


def asks_for_everything(text: str) -> bool:
    """Return True if a text in lower case asks for what many facts say: "how many", "list all", "summarize"."""
    return _EVERYTHING.search(text) is not None or asks_for_course(text)


def asks_for_course(text: str) -> bool:
    """Return True if a text in lower case asks for an order, a summary or a development; former facts belong to it."""
    return _COURSE.search(text) is not None


def asks_for_profile(text: str) -> bool:
    """Return True if a question asks what someone or something is like, or for a summary."""
    return _PROFILE.search(" ".join(text[:2000].lower().replace("’", "'").split())) is not None


# Sub-queries of a question. Each rule matches one form of question exactly: a wrong sub-query costs a search.

MAX_PARTS = 4
_AUX = "did|do|does|is|are|was|were|has|have|had|will|would|can|could|should|am"
_OPENING = (
    r"\W*(?:(?:hey|hi|hello|so|ok|okay|well|and|but|also|please|now|by the way)\b[,!]?\s+)*"
    r"(?:(?:(?:can|could|would|will) you (?:please )?(?:tell|remind) me|do you (?:happen to )?(?:know|remember|recall)"
    r"|(?:please )?(?:tell|remind) me|i (?:wonder|forgot|forget|want to know|don't remember))[,:]?\s+)?"
)
"""Greetings and phrases before the question itself."""
_ABBREVIATED = r"(?:(?<=\b[A-Za-z])|(?<=\b[DMS][rst])|(?<=Mrs)|(?<=Prof)|(?<=vs))\."
_SENTENCE = LazyPattern(rf"(?:[^.?!\n]+|[.!](?=\w)|{_ABBREVIATED})+[.?!]*\s*")
_QUESTION = LazyPattern(
    rf"(?i){_OPENING}(?:(?:who|whom|whose|which|where|why)\b|what\b(?! an?\b)|when(?:'s| (?:{_AUX}))\b"
    rf"|how(?:'s|\ (?:{_AUX}|many|much|often|long|old|far|soon|recently|frequently|come))\b"
    r"|(?:in|at|on|for|to|with|from|by|since|until) (?:what|which|whom|when)\b"
    r"|(?:did|does|is|are|was|were|has|can|could|should|would)\s\w"
    r"|(?:do|have|had|will|may|am)\ (?:i|you|we|they|he|she|it|my|his|her|our|their|the|any|there)\b"
    r"|(?:remind me (?!to\b)|give me|show me|tell me (?!about\b)|list|name|count|compare)\b)|[^?？؟]*[?？؟]"
)
_OPENING_PHRASE = LazyPattern(rf"(?i){_OPENING}")
_WORD = LazyPattern(r"[^\W_]+")
_DEPENDENT = LazyPattern(r"(?i)\b(?:its?|that|this|those|these|each|ones?|there|then|they|them)\b")
_PRONOUN = LazyPattern(r"(?i)\b(?:he|him|his|she|her)\b")
_CLAUSE = LazyPattern(r"(?i),? and (?=(?:(?:in|on|at|by|for) )?(?:who|what|where|when|why|which|how)\b)")
_TWO = LazyPattern(
    r"(?i)\b(?:(?:first|last|earlier|later)[,:] (?=.{3,120} or )|"
    r"(?:days|weeks|months|years|long|time|passed|gap|differences?)\b[^?;,]{0,40}\bbetween )"
)
"""The beginning of a question about two events, which "or" or "and" separates."""
_JOINED = (
    LazyPattern(
        rf"(?i)^how many (?P<one>[\w-]{{2,30}}s) and (?P<other>[\w-]{{2,30}}s) (?:{_AUX}) (?P<rest>.{{3,120}})"
    ),
    LazyPattern(
        rf"(?i)^(?:what|which|where|who)\b[^,]{{0,60}}? (?:{_AUX}) (?P<one>[\w-]{{2,30}}) and (?P<other>[\w-]{{2,30}}) "
        r"(?:both|share|have)\b(?P<rest>.{0,120})"
    ),
)
"""Two things that are counted, or two persons who share something."""
_SEPARATOR = LazyPattern(r"(?i),? (?:or|and) ")


def question_sentences(text: str) -> list[re.Match[str]]:
    """Return the sentences that are questions, with or without a question mark."""
    return [found for found in _SENTENCE.finditer(text) if _QUESTION.match(found[0])]


def decompose(questions: Sequence[str], times: Sequence[str]) -> tuple[str, ...]:
    """Return up to four sub-queries: the questions of a text, the clauses of one, or the two events that it names.

    A part that only names a time is not one.
    """
    parts = questions if len(questions) > 1 else [part for question in questions for part in _divide(question)]
    tidy = {(part := _tidy(each)).casefold(): part for each in parts}
    kept = [part for part in tidy.values() if not any(part in time for time in times)]
    alone = len(kept) == len(tidy) > 1 and all(map(_stands_alone, kept))
    return tuple(_with_name(kept)[:MAX_PARTS]) if alone else ()


def _with_name(parts: Sequence[str]) -> list[str]:
    """Add the name to parts with a pronoun: "what is her job" after "Where does Ana live" is about Ana."""
    names = _names(parts[0])
    added = f" {names[0]}" if len(names) == 1 else ""
    return [part + added if _PRONOUN.search(part) and not _names(part) else part for part in parts]


def _names(part: str) -> list[str]:
    return [word for word in _WORD.findall(part)[1:] if word[0].isupper() and word.lower() not in STOP_WORDS]


def _divide(question: str) -> Sequence[str]:
    bare = _tidy(question.partition("?")[0])
    if len(clauses := _CLAUSE.split(bare)) > 1:
        return clauses
    for form in _JOINED:
        if joined := form.search(bare):
            return [f"{joined[name]} {joined['rest']}" for name in ("one", "other")]
    found = _TWO.search(bare)
    middle = _SEPARATOR.search(bare, found.end()) if found else None
    return (bare[found.end() : middle.start()], bare[middle.end() :]) if found and middle else ()


def _tidy(part: str) -> str:
    return " ".join(_OPENING_PHRASE.sub("", part, count=1).split()).strip(" ,;:.?!")


def _stands_alone(part: str) -> bool:
    """Return True if a part is clear without the others: it has a name, or several words and no pronoun."""
    words = _WORD.findall(part)
    content = [word for word in words if word.lower() not in STOP_WORDS]
    is_name = len(words) == 1 and bool(content) and words[0][0].isupper()
    return is_name or bool(_names(part)) or (bool(content) and len(words) > 1 and _DEPENDENT.search(part) is None)


# Times that a question names and the rules cannot resolve: no durations, habits, or times that only an event defines.

_COUNT = (
    r"(?:[\d.,]{0,6}[\d¼½¾]|half a dozen|(?:a|two|three) dozen|a (?:score|handful|couple|quarter) of|several|an?"
    r"|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve)"
)
_UNIT = r"(?:day|night|weekend|week|fortnight|month|quarter|semester|year|decade)s?"
_TIME = LazyPattern(
    rf"\b{_COUNT}[ -]?(?:[a-z]+ )?{_UNIT} (?:ago|hence|from (?:now|today))\b"
    r"|\b(?:last|previous|past|this|next|coming) (?:han+uk+ah?|diwali|passover|holi|nowruz|ramadan|eid(?: al[- ]\w+)?"
    r"|lent|mardi gras)\b(?! [a-z]*party\b)"
)
"""Calendar times that the rules miss: "a dozen days ago", "last Diwali"."""
_FOREIGN = LazyPattern(
    "|".join([
        r"\b(?:vorgestern|gestern|heute|letzte[nrsm]? (?:woche|monat|jahr|wochenende))\b",
        r"\bvor \w+ (?:tag|woche|monat|jahr)e?n?\b",
        r"\b(?:avant-hier|aujourd['’]hui|(?:semaine|mois|année|an) derni(?:er|ère))\b",
        r"\bil y a \w+ (?:jours?|semaines?|mois|ans?)\b",
        r"\b(?:anteayer|ayer|anoche|(?:semana|mes|año) pasad[oa]|hace \w+ (?:días?|semanas?|meses|años?))\b",
        r"\b(?:anteontem|ontem|(?:semana|mês|ano) passad[oa]|há \w+ (?:dias?|semanas?|meses|anos?))\b",
        r"\b(?:ieri|(?:settimana|mese|anno) scors[oa]|\w+ (?:giorn[oi]|settiman[ae]|mes[ei]|ann[oi]) fa)\b",
        r"\b(?:eergisteren|gisteren|vorige (?:week|maand)|vorig jaar|igår|i går|wczoraj|včera|dün|kemarin|hôm qua)\b",
        r"\b(?:позавчера|вчера|на прошлой неделе|в прошлом (?:месяце|году)|вчора|χθες)\b",
        "昨日|先週|先月|昨年|去年|昨天|前天|上(?:个|個)?(?:周|週|星期|月)|어제|지난 ?(?:주|달|해)|작년",
        "أمس|الأسبوع الماضي|אתמול",
    ])
)  # fmt: skip
"""Common times in other languages than English, which are detected here but not resolved. In lower case."""


class UnresolvedTime(NamedTuple):
    """Words of a question that name a time."""

    start: int
    text: str
    foreign: bool
    """The words are not English."""

    @property
    def end(self) -> int:
        """The end offset."""
        return self.start + len(self.text)


def find_unresolved_times(text: str, times: Sequence[TimeExpression]) -> Iterator[UnresolvedTime]:
    """Yield the times of the calendar that a text names and that none of the resolved times covers."""
    lowered = lower_same_length(text)
    for pattern in (_TIME, _FOREIGN):
        for match in pattern.finditer(lowered):
            start, end = match.span()
            if not any(time.start <= start and end <= time.end for time in times):
                yield UnresolvedTime(start, text[start:end], pattern is _FOREIGN)


# Tense.

_PAST_VERB = r"(?:did|didn't|was|wasn't|were|weren't|had|hadn't)"
_IRREGULAR = (
    "drove|stood|went|came|took|got|gave|made|said|told|sold|bought|ran|won|lost|led|held|kept|wrote|taught|paid|sang|sat"
    "|met|saw|knew|thought|found|left|began|brought|built|caught|chose|drew|ate|fell|flew|grew|heard|rode|sent|spoke|spent"
)
_PAST = LazyPattern(rf"\b{_PAST_VERB}\b|\w'd been\b")
_PRESENT = LazyPattern(
    r"\b(?:is|are|am|do|does|has|have|will|can|should)\b|\w'(?:re|m|ll|ve)\b"
    r"|\b(?:what|who|where|when|how|it|he|she|that|there)'s\b"
)
_PAST_SUBJECT = LazyPattern(
    rf"^(?:and |so )?(?:who|what|which)(?: [\w'-]{{1,30}}){{0,3}}? (?:{_IRREGULAR}|\w{{2,20}}ed)\b"
)
"""A question for the subject of a verb, which has no auxiliary."""
_NOT_HABIT = r"(?<!\bam )(?<!\bare )(?<!\bis )(?<!'m )(?<!'re )(?<!'s )(?<!\bget )(?<!\bgot )(?<!\bgetting )(?<!\bbe )"
_OWNER = r"(?:my|our|his|her|their|the|\w{1,30}'s)"
_FORMER = LazyPattern(
    "|".join(
        (
            rf"{_NOT_HABIT}\bused? to\b",
            r"\b(?:origin|initi)al(?:ly)?\b|\bat first\b|\bin the first place\b|\bto (?:begin|start) with\b",
            r"\b(?:former|previous|prior)(?:ly)?\b|\bback (?:then|when|in|at)\b",
            r"\bin (?:the past|(?:those|the old) days)\b",
            rf"\b{_OWNER} (?:old|ex)\b(?! (?:friend|people|man|woman|town|lady)s?\b)|\bex-\w",
            r"\bhow (?:did|has|have|had)\b.{0,80}\b(?:chang|evolv|develop|shift)(?:ed?)?\b",
            rf"\bwhat(?:'s| has| have| had)? (?:\w{{1,20}} ){{0,4}}changed\b|\bchanges? (?:to|of|in) {_OWNER}\b",
            rf"\b(?:switch|chang|mov)(?:e|ed|ing)? (?:away )?from\b|\bhistory of {_OWNER}\b",
            r"\bover (?:time|the years)\b|\bearlier (?:plan|version|idea|value|date|address|name|job|choice)s?\b",
            r"\bno longer\b.{0,60}\b(?:which|what|who|where)\b|\b(?:which|what|who|where)\b.{0,60}\bno longer\b",
            # These words ask for a former state if the verb is in the past.
            rf"\b{_PAST_VERB}\b.{{0,120}}\b(?:before|until|till|first|once|earlier|up to|instead)\b",
            rf"\b(?:before|until|till|first|once|earlier)\b.{{0,80}}\b{_PAST_VERB}\b",
        )
    )
)


def question_tense(text: str, during: Interval | None, now: datetime) -> QuestionTense:
    """Return the tense of a question about the time `during`."""
    lowered = text.lower().replace("’", "'")
    if _FORMER.search(lowered) is not None:
        return "former"
    if _PAST.search(lowered) is not None:
        return "past"
    # A recurring time, as in "When does the Friday boat leave?", is not over.
    if _PRESENT.search(lowered) is not None:
        return "present"
    over = during is not None and is_over(during, now)
    return "past" if over or _PAST_SUBJECT.search(lowered) is not None else "present"


def is_over(during: Interval, now: datetime) -> bool:
    """Return True if an interval has ended."""
    return during.end is not None and during.end <= now


# Analysis.

_CONJUNCTION = LazyPattern(r"[\s,]*(?:(?:to|through|until|till|-|–)\s+)?|[^.?!;]{0,60}\b(?:and|or)\b[^.?!;]{0,60}")
"""Text between times that belong together: a range, or two times joined by "and" or "or"."""


@dataclass(frozen=True, kw_only=True)
class QueryAnalysis:
    """The result of analysing a query."""

    type: QueryType
    during: Interval | None
    """The time that the query is about."""
    parts: tuple[str, ...] = ()
    """Sub-queries to search for; empty if the query cannot be divided."""
    gathers: bool = False
    """The answer is gathered from many facts, as for "how many" and "list all"."""
    unresolved_time: UnresolvedTime | None = None
    """A time that the query names and the rules could not resolve completely, if requested."""
    tense: QuestionTense = "present"


def analyse_query(
    text: str, now: datetime, *, report_unresolved: bool = False, southern: bool = False
) -> QueryAnalysis:
    """Return the type, time and sub-queries of a query; `now` needs a time zone.

    `report_unresolved` also looks for a time that the rules cannot resolve; `southern` turns the seasons round.
    """
    text = text[:MAX_QUERY_CHARS].replace("’", "'")
    times = find_times(text, now, southern=southern)
    sentences = question_sentences(text)
    asked = [time for time in times if _is_within(time, sentences)]
    unresolved = _unresolved(text, times, sentences, timed=bool(asked)) if report_unresolved else None
    questions = [sentence[0].strip() for sentence in sentences]
    lowered = [question.lower() for question in questions]
    type = query_type(text.lower(), lowered, timed=bool(unresolved or (asked if sentences else times)))
    during, question = _during(text, asked or times), " ".join(lowered) or text.lower()
    tense = question_tense(question, during, now)
    divided = type not in ("assistant", "preference", "general")
    parts = decompose(questions, [time.text for time in times]) if divided else ()
    return QueryAnalysis(
        type="multi-hop" if parts and type == "factual" else type,
        during=during,
        parts=parts,
        gathers=type not in ("assistant", "preference") and asks_for_everything(question),
        unresolved_time=unresolved,
        tense="past" if tense == "present" and asks_for_course(question) else tense,
    )


def _unresolved(
    text: str, times: Sequence[TimeExpression], sentences: Sequence[re.Match[str]], *, timed: bool
) -> UnresolvedTime | None:
    """Return the first unresolved time; if the questions name a time already, only one within them."""
    found = find_unresolved_times(text, times)
    return next((time for time in found if not timed or _is_within(time, sentences)), None)


def _is_within(time: TimeExpression | UnresolvedTime, sentences: Sequence[re.Match[str]]) -> bool:
    return any(sentence.start() < time.end and time.start < sentence.end() for sentence in sentences)


def _during(text: str, times: Sequence[TimeExpression]) -> Interval | None:
    """Return the first bounded time with those joined to it, or else the first with an open side."""
    groups: list[list[TimeExpression]] = []
    for time in times:
        if groups and _CONJUNCTION.fullmatch(text, groups[-1][-1].end, time.start):
            groups[-1].append(time)
        else:
            groups.append([time])
    hulls = [hull for group in groups if (hull := _hull([time.broad_interval for time in group])) is not None]
    bounded = (hull for hull in hulls if hull.start is not None and hull.end is not None)
    return next(bounded, hulls[0] if hulls else None)


def _hull(intervals: Sequence[Interval]) -> Interval | None:
    starts = [interval.start for interval in intervals if interval.start is not None]
    ends = [interval.end for interval in intervals if interval.end is not None]
    start = min(starts) if len(starts) == len(intervals) else None
    end = max(ends) if len(ends) == len(intervals) else None
    return Interval(start=start, end=end) if start or end else None
