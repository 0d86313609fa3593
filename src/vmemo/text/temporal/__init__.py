"""English time expressions: found in text, resolved against a reference, written back as absolute dates.

Numbers in words are merged first; then rules over the text's shape find dates, and later stages join them with
years, weekdays, distances, ranges and open sides. A range's interval ends where its second date begins, and a
window such as "the last 10 days" ends before today; `TimeExpression.broad_interval` takes these last days in.

A date without its year, and a bare weekday, may be past or to come. `find_times` reads them as a question
means them, of the past unless plans are asked for; `annotate` as somebody says them, by the tense of the clause.
"""

from __future__ import annotations

from vmemo.text.temporal.annotation import AnnotatedText, annotate
from vmemo.text.temporal.date_format import format_interval
from vmemo.text.temporal.find import TimeExpression, find_times

__all__ = ["AnnotatedText", "TimeExpression", "annotate", "find_times", "format_interval"]
