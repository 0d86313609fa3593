"""Queries for what limits or guides an answer about someone: restrictions, fears and likes. Rules only, English.

"What could I bake for Ana?" shares no words with "Ana is allergic to nuts", on which the answer depends.
"""

from __future__ import annotations

from vmemo.text.lazy_regex import LazyPattern
from vmemo.text.tokens import STOP_WORDS

MAX_PERSONS = 2
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
_NAME = LazyPattern(r"(?<![.?!] )(?<!^)(?<!['’\w])[^\W\d_a-z][^\W\d_]+")
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
    persons = persons_in(question)
    if not persons and _FIRST_PERSON.search(lowered) is None:
        return ()
    wanted = [_RESTRICTIONS, *([_LIKES] if _TASTE.search(lowered) else [])]
    return tuple(f"{person} {words}" for words in wanted for person in persons or ("I",))


def persons_in(question: str) -> tuple[str, ...]:
    """Return the first capitalized words inside the sentences of a question, which are names of persons mostly."""
    found = (name for name in _NAME.findall(question) if name.lower() not in _NO_NAMES)
    return tuple(dict.fromkeys(found))[:MAX_PERSONS]
