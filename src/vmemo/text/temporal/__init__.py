"""English time expressions: found in text, resolved against a reference time, and written as absolute dates.

`find_times` is for questions: a weekday, or a date without a year, is in the past unless the question is about plans.
`find_statement_times` is for statements: the tense of the clause decides. Both return likely readings too, for search.
`annotate` writes dates into a statement, and only those that are `certain`; `date_text` also returns the likely ones,
for embeddings, and the doubtful ones that a reader may accept.

A text is tokenized, and the rules of `rules.txt` are applied in stages: numbers, dates, then combinations of dates with
years, weekdays, distances and each other. `interval` of "from 3 to 5 May" ends where the 5th starts, and that of "the
last 10 days" ends before today; `broad_interval` includes these days.
"""

from __future__ import annotations

from vmemo.text.temporal.annotation import (
    DATE as DATE,
    DatedText as DatedText,
    DoubtfulDate as DoubtfulDate,
    annotate as annotate,
    date_text as date_text,
    find_statement_times as find_statement_times,
    with_doubtful as with_doubtful,
)
from vmemo.text.temporal.find import TimeExpression as TimeExpression, find_times as find_times
from vmemo.text.temporal.format import format_interval as format_interval
