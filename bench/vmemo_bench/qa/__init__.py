"""E1 in QA mode: questions are answered from memory by one model and judged twice by another."""
