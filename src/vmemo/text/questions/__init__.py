"""Analysis of questions: type, time and sub-queries."""

from __future__ import annotations

from vmemo.text.questions.analyse import QueryAnalysis, analyse_query, is_over, question_tense
from vmemo.text.questions.types import MAX_QUERY_CHARS, asks_for_profile
from vmemo.text.questions.unresolved_times import UnresolvedTime, find_unresolved_times

__all__ = [
    "MAX_QUERY_CHARS",
    "QueryAnalysis",
    "UnresolvedTime",
    "analyse_query",
    "asks_for_profile",
    "find_unresolved_times",
    "is_over",
    "question_tense",
]
