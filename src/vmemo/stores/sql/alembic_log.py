"""Silence for Alembic's log lines about the schema of this library, which an application's log must not contain."""

from __future__ import annotations

import logging
import threading
from collections.abc import Generator
from contextlib import contextmanager

_LOGGERS = ("alembic.runtime.plugins", "alembic.runtime.migration")
"""Loggers that write on import and during an upgrade."""


@contextmanager
def quiet_alembic() -> Generator[None]:
    """Drop Alembic's lines below warnings in this thread; those of the application's own migrations stay."""
    thread = threading.get_ident()

    def keeps(record: logging.LogRecord) -> bool:
        return record.thread != thread or record.levelno >= logging.WARNING

    loggers = [logging.getLogger(name) for name in _LOGGERS]
    for logger in loggers:
        logger.addFilter(keeps)
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeFilter(keeps)
