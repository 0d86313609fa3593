"""Types of questions, by which recall weighs its channels, and questions that many facts answer. English only."""

from __future__ import annotations

from collections.abc import Sequence

from vmemo.models import QueryType
from vmemo.text.lazy_regex import LazyPattern
from vmemo.text.tokens import STOP_WORDS

_WORD = LazyPattern(r"[^\W\d_]+")
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
    if not questions or (set(_WORD.findall(text)) <= _CONTENTLESS and not timed):
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
