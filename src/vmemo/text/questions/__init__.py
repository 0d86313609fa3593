"""Analysis of questions: type, time and sub-queries."""
