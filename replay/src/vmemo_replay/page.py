"""A report as one HTML page that works offline."""

from __future__ import annotations
from vmemo_replay.report import Report
def page(report: Report) -> str:
    return ""
