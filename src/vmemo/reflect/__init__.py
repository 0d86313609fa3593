"""Answers from memory in a bank's character, and the opinions and observations that are derived from facts."""
