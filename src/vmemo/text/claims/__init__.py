"""Sentences that state one exclusive value of an attribute."""
