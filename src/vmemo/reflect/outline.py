"""Outline of a long reply: its headings and the labels of its lists, which name what was advised. English only."""

from __future__ import annotations

import re
from collections.abc import Sequence

from vmemo.text.lazy_regex import LazyPattern

MAX_CHARACTERS = 12_000
MAX_LABELS = 14
MAX_LABEL_WORDS = 9
"""Longer labels are sentences of an example or a draft."""
SEPARATOR = "; "
_FENCE = "```"
_LABEL = LazyPattern(
    r"^[ \t]{0,12}(?:#{1,6}[ \t]{1,4}(?P<heading>[^\n]{1,200})"
    r"|(?:[-*•]|\d{1,2}[.)])[ \t]{1,4}(?:\*\*(?P<bold>[^*\n]{1,200})\*\*|(?P<item>[A-Z][^\n:*=\\]{2,60}):(?=\s))"
    r"|\*\*(?P<alone>[^*\n]{1,200})\*\*:?[ \t]{0,4}$)",
    re.MULTILINE,
)
_NUMBERING = LazyPattern(r"^(?:(?:step|phase|part|option|tip)\s*\d+\s*[:.)-]\s*|\d{1,2}[.)]\s*)+", re.IGNORECASE)
_MARKUP = LazyPattern(r"[*`#]+")
_WORD = LazyPattern(r"[^\W\d_]{3}")
_NOT_A_NAME = LazyPattern(r"[=\\{}\[\]|<>]")
"""Formulas, code and the blanks of a template."""
_GENERIC = LazyPattern(
    r"(?:(?:key|additional|final|general|some|more|further|practical|specific|other|step[ -]by[ -]step|detailed|"
    r"updated|revised|improved|enhanced|complete|full|sample|your|my|the|an?|next) ){0,4}"
    r"(?:conclusion|summary|tips|thoughts|notes?|steps?|breakdown|explanation|overview|introduction|guide|plan|"
    r"considerations|code|usage|output|recommendations|points|resources|solution|details|structure|template|"
    r"before|after|implementation|subject|best regards|sincerely|examples?)"
    r"|(?:example|sample|dear)\b.{0,100}",
    re.IGNORECASE,
)
"""Labels that name a part of any reply, or a part of a draft."""
FILLER = LazyPattern(
    r"\W{0,4}(?:certainly|absolutely|of course|sure|great|got it|perfect|excellent|no problem|you're welcome|"
    r"congratulations|glad|happy to|it's great|that(?:'s| is| sounds)|it sounds like|thank(?:s| you)|understood|"
    r"i'm glad|by (?:following|implementing|using) (?:these|this)|"
    r"let's|let me know|if you have any|feel free|here(?:'s| is| are)|i can help|good luck|hope this)\b",
    re.IGNORECASE,
)
"""The start of a sentence that opens or ends a reply and states nothing."""

MAX_RESOLUTION_WORDS = 30
_SENTENCE_END = LazyPattern(r"(?<=[.!?])\s|\n")
_RESOLUTION = LazyPattern(
    r"\bthe (?:issue|problem|error|bug|mistake|cause|fix|solution|answer|result)\b[^,;]{0,60}"
    r"\b(?:is|was|lies|occurs|comes|stems|happens)\b|\b(?:caused|fixed|resolved|solved) by\b"
    r"|\bto (?:fix|resolve|solve) (?:this|it|the)\b|\b(?:is|are) (?:likely |probably )?(?:due to|because)\b"
    r"|^\W*(?:therefore|thus|so),? ",
    re.IGNORECASE,
)
"""A sentence that names the cause of a problem, its solution or a result."""


MIN_ADVICE_WORDS, MAX_ADVICE_WORDS = 4, 18
_OPENING_SENTENCES = 12
_ADVICE = LazyPattern(
    r"\b(?:you(?:'ll| will|'d| would)? (?:can|could|should|may|might|need to|want to|have to|must)"
    r"|(?:way|approach|solution|fix) (?:\w+ ){0,4}is (?:to|by)) (?P<proposed>[a-z`][^\n]{10,240})",
    re.IGNORECASE,
)
"""A proposal of a reply."""
_CHOOSING = frozenset(("use", "adopt", "add", "install", "configure", "set", "switch", "replace", "combine", "run"))
"""Verbs whose object is the proposed means; after others, such as "improve", it may be what the statement named."""
_ADVICE_END = LazyPattern(
    r",? (?:so that|which|while|ensuring|making sure|to ensure|to make sure|in order to|here(?:'s| is| are))\b"
    r"|[.:](?=\s|$)",
    re.IGNORECASE,
)
"""The end of a proposal: what follows says why."""


def resolution(text: str) -> str | None:
    """Return the first short sentence of a reply that says how something was solved, or None."""
    prose = "\n".join(text[:MAX_CHARACTERS].split(_FENCE)[::2])
    sentences = (_MARKUP.sub("", found).strip(" -\t") for found in _SENTENCE_END.split(prose))
    return next((each.replace(SEPARATOR, ", ") for each in sentences if _is_resolution(each)), None)


def advice(text: str) -> str | None:
    """Return what the most specific of the first sentences of a reply proposes to do, or None if none names anything.

    "To limit the calls, you can use a queue with Redis, so that …" proposes "use a queue with Redis".
    """
    prose = "\n".join(text[:MAX_CHARACTERS].split(_FENCE)[::2])
    found = [_ADVICE.search(" ".join(each.split())) for each in _SENTENCE_END.split(prose)[:_OPENING_SENTENCES]]
    proposed = [_ADVICE_END.split(each["proposed"])[0].split()[:MAX_ADVICE_WORDS] for each in found if each]
    best = max(proposed, key=_specific_words, default=[""])
    if len(best) < MIN_ADVICE_WORDS or _specific_words(best) < (1 if best[0].lower() in _CHOOSING else 2):
        return None
    return _MARKUP.sub("", " ".join(best)).replace(SEPARATOR, ", ").strip(" .:,")


def _specific_words(words: Sequence[str]) -> int:
    """Return the number of words that name something: identifiers, abbreviations, versions and names."""
    return sum(len(word) > 1 and (any(map("`_/".__contains__, word)) or not word[1:].islower()) for word in words)


def _is_resolution(sentence: str) -> bool:
    is_short = MAX_LABEL_WORDS < len(sentence.split()) <= MAX_RESOLUTION_WORDS
    is_prose = FILLER.match(sentence) is None and _NOT_A_NAME.search(sentence) is None
    return is_short and is_prose and _RESOLUTION.search(sentence) is not None


def outline(text: str) -> list[str]:
    """Return the distinct labels of a text in their order."""
    prose = "\n".join(text[:MAX_CHARACTERS].split(_FENCE)[::2])
    labels = (_plain(match) for match in _LABEL.finditer(prose))
    return list(dict.fromkeys(label for label in labels if label))[:MAX_LABELS]


def _plain(match: re.Match[str]) -> str | None:
    """Return a label without markup and numbering, or None if it names nothing."""
    raw = next(group for group in match.groups() if group is not None)
    label = _NUMBERING.sub("", _MARKUP.sub("", raw).strip()).strip(" :.-–;")
    if len(label.split()) > MAX_LABEL_WORDS or not _WORD.search(label):
        return None
    return None if _GENERIC.fullmatch(label) or _NOT_A_NAME.search(label) else label.replace(SEPARATOR, ", ")
