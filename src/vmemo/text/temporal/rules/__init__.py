"""Rules of the time grammar, in the stages in which they are applied."""

from __future__ import annotations

from vmemo.text.temporal.grammar import Stage
from vmemo.text.temporal.rules import (
    counted,
    dates,
    holidays,
    lengths,
    numbers,
    offsets,
    periods,
    qualifiers,
    ranges,
    relative,
    seasons,
    subperiods,
    weekdays,
)

NUMBER_STAGES = (Stage(*numbers.RULES), Stage(*lengths.RULES), Stage(*lengths.SUM_RULES))
"""Stages that merge numbers and lengths of time, which do not depend on the reference."""
DATE_STAGE = Stage(
    *dates.RULES,
    *periods.RULES,
    *holidays.RULES,
    *seasons.RULES,
    *relative.RULES,
    *counted.RULES,
    *weekdays.RULES,
)
COMBINATION_STAGES = (
    Stage(*qualifiers.YEAR_RULES),
    Stage(*qualifiers.WEEKDAY_RULES, *qualifiers.PART_RULES, *subperiods.RULES),
    Stage(*subperiods.WEEKDAY_RULES, *offsets.RULES, *qualifiers.PART_RULES, *qualifiers.SHARED_YEAR_RULES),
    Stage(*offsets.WEEKDAY_RULES, *qualifiers.SHARED_YEAR_RULES),
    Stage(*ranges.RANGE_RULES),
    Stage(*ranges.OPEN_RANGE_RULES),
)
"""Stages that combine dates with their qualifiers, distances and each other."""

__all__ = ["COMBINATION_STAGES", "DATE_STAGE", "NUMBER_STAGES"]
