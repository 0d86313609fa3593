"""Analysis of questions: type, time and sub-queries."""

from __future__ import annotations

from vmemo.text.questions.analyse import MAX_QUERY_CHARS, QueryAnalysis, analyse_query, is_over
from vmemo.text.questions.types import asks_for_profile

__all__ = ["MAX_QUERY_CHARS", "QueryAnalysis", "analyse_query", "asks_for_profile", "is_over"]
