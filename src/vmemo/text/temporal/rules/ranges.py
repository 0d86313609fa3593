"""Ranges between two dates, and ranges with an open side: "from May to July", "since 2019", "by Friday"."""

from __future__ import annotations

from dataclasses import replace
from datetime import date

from vmemo.text.temporal.calendar_units import MONTH, add_days, add_units, make_date, next_weekday
from vmemo.text.temporal.day_range import DayRange, display_last_day, in_year, range_between, single_day
from vmemo.text.temporal.grammar import Rule, RuleMatch

_DAY_KINDS = ("day", "weekday", "offset")


def _range(match: RuleMatch) -> DayRange | None:
    """Resolve "from 3 May to 5 June 2021"; a year that only one side names applies to both."""
    first, last = match.days("first"), match.days("last")
    found = range_between(*_aligned(first, last))
    # "Monday to Friday" is any week.
    is_timetable = first.kind == "weekday" and last.kind == "weekday"
    return replace(found, certain=False) if found and is_timetable else found


def _aligned(first: DayRange, last: DayRange) -> tuple[DayRange, DayRange]:
    """Return both with a weekday or yearless date placed before or after the other side."""
    if last.kind == "weekday" and first.start and last.start:
        start = next_weekday(first.start, last.start.weekday())
        return first, replace(last, start=start, end=add_days(start, 1))
    if first.yearly and last.yearly is None and last.start:
        return _placed_before(first, last, last.start.year), last
    if last.yearly and first.start:
        return first, _placed_after(first, last, first.start.year)
    return first, last


def _placed_before(first: DayRange, last: DayRange, year: int) -> DayRange:
    placed = (in_year(first, each, relative=first.relative and last.relative) for each in (year, year - 1))
    return next(
        (each for each in placed if each and each.boundary and last.boundary and each.boundary < last.boundary), first
    )


def _placed_after(first: DayRange, last: DayRange, year: int) -> DayRange:
    placed = (in_year(last, each, relative=first.relative) for each in (year, year + 1))
    return next(
        (
            each
            for each in placed
            if each and each.boundary and first.boundary and each.boundary >= first.boundary and each != first
        ),
        last,
    )


def _to_ordinal(match: RuleMatch) -> DayRange | None:
    """Resolve "April ninth through the 17th"."""
    first, ordinal = match.days("first"), match.value("ordinal")
    if first.start is None:
        return None
    end = make_date(first.start.year, first.start.month, ordinal)
    if end is None or end <= first.start:
        next_month = add_units(first.start.replace(day=1), 1, MONTH)
        end = next_month and make_date(next_month.year, next_month.month, ordinal)
    last = single_day(end, relative=first.relative)
    return last and range_between(first, last)


def _from_now(match: RuleMatch) -> DayRange | None:
    last, today = match.days("last"), match.today
    end = last.boundary
    if last.kind == "weekday" and last.start:
        end = next_weekday(today, last.start.weekday())
    if last.yearly and end and end <= today:
        later = in_year(last, today.year, relative=True), in_year(last, today.year + 1, relative=True)
        end = next((each.boundary for each in later if each and each.boundary and each.boundary > today), None)
    return DayRange(today, end) if end and end > today else None


def _until_now(match: RuleMatch) -> DayRange | None:
    start = match.days("first").boundary
    found = DayRange(start, match.today) if start and start < match.today else None
    return found and display_last_day(found)


def _open(base: DayRange, start: date | None, end: date | None) -> DayRange:
    """Return a range with an open side that is annotated with the date it is bounded by."""
    annotated_as = base.displayed or base.bounds
    return DayRange(
        start,
        end,
        relative=base.relative,
        certain=base.certain,
        unannotated=base.unannotated,
        annotated_as=annotated_as,
        part=base.part,
        whole=base.whole,
        either_direction=base.either_direction or base.kind == "weekday",
    )


def _before(match: RuleMatch) -> DayRange | None:
    base = match.days("base")
    return base.boundary and _open(base, None, base.boundary)


def _until(match: RuleMatch) -> DayRange | None:
    """Resolve "by 10 July": it ends where that day starts, but a search includes the day."""
    found = _before(match)
    return found and replace(found, searched=(None, match.days("base").end))


def _as_of(match: RuleMatch) -> DayRange | None:
    """Resolve "as of June": in a statement from then on, in a question what was known up to then."""
    found = _since(match)
    return found and replace(found, searched=(None, match.days("base").end))


def _after(match: RuleMatch) -> DayRange | None:
    """Resolve "after 2010" from the end of that year; "after 3 May" starts with the day itself."""
    base = match.days("base")
    start = base.start if base.kind in _DAY_KINDS else base.end
    return start and _open(base, start, None)


def _since(match: RuleMatch) -> DayRange | None:
    base = match.days("base")
    return base.boundary and _open(base, base.boundary, None)


def _through(match: RuleMatch) -> DayRange | None:
    base = match.days("base")
    return base.end and _open(base, None, base.end)


_NOT_AFTER_VERB = "(?<!is|are|was|be|am|m|re|we|i|they|it)"
_CLAUSE_ENDS = "(?=$|STOP|COMMA|or|and|HYPHEN)"

RANGE_RULES = (
    Rule("(from|between|in|during|on)? first=ANY (TO|MORE) (the|from)? last=ANY", _range),
    Rule("between first=ANY and last=ANY", _range),
    Rule("(from|between) first=ANY (TO|and) last=ANY", _range),
    Rule("(from|between)? first=(DAYF|DAYX) TO the? ordinal=(ORDNUM|ORDINAL|ORDONE|ORDTEEN) (?!WORD)", _to_ordinal),
    Rule("(from|between) now (and|TO) last=ANY", _from_now),
    Rule("(from|between)? first=ANY (and|TO) now", _until_now),
)
OPEN_RANGE_RULES = (
    Rule("(before|previous to) (the|at|on)? base=ANY", _before),
    Rule("(until|till|til|up to|up until) (the|at|on)? base=ANY", _until),
    Rule("by the? base=ANY", _until),
    Rule("(no later|no more|earlier|sooner) than base=ANY", _before),
    Rule("as LATE as base=ANY", _before),
    Rule("(after|MORE) the? base=ANY", _after),
    Rule("later than base=ANY", _after),
    Rule("no later than base=ANY", _before),
    Rule("no earlier than base=ANY", _since),
    Rule("since (on|from|in|the)? base=ANY", _since),
    Rule(f"{_NOT_AFTER_VERB} (starting|beginning) (on|from|in|the)? base=ANY", _since),
    Rule("as EARLY as base=ANY", _since),
    Rule("as of base=ANY", _as_of),
    Rule("on or after base=ANY", _since),
    Rule("after or on base=ANY", _since),
    Rule("on or before base=ANY", _through),
    Rule("before or on base=ANY", _through),
    Rule("MORE EQUALS base=ANY", _since),
    Rule("LESS EQUALS base=ANY", _through),
    Rule("LESS base=ANY", _before),
    Rule("from base=ANY (on|onward|onwards|forward)", _since),
    Rule(f"base=ANY (and|or) (later|after|greater|onward|onwards|beyond) {_CLAUSE_ENDS}", _since),
    Rule(f"base=ANY (and|or) (earlier|before) {_CLAUSE_ENDS}", _through),
)
