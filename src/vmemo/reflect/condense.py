"""Shortening of statements and replies to what they say most. English only."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from itertools import pairwise

from vmemo.models.recalled import TRUNCATED, truncate
from vmemo.text.lazy_regex import LazyPattern
from vmemo.text.noise import is_bare_question, is_small_talk
from vmemo.text.tokens import terms

MAX_REPLY_CHARACTERS = 12_000
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
_REPLY_SENTENCE_END = LazyPattern(r"(?<=[.!?])\s|\n")
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
"""Verbs whose object is the proposed means. The object of others, such as "improve", may be the problem itself."""
_ADVICE_END = LazyPattern(
    r",? (?:so that|which|while|ensuring|making sure|to ensure|to make sure|in order to|here(?:'s| is| are))\b"
    r"|[.:](?=\s|$)",
    re.IGNORECASE,
)
"""The end of a proposal: what follows says why."""


def resolution(text: str) -> str | None:
    """Return the first short sentence of a reply that says how something was solved, or None."""
    prose = "\n".join(text[:MAX_REPLY_CHARACTERS].split(_FENCE)[::2])
    sentences = (_MARKUP.sub("", found).strip(" -\t") for found in _REPLY_SENTENCE_END.split(prose))
    return next((each.replace(SEPARATOR, ", ") for each in sentences if _is_resolution(each)), None)


def advice(text: str) -> str | None:
    """Return the most specific proposal in the first sentences of a reply, or None if none names anything.

    "To limit the calls, you can use a queue with Redis, so that …" proposes "use a queue with Redis".
    """
    prose = "\n".join(text[:MAX_REPLY_CHARACTERS].split(_FENCE)[::2])
    found = [_ADVICE.search(" ".join(each.split())) for each in _REPLY_SENTENCE_END.split(prose)[:_OPENING_SENTENCES]]
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
    prose = "\n".join(text[:MAX_REPLY_CHARACTERS].split(_FENCE)[::2])
    labels = (_plain(match) for match in _LABEL.finditer(prose))
    return list(dict.fromkeys(label for label in labels if label))[:MAX_LABELS]


def _plain(match: re.Match[str]) -> str | None:
    """Return a label without markup and numbering, or None if it names nothing."""
    raw = next(group for group in match.groups() if group is not None)
    label = _NUMBERING.sub("", _MARKUP.sub("", raw).strip()).strip(" :.-–;")
    if len(label.split()) > MAX_LABEL_WORDS or not _WORD.search(label):
        return None
    return None if _GENERIC.fullmatch(label) or _NOT_A_NAME.search(label) else label.replace(SEPARATOR, ", ")


MAX_CHARACTERS = 4000
MAX_CLAUSES = 60
"""Clauses of a text that are considered."""
MIN_SUBJECT = 4
"""Distinct terms, without stop words, of a request for help that names its subject."""
MAX_REACTION = 70
"""Longest message that can be a mere reaction, in characters."""
MAX_QUOTED = 120
"""Longest quotation, such as an error message, that is not divided, in characters."""
MAX_FOLLOW_UP = 200
"""Longest question that can be a mere follow-up, in characters."""
MIN_SAID = 0.9
"""Share of common terms from which a sentence repeats another."""
_REACTION = frozenset(
    terms(
        "h hm hmm hmmm uh um oh ah wow ok okay alright right yeah yep yes cool nice fine great sure perfect good "
        "interesting sounds makes make sense see fair enough know works work thank thanks much so really very well got "
        "get it let try keep mind note think say more help helpful do point understand understood appreciate look "
        "back later"
    )
)
"""Terms of reactions such as "Hmm, that makes sense."."""
_GAP = "…"
_CLAUSE_END = LazyPattern(
    r"(?<![.?!;,:])[.?!;,:]++(?=\s|$)"
    r"|(?<=[\w)\"`])(?= (?:and|but|so|-|–) (?:[Ii]|[Ww]e|[Cc](?:an|ould) you)(?:'[a-z]+)? \w)"
)
_SENTENCE_END = LazyPattern(r"(?<![.?!])[.?!]++(?=\s|$)")
_ABBREVIATION = LazyPattern(r"(?:^|[\s(])(?:Mrs?|Ms|Dr|St|No|vs|approx)\.$")
_ABBREVIATION_CHARS = 8
_YEAR = LazyPattern(r" (?:19|20)\d\d\b")
_REQUEST = LazyPattern(
    r"\b(?:can|could|would) (?:you|i get)\b|\bplease\b|\bhelp me\b|\bthanks?\b|\blet me know\b"
    r"|\bhow (?:can|do|should) i\b|\bi(?:'m| am) (?:not sure|having trouble)\b|\bdo you (?:have|think)\b"
    r"|\bi(?:'d| would) (?:like|love|appreciate)\b|\bi (?:want|need) to (?:make sure|ensure|know)\b"
    r"|\bhere(?:'s| is) (?:my|what)\b|\bany (?:help|advice|tips|suggestions)\b",
    re.IGNORECASE,
)
_LEAD = LazyPattern(
    r"(?:(?:i(?:'m| am)|we(?:'re| are)) (?:currently |just |also |still |now )?(?:trying|attempting|looking|hoping) to "
    r"|i(?:'d| would) like to |(?:i|we) (?:want|need|have) to |i need (?:some )?help (?:with |in |to )?"
    r"|(?:i|we)(?:'ve| have) been (?:trying to |(?=\w+ing\b))"
    r"|(?:i(?:'m|'ve| am)|we(?:'re|'ve| are)) (?:currently |recently |just |also |still |now )?(?=\w+(?:ing|ed)\b)"
    r"|(?:can|could|would) (?:you|someone|anyone) (?:please )?(?:help me|explain|show me|tell me|provide|give me)"
    r"(?: with| to| understand| figure out)? |how (?:can|do|should|would) (?:i|we) |i was wondering (?:if |how ))+"
    r"(?=\w)",
    re.IGNORECASE,
)
"""The start of a wish, a report or a request, whose subject follows."""
_MESSAGE = LazyPattern(
    r"^[^\"]{0,80}\b(?:error|message|exception|warning)\b[^\"]{0,40}(?=\"[^\"]{4,120}\")", re.IGNORECASE
)
"""The words before a quoted message, which says more."""
_OPENING = LazyPattern(
    r"\W*(?:(?:h+m+|uh+|um+|a+h+|oh|wow|ok(?:ay)?|alright|right|cool|nice|great|yeah|yes|sure|so|and|but|also|wait|"
    r"got it|i see|makes sense|thanks?(?: you)?)\b[\s,.!…-]*)+",
    re.IGNORECASE,
)
_ASKS = LazyPattern(
    r"(?:who|what|where|when|why|which|how|is|are|was|were|do|does|did|can|could|should|would|will|any)(?:'[a-z]+)?\b"
    r"[^.!?]*\?(?: [^.!?]{1,120}\?)?\s*$",
    re.IGNORECASE,
)
_ASKED_OF_YOU = LazyPattern(
    r"\W*(?:(?:also|and|so|but|then)\b,? )?(?:can|could|would|will) you \w(?!.*\b(?:i|my|mine|we|our)\b).*\?\s*$",
    re.IGNORECASE | re.DOTALL,
)
"""A request to the assistant in which the person says nothing of themselves."""
_NAME_WEIGHT, _ASKED_WEIGHT, _REQUEST_WEIGHT = 0.5, 1.0, -2.0


def condense(text: str, max_tokens: int, count: Callable[[str], int], asked: Collection[str] = ()) -> str | None:
    """Return the first clause of a text and the most informative others that fit, in their order; None if none fit.

    Clauses with numbers, names and the `asked` terms come before others, and requests for help without a subject last.
    Phrases that only open a reply, a wish or a request are left out.
    """
    prefix, clauses = _units(text, _CLAUSE_END)
    if not clauses:
        return truncate(text, max_tokens, count)
    lead = _LEAD.match(clauses[0])
    clauses = [clauses[0][lead.end() if lead else 0 :], *(_MESSAGE.sub(" ", each, count=1) for each in clauses[1:])]
    ranked = sorted(range(1, len(clauses)), key=lambda place: -_value(clauses[place], asked))
    order = [0, *(place for place in ranked if _value(clauses[place], asked) >= 0 and _says_more(clauses[place]))]
    chosen = _fitting(order, lambda places: prefix + _joined(clauses, places), max_tokens, count)
    return prefix + _joined(clauses, chosen) if 0 in chosen else truncate(prefix + clauses[0], max_tokens, count)


def condense_sentences(
    text: str, max_tokens: int, count: Callable[[str], int], asked: Collection[str] = ()
) -> str | None:
    """Return the most informative sentences of a text that fit, so that the items of an enumeration stay together.

    If the best one does not fit, it is condensed to its clauses.
    """
    prefix, sentences = _units(text, _SENTENCE_END)
    ranked = sorted(range(len(sentences)), key=lambda place: -_value(sentences[place], asked))
    chosen = _fitting(ranked, lambda places: prefix + _joined(sentences, places), max_tokens, count)
    if ranked and ranked[0] not in chosen:
        return condense(prefix + sentences[ranked[0]], max_tokens, count, asked)
    return prefix + _joined(sentences, chosen) if chosen else truncate(text, max_tokens, count)


def _units(text: str, end: LazyPattern) -> tuple[str, list[str]]:
    """Return the speaker, and the clauses or sentences of a text after phrases that only open a reply."""
    speaker, separator, body = text.partition(": ")
    body = body.removesuffix(TRUNCATED) if separator else text
    units = _divide(body[:MAX_CHARACTERS], end)[:MAX_CLAUSES]
    start = next((place for place, each in enumerate(units) if not FILLER.match(each)), 0)
    return speaker + separator if separator else "", units[start:]


def _divide(text: str, end: LazyPattern) -> list[str]:
    """Divide a text at each end, but not inside a date, a quotation or after an abbreviation."""
    plain = " ".join(text.split())
    ends = [match.end() for match in end.finditer(plain) if not _is_inside(plain, match.end())]
    parts = (plain[first:last] for first, last in pairwise([0, *ends, len(plain)]))
    return [part for part in parts if part.strip()]


def _is_inside(text: str, end: int) -> bool:
    if text.count('"', 0, end) % 2 and 0 <= text.find('"', end) - end <= MAX_QUOTED:
        return True
    if text[end - 1] == ",":
        return text[end - 2 : end - 1].isdigit() and _YEAR.match(text, end) is not None
    return _ABBREVIATION.search(text, max(0, end - _ABBREVIATION_CHARS), end) is not None


def says_nothing(text: str) -> bool:
    """Return True for a message that only reacts to another: "Hmm, that makes sense."."""
    body = text.partition(": ")[2] or text
    if len(body) > MAX_REACTION:
        return False
    words = set(terms(body))
    return is_small_talk(body) or (len(words) > 1 and words <= _REACTION)


def asks_back(text: str) -> bool:
    """Return True for a question about the message before it: "hmm, and how do I do that?"."""
    body = text.partition(": ")[2] or text
    opening = _OPENING.match(body)
    return opening is not None and len(body) <= MAX_FOLLOW_UP and _ASKS.match(body, opening.end()) is not None


def without_requests(text: str) -> str:
    """Return a text without openings and requests that name no subject, or the whole text if nothing else is in it."""
    speaker, separator, body = text.partition(": ")
    prefix, body = (speaker + separator, body) if separator else ("", text)
    kept = [each for each in _divide(body, _CLAUSE_END) if not _is_empty_request(each) and not FILLER.match(each)]
    stated = "".join(kept).strip(" ,;:-–")
    return prefix + stated if len(set(terms(stated))) >= MIN_SUBJECT else text


def new_statements(text: str, said: list[set[str]]) -> str:
    """Return a text without repeated sentences and mere questions, or the whole text if nothing else is in it.

    `said` holds the terms of earlier sentences; those of the kept sentences are added to it.
    """
    speaker, separator, body = text.partition(": ")
    prefix, body = (speaker + separator, body) if separator else ("", text)
    sentences = [(each, set(terms(each))) for each in _divide(body, _SENTENCE_END)]
    new = [(each, words) for each, words in sentences if not _is_said(words, said) and not _only_asks(each)]
    said.extend(words for _, words in new)
    return prefix + "".join(each for each, _ in new).strip() if new else text


def _only_asks(sentence: str) -> bool:
    return is_bare_question(sentence) or _ASKED_OF_YOU.match(sentence) is not None


def _is_said(words: set[str], said: Sequence[set[str]]) -> bool:
    """Return True if an earlier sentence has nearly all of these terms, and all of the numbers."""
    return any(
        len(words & other) >= MIN_SAID * len(words) and all(each.isalpha() for each in words - other) for other in said
    )


def condense_outline(
    text: str, max_tokens: int, count: Callable[[str], int], asked: Collection[str] = ()
) -> str | None:
    """Return the most informative labels of an outline that fit, in their order; None if none fit."""
    speaker, _, body = text.partition(": ")
    labels = body[:MAX_CHARACTERS].split(SEPARATOR)[:MAX_CLAUSES]
    ranked = sorted(range(len(labels)), key=lambda place: -_value(labels[place], asked))

    def _line(places: Sequence[int]) -> str:
        return f"{speaker}: {SEPARATOR.join(labels[place] for place in sorted(places))}"

    chosen = _fitting(ranked, _line, max_tokens, count)
    return _line(chosen) if chosen else None


def _fitting(
    order: Sequence[int], text_of: Callable[[Sequence[int]], str], max_tokens: int, count: Callable[[str], int]
) -> list[int]:
    """Return the places, best first, whose text fits; a long one that does not is skipped."""
    chosen: list[int] = []
    for place in order:
        if count(text_of([*chosen, place])) <= max_tokens:
            chosen.append(place)
    return chosen


def _value(clause: str, asked: Collection[str]) -> float:
    """Return a weight for the information in a clause. Requests have the least."""
    words = clause.split()
    names = sum(word[:1].isupper() for word in words[1:]) + sum(not _is_plain(word) for word in words)
    named = _NAME_WEIGHT * names + min(2, sum(map(str.isdigit, clause)))
    about = _ASKED_WEIGHT * len(set(asked).intersection(terms(clause)))
    return named + about + (_REQUEST_WEIGHT if _is_empty_request(clause) else 0.0)


def _says_more(clause: str) -> bool:
    """Return True unless a clause only joins others: "For example,"."""
    return len(set(terms(clause))) > 1 or any(map(str.isdigit, clause))


def _is_empty_request(clause: str) -> bool:
    """Return True for a request for help that does not say with what."""
    return _REQUEST.search(clause) is not None and len(set(terms(_REQUEST.sub(" ", clause)))) < MIN_SUBJECT


def _is_plain(word: str) -> bool:
    """Return True for a word without the characters of an identifier, a path or a quotation."""
    return not any(mark in word for mark in '_/`"')


def _joined(clauses: Sequence[str], places: Sequence[int]) -> str:
    """Return clauses in their order, with a mark where others are left out."""
    chosen = sorted(places)
    parts = [
        clauses[place].strip() + ("" if place + 1 in chosen or place + 1 == len(clauses) else f" {_GAP}")
        for place in chosen
    ]
    return " ".join(parts)
