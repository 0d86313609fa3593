"""The server's log: safe for terminals, limited, and never a reason to fail."""

from __future__ import annotations

import json
import logging
import os
import select
import sys
from collections.abc import Iterator
from contextlib import suppress
from io import StringIO

import pytest

from vmemo_server.logs import LineWriter, LogFormat, RepeatLimit, ServerLog
from vmemo_server.observability import CompositeObserver, RequestLog

HOSTILE = [
    "\x1b[2J\x1b[1;31mFAKE",
    "x\n2026-01-01T00:00:00Z [info] fake",
    "\x1b]0;owned\x07",
    "a\u2028b",
    "a\x85b",
    "\x9b8m",
]


def request(status: int = 200, **more: str) -> RequestLog:
    return RequestLog(method="GET", route="/v1/banks/{bank}", status=status, seconds=0.001, **more)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("format", ["text", "json"])
@pytest.mark.parametrize("bank", HOSTILE, ids=range(len(HOSTILE)))
def test_names_of_banks_bring_no_control_characters_into_the_log(format: LogFormat, bank: str) -> None:
    output = StringIO()
    ServerLog(format, output).request(request(bank=bank))
    line, end = output.getvalue()[:-1], output.getvalue()[-1:]
    assert line.isprintable()
    assert end == "\n"
    if format == "json":
        assert json.loads(line)["bank"] == bank


@pytest.fixture
def unread_log() -> Iterator[ServerLog]:
    """Return a log whose reader has gone."""
    reader, writer = os.pipe()
    os.close(reader)
    stream = os.fdopen(writer, "w")
    yield ServerLog("json", stream)
    # The stream still holds a line that it can't write.
    with suppress(BrokenPipeError):
        stream.close()


def test_log_whose_reader_has_gone_raises_nothing(unread_log: ServerLog) -> None:
    for _ in range(3):
        unread_log.request(request())
        unread_log.background_error("worker", ValueError("broken"))


def test_log_whose_reader_stalls_loses_lines_and_reports_their_number() -> None:
    reader, writer = os.pipe()
    with os.fdopen(writer, "w") as stream, os.fdopen(reader, "rb") as stalled:
        log = ServerLog("json", stream)
        for _ in range(2_000):
            log.request(request(bank="a" * 100))
        written = b""
        while b"\n" not in written[-1:] or LineWriter(stream).ready is False:
            written += os.read(stalled.fileno(), 1 << 20)
        log.info("stopped")
        written += os.read(stalled.fileno(), 1 << 20)
    lines = [json.loads(line) for line in written.splitlines()]
    counted = [line for line in lines if line["event"] == "request"]
    assert 0 < len(counted) < 2_000
    assert [(line["event"], line.get("count")) for line in lines[-2:]] == [
        ("lost", 2_000 - len(counted)),
        ("stopped", None),
    ]


@pytest.mark.parametrize("format", ["text", "json"])
def test_no_line_is_longer_than_a_pipe_takes_at_once(format: LogFormat) -> None:
    output = StringIO()
    ServerLog(format, output).request(request(bank="\U0001d11e" * 512, unexpected="\x9b" * 100_000))
    assert len(output.getvalue().encode()) <= select.PIPE_BUF


def test_log_on_a_closed_stream_raises_nothing() -> None:
    closed = StringIO()
    closed.close()
    ServerLog("text", closed).info("stopped")


def test_observer_that_fails_does_not_keep_others_from_their_work(caplog: pytest.LogCaptureFixture) -> None:
    class Failing(ServerLog):
        def request(self, log: RequestLog) -> None:
            raise RuntimeError("broken")

    output = StringIO()
    CompositeObserver([Failing("json"), ServerLog("json", output)]).request(request())
    assert json.loads(output.getvalue())["status"] == 200
    assert "The observer Failing failed" in caplog.text


def test_equal_lines_of_clients_without_a_key_are_limited_and_counted() -> None:
    output, now = StringIO(), [0.0]
    log = ServerLog("json", output, RepeatLimit(lines=2, clock=lambda: now[0]))
    for _ in range(5):
        log.request(request(401))
        log.request(request(404, key="k"))
        log.request(request(200))
    now[0] = 60.0
    log.request(request(401))
    lines = [json.loads(line) for line in output.getvalue().splitlines()]
    assert [line["status"] for line in lines if line["event"] == "request"].count(401) == 3
    assert len([line for line in lines if line.get("status") in (200, 404)]) == 10
    suppressed = [(line["line"], line["count"]) for line in lines if line["event"] == "suppressed"]
    assert suppressed == [("request GET /v1/banks/{bank} 401", 3)]


def test_different_lines_take_no_memory_without_bound() -> None:
    limit = RepeatLimit(lines=1, clock=lambda: 0.0)
    assert sum(limit.admit(f"line {number}") for number in range(5_000)) <= 1_001


def test_warnings_of_other_libraries_are_logged_without_the_text_of_errors() -> None:
    output = StringIO()
    log = ServerLog("json", output, RepeatLimit(lines=1))
    for _ in range(3):
        try:
            raise OSError(24, "Ana said so")
        except OSError:
            record = logging.getLogger("asyncio").makeRecord(
                "asyncio", logging.ERROR, __file__, 1, "accept failed\nsocket: Ana", (), None
            )
            record.exc_info = sys.exc_info()
            log.standard(record)
    (line,) = output.getvalue().splitlines()
    assert "Ana" not in line
    fields = json.loads(line)
    assert (fields["event"], fields["logger"], fields["level"]) == ("accept failed", "asyncio", "error")
    assert fields["error"].startswith("OSError at test_warnings")
