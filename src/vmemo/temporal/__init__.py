"""English time expressions: found in text, resolved against a reference, written back as absolute dates."""

from __future__ import annotations

from vmemo.temporal.finding import TimeExpression, find
from vmemo.temporal.rendering import annotate, readable

__all__ = ["TimeExpression", "annotate", "find", "readable"]
