"""Tests in several processes that are forked once the tests are collected: `--forks 3`, where processes can be forked.

The processes of pytest-xdist each import and collect all tests for themselves, and send them to the first one. Here
each takes one file after the other, so that fixtures of a module are made once. For plugins, a process looks like one
of pytest-xdist.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import tempfile
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from types import SimpleNamespace
from typing import Any, TextIO, cast

import pytest
from _pytest import tmpdir
from _pytest.capture import FDCapture

Tests = Sequence[pytest.Item]
"""The tests of one file, or what is left of them."""
_NUMBER_BYTES = 4


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--forks", type=int, default=0, help="Run the tests in this number of forked processes.")


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    """Run the tests in processes of their own, if any are asked for."""
    forks = int(session.config.option.forks)
    if forks < 1 or session.config.option.collectonly or session.testsfailed:
        return None
    files = [list(items) for _, items in groupby(session.items, key=lambda item: item.path)]
    run = _Run(session, files, _queue(len(files)))
    try:
        for _ in range(min(forks, len(files))):
            run.start()
        run.receive()
    finally:
        run.end()
    return True


def _queue(files: int) -> int:
    """Return the end of a pipe from which each process reads the number of its next file, until the pipe is empty."""
    readable, writable = os.pipe()
    with os.fdopen(writable, "wb") as numbers:
        for number in range(files):
            numbers.write(number.to_bytes(_NUMBER_BYTES))
    return readable


@dataclass
class _Worker:
    """A process, and the tests that it has taken and not finished, in their order."""

    process: BaseProcess
    left: deque[pytest.Item]


@dataclass
class _Run:
    """All processes, and the files that none has taken."""

    session: pytest.Session
    files: list[list[pytest.Item]]
    queue: int
    started: int = 0
    finished: int = 0
    workers: dict[Connection, _Worker] = field(default_factory=dict[Connection, _Worker])

    def start(self, first: Tests = ()) -> None:
        """Fork a process, which runs some tests before it takes files."""
        context, name = get_context("fork"), f"gw{self.started}"
        self.started += 1
        reading, writing = cast("tuple[Connection, Connection]", context.Pipe(duplex=False))
        given = self.session, name, self._tests_of(writing, first), writing, sys.stdin
        process = context.Process(target=_work, args=given)
        with warnings.catch_warnings():
            # Threads of libraries that prepare for a fork.
            warnings.simplefilter("ignore", DeprecationWarning)
            process.start()
        writing.close()
        self.workers[reading] = _Worker(process, deque(first))

    def _tests_of(self, writing: Connection, first: Tests) -> Iterator[Tests]:
        if first:
            yield first
        while number := os.read(self.queue, _NUMBER_BYTES):
            file = int.from_bytes(number)
            writing.send(("took", file))
            yield self.files[file]

    def receive(self) -> None:
        """Pass on what the processes report until all have ended."""
        while self.workers:
            for connection in wait(list(self.workers)):
                assert isinstance(connection, Connection)
                message = _received(connection)
                if message is None:
                    self._replace(connection)
                else:
                    self._pass_on(self.workers[connection], *message)
                if self.session.shouldfail:
                    raise self.session.Failed(self.session.shouldfail)
        assert self.finished == len(self.session.items), f"{self.finished} of {len(self.session.items)} tests finished"

    def _pass_on(self, worker: _Worker, kind: str, value: Any) -> None:
        hook = self.session.config.hook
        if kind == "took":
            worker.left.extend(self.files[int(value)])
        elif kind == "report":
            report = hook.pytest_report_from_serializable(config=self.session.config, data=value)
            hook.pytest_runtest_logreport(report=report)
            if report.when == "teardown":
                worker.left.popleft()
                self.finished += 1
        elif kind == "warning":
            text, shown = value
            message = warnings.WarningMessage(pytest.PytestWarning(text), pytest.PytestWarning, *shown.pop("place"))
            hook.pytest_warning_recorded.call_historic(kwargs={"warning_message": message, **shown})
        else:
            node = SimpleNamespace(config=self.session.config, workeroutput=value)
            hook.pytest_testnodedown(node=node, error=None)

    def _replace(self, connection: Connection) -> None:
        """Let another process run the tests that an ended one left; the test that it was running has failed."""
        worker = self.workers.pop(connection)
        worker.process.join()
        if not worker.left:
            return
        failed = worker.left.popleft()
        self.finished += 1
        words = f"The process that ran this test ended with exit code {worker.process.exitcode}."
        report = pytest.TestReport(failed.nodeid, failed.location, {}, "failed", words, "call")
        self.session.config.hook.pytest_runtest_logreport(report=report)
        self.start(list(worker.left))

    def end(self) -> None:
        """Interrupt the processes that still run, so that they release their fixtures."""
        while os.read(self.queue, _NUMBER_BYTES * len(self.files)):
            pass
        os.close(self.queue)
        for worker in self.workers.values():
            if worker.process.is_alive() and worker.process.pid is not None:
                os.kill(worker.process.pid, signal.SIGINT)
        for worker in self.workers.values():
            worker.process.join()


@dataclass(eq=False)
class _Reporter:
    """The plugin of a forked process that sends what happens to the first process."""

    config: pytest.Config
    send: Callable[[tuple[str, object]], None]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        data = self.config.hook.pytest_report_to_serializable(config=self.config, report=report)
        self.send(("report", data))

    def pytest_warning_recorded(
        self, warning_message: warnings.WarningMessage, when: str, nodeid: str, location: object
    ) -> None:
        text = f"{warning_message.category.__name__}: {warning_message.message}"
        place = (warning_message.filename, warning_message.lineno)
        self.send(("warning", (text, {"place": place, "when": when, "nodeid": nodeid, "location": location})))


def _received(connection: Connection) -> tuple[str, Any] | None:
    """Return the next message of a process; None once it has ended."""
    try:
        return connection.recv()
    except EOFError:
        return None


def _work(session: pytest.Session, name: str, files: Iterator[Tests], writing: Connection, stdin: TextIO) -> None:
    """Run files in a forked process, as a process of pytest-xdist would, and tear all fixtures down."""
    config: Any = session.config
    if not stdin.closed:
        # Another one was opened for this process; this one raises an error for a test that reads from it.
        sys.stdin = stdin
    _separate(config, name)
    config.pluginmanager.unregister(name="terminalreporter")
    config.pluginmanager.register(_Reporter(config, writing.send))
    try:
        for item, nextitem in _all_of(files):
            config.hook.pytest_runtest_protocol(item=item, nextitem=nextitem)
    except KeyboardInterrupt:
        # The first process reports why.
        pass
    finally:
        config.hook.pytest_sessionfinish(session=session, exitstatus=session.exitstatus)
        writing.send(("ended", config.workeroutput))


def _separate(config: Any, name: str) -> None:
    """Share neither a folder nor captured output nor random numbers with another process."""
    folder = config._tmp_path_factory.getbasetemp() / name
    config.option.basetemp = str(folder)
    tmpdir.pytest_configure(config)
    config._tmp_path_factory.getbasetemp()
    os.environ["HOME"] = tempfile.mkdtemp(prefix="home-", dir=folder)
    os.environ["PYTEST_XDIST_WORKER"] = name
    config.workerinput, config.workeroutput = {"workerid": name}, {}
    # Modules hold the files of the captured output, which stay open: only what is behind them is replaced.
    capturing = config.pluginmanager.getplugin("capturemanager")._global_capturing
    for stream in (capturing.out, capturing.err):
        if isinstance(stream, FDCapture):
            with tempfile.TemporaryFile() as own:
                os.dup2(own.fileno(), stream.tmpfile.fileno(), inheritable=False)
    random.seed()
    # A shell that runs pytest in the background has it ignore interrupts, by which the first process ends this one.
    signal.signal(signal.SIGINT, signal.default_int_handler)


def _all_of(files: Iterator[Tests]) -> Iterator[tuple[pytest.Item, pytest.Item | None]]:
    """Yield each test with the next one, whose file is taken just before the last test of a file is run."""
    last = None
    for tests in files:
        for item in tests:
            if last is not None:
                yield last, item
            last = item
    if last is not None:
        yield last, None
