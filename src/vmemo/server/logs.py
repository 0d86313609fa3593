"""Server logs: one line per request and job, as text or JSON, without memory text and secrets."""

from __future__ import annotations

import sys
from typing import Literal, TextIO

import structlog
from structlog.types import FilteringBoundLogger, Processor

from vmemo.errors import VmemoError, named
from vmemo.models.results import Job
from vmemo.server.observability import RequestLog, location_of

LogFormat = Literal["text", "json"]


def logger(format: LogFormat, to: TextIO | None = None) -> FilteringBoundLogger:
    """Return a logger of its own; the logging that the process has set up stays as it is."""
    text = structlog.dev.ConsoleRenderer(colors=False)
    renderer: Processor = structlog.processors.JSONRenderer() if format == "json" else text
    return structlog.wrap_logger(
        structlog.PrintLogger(to or sys.stderr),
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger("info"),
    )


class ServerLog:
    """Observer that writes log lines."""

    def __init__(self, format: LogFormat, to: TextIO | None = None) -> None:
        self._log = logger(format, to)

    def request(self, log: RequestLog) -> None:
        """Log a request."""
        always = {"method": log.method, "route": log.route, "status": log.status, "ms": round(log.seconds * 1000, 1)}
        if_set = {
            "interface": log.interface,
            "key": log.key,
            "bank": log.bank,
            "request": log.request,
            "error": log.unexpected,
        }
        write = self._log.error if log.status >= 500 else self._log.info
        write("request", **always, **{name: value for name, value in if_set.items() if value})

    def job(self, job: Job, error: Exception | None, seconds: float) -> None:
        """Log a job."""
        fields = {"kind": job.kind, "bank": job.bank, "ms": round(seconds * 1000, 1)}
        if error is None:
            self._log.info("job", **fields)
        else:
            self._log.error("job", **fields, error=_describe(error))

    def background_error(self, source: str, error: Exception) -> None:
        """Log an error that no response reports."""
        self._log.error(source, error=_describe(error))

    def info(self, event: str, **fields: str | int | float) -> None:
        """Log an event of the server itself."""
        self._log.info(event, **fields)


def _describe(error: Exception) -> str:
    """Describe an error. The text of vmemo's own errors quotes no memory; of others only type and place are safe."""
    return named(error) if isinstance(error, VmemoError) else location_of(error)
