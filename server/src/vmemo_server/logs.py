"""Server logs: one line per request and job, as text or JSON, without memory text and secrets.

Writing a line never fails or waits: a log whose reader has gone or stalls must not stop requests or jobs.
"""

from __future__ import annotations

import json
import logging
import select
import sys
import time
from collections import Counter
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Literal, TextIO

import structlog
from structlog.types import EventDict, FilteringBoundLogger, Processor, WrappedLogger

from vmemo.errors import VmemoError, named
from vmemo.models.results import Job
from vmemo_server.observability import RequestLog, location_of

LogFormat = Literal["text", "json"]
Level = Literal["info", "warning", "error"]
Field = str | int | float
MAX_VALUE_BYTES = 1_200
"""Bytes of a value after escaping. No line has more than two long ones: a bank or an event, and an error."""
SURELY_SHORT = MAX_VALUE_BYTES // 12
"""Characters that have no more bytes, however they are escaped."""
LINES_PER_MINUTE = 60
"""Equal lines of a minute that are written; of the others, their number."""
_MINUTE = 60.0
_MAX_DIFFERENT = 1_000
"""Different lines that are counted in a minute; all others count as one."""


class LineWriter:
    """Writes lines to a stream, and loses them if the stream is closed, or full because its reader stalls."""

    def __init__(self, to: TextIO | None) -> None:
        self._to = to
        self.lost = 0
        """Lines that could not be written since this was reset."""

    @property
    def ready(self) -> bool:
        """False if writing a line would block."""
        if self._to is None or not hasattr(select, "poll"):
            return True
        with suppress(OSError, ValueError):
            poll = select.poll()
            poll.register(self._to.fileno(), select.POLLOUT)
            return bool(poll.poll(0))
        return True

    def msg(self, line: str) -> None:
        """Write a line, unless that would block: a pipe that is ready takes `PIPE_BUF` bytes."""
        if self._to is None:
            return
        if not self.ready:
            self.lost += 1
            return
        with suppress(OSError, ValueError):
            self._to.write(line + "\n")
            self._to.flush()

    info = warning = error = msg


def logger(format: LogFormat, to: LineWriter) -> FilteringBoundLogger:
    """Return a logger of its own; the logging that the process has set up stays as it is."""
    text: list[Processor] = [_escape, structlog.dev.ConsoleRenderer(colors=False)]
    return structlog.wrap_logger(
        to,
        processors=[
            _shorten,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            *([structlog.processors.JSONRenderer()] if format == "json" else text),
        ],
        wrapper_class=structlog.make_filtering_bound_logger("info"),
    )


def _shorten(_logger: WrappedLogger, _level: str, fields: EventDict) -> EventDict:
    """Shorten values, so that a line has no more than `PIPE_BUF` bytes, which are written without blocking."""
    return {name: _short(value) if isinstance(value, str) else value for name, value in fields.items()}


def _short(text: str) -> str:
    if len(text) <= SURELY_SHORT or len(json.dumps(text)) <= MAX_VALUE_BYTES:
        return text
    return text[:SURELY_SHORT] + "…"


def _escape(_logger: WrappedLogger, _level: str, fields: EventDict) -> EventDict:
    """Escape characters that control a terminal or end a line; JSON escapes them itself."""
    return {name: escaped(value) if isinstance(value, str) else value for name, value in fields.items()}


def escaped(text: str) -> str:
    """Return the text with backslash escapes in place of characters that are not printable."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


@dataclass
class RepeatLimit:
    """Counts equal log lines of the current minute."""

    lines: int = LINES_PER_MINUTE
    clock: Callable[[], float] = time.monotonic
    _counts: Counter[str] = field(default_factory=Counter[str])
    _began: float = float("-inf")

    def admit(self, line: str) -> bool:
        """Count a line; return False if it was written often enough."""
        counted = line if line in self._counts or len(self._counts) < _MAX_DIFFERENT else "other lines"
        self._counts[counted] += 1
        return self._counts[counted] <= self.lines

    def suppressed(self, *, now: bool = False) -> dict[str, int]:
        """Return the lines that were not written, with their number, and count again from zero.

        Return nothing before the minute is over, unless `now` is set.
        """
        if not now and self.clock() - self._began < _MINUTE:
            return {}
        found = {line: count - self.lines for line, count in self._counts.items() if count > self.lines}
        self._counts.clear()
        self._began = self.clock()
        return found


class ServerLog:
    """Observer that writes log lines. Lines that a client without a key can cause are limited per minute."""

    def __init__(self, format: LogFormat, to: TextIO | None = None, repeats: RepeatLimit | None = None) -> None:
        # Without a standard error stream, sys.stderr is None.
        self._writer = LineWriter(to or sys.stderr)
        self._log = logger(format, self._writer)
        self._repeats = repeats or RepeatLimit()

    def request(self, log: RequestLog) -> None:
        always = {"method": log.method, "route": log.route, "status": log.status, "ms": round(log.seconds * 1000, 1)}
        if_set = {
            "interface": log.interface,
            "key": log.key,
            "bank": log.bank,
            "request": log.request,
            "error": log.unexpected,
        }
        fields = always | {name: value for name, value in if_set.items() if value}
        rejected = log.key is None and 400 <= log.status < 500
        repeated = f"request {log.method} {log.route} {log.status}" if rejected else None
        self._write("error" if log.status >= 500 else "info", "request", fields, repeated)

    def job(self, job: Job, error: Exception | None, seconds: float) -> None:
        fields = {"kind": job.kind, "bank": job.bank, "ms": round(seconds * 1000, 1)}
        if error is None:
            self._write("info", "job", fields)
        else:
            self._write("error", "job", fields | {"error": _describe(error)})

    def background_error(self, source: str, error: Exception) -> None:
        description = _describe(error)
        self._write("error", source, {"error": description}, f"{source} {description}")

    def info(self, event: str, **fields: Field) -> None:
        """Log an event of the server itself."""
        self._write("info", event, fields)

    def error(self, event: str, **fields: Field) -> None:
        """Log a failure of the server itself."""
        self._write("error", event, fields)

    def standard(self, record: logging.LogRecord) -> None:
        """Log a record of the standard library's logging: its first line, and the type and location of its error.

        Further lines and the error's text may quote a memory.
        """
        line = record.getMessage().partition("\n")[0]
        error = record.exc_info[1] if record.exc_info else None
        fields = {"logger": record.name} | ({} if error is None else {"error": location_of(error)})
        level = "error" if record.levelno >= logging.ERROR else "warning"
        self._write(level, line, fields, f"{record.name} {line}")

    @contextmanager
    def capture_standard(self) -> Generator[None]:
        """Log warnings and errors of other libraries here, unless the process has set up logging."""
        root, handler = logging.getLogger(), StandardHandler(self)
        if root.hasHandlers():
            yield
            return
        root.addHandler(handler)
        try:
            yield
        finally:
            root.removeHandler(handler)
            self._report_suppressed(now=True)

    def _write(self, level: Level, event: str, fields: Mapping[str, Field], repeated: str | None = None) -> None:
        self._report_suppressed()
        if self._writer.lost and self._writer.ready:
            lost, self._writer.lost = self._writer.lost, 0
            self._log.warning("lost", count=lost)
        if repeated is None or self._repeats.admit(repeated):
            getattr(self._log, level)(event, **fields)

    def _report_suppressed(self, *, now: bool = False) -> None:
        for line, count in self._repeats.suppressed(now=now).items():
            self._log.warning("suppressed", line=line, count=count)


class StandardHandler(logging.Handler):
    """Writes warnings and errors of other libraries to the server's log."""

    def __init__(self, log: ServerLog) -> None:
        super().__init__(logging.WARNING)
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        self._log.standard(record)


def _describe(error: Exception) -> str:
    """Describe an error. The text of vmemo's own errors quotes no memory; of others only type and place are safe."""
    return named(error) if isinstance(error, VmemoError) else location_of(error)
