"""Sentence forms that state one exclusive value, as patterns for the text after the subject."""

from __future__ import annotations

import re
from typing import NamedTuple

from vmemo.text.claims.values import VALUE_PARSERS, Attribute, favourite_category, favourite_value

_ADVERB = r"(?:(?P<adverb>now|just|recently|finally|officially|currently|still|actually) )?"
_SUFFIX = r"(?: (?P<after>now|nowadays|these days|instead|currently))?"
# Longer ago is not accepted: a fact stored since then may be newer.
_WHEN = (
    r"(?: (?P<detail>(?:today|yesterday|tonight|this (?:morning|week|weekend|month)|last (?:night|week|weekend|month)"
    r"|over the weekend|on [A-Z][a-z]+day|(?:a|one|two|three|four|five|six|\d) (?:days?|weeks?) ago)"
    r"(?: \([^()]{1,40}\))?))?"
)
_AS_ROLE = r"(?: (?P<detail>as (?:a|an|the|their) [\w -]{3,40}?))?"
_NEW = r"(?:(?P<new>new|current) )?"
_IS = r"(?:is|am)"
_HAS = r"(?:(?:has|have) )?"
# A simple past may be long ago: "I became a teacher".
_RECENTLY = r"(?:(?:has|have) (?:just |now |recently |finally )?|(?:just|recently|finally) )"
_NOW_IS = r"is (?:(?P<adverb>now|currently|actually|officially) )?"
_VALUE = r"(?P<value>\S.*?)"
_CHANGE_ADVERBS = frozenset(
    ("now", "just", "recently", "finally", "officially", "nowadays", "these days", "instead", "new")
)


class SentenceForm(NamedTuple):
    """A form of sentence, and the attribute that it states."""

    value_type: str
    """Key of the value parser."""
    attribute: Attribute
    owned: bool
    """Follows a possessive: "my", or a name with "'s"."""
    event: bool
    """Reports the change itself, as "moved to" does."""
    pattern: re.Pattern[str]


class Statement(NamedTuple):
    """The value that a sentence states, without its subject; see `Claim` for the fields."""

    attribute: Attribute
    value: str
    about: str
    changes: bool
    event: bool
    detail: str


def _form(
    value_type: str, attribute: Attribute, pattern: str, *, owned: bool = False, event: bool = False
) -> SentenceForm:
    return SentenceForm(value_type, attribute, owned, event, re.compile(pattern))


_FORMS = (
    _form("residence", "residence", rf"{_ADVERB}(?:lives?|resides?) in {_VALUE}{_SUFFIX}"),
    _form("residence", "residence", rf"{_IS} {_ADVERB}(?:living|based) in {_VALUE}{_SUFFIX}"),
    _form("moved", "residence", rf"{_HAS}{_ADVERB}(?:moved|relocated) (?:back )?to {_VALUE}{_WHEN}", event=True),
    _form("moved", "residence", rf"{_HAS}{_ADVERB}moved (?>(?P<detail>from \S.*?) to ){_VALUE}", event=True),
    _form("employer", "employer", rf"{_ADVERB}works? (?:at|for) {_VALUE}{_AS_ROLE}{_SUFFIX}"),
    _form("employer", "employer", rf"{_IS} {_ADVERB}working (?:at|for) {_VALUE}{_AS_ROLE}{_SUFFIX}"),
    _form(
        "started",
        "employer",
        rf"{_HAS}{_ADVERB}started (?:(?:working|work) )?(?:at|for) {_VALUE}{_WHEN}",
        event=True,
    ),
    _form(
        "started",
        "employer",
        rf"{_HAS}{_ADVERB}(?:started|got|landed|has|have) (?:a|my|his|her|their) new job (?:at|with) {_VALUE}{_WHEN}",
        event=True,
    ),
    _form(
        "started",
        "employer",
        rf"{_RECENTLY}joined {_VALUE} (?P<detail>as (?:a|an|the|their) [\w -]{{3,40}})",
        event=True,
    ),
    _form("works as", "job", rf"{_ADVERB}works? as (?:a|an) {_VALUE}{_SUFFIX}"),
    _form("works as", "job", rf"{_IS} {_ADVERB}working as (?:a|an) {_VALUE}{_SUFFIX}"),
    _form("job", "job", rf"{_IS} {_ADVERB}(?:a|an) {_VALUE}{_SUFFIX}"),
    _form("job", "job", rf"{_RECENTLY}(?:became|become|got promoted to) (?:(?:a|an) )?{_VALUE}{_WHEN}", event=True),
    _form("works as", "job", rf"{_HAS}{_ADVERB}started (?:a new job|working) as (?:a|an) {_VALUE}{_WHEN}", event=True),
    _form(
        "phone",
        "phone",
        rf"{_NEW}(?:(?P<about>work|home|office|mobile|cell) )?(?:phone |telephone )?number {_NOW_IS}{_VALUE}{_SUFFIX}",
        owned=True,
    ),
    _form(
        "email",
        "email",
        rf"{_NEW}(?:(?P<about>work|personal|private|school) )?(?:e-?mail)(?: address)? {_NOW_IS}{_VALUE}{_SUFFIX}",
        owned=True,
    ),
    _form("age", "age", rf"{_IS} {_ADVERB}(?P<value>\d{{1,3}}) years? old{_SUFFIX}"),
    _form("age", "age", rf"{_HAS}{_ADVERB}turned (?P<value>\d{{1,3}}){_WHEN}", event=True),
    _form(
        "name",
        "name",
        rf"{_NEW}(?P<about>full name|name|surname|last name|first name|family name) {_NOW_IS}{_VALUE}{_SUFFIX}",
        owned=True,
    ),
    _form(
        "name",
        "name",
        rf"{_RECENTLY}changed (?:my|his|her|their) (?P<about>name|surname|last name|first name) to {_VALUE}",
        event=True,
    ),
    _form("thing", "thing", rf"(?P<about>[a-z]{{2,20}})'s name {_NOW_IS}{_VALUE}{_SUFFIX}", owned=True),
    _form("thing", "thing", rf"(?P<about>[a-z]{{2,20}}) {_NOW_IS}(?:called|named) {_VALUE}{_SUFFIX}", owned=True),
    _form("relationship", "relationship", rf"{_IS} {_ADVERB}{_VALUE}(?: again)?{_SUFFIX}"),
    _form(
        "relationship",
        "relationship",
        rf"{_HAS}{_ADVERB}got(?:ten)? (?P<value>engaged|married|divorced){_WHEN}",
        event=True,
    ),
    _form(
        "favourite",
        "favourite",
        rf"{_NEW}favou?rite (?P<about>[a-z ]{{3,30}}?) {_NOW_IS}{_VALUE}{_SUFFIX}",
        owned=True,
    ),
    _form("timezone", "timezone", rf"{_NEW}time ?zone {_NOW_IS}{_VALUE}(?: time)?{_SUFFIX}", owned=True),
    _form("timezone", "timezone", rf"{_IS} {_ADVERB}(?:in|on) (?:the )?{_VALUE} time(?: ?zone)?{_SUFFIX}"),
    _form("car", "car", rf"{_ADVERB}drives? (?:a|an) {_VALUE}{_SUFFIX}"),
    _form("car", "car", rf"{_NEW}car {_NOW_IS}(?:a|an) {_VALUE}{_SUFFIX}", owned=True),
    _form("weight", "weight", rf"{_ADVERB}weighs? {_VALUE}{_SUFFIX}"),
    _form("weight", "weight", rf"{_NEW}weight {_NOW_IS}{_VALUE}{_SUFFIX}", owned=True),
    _form("height", "height", rf"{_IS} {_ADVERB}{_VALUE} tall{_SUFFIX}"),
    _form("height", "height", rf"{_NEW}height {_NOW_IS}{_VALUE}{_SUFFIX}", owned=True),
)
# Only in the first person is a bare number an age; "she is 34" may be about a score.
_FIRST_PERSON_AGE = _form("age", "age", rf"{_IS} {_ADVERB}(?P<value>1[3-9]|[2-9]\d){_SUFFIX}")
_SYNONYMS = {"cell": "mobile", "last name": "surname", "family name": "surname", "full name": "name"}


def match_statement(predicate: str, *, owned: bool, first_person: bool) -> Statement | None:
    """Return what a predicate states, if it has exactly one of the forms."""
    for form in (*_FORMS, _FIRST_PERSON_AGE) if first_person else _FORMS:
        match = form.pattern.fullmatch(predicate) if form.owned is owned else None
        if match and (found := _statement(form, match.groupdict())):
            return found
    return None


def _statement(form: SentenceForm, parts: dict[str, str | None]) -> Statement | None:
    about, text = parts.get("about") or "", parts["value"] or ""
    if form.value_type == "favourite":
        about = favourite_category(about) or ""
        value = favourite_value(about, text) if about else None
    else:
        about = _SYNONYMS.get(about, about)
        value = VALUE_PARSERS[form.value_type](text)
    if value is None:
        return None
    adverbs = {parts.get("adverb"), parts.get("after"), parts.get("new")}
    changes = form.event or (bool(adverbs & _CHANGE_ADVERBS) and "still" not in adverbs)
    return Statement(form.attribute, value, about, changes, form.event, (parts.get("detail") or "").casefold())
