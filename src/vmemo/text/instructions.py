"""Standing instructions of a user to the assistant: "Always give dates as MM/DD/YYYY", "I prefer short answers".

A request for once ("make this shorter"), a report ("I always forget it") and words of others (quotations, code, pasted
documents) are none. In doubt a sentence is none: it stays a memory like any other. English only.
"""

from __future__ import annotations

from typing import NamedTuple

from vmemo.text.injection import overrides_rules
from vmemo.text.lazy_regex import LazyPattern
from vmemo.text.own_words import MAX_OWN_WORDS, foreign_spans
from vmemo.text.split import sentence_spans
from vmemo.text.tokens import term_set, terms

MAX_SENTENCE = 400
"""Characters of a sentence; a longer one says more than an instruction."""
_MANNER = r"(?:(?:please|kindly|just|only|always|never|also|either|not|ever|instead|then|simply) )"
_VERB = (
    "(?:answer|reply|respond|give|show|list|include|add|use|write|format|put|keep|explain|provide|tell|mention|cite|quote|"
    "convert|address|refer|speak|talk|ask|check|double-check|confirm|verify|warn|remind|recommend|suggest|start|begin|end|"
    "finish|skip|avoid|be|make|number|round|translate|summari[sz]e|spell|specify|present|display|highlight|state|note|"
    "offer|leave|drop|stick|assume|treat|limit|describe|illustrate|maintain|enable|fix|produce|prioriti[sz]e|focus|attach|"
    "link|print|return|output|greet|refrain|structure|organi[sz]e|phrase|express|label|mark|compare|repeat|apologi[sz]e|"
    "say|send|shorten|capitali[sz]e|abbreviate|break|call me|walk me|let me know)"
)
"""Acts of an assistant; "wear a helmet" is advice to somebody."""
_ANSWERS = "(?:answers|replies|responses|explanations|summaries)"
_OUTPUTS = (
    r"(?:\b(?:in|to|of|with|from|on|at|for|through) (?:(?:all|each|every|any|of) ){0,3}your "
    r"(?!last\b|previous\b|earlier\b)(?:\w+ )?"
    r"(?:answers|replies|responses|explanations|summaries|messages|texts|feedback|writing|outputs?)\b"
    r"|\b(?:anything|everything|whatever|letters|e-?mails|texts|\w+s) you (?:write|draft|send|give|tell|show)\b"
    r"|\bwhen you (?:write|reply|answer|respond|speak|talk|explain)\b)"
)
"""All that the assistant writes; the fault of one answer is no standing matter."""
_FROM_NOW = (
    r"(?:from (?:now|here|today|this point)(?: on)?(?:wards?| out| forward)?|(?:going|(?<!keep )moving) forward|"
    r"in future|henceforth|starting (?:now|today)|as a (?:general )?rule|"
    r"for all (?:(?:of )?(?:my|our) )?future \w+|every single time|at all times)"
)
_DOING = (
    "(?:ask|say|mention|send|paste|write|request|talk|tell|share|give|want|quote|suggest|recommend|explain|answer|reply|"
    r"respond|cite|list|show|provide|describe|summari[sz]e|translate|draft|make a|use|post|upload|discuss|bring up|"
    r"[\w']{2,15} you|am deciding|'m deciding)"
)
_GIVING = (
    "(?:answering|explaining|replying|responding|writing|discussing|giving|suggesting|recommending|summari[sz]ing|"
    "comparing|describing|translating|quoting|listing)"
)
_OCCASION = (
    rf"(?:(?:when|whenever|every time|each time|any ?time) (?:i|we|you) ?{_DOING}|if (?:i|we) ?{_DOING}"
    rf"|when(?:ever)? {_GIVING})\b"
)
"""An occasion that recurs: what a user says, or what the assistant writes."""
_ONCE = LazyPattern(
    r"\b(?:tomorrow|tonight|today's|this (?:one|time|text|file|draft|article|paragraph|week)|the following|below|"
    r"attached|(?:is|was|'s) what|for now|right now)\b"
    r"|[,”\"] (?:he|she|they|my \w+|the \w+) (?:said|says|wrote|told|tells)\b"
)
"""Signs of a single request or of a report."""
_OPENING = LazyPattern(
    r"(?:(?:please|also|and|but|oh|ok|okay|hey|hi|so|well|btw|by the way|just so you know|one more thing|thanks|"
    r"thank you|great|good|perfect|(?:remember|make sure|be sure) to|remember|again|first|finally|quick note|note|fyi|"
    r"do me a favou?r and|let's|"
    r"in general|as always|yes|no)(?:[,:!.–—-]+ ?| ))*+"
)
_LEADING_TIME = LazyPattern(rf"{_FROM_NOW}(?:(?: (?:about|on|regarding) [^,]{{2,60}})?, ?| )")
_LEADING_TOPIC = LazyPattern(r"(?:for|in|on|with|about|regarding) [^,]{2,60}, ?(?=(?:please )?(?:always|never)\b)")
_IMPERATIVE = rf"{_MANNER}*+(?:don't |do not |{_MANNER})?{_MANNER}*+{_VERB}\b"
_STANDING = tuple(
    LazyPattern(pattern)
    for pattern in (
        # Always, never: "always include the source".
        rf"(?:please )?(?:(?:you )?(?:should|must|need to|have to) )?(?:always|never|don't ever|do not ever) "
        rf"(?:ever |please |only )?{_VERB}\b",
        # With an occasion, any verb: "always combine formulas with diagrams when I ask about geometry".
        rf"(?:please )?(?:always|never) (?!mind\b)[a-z]{{2,20}} [^.!?]{{2,200}}\b{_OCCASION}",
        rf"{_IMPERATIVE}.{{0,200}}, always\W*$",
        r"(?:make sure|be sure|remember|make it a rule|try)(?: that)?(?: you| to)?(?: to)? (?:always|never) \w",
        rf"(?:make it a rule|make it a habit) to {_VERB}\b",
        # An occasion: "whenever I paste an error, explain it", "use simple words when you explain things".
        rf"{_OCCASION}[^,]{{0,120}}, {_IMPERATIVE}",
        rf"in (?:every|each|all) (?:reply|replies|answers?|responses?)\b[^,]{{0,60}}, {_IMPERATIVE}",
        rf"{_OCCASION}[^,]{{0,80}} (?:always|never|please|keep|don't|do not) (?!you\b)",
        rf"{_IMPERATIVE}(?:(?!\b(?:that|which|who)\b).){{0,200}}\b{_OCCASION}",
        # What must not be: "stop calling me Bob", "no bullet lists in your answers".
        r"stop (?:calling me|using|adding|giving me|writing|apologi[sz]ing|saying|starting|ending|putting|sending me|"
        r"reminding me|asking me|suggesting|recommending|including|explaining|repeating|telling me)\b",
        rf"(?:don't|do not) {_VERB}\b.{{0,200}}(?:any ?more|any longer|all the time|every time|each time)\b",
        r"(?:don't|do not) (?:call|address) me\b(?! (?:at|on|if|when|before|after|back|again|until|yet|today|late))",
        rf"no (?:more )?(?:[\w-]+ ){{1,3}}(?:any ?more|{_OUTPUTS}.{{0,200}})\W*$",
        r"no (?:more )?(?:[\w-]+ ){0,2}(?:bullets?|lists?|tables?|emojis?|headings?|markdown|disclaimers?|jokes|"
        r"abbreviations|jargon|small talk|flattery)(?: points?)?,? (?:please|any ?more|from now on)\W*$",
        # All answers: "keep your answers short".
        rf"{_IMPERATIVE}.{{0,200}}{_OUTPUTS}",
        rf"keep (?:(?:all|each|every|of|your|the) ){{0,4}}(?:{_ANSWERS}|(?:each|every) (?:answer|reply|response))\b",
        r"(?:speak|talk) to me (?:in|like|as)\b",
        # Permission to leave something out: "you don't need to remind me every time".
        rf"you (?:don't|do not) (?:need|have) to {_VERB}\b.{{0,200}}(?:every time|each time|any ?more|always)\b",
        # Preferences about answers: "I prefer short answers", "I'd rather you didn't use abbreviations".
        r"(?:i prefer|i'd prefer|i would prefer|i'd rather|i would rather)(?: it if| that)? you\b",
        r"i (?:generally |usually |always )?(?:prefer|like|want|need) (?:(?:all|my|your|of|to get|to have) ){0,4}"
        rf"(?:(?!the |this |these |those )[\w-]+,? ){{0,3}}(?:{_ANSWERS}|(?<=want )everything in)\b"
        r"(?! (?:to (?:this|that|the|my)|from|you)\b)",
        rf"my preference is .{{0,200}}{_OUTPUTS}",
        rf"i always (?:want|need) [^.!?]{{2,120}}\b{_OCCASION}",
        r"i (?:want|need|prefer) (?:all|every) (?:[\w-]+ ){1,3}(?:written|shown|given|formatted|stated|as|in)\b",
        r"i always want (?:you to|to (?:see|know|get)) (?!my |him |her |them )",
        r"(?:i want|i'd like|i would like|i'd love|i need|i expect)(?: for)? you to (?:.{0,200} )?"
        rf"(?:always|never|every|each(?! other)|unless|{_FROM_NOW}|{_OCCASION}|all your)\b",
        r"(?:it would|it'd|that would) be (?:\w+ )?(?:great|nice|good|helpful|better|lovely) if you (?:could )?"
        r"(?:always|never)\b",
    )
)
_NAMED = LazyPattern(
    r"(?:^|[,;:.!?–—-] ?|\band )(?:[Pp]lease |[Jj]ust |[Yy]ou can |[Yy]ou may |[Ss]o )*"
    r"(?:[Cc]all me|[Aa]ddress me as|[Rr]efer to me as|I go by) "
    r"(?!Monday|Tuesday|Wednesday|Thursday|Friday|Saturday|Sunday|I\b|Tomorrow|Crazy)[A-Z][\w'’-]+"
)
"""The name by which a user wants to be called."""
_FROM_NOW_ON = LazyPattern(rf"\b{_FROM_NOW}\b")
_ASKED = LazyPattern(r"(?:can|could|would|will) you (?:please )?")
_ASKED_FOR_GOOD = LazyPattern(rf"\b(?:{_FROM_NOW}\b|(?:always|never) {_VERB}\b)")
_TOLD = LazyPattern(
    rf"(?:{_IMPERATIVE}|(?:you|i want you to|i'd like you to) |stop \w+ing\b|no (?:more )?\w)"
    rf"(?!(?:\w+ ){{0,2}}(?:is|are|was|were|will be)\b)"
)
"""The part of a sentence before or after "from now on"."""
_QUESTION = LazyPattern(r"\?[\"'”’)\s]*$")


class InstructionSpan(NamedTuple):
    """A standing instruction and its place in a text."""

    start: int
    end: int
    text: str


def find_instructions(text: str) -> list[InstructionSpan]:
    """Return the sentences of a user's message that are standing instructions to the assistant.

    Code, quotations, pasted text and a part that the assistant is to play are left out. A long message is a document,
    except for what comes before the text that was pasted into it.
    """
    foreign = foreign_spans(text)
    if len(text) > MAX_OWN_WORDS:
        own = min((start for start, _ in foreign), default=len(text))
        if own > MAX_OWN_WORDS:
            return []
        foreign = [(own, len(text))]
    return [
        InstructionSpan(start, end, sentence)
        for start, end in sentence_spans(text)
        if is_instruction(sentence := text[start:end].strip())
        and not any(first < end and start < last for first, last in foreign)
    ]


def is_instruction(sentence: str) -> bool:
    """Return True if a sentence is a standing instruction to the assistant, if a user says it in own words."""
    if len(sentence) > MAX_SENTENCE:
        return False
    plain = " ".join(sentence.replace("’", "'").split())
    lower = plain.lower()
    if plain[:1] in "\"“'‘>`" or not _instructs(plain, lower):
        return False
    return _ONCE.search(lower) is None and not overrides_rules(sentence)


def _instructs(plain: str, lower: str) -> bool:
    if _QUESTION.search(lower):
        return (asked := _ASKED.match(lower)) is not None and _ASKED_FOR_GOOD.search(lower, asked.end()) is not None
    return _NAMED.search(plain) is not None or _is_standing(_main_clause(lower))


def _main_clause(lower: str) -> str:
    """Return a sentence without what introduces it; a time such as "from now on" is moved to its end."""
    start, time = _opening(lower, 0), ""
    if (leading := _LEADING_TIME.match(lower, start)) is not None:
        start, time = _opening(lower, leading.end()), f" {leading[0].rstrip(', ')}"
    if (topic := _LEADING_TOPIC.match(lower, start)) is not None:
        start = topic.end()
    return lower[start:].rstrip(".! ") + time


def _opening(lower: str, start: int) -> int:
    match = _OPENING.match(lower, start)
    return start if match is None else match.end()


def _is_standing(clause: str) -> bool:
    if _FROM_NOW_ON.search(clause) and _TOLD.match(clause):
        return True
    return any(pattern.match(clause) for pattern in _STANDING)


# Instructions that replace earlier ones: "use ISO dates from now on" after "give dates as MM/DD/YYYY".

_ASPECTS = tuple(
    LazyPattern(pattern)
    for pattern in (
        r"\b(?:iso|us|european|american|british)[ -]?(?:style )?dates?\b|\bdates? (?:as|in|the|like|with|format)\b|"
        r"\bdate format|\bmm/dd|\bdd/mm|\byyyy",
        r"\b(?:24|12)[- ]?h(?:ou)?rs?\b|\btime format|\b[ap]\.?m\b",
        r"\b(?:metric|imperial|units?|kilomet\w+|miles|celsius|fahrenheit)\b",
        r"\b(?:euros?|dollars?|pounds sterling|currenc(?:y|ies))\b",
        r"\bin (?:\w+ )?(?:english|german|french|spanish|italian|portuguese|dutch|polish|russian|chinese|japanese|"
        r"korean|arabic|turkish|hindi|swedish|danish|norwegian|finnish|greek|czech|ukrainian|hebrew)\b",
        r"\b(?:short(?:er)?|brief|concise|long(?:er)?|detailed|in detail|"
        r"(?:under|than|within|most) \w+ (?:words|sentences))\b",
        r"\b(?:bullets?|bullet points?|bulleted|lists)\b",
        r"\btables\b",
        r"\bmarkdown\b",
        r"\bemojis?\b",
        r"\b(?:call(?:ing)?|address|refer to) me\b|\bi go by\b",
        r"\b(?:formal|informal|casual|blunt|polite|friendly)\b",
    )
)
"""Properties of an answer that have one value at a time: dates, times, units, currency, language, length, layout, name
and tone."""
_WHEN = LazyPattern(
    r"\b(?:when|whenever|every time|each time|any ?time|if|unless) (?:i|we|you) "
    r"((?:(?!\b(?:always|never|please|only)\b)[^,;.!]){1,120})"
)
_MANNER_WORDS = "always never stop please do not any more only just from now on again"
_ASKING = "ask asking mention discuss talk say tell want you question about for help explain give answer"
SAME_OCCASION = 0.5
"""Share of the terms of two occasions that are the same one."""
SAME_WORDING = 0.75
"""Share of the terms of two instructions that say the same, or the opposite."""


class InstructionTopic(NamedTuple):
    """The occasion on which an instruction applies, the properties of an answer that it sets, and its other terms."""

    occasion: frozenset[str]
    aspects: frozenset[int]
    content: frozenset[str]


def instruction_topic(text: str) -> InstructionTopic:
    """Return the topic of an instruction."""
    lower = text.lower()
    aspects = frozenset(number for number, aspect in enumerate(_ASPECTS) if aspect.search(lower))
    return InstructionTopic(_occasion(text), aspects, frozenset(terms(text)) - term_set(_MANNER_WORDS))


def replaces_instruction(new: InstructionTopic, old: InstructionTopic) -> bool:
    """Return True if an instruction is about the same as an earlier one: the same occasion, and the same property.

    What differs in any property stays beside the new one, where the newer of two takes precedence.
    """
    if not _similar(new.occasion, old.occasion, SAME_OCCASION):
        return False
    return bool(old.aspects and old.aspects <= new.aspects) or _similar(new.content, old.content, SAME_WORDING)


def occasion_terms(text: str) -> frozenset[str]:
    """Return the terms of the subject on which an instruction applies: "when I ask about taxes"; empty for any."""
    return _occasion(text) - term_set(_ASKING)


def _occasion(text: str) -> frozenset[str]:
    match = _WHEN.search(text.lower())
    return frozenset(terms(match[1])) if match else frozenset()


def _similar(one: frozenset[str], other: frozenset[str], least: float) -> bool:
    """Return True if two sets of terms are both empty, or share this part of all their terms."""
    return (not one and not other) or len(one & other) >= least * len(one | other)
