"""One server for all test processes of a user.

Each process holds a shared lock on a file as long as it uses the server. The supervisor stops the server once it gets
that lock for itself alone; the locks of a process that crashed are released by the kernel.
"""

from __future__ import annotations

import getpass
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from neo4j.exceptions import DriverError, Neo4jError

from neo4j_server.namespaces import driver
from neo4j_server.server import Neo4jServer, Unavailable
from vmemo_neo4j.connection import parse

if sys.platform == "win32":

    def _lock(file: IO[bytes], *, shared: bool = False, wait: bool = True) -> bool:
        raise Unavailable("The shared server needs file locks of Unix; set NEO4J_URL to a server")
else:
    import fcntl

    def _lock(file: IO[bytes], *, shared: bool = False, wait: bool = True) -> bool:
        """Lock a file until it is closed; return False if that would have to wait."""
        try:
            fcntl.flock(file, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            return False
        return True


FAILED = "failed: "
ANSWER_SECONDS = 10.0
"""Seconds in which a server that NEO4J_URL names must answer."""
_supervisors: list[subprocess.Popen[bytes]] = []
"""Kept, because a process that is dropped while its child runs is reported."""


def _folder() -> Path:
    folder = Path(tempfile.gettempdir()) / f"vmemo-neo4j-shared-{getpass.getuser()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder


@contextmanager
def _locked(path: Path, *, shared: bool = False) -> Generator[None]:
    with path.open("ab") as file:
        _lock(file, shared=shared)
        yield


def _is_locked(path: Path) -> bool:
    with path.open("ab") as file:
        return not _lock(file, wait=False)


@contextmanager
def shared_server() -> Generator[str]:
    """Yield the URL of the shared server, or of the one that NEO4J_URL names; raise Unavailable if there is none."""
    given = os.environ.get("NEO4J_URL")
    if given:
        _demand_answer(given)
        yield given
        return
    folder = _folder()
    with _locked(folder / "users", shared=True):
        with _locked(folder / "starting"):
            url = _running(folder) or _start(folder)
        yield url


def _demand_answer(url: str) -> None:
    """Raise an error for a given server that does not answer: otherwise each test would wait until its time is over."""
    try:
        with driver(url, seconds=ANSWER_SECONDS) as connected:
            connected.execute_query("RETURN 1")
    except (DriverError, Neo4jError) as error:
        where = parse(url).where
        raise ConnectionError(f"NEO4J_URL names {where}, which does not answer: {error}") from error


def _running(folder: Path) -> str | None:
    state = folder / "url"
    if not state.exists():
        return None
    if not _is_locked(folder / "supervisor"):
        state.unlink()
        return None
    return state.read_text("utf-8")


def _start(folder: Path) -> str:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "TMPDIR": str(folder.parent)}
    command = [sys.executable, "-c", "from neo4j_server.shared import supervise; supervise()"]
    supervisor = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, start_new_session=True)
    _supervisors.append(supervisor)
    state = folder / "url"
    while not state.exists():
        if supervisor.poll() is not None:
            raise Unavailable("the supervisor of the Neo4j server ended")
        time.sleep(0.05)
    said = state.read_text("utf-8")
    if said.startswith(FAILED):
        state.unlink()
        supervisor.wait()
        raise Unavailable(said.removeprefix(FAILED))
    return said


def supervise() -> None:
    """Run the server until no process uses it."""
    folder = _folder()
    state, part = folder / "url", folder / "url.part"
    with _locked(folder / "supervisor"):
        try:
            with Neo4jServer() as server:
                part.write_text(server.url, "utf-8")
                part.replace(state)
                with _locked(folder / "users"):
                    state.unlink()
        except Unavailable as error:
            part.write_text(f"{FAILED}{error}", "utf-8")
            part.replace(state)
