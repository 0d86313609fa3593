"""Outline of a long reply: its headings and the labels of its lists, which name what was advised. English only."""

from __future__ import annotations

import re

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


def resolution(text: str) -> str | None:
    """Return the first short sentence of a reply that says how something was solved, or None."""
    prose = "\n".join(text[:MAX_CHARACTERS].split(_FENCE)[::2])
    sentences = (_MARKUP.sub("", found).strip(" -\t") for found in _SENTENCE_END.split(prose))
    return next((each.replace(SEPARATOR, ", ") for each in sentences if _is_resolution(each)), None)


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
