"""Sub-queries of a question: its parts, its topics, traits of its persons, and its denial. English only.

Each rule matches one form of question exactly, or returns nothing: a wrong sub-query costs a search.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, TypeAlias

from vmemo.text.lazy_regex import LazyPattern
from vmemo.text.tokens import STOP_WORDS

# Questions of a text, and their division.

_MAX_PARTS = 4
_MAX_CANDIDATES = 32
AUX = "did|do|does|is|are|was|were|has|have|had|will|would|can|could|should|am"
_OPENING = (
    r"\W*(?:(?:hey|hi|hello|so|ok|okay|well|and|but|also|please|sorry|now|by the way|btw)\b[,!]?\s+)*"
    r"(?:(?:(?:can|could|would|will) you (?:please )?(?:tell|remind) me|do you (?:happen to )?(?:know|remember|recall)"
    r"|(?:please )?(?:tell|remind) me|i(?:'m| am)? (?:wonder|wondering|forgot|forget|want to know|don't remember)"
    r"|i(?:'d| would) like to know)[,:]?\s+)?"
)
"""Greetings and phrases before the question itself."""

_DecomposeRule: TypeAlias = Callable[[str], Iterable[str]]
_NAME = r"(?-i:[^\W\d_a-z][\w-]{0,40})"
_OWNER = rf"(?:my|his|her|their|our|{_NAME}'s)"
_PERSON = rf"(?:(?:my|his|her|their|our|your) [\w-]+|{_NAME}(?: {_NAME})?)"
_RELATION = (
    r"(?:(?:best|older|younger|elder|new|old|former|late|ex|twin|half)[ -])?(?:(?:grand|god|step)?(?:mother|father|"
    r"son|daughter|parents?|child)|mom|mum|dad|sister|brother|sibling|kid|husband|wife|partner|spouse|boyfriend|"
    r"girlfriend|fianc(?:é|e)e?|uncle|aunt|cousin|nephew|niece|grand(?:ma|pa)|friend|roommate|flatmate|neighbou?r|boss|"
    r"manager|colleague|co-?worker|teacher|coach|mentor|doctor|dentist|vet|therapist|trainer|landlord|lawyer|employer|"
    r"dog|cat|puppy|kitten|horse|pet|team|company|school|band)(?:-in-law)?"
)


def _ignore_case(pattern: str) -> LazyPattern:
    return LazyPattern(pattern, re.IGNORECASE)


class _EventPair(NamedTuple):
    """A form of question about two events: the text before them and the text between them."""

    head: LazyPattern
    separator: LazyPattern
    may_contain_comma: bool = True
    """The first event may have a comma in it."""
    ends_at_verb: bool = False
    """The second event ends before an auxiliary verb."""


_ABBREVIATED = r"(?:(?<=\b[A-Za-z])|(?<=\b[DMS][rst])|(?<=Mrs)|(?<=Prof)|(?<=vs))\."
_SENTENCE = LazyPattern(rf"(?:[^.?!\n]+|[.!](?=\w)|{_ABBREVIATED})+[.?!]*\s*")
_QUESTION_MARK = LazyPattern("[?？؟]")
_QUESTION_START = _ignore_case(
    rf"{_OPENING}(?:(?:who|whom|whose|which|where|why)\b|what\b(?! an?\b)|whats\b|when(?:'s| (?:{AUX}))\b"
    rf"|how(?:'s|\ (?:{AUX}|many|much|often|long|old|far|soon|recently|frequently|big|tall|well|come))\b"
    r"|(?:in|at|on|for|to|with|from|by|since|until) (?:what|which|whom|when)\b"
    r"|(?:did|does|is|are|was|were|has|can|could|should|would|didn't|doesn't|isn't|aren't|wasn't|weren't|hasn't)\s\w"
    r"|(?:do|have|had|will|may|am)\ (?:i|you|we|they|he|she|it|my|his|her|our|their|the|any|there)\b"
    r"|(?:remind me (?!to\b)|give me|show me|tell me (?!about\b)|list|name|count|compare|put (?:these|in order))\b)",
)
_WORD = LazyPattern(r"[^\W_]+")
_OPENING_PHRASE = _ignore_case(_OPENING)
_PRONOUN = _ignore_case(r"\b(?:he|him|his|she|her)\b")
_PERSONAL = _ignore_case(r"\b(?:i|my|we|our|he|him|his|she|her)\b")
_DEPENDENT = _ignore_case(
    r"\b(?:it|its|that|this|those|these|each|ones?|latter|former|there|then|they|them|afterwards?)\b"
)
_INTERROGATIVE_PHRASE = _ignore_case(
    rf"(?:(?:in|on|at|for|to|with|from)\s+)?(?:who|whom|which|what|where)\s+(?:ones?\s+)?(?:(?:{AUX})\s+)?"
)
_LIST_SEPARATOR = _ignore_case(" ?,? (?:and|or) | ?, ")
_CHOICE = _ignore_case(
    r"\b(?P<head>(?:who|which|what)\b[^,:?]{0,150}\b(?:first|last|earlier|later|earliest|more|most|less|least|better|"
    r"worse|[a-z]{2,}er)\b[^,:?]{0,60})[,:] (?P<items>[^?;]{1,300}\bor\b[^?;]{1,200})"
)
_AUX_START = _ignore_case(rf"(?:{AUX}) ")
_AUX_FOLLOWS = _ignore_case(rf" (?:{AUX}) ")
_OR = _ignore_case(" or ")
_ORDER_WORDS = frozenset(("first", "earlier", "later"))
_EVENT_PAIRS = (
    _EventPair(
        _ignore_case(
            r"\b(?:days|weeks|months|years|hours|minutes|long|time|passed|elapsed?|gap|interval|differences?)\b.{0,40}"
            r"\bbetween "
        ),
        _ignore_case(",? and "),
        ends_at_verb=True,
    ),
    _EventPair(
        _ignore_case(
            r"\bhow (?:many (?:days|weeks|months|years|hours|minutes)|long|soon|much time)(?: \w+)? (?:before|after) "
        ),
        _ignore_case(rf",? (?:{AUX}) "),
    ),
    _EventPair(_ignore_case(r"\b(?:passed|elapsed|been|it) since "), _ignore_case(",? when ")),
    _EventPair(_ignore_case("^how long (?:had|have|has) "), _ignore_case(",? (?:when|before|by the time) ")),
    _EventPair(_ignore_case(rf"^(?:{AUX}) "), _ignore_case(" before or after "), may_contain_comma=False),
    _EventPair(_ignore_case("^how (?:does|do|did) "), _ignore_case(" compare (?:to|with) ")),
)
_CLAUSE = _ignore_case(r",? and (?=(?:(?:also|then|in|on|at|by|for|to|from) )?(?:who|what|where|when|why|which|how)\b)")
_INTERROGATIVE = _ignore_case(r"(?:who|whom|whose|what|where|when|why|which|how)\b")
_SHARED = _ignore_case(r"\b(?:both|in common|each|shares?|the same|alike)\b")
_COORDINATED_PEOPLE = _ignore_case(
    rf"^(?P<topic>[^,]*?)\b(?:{AUX}) (?:both )?"
    rf"(?P<items>{_PERSON}(?:, {_PERSON}){{0,2}},? and {_PERSON})\b(?P<rest>.*)"
)
_BOTH_AFTER = _ignore_case(rf"^(?P<topic>.*?)\b(?:{AUX}) (?P<items>[\w-]+ and [\w-]+)(?= both\b)(?P<rest>.*)")
_BOTH_OF = _ignore_case(rf"^(?P<head>.*?(?<!\w)(?!(?:{AUX})\b)\w+) both (?P<a>[^,:]{{1,60}}?) and (?P<b>[^,]+)")
_SHARING_WORDS = _ignore_case(r"\b(?:both|each|have (?:\w+ )?in common|in common|shares?|the same|alike)\b")
_COUNTED_NOUNS = _ignore_case(
    rf"\bhow many (?P<items>[\w-]+(?: [\w-]+){{0,2}}(?:, [\w-]+(?: [\w-]+)?){{0,2}},? (?:and|or) "
    rf"[\w-]+(?: [\w-]+){{0,2}}?) (?:{AUX}) (?P<rest>.+)"
)
_PLURAL = _ignore_case(r"(?:.*\s)?(?:[^\W\d_]{2,}(?<![sui])s|people|children|men|women)")
_CHAINS = (
    _ignore_case(rf"(?<![\w'])(?P<whole>(?P<inner>{_OWNER} {_RELATION})(?:'s {_RELATION}){{1,4}})\b"),
    _ignore_case(
        r"\b(?:does|did|do|has|have|had|where|how \w+ (?:is|was)|(?<!name )(?<!title )of) (?P<whole>(?:the|an?) "
        rf"(?:person|man|woman|guy|girl|one|city|town|country|place|company|{_RELATION}) (?:who|that|whom|whose|where)"
        r"\b.+)"
    ),
)


def question_sentences(text: str) -> list[re.Match[str]]:
    """Return the sentences that are questions, with or without a question mark."""
    return [
        found
        for found in _SENTENCE.finditer(text)
        if _QUESTION_MARK.search(found[0]) or _QUESTION_START.match(found[0])
    ]


def decompose(questions: Sequence[str], text: str, times: Sequence[str]) -> tuple[str, ...]:
    """Return up to four sub-queries for the questions of a text. A part that only names a time is not one."""
    whole = _Whole(_tidy(text).casefold(), times)
    if len(questions) > 1:
        return _valid_parts(questions, whole) if all(map(_stands_alone, questions)) else ()
    for question in questions:
        # The rules rely on single spaces and on a question mark at the end only.
        bare = _OPENING_PHRASE.sub("", " ".join(question.partition("?")[0].split()), count=1)
        for rule in _RULES:
            if parts := _valid_parts(list(rule(bare)), whole):
                return parts
        return _distinct([part for part in _chain(bare) if _is_sub_query(part, whole)])
    return ()


class _Whole(NamedTuple):
    """The whole query without opening phrases, casefolded, and the times in it."""

    text: str
    times: Sequence[str]


def _valid_parts(parts: Sequence[str], whole: _Whole) -> tuple[str, ...]:
    """Return the parts if there are several and each is a sub-query; those after the first few are not looked at."""
    tidy = _with_names([_tidy(part) for part in parts[:_MAX_CANDIDATES]])
    kept = _distinct(tidy) if all(_is_sub_query(part, whole) for part in tidy) else ()
    return kept if len(kept) > 1 else ()


def _distinct(parts: Sequence[str]) -> tuple[str, ...]:
    return tuple({part.casefold(): part for part in parts}.values())[:_MAX_PARTS]


def _with_names(parts: Sequence[str]) -> list[str]:
    """Add the name to parts with a pronoun: "what is her job" after "Where does Ana live" is about Ana."""
    if not parts or len(names := _names(parts[0])) != 1:
        return list(parts)
    return [f"{part} {names[0]}" if _PRONOUN.search(part) and not _names(part) else part for part in parts]


def _names(part: str) -> list[str]:
    return [word for word in _WORD.findall(part)[1:] if word[0].isupper() and word.lower() not in STOP_WORDS]


def _tidy(part: str) -> str:
    return " ".join(_OPENING_PHRASE.sub("", part, count=1).split()).strip(" ,;:.?!")


def _is_sub_query(part: str, whole: _Whole) -> bool:
    """Return True if a part has a name, or at least two words with one content word."""
    words = _WORD.findall(part)
    content = [word for word in words if word.lower() not in STOP_WORDS]
    if part.casefold() == whole.text or any(part in time for time in whole.times):
        return False
    return bool(content) and (len(words) > 1 or content[0][0].isupper())


def _choice(question: str) -> Iterable[str]:
    """Divide alternatives: "Which came first, the trip to Oslo or the new job?"."""
    if match := _CHOICE.search(question):
        asked = _INTERROGATIVE_PHRASE.sub("", match["head"], count=1)
        items = _LIST_SEPARATOR.split(_CLAUSE.split(match["items"])[0])
        return [item if " " in item.strip() else f"{item.strip(' .!')} {asked}" for item in items]
    return _first_of_two(question)


def _first_of_two(question: str) -> Iterable[str]:
    """Divide "Did Ana move or Ben marry first?"."""
    start = _AUX_START.match(question)
    items, _, last = _without_end(question).rpartition(" ")
    if start is None or "," in items or last.casefold() not in _ORDER_WORDS:
        return ()
    return _around(_OR, items, start.end())


def _without_end(question: str) -> str:
    """Return the question up to its last letter or digit."""
    end = len(question)
    while end and not (question[end - 1].isalnum() or question[end - 1] == "_"):
        end -= 1
    return question[:end]


def _around(separator: LazyPattern, text: str, start: int) -> tuple[str, str] | tuple[()]:
    """Return the text from an offset up to the first separator, and the text after it."""
    found = separator.search(text, start + 1)
    return (text[start : found.start()], text[found.end() :]) if found and found.end() < len(text) else ()


def _event_pair(question: str) -> Iterable[str]:
    """Divide the ends of a time span, or the sides of a comparison."""
    for form in _EVENT_PAIRS:
        *_, last = (None, *form.separator.finditer(question))
        start = form.head.search(question, 0, last.start()) if last else None
        events = _around(form.separator, question, start.end()) if start else ()
        if events and (form.may_contain_comma or "," not in events[0]):
            return events[0], _up_to_verb(events[1]) if form.ends_at_verb else events[1]
    return ()


def _up_to_verb(event: str) -> str:
    verb = _AUX_FOLLOWS.search(event, 1)
    return event[: verb.start()] if verb else _without_end(event)


def _clauses(question: str) -> Iterable[str]:
    """Divide two questions in one: "Where does she work and who is her boss?"."""
    parts = _CLAUSE.split(question)
    if len(parts) < 2 or not _INTERROGATIVE.match(parts[0]):
        return ()
    inner = {word.lower() for word in _WORD.findall(parts[0])[1:]}
    # "the man who moved and who married" continues the same clause.
    repeated = any(part.split()[0].lower() in inner for part in parts[1:])
    return () if repeated or not all(map(_stands_alone, parts)) else parts


def _stands_alone(clause: str) -> bool:
    """Return True if a clause is clear without the one before it, unlike "and how much was it"."""
    words = [word for word in _WORD.findall(clause) if word.lower() not in STOP_WORDS]
    return bool(_names(clause)) or (
        _DEPENDENT.search(clause) is None and (len(words) > 1 or bool(_PERSONAL.search(clause)))
    )


def _people(question: str) -> Iterable[str]:
    """Return one sub-query per person: "What do Ana and Ben both like to cook?"."""
    if _SHARED.search(question) is None:
        return ()
    if match := _COORDINATED_PEOPLE.match(question) or _BOTH_AFTER.match(question):
        topic = _INTERROGATIVE_PHRASE.sub("", match["topic"] + " ", count=1).strip()
        rest = _SHARING_WORDS.sub(" ", match["rest"])
        return [f"{item} {topic} {rest}" for item in _LIST_SEPARATOR.split(match["items"])]
    match = _BOTH_OF.match(question)
    if match is None:
        return ()
    head = _INTERROGATIVE_PHRASE.sub("", match["head"] + " ", count=1).strip()
    return [f"{head} {match[side]}" for side in ("a", "b")]


def _counted_nouns(question: str) -> Iterable[str]:
    """Return one sub-query per counted noun: "How many plants and books did I buy?"."""
    if match := _COUNTED_NOUNS.search(question):
        items = _LIST_SEPARATOR.split(match["items"])
        return [f"{item} {match['rest']}" for item in items] if all(map(_PLURAL.fullmatch, items)) else ()
    return ()


def _chain(question: str) -> Iterable[str]:
    """Return the entities to identify first: "What breed is the dog of Tom's sister?"."""
    for form in _CHAINS:
        if match := form.search(question):
            return [_tidy(part) for part in match.groupdict().values()]
    return ()


_RULES: tuple[_DecomposeRule, ...] = (_choice, _event_pair, _clauses, _people, _counted_nouns)


# The topic of a request for an order, a summary or a number, without the words of the request.

_MAX_ASPECTS = 3
_MAX_LISTED = 6
"""Items of a list that are searched for one by one."""
_SAY = (
    r"(?:br(?:ing|ought|inging) up|mention(?:ed|ing|s)?|discuss(?:ed|ing)?|talk(?:ed|ing)? about|cover(?:ed|ing)?|"
    r"rais(?:e|ed|ing)|ask(?:ed|ing)?(?: you)? about|t(?:ell|old) you about|introduc(?:e|ed|ing)|describ(?:e|ed|ing)|"
    r"shar(?:e|ed|ing)|address(?:ed|ing)?|touch(?:ed|ing)? (?:up)?on|spoke about|refer(?:red)? to)"
)
_NOUN = r"(?:summary|overview|recap|rundown|synopsis|outline|timeline|chronology|account|picture)"
_TALKS = r"(?:conversations?|chats?|sessions?|discussions?|messages?|exchanges?|talks?)"
_WHO = r"(?:i|we|you|he|she|they)(?:'ve|'d| have| had| first)?"
_REQUEST = LazyPattern(
    r"\b(?:mention|name|list|give|use|include)\b[^.?!]{0,20}\b(?:only|exactly|just|no more than)\b[^.?!]{0,60}"
    r"|\b(?:can|could|would|will) you (?:please )?|\bi(?:'d| would) like(?: you)? (?:to )?|\bplease\b"
    r"|\b(?:list|give|tell|show|walk|take|provide|put|sum|bring|catch|write|outline|describe|trace|lay out|recount|"
    r"reconstruct|arrange|sort|rank|summari[sz]e|recap|review|trace)(?: (?:me|us))?(?: (?:with|through|up))?"
    r"(?: (?:to speed )?on)?\b(?! of\b)"
    rf"|\b(?:(?:a|an|the) )?(?:(?:brief|short|quick|full|complete|concise|comprehensive|detailed|overall|thorough|"
    rf"general|high-level|clear) ){{0,2}}{_NOUN}\b(?: (?:of|on|about|for))?"
    r"|\b(?:in )?(?:(?:what|which|the|chronological) ){1,3}(?:order|sequence)\b(?: (?:in which|that|of))?|\bin order\b"
    r"|\bfrom (?:first|earliest|oldest) to (?:last|latest|newest)\b|\bchronological(?:ly)?\b"
    rf"|\b(?:did|do|have|had) {_WHO} (?:first )?{_SAY}\b|\b{_WHO} (?:first )?{_SAY}\b"
    rf"|\b(?:across|throughout|over|during|in|from) (?:all )?(?:of )?(?:our|my|the|these|different|several|past|"
    rf"previous) (?:\w+ )?{_TALKS}\b|\b(?:so far|over time|up to now|until now|to date)\b"
    r"|\b(?:the )?(?:different|various|several|main|key) (?:aspects|parts|topics|things|points|elements|areas|issues|"
    r"concerns|subjects) (?:of|about|related to|regarding|concerning|around|in|with|for)\b"
    r"|\bhow (?:ha(?:s|ve|d)|did|do(?:es)?)\b|\b(?:changed?|evolved?|shift(?:ed)?)\b"
    r"|\bhow (?:many|much)(?: (?:different|distinct|separate|new|more|total|time|money))?\b|\bin total\b|\baltogether\b"
    r"|\b(?:the )?(?:total )?(?:number|amount|sum) of\b|\boverall\b|\ball told\b|\bcombined\b"
    rf"|\bhow\b|\bwhat {_WHO} (?:learned|learnt|know|said|did)(?: about)?\b",
    re.IGNORECASE,
)
_ASPECTS = LazyPattern(
    r"[,;]? (?:including|covering|such as|especially|with a focus on|focus(?:ing|ed) on) ", re.IGNORECASE
)
_LISTED = LazyPattern(r":\s+([^:]{3,600})$")
"""The items of "Put these in order: the flood, the fair, the launch"."""
_ASPECT_SEPARATOR = LazyPattern(r",? and |, ", re.IGNORECASE)


def topics(question: str) -> tuple[str, ...]:
    """Return the topic of a request, and one query for each aspect that it lists: "including costs and dates".

    If it lists the items themselves, they are the queries.
    """
    asked = question.partition("?")[0]
    if listed := _LISTED.search(asked):
        items = [item for each in _ASPECT_SEPARATOR.split(listed[1]) if _has_content(item := each.strip(" ,;.!"))]
        return tuple(items[:_MAX_LISTED]) if len(items) > 1 else ()
    listing = _ASPECTS.search(asked)
    topic = _plain(asked[: listing.start()] if listing else asked)
    if not _has_content(topic):
        return ()
    aspects = [_plain(each) for each in _ASPECT_SEPARATOR.split(asked[listing.end() :])] if listing else []
    return (topic, *(f"{topic}: {each}" for each in aspects[:_MAX_ASPECTS] if _has_content(each)))


def _plain(text: str) -> str:
    return " ".join(_REQUEST.sub(" ", text).split()).strip(" ,;:.?!")


def _has_content(text: str) -> bool:
    return any(word.lower() not in STOP_WORDS for word in _WORD.findall(text))


# Traits: "What could I bake for Ana?" shares no words with "Ana is allergic to nuts", on which the answer depends.

_MAX_PERSONS = 2
_RESTRICTIONS = "allergic to, cannot have, must avoid, afraid of, dislikes"
_LIKES = "likes, loves, favourite, hobby, wants"
_CAUTION = LazyPattern(
    r"\b(?:should(?:n't)?|careful|safe(?:ly)?|risky?|dangerous|worry|worried|avoid|suitable|suit|allowed|advise|advice|"
    r"recommend|suggest|(?:good|bad) idea|wise|gifts?|presents?|surprise)\b|\bwhy (?:can't|shouldn't|won't|wouldn't|"
    r"doesn't|isn't|not|would|might|should)\b|\b(?:can|could|may|might|will|would)\b.{0,60}\b(?:eat|drink|join|come|wear|"
    r"stay|manage|handle|enjoy|like|love|mind|object|choose|pick|prefer|cook|bake|serve|bring|buy|get|give)\b"
)
_TASTE = LazyPattern(
    r"\b(?:gifts?|presents?|surprise|enjoy|like|love|suit|recommend|suggest|ideas?|plan|pick|choose|cook|bake|bring|"
    r"serve|buy|get|give)\b"
)
_CAPITALISED = LazyPattern(r"(?<![.?!] )(?<!^)(?<!['’\w])[^\W\d_a-z][^\W\d_]+")
_NO_NAMES = STOP_WORDS | frozenset(
    "january february march april may june july august september october november december monday tuesday wednesday "
    "thursday friday saturday sunday christmas easter".split()
)
_FIRST_PERSON = LazyPattern(r"\b(?:i|me|my|we|us|our)\b")


def trait_queries(question: str) -> tuple[str, ...]:
    """Return queries for the restrictions, and where it matters the likes, of the persons in a request for advice.

    A question that asks for no judgement has none. Without a name they are those of the one who asks.
    """
    lowered = question.lower().replace("’", "'")
    if _CAUTION.search(lowered) is None:
        return ()
    persons = _persons_in(question)
    if not persons and _FIRST_PERSON.search(lowered) is None:
        return ()
    wanted = [_RESTRICTIONS, *([_LIKES] if _TASTE.search(lowered) else [])]
    return tuple(f"{person} {words}" for words in wanted for person in persons or ("I",))


def _persons_in(question: str) -> tuple[str, ...]:
    """Return the first capitalized words inside the sentences of a question, which are names of persons mostly."""
    found = (name for name in _CAPITALISED.findall(question) if name.lower() not in _NO_NAMES)
    return tuple(dict.fromkeys(found))[:_MAX_PERSONS]


# Statements that deny a yes-or-no question.

_QUESTION = LazyPattern(
    r"\W*(?:(?:so|and|but|ok|okay|well),? )?(?P<verb>have|has|did|was|were|am|is|are|do|does|had) "
    r"(?P<subject>i|we|he|she|it|they|(?:my|our|his|her|their|the) [\w'-]+|[\w'-]+(?: and [\w'-]+)?) "
    r"(?:(?:ever|really|actually|already) )?(?P<rest>[^?]{3,300})",
    re.IGNORECASE,
)


def opposite_statements(question: str) -> tuple[str, ...]:
    """Return "I never swam" and its like for "Did I ever swim?", or nothing if the question is of another form.

    The statement that affirms is as near to the question as the question itself, so it is not searched for again.
    """
    match = _QUESTION.match(" ".join(question.split()))
    if match is None:
        return ()
    verb = match["verb"].lower()
    auxiliary = f"{verb} " if verb in ("have", "has", "had", "was", "were", "am", "is", "are") else ""
    denial = "not" if verb in ("am", "is", "are") else "never"
    return (f"{match['subject']} {auxiliary}{denial} {match['rest'].strip(' .!,;')}",)
