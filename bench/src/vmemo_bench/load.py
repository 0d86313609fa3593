"""Load: many concurrent clients of a server that is restarted halfway.

The server is `vmemo serve` in its own process, with the packaged embedder; the clients share the machine with it. At
the end the stored messages are compared with those that the server acknowledged.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import sys
import tempfile
import time
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections import Counter, defaultdict
from collections.abc import AsyncGenerator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import TracebackType

from vmemo import Memory, Message
from vmemo.client import RetryPolicy
from vmemo.errors import InvalidInput, VmemoError, public_name
from vmemo.ports import Embedder
from vmemo.settings import Settings
from vmemo_bench.environment import cpu_seconds, describe, make_folder, sqlite_url
from vmemo_bench.load_client import LoadClient
from vmemo_bench.options import BenchOptions, LoadOptions
from vmemo_bench.progress import ProgressSink, StepCounter
from vmemo_bench.report import Report
from vmemo_bench.speed import texts
from vmemo_bench.statistics import Metrics, Timings, percentile, percentiles

RETRIES = RetryPolicy(attempts=40, initial_pause=0.25, max_pause=2.0)
"""Clients retry while the server restarts."""
TIMEOUT = 120.0
"""Seconds of an attempt."""
PROCESS_TIMEOUT = 120.0
"""Seconds that the server may take to start or to stop."""


async def measure_load(options: BenchOptions, embedder: Embedder, settings: Settings, sink: ProgressSink) -> Report:
    """Run the clients against a server, restart it halfway, and check the stored messages."""
    load = options.load
    if load.clients < 1 or load.banks < 1 or load.seconds <= 0 or not 0 <= load.retain_share <= 1:
        raise InvalidInput("load needs at least one client, one bank and one second, and a retain_share from 0 to 1.")
    if not load.workers or min(load.workers) < 1:
        raise InvalidInput("load needs at least one number of workers, and each of them at least one.")
    runs = {workers: await _measure(options, workers, sink) for workers in load.workers}
    metrics, timings = runs[load.workers[0]]
    rows = {f"server, {load.clients} clients on SQLite, workers {count}": _row(*run) for count, run in runs.items()}
    config = {**describe(embedder, settings), **asdict(load), "workers": ", ".join(map(str, load.workers))}
    return Report(benchmark="load", metrics=metrics, timings=timings, config=config, tables={"load": rows})


async def _measure(options: BenchOptions, workers: int, sink: ProgressSink) -> tuple[Metrics, Timings]:
    load = options.load
    with tempfile.TemporaryDirectory(dir=make_folder(options.work_folder)) as folder:
        file = Path(folder) / "load.db"
        async with ServerProcess(file, workers) as server:
            result = await _run_clients(load, server, sink)
        metrics = result.metrics(load.seconds) | _memory_growth(server.memory_mb) | await _compare(file, result)
        metrics |= {"client_cpu_ms": 1000 * result.cpu_seconds / result.count}
        metrics |= {"server_cpu_ms": 1000 * server.cpu_seconds / result.count} if server.cpu_seconds else {}
    return metrics, result.timings()


def _row(metrics: Metrics, timings: Timings) -> dict[str, float | None]:
    """Return the numbers that are compared with those of other runs."""
    recall, retain = timings.get("recall", {}), timings.get("retain", {})
    return {
        "calls/s": metrics["calls_per_second"],
        "recall p50 ms": recall.get("p50_ms"),
        "recall p95 ms": recall.get("p95_ms"),
        "retain p50 ms": retain.get("p50_ms"),
        "retain p95 ms": retain.get("p95_ms"),
        "server CPU ms/call": metrics.get("server_cpu_ms"),
        "client CPU ms/call": metrics["client_cpu_ms"],
        "errors": metrics["errors"],
        "lost": metrics["lost"],
        "memory MB": metrics.get("server_mb"),
    }


async def _run_clients(load: LoadOptions, server: ServerProcess, sink: ProgressSink) -> LoadResult:
    """Run the clients; meanwhile sample the server's memory and restart it."""
    seconds = max(1, round(load.seconds))
    steps = StepCounter(sink, f"{load.clients} clients, workers {server.workers}", seconds)
    running = asyncio.create_task(LoadClients(load, server.url).run())
    try:
        for second in range(seconds):
            await asyncio.wait([running], timeout=load.seconds / seconds)
            server.sample_memory()
            if load.restart and second == seconds // 2:
                await server.restart()
            steps.advance()
        return await running
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


def _memory_growth(samples: Sequence[Sequence[float]]) -> Metrics:
    """Return the server's memory after its first fifth and at its end, for the process that ran longest."""
    longest = max(samples, key=len, default=())
    if not longest:
        return {}
    early, end = longest[len(longest) // 5 :][:5], longest[-5:]
    first, last = percentile(early, 0.5), percentile(end, 0.5)
    return {"server_mb": last, "server_mb_early": first, "server_growth": last / first}


async def _compare(file: Path, result: LoadResult) -> Metrics:
    """Return the numbers of acknowledged messages that are missing, of duplicates, and of pending messages."""
    lost = duplicates = pending = 0
    async with Memory(sqlite_url(file), settings=Settings()) as memory:
        for bank, acknowledged in result.stored.items():
            stored = [message.content async for message in _messages(memory.bank(bank))]
            lost += len(acknowledged - set(stored))
            duplicates += len(stored) - len(set(stored))
            pending += (await memory.bank(bank).status()).pending
    return {"lost": float(lost), "stored_twice": float(duplicates), "pending": float(pending)}


async def _messages(memory: Memory) -> AsyncGenerator[Message]:
    after = None
    while page := await memory.messages(after=after, limit=1000):
        for message in page:
            yield message
        after = page[-1].id


@dataclass
class LoadResult:
    """Milliseconds of each call by verb, errors by name, and the acknowledged messages by bank."""

    calls: defaultdict[str, list[float]] = field(default_factory=lambda: defaultdict[str, list[float]](list))
    errors: Counter[str] = field(default_factory=Counter[str])
    stored: defaultdict[str, set[str]] = field(default_factory=lambda: defaultdict[str, set[str]](set))
    cpu_seconds: float = 0.0
    """Processor time of the clients."""

    @property
    def count(self) -> int:
        return sum(map(len, self.calls.values()))

    def metrics(self, seconds: float) -> Metrics:
        """Return calls per second, errors, and the median and 99th percentile of each verb in milliseconds."""
        count = self.count
        metrics = {"calls": float(count), "calls_per_second": count / seconds, "errors": float(self.errors.total())}
        metrics |= {f"errors_{name}": float(number) for name, number in self.errors.items()}
        for verb, times in self.calls.items():
            metrics[f"{verb}_calls"] = float(len(times))
            metrics |= {f"{verb}_p{share}_ms": percentile(times, share / 100) for share in (50, 99)}
        return metrics

    def timings(self) -> Timings:
        """Return the median and 95th percentile of each verb."""
        return {verb: percentiles(times) for verb, times in self.calls.items()}


class LoadClients:
    """Concurrent clients of one server, each calling it until the time is over."""

    def __init__(self, load: LoadOptions, url: str) -> None:
        self._load, self._url = load, url
        self._result = LoadResult()
        self._queries = texts.queries(500)
        self._end = 0.0

    async def run(self) -> LoadResult:
        self._end = time.monotonic() + self._load.seconds
        began = time.process_time()
        await asyncio.gather(*(self._run_client(number) for number in range(self._load.clients)))
        self._result.cpu_seconds = time.process_time() - began
        return self._result

    async def _run_client(self, number: int) -> None:
        bank = f"bank-{number % self._load.banks}"
        client = LoadClient(self._url, bank, timeout=TIMEOUT, retry=RETRIES)
        try:
            await self._call(client, bank, number)
        finally:
            await client.close()

    async def _call(self, client: LoadClient, bank: str, number: int) -> None:
        """Call the server until the time is over."""
        choice = random.Random(number)
        call = 0
        while call < 2 or time.monotonic() < self._end:
            # At least one call of each verb, also on a machine that is busy otherwise.
            retains = call == 0 or (call > 1 and choice.random() < self._load.retain_share)
            began = time.monotonic()
            try:
                await (self._retain(client, bank, number, call) if retains else self._recall(client, choice))
            except VmemoError as error:
                self._result.errors[public_name(error)] += 1
            else:
                verb = "retain" if retains else "recall"
                self._result.calls[verb].append((time.monotonic() - began) * 1000)
            call += 1

    async def _retain(self, client: LoadClient, bank: str, number: int, call: int) -> None:
        (message,) = texts.messages(number * 10_000 + call, number * 10_000 + call + 1)
        text = f"{message.content} This was note {call} of client {number}."
        await client.retain(text, speaker=f"Client {number}")
        self._result.stored[bank].add(text)

    async def _recall(self, client: LoadClient, choice: random.Random) -> None:
        await client.recall(choice.choice(self._queries), max_tokens=1024)


class ServerProcess:
    """`vmemo serve` on a database file, in processes of its own; a restarted server keeps its address."""

    def __init__(self, file: Path, workers: int = 1) -> None:
        self._file = file
        self.workers = workers
        self._port = 0
        self._process: Process | None = None
        self._log_reader: asyncio.Task[None] | None = None
        self.memory_mb: list[list[float]] = []
        """Samples of the memory in megabytes, one list per process."""
        self.cpu_seconds = 0.0
        """Processor time since the server listened, where the system has /proc."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    async def __aenter__(self) -> ServerProcess:
        await self._start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        await self._stop()

    async def restart(self) -> None:
        """Stop the server with SIGTERM and start it again."""
        await self._stop()
        await self._start()

    def sample_memory(self) -> None:
        """Record the memory of the server's processes, on systems with /proc; shared pages count once."""
        if self._process is not None and (total := sum(map(_memory_mb, _with_children(self._process.pid)))):
            self.memory_mb[-1].append(total)

    def _cpu_seconds(self) -> float:
        assert self._process is not None
        return sum(map(_cpu_seconds, _with_children(self._process.pid)))

    async def _start(self) -> None:
        command = [sys.executable, "-m", "vmemo", "serve", "--db", str(self._file), "--port", str(self._port), "--json"]
        command += ["--workers", str(self.workers)]
        environment = {name: value for name, value in os.environ.items() if not name.startswith("VMEMO_")}
        self._process = await asyncio.create_subprocess_exec(*command, stdout=DEVNULL, stderr=PIPE, env=environment)
        self.memory_mb.append([])
        async with asyncio.timeout(PROCESS_TIMEOUT):
            self._port = await self._listening_port(self._process)
        self._log_reader = asyncio.create_task(_read_log(self._process))
        self.cpu_seconds -= self._cpu_seconds()

    async def _listening_port(self, process: Process) -> int:
        """Wait until the server logs that it listens, and return its port."""
        assert process.stderr is not None
        log: list[str] = []
        async for line in process.stderr:
            log.append(line.decode(errors="replace").strip())
            if log[-1].startswith("{") and json.loads(log[-1]).get("event") == "listening":
                return int(json.loads(log[-1])["url"].rpartition(":")[2])
        raise VmemoError(f"The server did not start: {' '.join(log)[-500:] or 'it logged nothing'}")

    async def _stop(self) -> None:
        if self._process is None or self._log_reader is None:
            return
        if self._process.returncode is None:
            self.cpu_seconds += self._cpu_seconds()
            self._process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(PROCESS_TIMEOUT):
            code = await self._process.wait()
            await self._log_reader
        if code != 0:
            raise VmemoError(f"The server exited with code {code} instead of 0.")


async def _read_log(process: Process) -> None:
    """Read the log to its end, so that the server never blocks on a full pipe."""
    assert process.stderr is not None
    async for _ in process.stderr:
        pass


def _with_children(pid: int) -> list[int]:
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    except OSError:
        return [pid]
    return [pid, *map(int, children.split())]


def _memory_mb(pid: int) -> float:
    """Return the megabytes of a process; a page of several counts in parts."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0.0
    return sum(int(line.split()[1]) / 1024 for line in lines if line.startswith("Pss:"))


def _cpu_seconds(pid: int) -> float:
    """Return the processor time of a process, or 0 where the system has no /proc."""
    try:
        return cpu_seconds(pid)[1]
    except OSError:
        return 0.0
