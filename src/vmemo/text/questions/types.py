"""Types of questions, by what they ask for. English only."""

from __future__ import annotations

import re
from collections.abc import Sequence, Set
from typing import NamedTuple

from vmemo.models import QueryType
from vmemo.text.lazy_regex import LazyPattern
from vmemo.text.questions.subqueries import AUX
from vmemo.text.tokens import STOP_WORDS

# Types by which a query is searched.

MAX_QUERY_CHARS = 2_000
"""Characters of a query that are analysed."""


class _Cue(NamedTuple):
    """A pattern, and the words of which a text must contain one for it to match."""

    words: frozenset[str]
    pattern: LazyPattern

    def matches(self, text: str, words: Set[str]) -> bool:
        return not self.words.isdisjoint(words) and self.pattern.search(text) is not None


def _cue(words: str, *patterns: str) -> _Cue:
    return _Cue(frozenset(words.split()), LazyPattern("|".join(patterns)))


WORD = LazyPattern(r"[^\W\d_]+")
_SMALL_TALK = LazyPattern(r"\bhow (?:are|do) you(?: (?:do|doing))?\b|\bhow's it going\b|\bwhat(?:'s| is) up\b")
_CONTENTLESS = STOP_WORDS | frozenset("s d m please know tell think mean say ok okay yes hi hello hey thanks".split())

_PAST_VERB = r"(?!need|proceed|exceed)[a-z]{2,}ed|said|told|gave|wrote|put|made|drew|chose|came up with|thought|taught"
_UTTERANCE = "suggestions?|recommendations?|advice|answers?|repl(?:y|ies)|responses?|tips|ideas|hints?|pointers"
_ASSISTANT = _cue(
    "you your our assistant chatbot we remind",
    r"\bremind me\b(?! to\b)(?![^.?!]{0,200}\b(?:i|my|mine|we|us|our|[\w-]+'s)\b)",
    rf"(?<!thank )\b(?:you|assistant|chatbot)(?:'d|'ve| had| have)?(?: \w+ly| just| already| once)? (?:{_PAST_VERB})\b",
    r"\b(?:did|had|have) (?:you(?! (?:know|remember|heard|hear|got|any|a)\b)|your|the assistant|the chatbot) \w",
    r"\b(?:was|were|remember|recall|repeat|from|in|on|according to) your (?!opinion|view|mind|experience)\w+",
    rf"\byour (?:last|previous|earlier|first|second|original) (?:{_UTTERANCE}|message|list|plan)\b",
    r"\bour (?:(?:last|previous|earlier|past|recent|first) )?(?:chats?|conversations?|discussions?)\b",
    r"\bthe assistant's\b|\bwe(?:'d|'ve| had)? (?:talked|discussed|chatted)\b|\bdid we (?:talk about|discuss)\b",
)
_SUGGEST = "suggest|recommend|advise|propose"
_TASK = "plan|pick|choose|draft|write|sketch|design|find|book|put together|think (?:up|of)|come up with|line up|make"
_ADVICE = _cue(
    "suggest recommend advise propose suggestions recommendations tips advice ideas should help good nice fun great "
    "healthy quick looking mood what which where worth suit my me us any something somewhere "
    "can could would will",
    rf"\b(?:can|could|would|will) you (?:please |maybe |perhaps )?(?:{_SUGGEST}|{_TASK})\b|\bhelp me\b(?! remember)",
    rf"(?:^|[.?!,]\s+)(?:please )?(?:(?:{_SUGGEST})\b|(?:{_TASK})\b.{{1,80}}\b(?:me|my|us|our)\b)",
    rf"(?:(?:^|[.?!,;]\s*)|\b(?:do you have|you got|got|need|want|looking for|give me|use|appreciate|have|are) )"
    rf"(?:any |some |a few |more |your )(?:good |other |new |\w+ )?(?:{_UTTERANCE})\b",
    rf"\bwhat\b.{{0,40}} (?:would|do) you (?:{_SUGGEST}|{_TASK}|put|think (?:i|we) should)",
    r"\b(?:what(?! (?:time|day|date|month|year)\b)|which|where|whom?|how)\b.{0,60}"
    r"(?<!\bi )(?<!\bwe )(?<!he )(?<!they )(?<!you )\bshould \w+|\b(?:is it|would it be) (?:worth|wise|a good idea)\b",
    r"(?:^|[.?!,;]\s+)(?:so )?should (?:i|we)\b|\b(?:suit|right for|good \w+ for|work for) (?:me|us|my|our)\b",
    r"\bwhat(?:'s| is| are| would be| might be) (?:an? |some )?(?:\w+ly )?(?:good|nice|fun|great|healthy|quick|easy)\b",
    r"\bknow (?:of )?any (?:good|nice|fun|great)\b|\bi(?:'m| am) (?:looking for|in the mood for)\b|\bto my taste\b",
    r"\bi need (?:something|somewhere) (?:[\w-]+ )?(?:to|for)\b",
    r"\bwhat(?:'s| are| is| would be) (?:some |any |an? |a few |other )?(?:[\w-]+ )?ways? "
    r"(?:to|(?:i|we) (?:can|could|might)|for (?:me|us) to)\b",
    r"\b(?:what|which|where)\b.{0,40}\b(?:can|could|might|shall|would) (?:i|we) (?!have\b)\w+|\bmake (?:me|us) happ",
)
_TOLD = (
    r"(?:br(?:ing|ought) up|mention|discuss|talk|rais|ask|t(?:ell|old) you|introduc|cover|address|describ|shar|"
    r"touch|spoke|came up|c[oa]me up)"
)
_ORDERING = _cue(
    "order sequence chronological chronologically timeline chronology first date time earliest oldest second when one",
    r"\b(?:what|which|right|correct|chronological) (?:order|sequence)\b(?! (?:to|number|did you)\b)",
    r"\b(?:the|chronological) (?:order|sequence) (?:in which|that (?:i|we|he|she|they)|(?:i|we|he|she|they) "
    rf"{_TOLD}|of (?:events|the|my|our|his|her|their|these|things|topics|[a-z]+s (?:i|we|he|she|they)))\b",
    r"\b(?:put|list|arrange|sort|rank|order|name|give|show|tell|place|organi[sz]e)\b[^.?!]{0,120}?\b(?:in order\b"
    r"(?! to\b)|in (?:the|their) (?:order|sequence)|in (?:chronological|time) order|by (?:date|time|when)\b)",
    r"\b(?:how|what|which|when|who|where)\b[^.?!]{5,160}(?<!everything )(?<!all )\bin order\s*(?:[?.!]|$)",
    r", in order\b(?! to\b)|\bchronologically\b|\b(?:earliest|oldest) first\b|\bone after (?:the other|another)\b",
    r"\b(?:starting (?:with|from|at) the (?:first|earliest|oldest)\b|from (?:the )?(?:first|earliest|oldest) to )",
    r"\bfirst, (?:[^.?!]{0,20} )?(?:second|what (?:came|followed|was) (?:after|next|then))\b",
    r"\b(?:timeline|chronology) of\b",
    rf"\bwhich (?:\w+ ){{1,3}}did (?:i|we) {_TOLD}\w* first,? (?:and )?(?:then|second|next)",
)
_SUMMARY_NOUN = "summary|summation|overview|recap|rundown|run-down|synopsis|big picture"
_SUMMARY = _cue(
    "summarize summarise summary overview recap rundown run synopsis picture sum outline story speed catch summation "
    "progress progressed develop developed evolve evolved unfold unfolded",
    r"(?:^|[.?!,;:]\s+|\byou (?:please |briefly |kindly |maybe )?|\bplease (?:briefly )?|\b(?:like|want|need) you to |"
    r"\blet's |\btime to )(?:summari[sz]e\b|recap\b|sum up\b|outline (?:how|what|the)\b|bring me up to speed\b|"
    r"catch me up\b)",
    rf"\b(?:give|provide|write|create|share|offer|prepare|make|get|have|need|want|like|show|send|do)\b"
    rf"(?: (?:me|us|him|her))?(?: with)? (?:an?|the|your|another) (?:[\w-]+,? ){{0,3}}?(?:{_SUMMARY_NOUN})\b",
    rf"^[^\w-]*(?:an? |the )?(?:[\w-]+ ){{0,2}}?(?:{_SUMMARY_NOUN}) (?:of|on|about)\b",
    r"\b(?:tell (?:me|us)|what(?:'s| is)) the (?:whole |full )?story of\b",
    r"\b(?:walk|take|talk) (?:me|us) through how\b(?! (?:to|do|can|i)\b)",
    r"\bhow (?:has|have|had|did)\b[^.?!]{1,120}\b(?:progress(?:ed)?|develop(?:ed)?|unfold(?:ed)?)\b"
    r"[^.?!]{0,40}\b(?:over|across|throughout|since|so far|from)\b",
)
_CHANGED = r"(?:chang|evolv|shift|improv|worsen|gr[eo]w|increas|decreas|fluctuat|var(?:y|i))(?:ed?|n|d)?"
_CHANGE = _cue(
    "changed change changes evolved evolve shifted shift improved improve worsened worsen grown grew grow increased "
    "increase decreased decrease varied vary fluctuated trace history",
    rf"\bhow (?:ha(?:s|ve|d)|did|do(?:es)?)\b[^.?!]{{1,120}}\b{_CHANGED}\b(?! (?:the |a |an |my |his |her )?\w+ing\b)",
    r"\bwhat(?:'s| has| have| had)? (?:\w+ ){0,4}changed\b|\bwhat (?:were|are) the changes\b",
    rf"\bin (?:what|which) ways? (?:ha(?:s|ve|d)|did)\b[^.?!]{{1,120}}\b{_CHANGED}\b",
    r"\b(?:changes?|the history) (?:to|of|in) (?:my|our|his|her|their|the|[\w-]+'s) .{1,80}\b(?:over|since)\b",
    r"(?:^|[.?!,;:]\s+|\byou |\bplease )trace (?!of\b)\w",
)
_YES_NO_HISTORY = _cue(
    "have has ever never any contradict contradiction contradictory conflicting inconsistent",
    r"(?:^|[.?!,;:]\s+)(?:so,? |and |but )?(?:have|has) (?!you\b|an?\b|fun\b|no\b)\w+ (?!an?\b|any\b|to\b|got\b)\w+",
    r"(?:^|[.?!,;:]\s+)(?:so,? |and |but )?(?:did|was|were|do|does|is|am|are) (?:[\w'-]+ ){1,4}?ever\b",
    r"(?:^|[.?!,;:]\s+)did (?:i|we|he|she|they) \w+ any\b",
    r"\b(?:contradict(?:s|ed|ory|ions?)?|conflicting|inconsistent)\b",
)
_INSTRUCTION = _cue(
    "how explain show write generate common typical best usual create steps draft compare translate rewrite code "
    "calculate",
    r"\b(?:show|teach|tell|walk|guide) (?:me|us)(?: through)? how (?:to|i can|i could|do i|can i)\b",
    r"(?:^|[.?!,;:]\s+)(?:so,? |and |but )?how (?:do|can|could|would|might) (?:i|we|one|you)\b"
    r"(?! (?:know|feel|like|do|think|see|remember|mean|manage|get on)\b)",
    r"(?:^|[.?!,;:]\s+)how (?:to|should (?:i|we)) \w|\b(?:best|right|proper) way to\b",
    r"\bwhat steps (?!(?:did|have|had|has|was|were) )(?!(?:\w+ ){0,3}(?:plan|took|taken|discuss|mention|agree|decid))",
    r"(?:^|[.?!,;:]\s+|\b(?:can|could|would|will) you (?:please )?|\bplease )(?:explain|write|generate|create|draft|"
    r"code|translate|rewrite|calculate)\b",
    r"\bwhat(?:'s| are| is| would be) (?:some |the |a )?(?:of the )?(?:most )?(?:common|typical|usual|standard|best)\b",
    r"\bwhat (?:common|typical|usual|standard) \w+",
)
_UNIT = "seconds|minutes|hours|days|nights|weeks|weekends|months|years|decades"
_ORDINAL = r"(?:first|earliest) (?!names?\b|languages?\b|aid\b|class\b|grade\b|floor\b|lady\b)"
_TIME_ASKED = _cue(
    "when how time date day month year week weekday season decade age first last earlier later earliest before after "
    "dates days months years weeks weekdays times",
    rf"\bwhen(?:'s|,? (?:exactly |roughly |again |else |(?:in|on|of) [\w ]{{1,30}}? )?(?:{AUX}))\b",
    r"\b(?:know|remember|recall|tell me|remind me|wonder|forgot|forget|wondering) (?:exactly )?when\b",
    r"\b(?:since|until|till|by|from) when\b|\bat what age\b|\bwhen and where\b|\bwhere and when\b",
    r"\bhow (?:long|soon|recently|far apart|much (?:longer|later|earlier))\b|\bhow much time(?!.{0,80}\bspen[dt]\b)",
    rf"\bhow many (?:more |full )?(?:{_UNIT})\b(?! (?:a|per|each|every|in a|of) ).{{0,160}}?\b(?:ago|pass(?:ed)?|"
    r"elapsed|between|since|until|till|before|after|apart|later|earlier|left|away|take|took|been|gone? by|old)\b",
    rf"\bhow many (?:more |full )?(?:{_UNIT}) (?:have|has|had) (?!.{{0,120}}\b(?:spen[dt]|total|altogether)\b)",
    r"\bhow old\b.{0,80}\b(?:when|at the time|before|after|by|in|will)\b",
    r"\b(?:what|which)(?:'s| is| was)? (?:the )?(?:exact |calendar )?"
    r"(?:date|day|month|year|time|hour|week(?:day|end)?|season)s?\b(?![-\w]| (?:zones?|jobs?|trips?|care|off)\b)",
    r"\bthe date (?:of|when|for|that|i)\b|\bdate of birth\b|\bbefore or after\b|\b(?:earlier|sooner|later) than\b",
    r"\b(?:who|whom|which|what)\b.{0,120}?\b(?:first|last|earlier|later|earliest)\b[^,:]{0,40}[,:] .{1,200}?\bor\b",
    r"\b(?:came|comes?|happened|happens?|occurred|took place|started|began) (?:first|earlier|later|last|earliest)\b",
    r"\b(?:who|whom|which|what|or)\b.{0,120}\b(?:first|earlier|earliest)\W*$|\bthe (?:first|last|second) time\b",
    rf"\b(?:what|which|who|where)(?:'s| is| was| were) (?:[\w'-]+ ){{1,3}}?{_ORDINAL}",
    rf"\bthe (?:very )?{_ORDINAL}\w+ (?:\w+ ){{0,2}}?(?:i|we|he|she|they|you|that)\b",
)
_CURRENT_STATE = _cue(
    "nowadays days currently moment now still",
    r"^(?!.*\bhow (?:long|many|old|much)\b).*\b(?:is|are|am|do|does)\b.{1,100}"
    r"\b(?:nowadays|these days|currently|at the moment|(?<!from )(?<!until )now|still)\b(?!,? that\b)",
)
_LATEST = r"\b(?:latest|newest|most recent(?:ly)?|up[- ]to[- ]date|currently|current(?! (?:events|affairs)\b))\b"
_UPDATE = _cue(
    "now nowadays currently current moment days latest newest recent recently still date as anymore any longer change "
    "changed changes evolved improved used previous previously last yet switch switched new originally initially",
    _LATEST,
    r"\b(?:nowadays|at the moment|these days|any ?more|(?:any|no) longer)\b(?! than\b)",
    r"\bas of (?:now|today|this)\b|(?<!until )(?<!till )(?<!by )(?<!from )(?<!just )\bnow\b(?!,? that\b| and then\b)",
    r"(?<!stand )(?<!sit )\bstill\b(?! (?:life|water)\b)|\bused to\b|\bprevious(?:ly)?\b|\b(?:origin|initi)ally\b",
    r"\b(?:what(?:'s| has| have)?|how (?:has|have|did)|has|have|did)\b.{0,80}\b(?:changed?|evolved?|improved)\b",
    r"\bwhat(?:'s| is) new\b|\b(?:is|are|do|does|did|have|has)\b.{1,80}\byet\b|\bswitch(?:ed)? (?:to|from)\b",
    r"\b(?:what|which|who|where)(?:'s| is| was| were) (?:the|my|his|her|our|their|[\w-]+'s) (?:very )?last "
    rf"(?!names?\b|times?\b|few\b|night\b|day\b|week|month|year\b|summer\b|winter\b|{_UNIT}\b|two\b|three\b|\d)",
)
_COUNT = _cue(
    "many often frequently number count much total altogether combined overall average told percentage "
    "share proportion sum together",
    r"\bhow (?:many|often|frequently)\b|\b(?:the|what|total) number of\b|\bcount (?:how|the|all|my)\b",
    r"\b(?:how much|what)\b(?! (?:\w+ )?(?:reasons?|steps|ways?|factors|features|methods?)\b).{0,120}"
    r"\b(?:total|altogether|all told|(?:combined|together)(?! with)|overall|in all|on average|the sum of)\b",
    r"\bwhat (?:percentage|share|proportion) of\b|\bwhat(?:'s| is| was| were)\b.{0,40}\baverage\b",
    r"\bhow much (?:time|money)\b.{0,80}\bspen[dt]\b|\bhow much\b.{0,40}\bha(?:ve|s)\b.{1,60}\b(?:spent|saved|paid)\b",
)
_COMPARATIVE = r"(?:more|less|fewer|better|worse|(?!other|rather|whether|either|never|over)[a-z]{2,}er)"
_COMPARISON = _cue(
    "both common compare compared compares comparison versus vs similarities differ differs difference differences "
    "alike same than or each",
    r"\b(?:both|in common|compare[sd]?|comparison|versus|vs|similarities|differs?|differences?|alike|each of)\b",
    rf"\bsame\b.{{1,60}}\bas\b|\b{_COMPARATIVE}\b.{{0,40}}\bthan (?!\d|an?\b|one\b|two\b|usual\b)",
    rf"\b(?:who|which)\b.{{0,80}}\b(?:{_COMPARATIVE}|most|least)\b[^,]{{0,40}}, .{{1,80}}\bor\b",
)
_TASTE = _cue(
    "favourite favorite favourites favorites prefer prefers preferred preference preferences like love enjoy hate "
    "dislike fancy adore likes loves enjoys hates dislikes fond fan taste tastes into keen interested",
    r"\bfavou?rites?\b|\bprefer(?:s|red|ences?)?\b|\b(?:fond|fan) of\b|\btastes? in\b|\b(?:keen on|interested in)\b",
    r"\b(?:do|does|did|don't|doesn't|would|might)\b.{1,60}?(?<!look )(?<!feel )(?<!sound )(?<!be )(?<!seem )(?<!taste )"
    r"(?<!smell )\b(?:like|love|enjoy|hate|dislike|fancy|adore)\b(?! to know\b)",
    r"\bwho (?:also )?(?:likes|loves|enjoys|hates|dislikes)\b|\b(?:is|are|am|was) (?:[\w'-]+ ){1,2}(?<!ed )into\b",
)
_TIME_FILTER = _cue(
    "before after since lately recently",
    r"\b(?:lately|recently)\b|\bsince (?!you\b|we\b|i\b|he\b|she\b|they\b|it\b)",
    r"\b(?:happen(?:ed|s)?|comes?|came|next|took place|going on)\b.{0,40}\b(?:before|after)\b",
)
_PLURAL = r"(?:[a-z]{2,}(?<![sui])s|people|children|men|women)"
_LIST = _cue(
    "what which list name give show where who everything everyone how why",
    r"\b(?:what|which) (?:\w+ )?(?:kinds|types|sorts) of\b|\bwhich (?:ones? )?of (?:my|his|her|our|their|the)\b",
    rf"\b(?:what|which) (?:[\w'-]+ ){{0,2}}?{_PLURAL} (?:{AUX}|i|we)\b",
    r"\b(?:list|name|give me|show me) (?:all|every|each|everything|everyone)\b|\blist (?:the|my)\b|\bwho all\b",
    rf"\bwhat are (?:some|all|the names|(?:my|his|her|our|their|[\w-]+'s) (?:[\w-]+ ){{0,2}}?{_PLURAL})\b",
    r"\b(?:what|who|where) else\b|\b(?:what|where|who) (?:has|have)\b.{1,80}\b(?:so far|over the years|over time)\b",
    r"\bwhere (?:has|have)\b.{1,40}\b(?:been|lived|travell?ed|worked|gone|stayed)\b",
)
_INTERROGATIVE = LazyPattern(r"\b(?:who|what|where|when|why|which|how)\b")
_SECOND_INTERROGATIVE = LazyPattern(r" and (?:who|what|where|when|why|which|how) \w")
_QUESTION_CUES: tuple[tuple[_Cue, QueryType], ...] = (
    (_CURRENT_STATE, "update"),
    (_TIME_ASKED, "temporal"),
    (_UPDATE, "update"),
    (_COUNT, "count"),
    (_COMPARISON, "multi-hop"),
    (_TASTE, "preference"),
)
_REQUEST_CUES: tuple[tuple[_Cue, QueryType], ...] = (
    (_ORDERING, "ordering"),
    (_SUMMARY, "summary"),
    (_CHANGE, "change"),
    (_ASSISTANT, "assistant"),
    (_ADVICE, "preference"),
    (_INSTRUCTION, "instruction"),
)
_STATEMENT_START = LazyPattern(
    r"\W*(?:i|we|he|she|it|they|you|there|this|that|my|our|let|thanks?|hi|hello|hey|ok(?:ay)?)\b"
)


_EVERYTHING = _cue(
    "list name give show all every everything everyone each far total many often frequently number count",
    r"\bhow (?:many|often|frequently)\b|\b(?:number|total) of\b|\bcount (?:how|the|all|my)\b|\bin total\b|\bso far\b",
    r"\b(?:list|name|give me|show me|tell me|what are|which|who are) (?:me )?(?:all|every|each|everything|everyone)\b",
    r"\blist (?:the|my|his|her|our|their|[\w-]+'s)\b",
    r"\ball (?:of )?(?:the|my|his|her|our|their) [\w-]+ (?:i|we|he|she|they)\b",
)


def asks_for_everything(questions: Sequence[str]) -> bool:
    """Return True if the answer is gathered from many facts: "how many", "how often", "list all"."""
    question = " ".join(questions).lower()
    return _EVERYTHING.matches(question, set(WORD.findall(question)))


def query_type(text: str, questions: Sequence[str], *, timed: bool) -> QueryType:
    """Return the type of a query with the given questions; `timed` if it names a time.

    If a text has questions, they alone decide. The first rule that applies wins:

    1. ordering: the answer is a sequence ("in what order", "the order in which I brought up").
    2. summary: it asks for a summary, an overview or how something developed.
    3. change: the answer is every version of something ("How has it changed?", "Trace it from the start").
    4. assistant: it needs something that the assistant said.
    5. preference: it asks for a suggestion, as a question or not.
    6. instruction: it asks for an explanation, a text or a way to do something, which memory only adapts to the user.
    7. temporal: the answer is a time ("when", "how long", "which first"); but "When is it now?" is an update.
    8. update: it asks for a current or latest value, also for a number ("How many do I own now?").
    9. count: how many, how often, in total.
    10. multi-hop: a comparison ("both", "in common", "older than").
    11. preference: likes and favourites.
    12. temporal: it names a time, or asks what happened before or after an event. An event that only limits another
        question ("What did she plan before her daughter objected?") does not make it one about time.
    13. contradiction: a yes-or-no question about the past ("Have I ever"), of which memory may hold both sides.
    14. multi-hop: a list gathered over time.
    15. factual: any other question with a content word.
    16. general: statements, keywords and greetings. Keywords with a time are temporal, with "current" update.
    """
    lowered = text.lower()
    words = set(WORD.findall(lowered))
    for cue, type in _REQUEST_CUES:
        if cue.matches(lowered, words) and not (type == "assistant" and _counts_own(lowered, words)):
            return type
    if not questions or (words <= _CONTENTLESS and not timed):
        return _keyword_type(lowered, timed=timed)
    return _question_type(" ".join(questions).lower(), timed=timed)


def _counts_own(text: str, words: Set[str]) -> bool:
    """Return True if a question counts what was said, and names a conversation only as the place: "in our chats"."""
    return words.isdisjoint(("you", "your", "assistant", "chatbot", "remind")) and _COUNT.matches(text, words)


def _question_type(question: str, *, timed: bool, filtered: bool = True) -> QueryType:
    """Return the type of a question. Without `filtered`, a time that only limits it does not make it temporal."""
    words = set(WORD.findall(question))
    if _SMALL_TALK.search(question):
        return "general"
    for cue, type in _QUESTION_CUES:
        if (filtered or type != "temporal") and cue.matches(question, words):
            return type
    if timed or (filtered and _TIME_FILTER.matches(question, words)):
        return "temporal"
    if _YES_NO_HISTORY.matches(question, words):
        return "contradiction"
    return "multi-hop" if _LIST.matches(question, words) or _asks_twice(question) else "factual"


def _asks_twice(question: str) -> bool:
    """Return True if a question joins two: "Where does she work and who is her boss?"."""
    first = _INTERROGATIVE.search(question)
    return first is not None and _SECOND_INTERROGATIVE.search(question, first.end()) is not None


def _keyword_type(text: str, *, timed: bool) -> QueryType:
    """Return the type of text without a question; at most eight words that state nothing are keywords."""
    if len(text.split(maxsplit=8)) > 8 or _STATEMENT_START.match(text):
        return "general"
    if re.search(_LATEST, text):
        return "update"
    return "temporal" if timed else "general"


# Types by which a question is answered.

_ORDINAL_ONLY = LazyPattern(rf"\b{_ORDINAL}")
_HOW_TO = LazyPattern(
    r"(?:^|[.?!,;:]\s+)(?:so,? |and |but )?how (?:to|do i|can i|could i|should i|do we|can we|should we)\b"
    r"|\bwhat steps (?:can|could|should|do) (?:i|we)\b|\b(?:best|right|proper) way to\b"
)
_WRITING = LazyPattern(
    r"(?:^|[.?!,;:]\s+|\b(?:can|could|would|will) you (?:please )?|\bplease )(?:write|draft|rewrite|translate)\b"
)
_CHOICE = LazyPattern(
    r"\b(?:what|which)\b[^.?!]{0,60}\b(?:would (?:please|suit|fit)|fits?|suits?) (?:him|her|them|me|us|[a-z'-]+)\b"
    r"|\b(?:what|which)\b[^.?!]{0,30}\bgoes (?:well )?with\b"
    r"|\bwhat (?:do|shall) (?:i|we) (?:make|cook|bake|wear|bring|buy|get|order|serve|give|pack|try|pick)\W*$"
)
_HYPOTHETICAL = LazyPattern(r"\b(?:would|might|could|should|will|shall|likely|probably)\b")
_AGE_OR_DELAY = LazyPattern(rf"\bhow (?:old|much (?:older|younger))\b|\bby how (?:many (?:{_UNIT})|much time|long)\b")
_DIFFERENCE = LazyPattern(r"\bhow (?:much|many) (?:more|less|fewer)\b[^.?!]{1,120}\bthan\b")
_STATE = (
    "(?:be|was|were|am|is|are|drive|drove|own|owned|use|used|have|had|live|lived|work|worked|rent|rented|stay|plan|"
    "planned|call|study|studied|charge|charged|pay|paid|promise|promised|play|teach|want|cost|go|went|lead|led|run|see)"
)
_CHANGING = "(?:chang|switch|mov|slip|replac|renam|resch|postpon|updat|decid|drag)"
_FORMER_THING = (
    "(?:plans?|budget|deadline|date|prices?|rent|goal|target|ideas?|choice|name|title|address|estimate|version|schedule|"
    "job|employer|boss|manager|home|flat|address|team|school|design|offer|amount|number|size|colou?r|venue|time|rate)"
)
_FORMER_ASKED = LazyPattern(
    r"\b(?:origin|initi)ally\b|\bat first\b|\bto (?:begin|start) with\b|\b(?:formerly|previously)\b"
    r"|\bused to\b|\bdid [\w-]+ use to\b"
    rf"|\b(?:original|initial|former|previous|prior|earlier) (?:[\w-]+ )?{_FORMER_THING}\b"
    rf"|\b{_STATE}\b[^.?!]{{0,60}}?,? before (?:[\w'-]+ ){{1,4}}?{_CHANGING}\w*"
    rf"|\b(?:which|who|what|where|how many|how much)\b[^.?!]{{0,40}}?\b{_STATE}\b[^.?!]{{0,30}} before (?!or after)\w"
)
_JUDGEMENT_START = LazyPattern(r"\W*(?:why|would|could|should|can|may|might|is there|are there)\b")
_COURSE: frozenset[QueryType] = frozenset(("ordering", "summary", "change"))
_STILL_ASKED = LazyPattern(r"\b(?:now|currently|still|these days|today|instead|what became)\b")


def answer_type(question: str, type: QueryType) -> QueryType:
    """Return the type by which a question is answered, given the one by which it is searched.

    A time in a question narrows the search. It is answered as a question about time only if a time is asked for: "Why
    was the gate open on Monday?" is not. Ages are computed, ways to do something are explained, a choice for a person
    is advice, and a preference that was stated is a fact.
    """
    lowered = question.lower().replace("’", "'")
    if _AGE_OR_DELAY.search(lowered) and type not in ("assistant", "preference", *_COURSE):
        return "temporal"
    if type == "temporal" and not _asks_for_time(lowered):
        type = _question_type(lowered, timed=False, filtered=False)
    if type == "preference":
        return _preference_type(lowered)
    if type == "multi-hop" and _DIFFERENCE.search(lowered):
        return "count"
    return "preference" if type == "factual" and _CHOICE.search(lowered) else type


def _preference_type(lowered: str) -> QueryType:
    """Return the type of a question about a preference: a stated one is looked up, and only a choice needs advice."""
    if _HOW_TO.search(lowered) or _WRITING.search(lowered):
        return "instruction"
    words = set(WORD.findall(lowered))
    if _ADVICE.matches(lowered, words) or not _TASTE.matches(lowered, words) or _HYPOTHETICAL.search(lowered):
        return "preference"
    return "multi-hop" if _LIST.matches(lowered, words) else "factual"


def _asks_for_time(question: str) -> bool:
    if not _TIME_ASKED.matches(question, set(WORD.findall(question))):
        return False
    # "the first lease that I could find" is a time only if one is asked for otherwise.
    plain = _ORDINAL_ONLY.sub(" ", question) if _JUDGEMENT_START.match(question) else question
    return _TIME_ASKED.matches(plain, set(WORD.findall(plain)))


def asks_for_former_state(question: str) -> bool:
    """Return True if a question asks for what held before a change, and not for what holds now."""
    lowered = question.lower().replace("’", "'")
    return _FORMER_ASKED.search(lowered) is not None and _STILL_ASKED.search(lowered) is None


# Questions for a profile or a summary of someone or something.

_NAME = r"(?!(?:your?|it|this|that|when|how|the|an?|my|our|his|her|their)\b)[\w.-]+(?: [\w.-]+)?"
_SUBJECT = r"(?!(?:your?|it|this|that|when|how|the time)\b)[\w.-]+(?: [\w.-]+){0,3}"
"""A name or a short description; a longer text or a possessive asks for something in particular."""
_END = r"\s*(?:[?.!]|$)"
_PROFILE = LazyPattern(
    rf"\b(?:tell me(?: more| something| everything| all)?|everything|all you know) about {_SUBJECT}{_END}|"
    rf"\bwhat do (?:you|we) know about {_SUBJECT}{_END}|\bwho(?:'s| is| are| was) {_NAME}{_END}|"
    rf"\bwhat(?:'s| is| are| was| were) {_SUBJECT} like{_END}|\bwhat (?:kind|sort|type) of (?:a )?person\b|"
    rf"\bdescribe {_SUBJECT}{_END}|\bintroduce (?:me to )?{_SUBJECT}{_END}|"
    r"\bsummari[sz]e\b|\bsum up\b|\bin summary\b|"
    r"\b(?:summary|overview|profile|portrait|recap|rundown) (?:of|on|about)\b"
)


def asks_for_profile(text: str) -> bool:
    """Return True if a question asks what someone or something is like, or for a summary."""
    return _PROFILE.search(" ".join(text[:MAX_QUERY_CHARS].lower().replace("’", "'").split())) is not None
