"""Bare questions: messages that ask and state nothing. English only; text in other languages is kept."""

from __future__ import annotations

import re

from vmemo.text.lazy_regex import LazyPattern
from vmemo.text.names.language import is_foreign
from vmemo.text.noise import is_small_talk
from vmemo.text.tokens import STOP_WORDS

MAX_QUESTION_CHARS = 240
"""Longer messages are kept: a long question describes a situation."""
_SENTENCE = re.compile(r"[^.?!\n]+(?:[.!](?=\w)[^.?!\n]+)*[.?!]*")
_WORD = re.compile(r"[^\W_]+(?:'[^\W_]+)?")
_AUX = "is|are|was|were|am|do|does|did|has|have|had|will|would|can|could|should|shall|may|might"


def _ignore_case(pattern: str) -> LazyPattern:
    return LazyPattern(pattern, re.IGNORECASE)


_OPENING = (
    r"\W*(?:(?:hey|hi|hello|so|ok|okay|well|and|but|also|then|oh|wow|yeah|yes|no|sure|cool|nice|great|thanks|thank you|"
    r"please|sorry|now|anyway|by the way|btw|quick question|just curious|out of curiosity)\b[\s,!.:–—-]*)*+"
)
_ASKING_START = _ignore_case(
    rf"{_OPENING}(?:(?:who|whom|whose|which|what|where|when|why|how)(?:'s|'re|'d|'ll)?\b"
    rf"|(?:{_AUX})(?:n't)?\s+(?:i|you|we|they|he|she|it|there|this|that|these|those|the|any|some|my|your|his|her|our|"
    r"their|its|anyone|anybody|someone|somebody|everyone|everybody|anything|something|everything)\b"
    rf"|(?-i:(?:{_AUX}|{'|'.join(word.capitalize() for word in _AUX.split('|'))})(?:n't)?\s+[A-Z])"
    r"|(?:in|at|on|for|to|with|from|by|since|until|about) (?:what|which|whom|when|where)\b"
    r"|any(?:thing|one|body|where)?\b|and you\b|really\b|seriously\b|you\b\W*$)"
)
_STRICT_START = _ignore_case(
    rf"{_OPENING}(?:(?:who|what|where|when|why|which)(?:'s|'re)\b|(?:who|what|where|when|why) (?:{_AUX})\b"
    rf"|(?:what|which) \w+ (?:{_AUX}) (?:i|you|we|they|he|she|my|your|our)\b"
    rf"|how (?:{_AUX}|many|much|often|long|old|far|tall|big)\b|do you (?:know|remember|recall)\b)"
)
"""The start of a question that needs no question mark."""
_FINITE = _ignore_case(rf"\b(?:{_AUX})\b|'s\b|'re\b")
_SUBJECT = r"(?:i|we|he|she|they|it|there|my|our|his|her|their|the|i'[a-z]+|we'[a-z]+|s?he's|they'[a-z]+)"
_REPORTING = r"(?:tell|told|mention(?:ed)?|say|said|know|knew|heard?|believe|reali[sz]e|notice|see|guess|think)"
_STATED_CLAUSE = (
    # "Have I mentioned that I moved?", "Did you know Anna got married?"
    _ignore_case(
        rf"\b{_REPORTING}(?: you| that| already| yet| about it){{0,3}} (?:that )?(?!the\b){_SUBJECT}\s+\w+\s+\w"
    ),
    _ignore_case(
        r"\b(?:tell|told|mention|mentioned|heard?|know) (?:you |that ){0,2}(?:about )?(?-i:[A-Z]\w+) \w+\s+\w"
    ),
    _ignore_case(r"\b(?:remember|recall|forget|forgot) (?:that|when|how) (?:i|we|you|my|he|she|they)\b"),
    _ignore_case(rf"\b(?:that|because|since|although|though|while|if|unless|after|before|as) (?:{_SUBJECT}|you)\b"),
    _ignore_case(r"\b(?:now that|given|considering|seeing (?:as|that)|even though|due to|thanks to|in case|so that)\b"),
    _ignore_case(r"\b(?:after|before|while|since|from|for|about|with|when) (?:just |recently )?(?!being\b)[a-z]+ing\b"),
    _ignore_case(r"\bwhen (?:i|we|he|she|they|my|you) |\b(?:i|we)(?:'m|'ve|'d|'re|'ll| am| are| was| were) "),
    _ignore_case(r"[,;:–—(\[]\s*(?:i|we|my|he|she|they|it|the|but|who|which|a|an)\b|[\[\]{}<>]"),
    _ignore_case(
        r"(?<!do )(?<!did )(?<!would )(?<!could )(?<!should )(?<!can )(?<!might )(?<!will )\b(?:i|we) (?:just|need|"
        r"want|love|like|hate|plan|hope|prefer|recently|finally|bought|got|moved|started|use|own)\b"
    ),
)
_ADVICE = _ignore_case(
    r"\b(?:should|could|can|would|best|better|good|great|nice|recommend\w*|suggest\w*|tips?|advice|ideas?|help|ways?|"
    r"how (?:do|to|about)|what about|improve|fix|learn|find|make|plan|worth)\b"
)
_OWN = _ignore_case(r"\b(?:my|our|me|us|mine|ours|i'm|i've)\b")
_OTHERS = _ignore_case(r"\b(?:your|his|her|their|[^\W\d_]+'s)\b")
_STATE = _ignore_case(rf"{_OPENING}how(?:'s|'re| is| are| was| were| did| do| does| has| have)\b")
_GENERIC = STOP_WORDS | frozenset(
    """ok okay hey hi hello oh wow yeah yes thanks thank please really seriously anyway today tonight day days week
    weekend weekends morning afternoon evening night lately recently going go doing do been new up plan plans thing
    things anything something everything nothing anyone everyone else more life news latest happening happened happen
    fun interesting exciting get got think feel feeling like know tell mean say said share hear curious question time
    much many lot bit good great well nice cool d m how's what's who's where's that's it's you're far long back keep
    keeping holding treating finally next yet already still""".split()
)
"""Words that name nothing in particular."""


def is_bare_question(text: str) -> bool:
    """Return True if a message only asks, and no part of it states something.

    "Have I mentioned that I moved to Porto?" states a move, and "How do I groom my poodle?" that there is a poodle;
    "Where do I live?" states nothing.
    """
    sentences = _questions(text)
    return bool(sentences) and not any(map(_states_something, sentences)) and not is_foreign(text)


def is_empty_question(text: str) -> bool:
    """Return True if a message only asks and names nothing: "How was your weekend?", "And you?"."""
    sentences = _questions(text)
    words = (word.casefold() for sentence in sentences for word in _WORD.findall(sentence))
    return bool(sentences) and all(word in _GENERIC for word in words) and not is_foreign(text)


def _questions(text: str) -> list[str]:
    """Return the questions of a short message that consists of nothing else but small talk."""
    text = text.strip().replace("’", "'")
    if len(text) > MAX_QUESTION_CHARS:
        return []
    sentences = [sentence for found in _SENTENCE.findall(text) if not is_small_talk(sentence := found.strip())]
    return sentences if all(map(_asks, sentences)) else []


def _asks(sentence: str) -> bool:
    if sentence.rstrip("\"') !").endswith("?"):
        return _ASKING_START.match(sentence) is not None
    # "What is important to me is my family" has a second verb.
    return _STRICT_START.match(sentence) is not None and len(_FINITE.findall(sentence)) < 2


def _states_something(sentence: str) -> bool:
    if any(pattern.search(sentence) for pattern in _STATED_CLAUSE):
        return True
    if _ADVICE.search(sentence) and (_OWN.search(sentence) or any(map(str.isdigit, sentence))):
        return True
    return _STATE.match(sentence) is not None and _OTHERS.search(sentence) is not None and _is_specific(sentence)


def _is_specific(sentence: str) -> bool:
    """Return True if a question names at least two things: "How was your trip to Rome?", not "How was your day?"."""
    words = {word.casefold() for word in _WORD.findall(sentence)}
    return len(words - _GENERIC) >= 2
