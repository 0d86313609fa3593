"""Logs: a line for each request and each piece of work, as text or JSON, without a word of any memory and no secret."""

from __future__ import annotations

import sys
from typing import Literal, TextIO

import structlog
from structlog.types import FilteringBoundLogger, Processor

from vmemo.errors import VmemoError, public_name
from vmemo.models.results import Job
from vmemo.server.observability import Seen, place_of

Format = Literal["text", "json"]


def logger(format: Format, to: TextIO | None = None) -> FilteringBoundLogger:
    """A logger of its own: nothing that the process has set up for its own logs is touched."""
    text = structlog.dev.ConsoleRenderer(colors=False)
    shape: Processor = structlog.processors.JSONRenderer() if format == "json" else text
    return structlog.wrap_logger(
        structlog.PrintLogger(to or sys.stderr),
        processors=[structlog.processors.add_log_level, structlog.processors.TimeStamper(fmt="iso", utc=True), shape],
        wrapper_class=structlog.make_filtering_bound_logger("info"),
    )


class Log:
    """Writes what is watched."""

    def __init__(self, format: Format, to: TextIO | None = None) -> None:
        self._log = logger(format, to)

    def request(self, seen: Seen) -> None:
        """One line for a request."""
        told = {"method": seen.method, "route": seen.route, "status": seen.status, "ms": round(seen.seconds * 1000, 1)}
        more = {"door": seen.door, "key": seen.key, "bank": seen.bank, "request": seen.request, "error": seen.surprise}
        say = self._log.error if seen.status >= 500 else self._log.info
        say("request", **told, **{name: value for name, value in more.items() if value})

    def work(self, job: Job, error: Exception | None, seconds: float) -> None:
        """One line for a piece of work."""
        told = {"kind": job.kind, "bank": job.bank, "ms": round(seconds * 1000, 1)}
        if error is None:
            self._log.info("work", **told)
        else:
            self._log.error("work", **told, error=_said(error))

    def trouble(self, what: str, error: Exception) -> None:
        """One line for a trouble."""
        self._log.error(what, error=_said(error))

    def say(self, what: str, **more: str | int | float) -> None:
        """A line of the server's own."""
        self._log.info(what, **more)


def _said(error: Exception) -> str:
    """Our own errors quote no memory; of others only kind and place are safe to tell."""
    return f"{public_name(error)}: {error}" if isinstance(error, VmemoError) else place_of(error)
