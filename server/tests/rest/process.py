"""`vmemo` as a separate process, as an administrator runs it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Thread
from typing import Any

from max_wait import MAX_WAIT


def environment(more: Mapping[str, str]) -> dict[str, str]:
    """Return this process's environment without VMEMO_* variables, and with the given ones."""
    return {**{name: value for name, value in os.environ.items() if not name.startswith("VMEMO_")}, **more}


@dataclass
class ServerProcess:
    """A server started by its command; a thread reads its log lines."""

    process: subprocess.Popen[str]
    lines: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    text: list[str] = field(default_factory=list[str])
    listening: Event = field(default_factory=Event)
    url: str = ""

    def read(self) -> None:
        """Read the log until the process ends."""
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.text.append(line)
            if line.startswith("{"):
                self.lines.append(json.loads(line))
                if self.lines[-1].get("event") == "listening":
                    self.url = self.lines[-1]["url"]
                    self.listening.set()
        self.listening.set()

    def stop(self, signal: int) -> int:
        """Send a signal, wait for the process to end, and return its exit code."""
        self.process.send_signal(signal)
        return self.process.wait(MAX_WAIT)


@contextmanager
def launched(arguments: Sequence[str], folder: Path, **more: str) -> Generator[ServerProcess]:
    """Run `vmemo` with these arguments inside the block, which starts once the server listens."""
    process = subprocess.Popen(
        [sys.executable, "-m", "vmemo", *arguments],
        cwd=folder,
        env=environment(more),
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
    )
    running = ServerProcess(process)
    reading = Thread(target=running.read, daemon=True)
    reading.start()
    try:
        assert running.listening.wait(MAX_WAIT), "the server did not start"
        assert running.url, f"the server failed to start: {''.join(running.text)}"
        yield running
    finally:
        if process.poll() is None:
            process.kill()
        process.wait(MAX_WAIT)
        reading.join(MAX_WAIT)
        if process.stderr is not None:
            process.stderr.close()
