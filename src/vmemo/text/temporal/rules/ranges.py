"""Last stages: a range between two dates, and sides that stay open."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, timedelta

from vmemo.text.temporal.day_range import (
    MONTH,
    Days,
    Stretch,
    between,
    fixed_day,
    in_year,
    make_day,
    shift,
    through_last_day,
)
from vmemo.text.temporal.grammar import rule
from vmemo.text.temporal.patterns import tags_of
from vmemo.text.temporal.reading import Reading, Scene

_WHOLE_DAYS = ("day", "weekday", "offset")
_NUMBERED = tags_of("DD")


def _range(reading: Reading) -> Stretch | None:
    """From where A begins to where B begins, the year that only one of them names being that of both."""
    first, last = _agree(reading.stretch("a"), reading.stretch("b"), reading.scene)
    return between(first, last)


def _agree(first: Stretch, last: Stretch, scene: Scene) -> tuple[Stretch, Stretch]:
    if last.kind == "weekday" and first.start and last.start:
        days = (last.start.weekday() - first.start.weekday() - 1) % 7 + 1
        start = first.start + timedelta(days=days)
        return first, replace(last, start=start, end=start + timedelta(days=1))
    if first.yearly and last.yearly is None and last.start:
        return _before(first, last, last.start.year), last
    if last.yearly and first.start:
        return first, _after(first, last, first.start.year)
    return first, last


def _before(first: Stretch, last: Stretch, year: int) -> Stretch:
    placed = (in_year(first, each, relative=first.relative and last.relative) for each in (year, year - 1))
    return next((each for each in placed if each and each.point and last.point and each.point < last.point), first)


def _after(first: Stretch, last: Stretch, year: int) -> Stretch:
    placed = (in_year(last, each, relative=first.relative) for each in (year, year + 1))
    return next((each for each in placed if each and each.point and first.point and each.point > first.point), last)


def _to_day_number(reading: Reading) -> Stretch | None:
    """april ninth through the 17th."""
    a, number = reading.stretch("a"), reading.value("o")
    if a.start is None:
        return None
    end = make_day(a.start.year, a.start.month, number)
    if end is None or end <= a.start:
        following = shift(a.start.replace(day=1), 1, MONTH)
        end = following and make_day(following.year, following.month, number)
    last = fixed_day(end, relative=a.relative)
    return last and between(a, last)


def _from_now(reading: Reading) -> Stretch | None:
    b, today = reading.stretch("b"), reading.scene.today
    end = b.point
    if b.kind == "weekday" and b.start:
        end = today + timedelta(days=(b.start.weekday() - today.weekday() - 1) % 7 + 1)
    if b.yearly and end and end <= today:
        later = in_year(b, today.year, relative=True), in_year(b, today.year + 1, relative=True)
        end = next((each.point for each in later if each and each.point and each.point > today), None)
    return Stretch(today, end) if end and end > today else None


def _until_now(reading: Reading) -> Stretch | None:
    start = reading.stretch("a").point
    found = Stretch(start, reading.scene.today) if start and start < reading.scene.today else None
    return found and through_last_day(found)


def _shown(x: Stretch) -> Days | None:
    return x.shown or x.days


def _open(x: Stretch, start: date | None, end: date | None) -> Stretch:
    return Stretch(start, end, relative=x.relative, quiet=x.quiet, label=_shown(x))


def _before_it(reading: Reading) -> Stretch | None:
    x = reading.stretch("x")
    return x.point and _open(x, None, x.point)


def _by_then(reading: Reading) -> Stretch | None:
    """by, until, up to: the far border is where it begins, and people mean it to be inside."""
    x, found = reading.stretch("x"), _before_it(reading)
    return found and replace(found, meant=(None, x.end))


def _as_of(reading: Reading) -> Stretch | None:
    """Valid from then on when told; when asked, what was so until then."""
    x, found = reading.stretch("x"), _since(reading)
    return found and replace(found, meant=(None, x.end))


def _after_it(reading: Reading) -> Stretch | None:
    """After a day begins with that day; after a longer stretch begins where the stretch ends."""
    x = reading.stretch("x")
    start = x.start if x.kind in _WHOLE_DAYS else x.end
    return start and _open(x, start, None)


def _since(reading: Reading) -> Stretch | None:
    x = reading.stretch("x")
    return x.point and _open(x, x.point, None)


def _up_to_its_end(reading: Reading) -> Stretch | None:
    x = reading.stretch("x")
    return x.end and _open(x, None, x.end)


_NO_VERB = "(?<!is|are|was|be|am|m|re|we|i|they|it)"
_CLOSED = "(?=$|STOP|COMMA|or|and|HYPHEN)"

RANGES = (
    rule("(from|between|in|during|on)? a=ANY (TO|MORE) (the|from)? b=ANY", _range),
    rule("between a=ANY and b=ANY", _range),
    rule("(from|between) a=ANY (TO|and) b=ANY", _range),
    rule("(from|between)? a=(DAYF|DAYX) TO the? o=(ORDNUM|ORDINAL|ORDONE|ORDTEEN) (?!WORD)", _to_day_number),
    rule("(from|between) now (and|TO) b=ANY", _from_now),
    rule("(from|between)? a=ANY (and|TO) now", _until_now),
)
BOUNDS = (
    rule("(before|previous to) (the|at|on)? x=ANY", _before_it),
    rule("(until|till|til|up to|up until) (the|at|on)? x=ANY", _by_then),
    rule("by the? x=ANY", _by_then),
    rule("(no later|no more|earlier|sooner) than x=ANY", _before_it),
    rule("as LATE as x=ANY", _before_it),
    rule("(after|MORE) the? x=ANY", _after_it),
    rule("later than x=ANY", _after_it),
    rule("no later than x=ANY", _before_it),
    rule("no earlier than x=ANY", _since),
    rule("since (on|from|in|the)? x=ANY", _since),
    rule(f"{_NO_VERB} (starting|beginning) (on|from|in|the)? x=ANY", _since),
    rule("as EARLY as x=ANY", _since),
    rule("as of x=ANY", _as_of),
    rule("on or after x=ANY", _since),
    rule("after or on x=ANY", _since),
    rule("on or before x=ANY", _up_to_its_end),
    rule("before or on x=ANY", _up_to_its_end),
    rule("MORE EQUALS x=ANY", _since),
    rule("LESS EQUALS x=ANY", _up_to_its_end),
    rule("LESS x=ANY", _before_it),
    rule("from x=ANY (on|onward|onwards|forward)", _since),
    rule(f"x=ANY (and|or) (later|after|greater|onward|onwards|beyond) {_CLOSED}", _since),
    rule(f"x=ANY (and|or) (earlier|before) {_CLOSED}", _up_to_its_end),
)
