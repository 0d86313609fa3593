"""The sentences that state one exclusive value, as patterns over what follows the subject."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from vmemo.text.claims.values import VALUE_PARSERS, Attribute, favourite_category, favourite_value

_BEFORE = r"(?:(?P<adverb>now|just|recently|finally|officially|currently|still|actually) )?"
_AFTER = r"(?: (?P<after>now|nowadays|these days|instead|currently))?"
# A longer time ago says nothing about today: what was known since may be newer.
_WHEN = (
    r"(?: (?P<detail>(?:today|yesterday|tonight|this (?:morning|week|weekend|month)|last (?:night|week|weekend|month)"
    r"|over the weekend|on [A-Z][a-z]+day|(?:a|one|two|three|four|five|six|\d) (?:days?|weeks?) ago)"
    r"(?: \([^()]{1,40}\))?))?"
)
_ROLE = r"(?: (?P<detail>as (?:a|an|the|their) [\w -]{3,40}?))?"
_NEW = r"(?:(?P<new>new|current) )?"
_IS = r"(?:is|am)"
_HAS = r"(?:(?:has|have) )?"
# A bare past may tell of long ago: "I became a teacher".
_LATELY = r"(?:(?:has|have) (?:just |now |recently |finally )?|(?:just|recently|finally) )"
_NOW_IS = r"is (?:(?P<adverb>now|currently|actually|officially) )?"
_V = r"(?P<value>\S.*?)"
_AGREED = frozenset(("now", "just", "recently", "finally", "officially", "nowadays", "these days", "instead", "new"))


class SentenceForm(NamedTuple):
    """One kind of sentence: `event` tells of the change itself, `owned` follows "my" or a name's "'s"."""

    kind: str
    attribute: Attribute
    owned: bool
    event: bool
    pattern: re.Pattern[str]


class Statement(NamedTuple):
    """What a sentence states about its subject."""

    attribute: Attribute
    value: str
    about: str
    changes: bool
    event: bool
    detail: str


def _form(kind: str, attribute: Attribute, pattern: str, *, owned: bool = False, event: bool = False) -> SentenceForm:
    return SentenceForm(kind, attribute, owned, event, re.compile(pattern))


_FORMS = (
    _form("residence", "residence", rf"{_BEFORE}(?:lives?|resides?) in {_V}{_AFTER}"),
    _form("residence", "residence", rf"{_IS} {_BEFORE}(?:living|based) in {_V}{_AFTER}"),
    _form("moved", "residence", rf"{_HAS}{_BEFORE}(?:moved|relocated) (?:back )?to {_V}{_WHEN}", event=True),
    _form("moved", "residence", rf"{_HAS}{_BEFORE}moved (?P<detail>from \S.*?) to {_V}", event=True),
    _form("employer", "employer", rf"{_BEFORE}works? (?:at|for) {_V}{_ROLE}{_AFTER}"),
    _form("employer", "employer", rf"{_IS} {_BEFORE}working (?:at|for) {_V}{_ROLE}{_AFTER}"),
    _form("started", "employer", rf"{_HAS}{_BEFORE}started (?:(?:working|work) )?(?:at|for) {_V}{_WHEN}", event=True),
    _form(
        "started",
        "employer",
        rf"{_HAS}{_BEFORE}(?:started|got|landed|has|have) (?:a|my|his|her|their) new job (?:at|with) {_V}{_WHEN}",
        event=True,
    ),
    _form(
        "started",
        "employer",
        rf"{_LATELY}joined {_V} (?P<detail>as (?:a|an|the|their) [\w -]{{3,40}})",
        event=True,
    ),
    _form("works as", "job", rf"{_BEFORE}works? as (?:a|an) {_V}{_AFTER}"),
    _form("works as", "job", rf"{_IS} {_BEFORE}working as (?:a|an) {_V}{_AFTER}"),
    _form("job", "job", rf"{_IS} {_BEFORE}(?:a|an) {_V}{_AFTER}"),
    _form("job", "job", rf"{_LATELY}(?:became|become|got promoted to) (?:(?:a|an) )?{_V}{_WHEN}", event=True),
    _form("works as", "job", rf"{_HAS}{_BEFORE}started (?:a new job|working) as (?:a|an) {_V}{_WHEN}", event=True),
    _form(
        "phone",
        "phone",
        rf"{_NEW}(?:(?P<about>work|home|office|mobile|cell) )?(?:phone |telephone )?number {_NOW_IS}{_V}{_AFTER}",
        owned=True,
    ),
    _form(
        "email",
        "email",
        rf"{_NEW}(?:(?P<about>work|personal|private|school) )?(?:e-?mail)(?: address)? {_NOW_IS}{_V}{_AFTER}",
        owned=True,
    ),
    _form("age", "age", rf"{_IS} {_BEFORE}(?P<value>\d{{1,3}}) years? old{_AFTER}"),
    _form("age", "age", rf"{_HAS}{_BEFORE}turned (?P<value>\d{{1,3}}){_WHEN}", event=True),
    _form(
        "name",
        "name",
        rf"{_NEW}(?P<about>full name|name|surname|last name|first name|family name) {_NOW_IS}{_V}{_AFTER}",
        owned=True,
    ),
    _form(
        "name",
        "name",
        rf"{_LATELY}changed (?:my|his|her|their) (?P<about>name|surname|last name|first name) to {_V}",
        event=True,
    ),
    _form("thing", "thing", rf"(?P<about>[a-z]{{2,20}})'s name {_NOW_IS}{_V}{_AFTER}", owned=True),
    _form("thing", "thing", rf"(?P<about>[a-z]{{2,20}}) {_NOW_IS}(?:called|named) {_V}{_AFTER}", owned=True),
    _form("relationship", "relationship", rf"{_IS} {_BEFORE}{_V}(?: again)?{_AFTER}"),
    _form(
        "relationship",
        "relationship",
        rf"{_HAS}{_BEFORE}got(?:ten)? (?P<value>engaged|married|divorced){_WHEN}",
        event=True,
    ),
    _form("favourite", "favourite", rf"{_NEW}favou?rite (?P<about>[a-z ]{{3,30}}?) {_NOW_IS}{_V}{_AFTER}", owned=True),
    _form("timezone", "timezone", rf"{_NEW}time ?zone {_NOW_IS}{_V}(?: time)?{_AFTER}", owned=True),
    _form("timezone", "timezone", rf"{_IS} {_BEFORE}(?:in|on) (?:the )?{_V} time(?: ?zone)?{_AFTER}"),
    _form("car", "car", rf"{_BEFORE}drives? (?:a|an) {_V}{_AFTER}"),
    _form("car", "car", rf"{_NEW}car {_NOW_IS}(?:a|an) {_V}{_AFTER}", owned=True),
    _form("weight", "weight", rf"{_BEFORE}weighs? {_V}{_AFTER}"),
    _form("weight", "weight", rf"{_NEW}weight {_NOW_IS}{_V}{_AFTER}", owned=True),
    _form("height", "height", rf"{_IS} {_BEFORE}{_V} tall{_AFTER}"),
    _form("height", "height", rf"{_NEW}height {_NOW_IS}{_V}{_AFTER}", owned=True),
)
# Of oneself one says "I'm 34"; of anything else that may be a score, a page or a room.
_OWN_AGE = _form("age", "age", rf"{_IS} {_BEFORE}(?P<value>1[3-9]|[2-9]\d){_AFTER}")
_SAME_NUMBER = {"cell": "mobile"}
_SAME_NAME = {"last name": "surname", "family name": "surname", "full name": "name"}


def match_statement(rest: str, *, owned: bool, own: bool) -> Statement | None:
    """What the rest of a sentence states, if it is exactly one of the forms; `own` is what one says of oneself."""
    return next(_readings(rest, owned=owned, own=own), None)


def _readings(rest: str, *, owned: bool, own: bool) -> Iterator[Statement]:
    for form in (*_FORMS, _OWN_AGE) if own else _FORMS:
        match = form.pattern.fullmatch(rest) if form.owned is owned else None
        if match and (found := _stated(form, match.groupdict())):
            yield found


def _stated(form: SentenceForm, parts: dict[str, str | None]) -> Statement | None:
    about, text = parts.get("about") or "", parts["value"] or ""
    if form.kind == "favourite":
        about = favourite_category(about) or ""
        value = favourite_value(about, text) if about else None
    else:
        about = _SAME_NUMBER.get(about, _SAME_NAME.get(about, about))
        value = VALUE_PARSERS[form.kind](text)
    if value is None:
        return None
    marks = {parts.get("adverb"), parts.get("after"), parts.get("new")}
    changes = form.event or (bool(marks & _AGREED) and "still" not in marks)
    return Statement(form.attribute, value, about, changes, form.event, (parts.get("detail") or "").casefold())
