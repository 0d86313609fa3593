"""PgBouncer before a PostgreSQL server, as many put it there: few sessions, shared transaction by transaction."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from max_wait import MAX_WAIT

SESSIONS = 3
"""Sessions of a database that all clients share."""
CONFIGURATION = """
[databases]
* = host={host} port={port} user={user} password={password}

[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {own_port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = {sessions}
max_client_conn = 500
server_login_retry = 0.1
query_wait_timeout = 0
logfile = {folder}/pgbouncer.log
"""
_PLACES = os.pathsep.join((os.environ.get("PATH", os.defpath), "/usr/sbin", "/usr/local/sbin"))


@contextmanager
def pgbouncer(server: str, *, sessions: int = SESSIONS) -> Generator[int]:
    """A PgBouncer in transaction mode before the server of a URL; its port."""
    program = shutil.which("pgbouncer", path=_PLACES)
    if program is None:
        pytest.skip("There is no PgBouncer here. Install it: apt-get install pgbouncer")
    with tempfile.TemporaryDirectory(prefix="vmemo-pgbouncer-") as folder:
        port = _free_port()
        running = _start(program, Path(folder), _configuration(server, folder, port, sessions))
        try:
            _wait(running, port, Path(folder))
            yield port
        finally:
            running.kill()
            running.wait()


def through(url: str, port: int) -> str:
    """The URL of the same database through PgBouncer."""
    parts = urlsplit(url)
    return parts._replace(netloc=f"{parts.username}:{parts.password}@127.0.0.1:{port}").geturl()


def _configuration(server: str, folder: str, port: int, sessions: int) -> str:
    parts = urlsplit(server)
    return CONFIGURATION.format(
        host=parts.hostname,
        port=parts.port,
        user=parts.username,
        password=parts.password,
        own_port=port,
        sessions=sessions,
        folder=folder,
    )


def _start(program: str, folder: Path, configuration: str) -> subprocess.Popen[bytes]:
    """It refuses to run as root, who starts it as somebody else."""
    file = folder / "pgbouncer.ini"
    file.write_text(configuration)
    user = pwd.getpwnam("nobody").pw_uid if os.geteuid() == 0 else None
    if user is not None:
        for path in (folder, file):
            os.chown(path, user, -1)
    return subprocess.Popen([program, "-q", file], user=user, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def _wait(running: subprocess.Popen[bytes], port: int, folder: Path) -> None:
    deadline = time.monotonic() + MAX_WAIT
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            log = folder / "pgbouncer.log"
            said = log.read_text() if log.exists() else ""
            assert running.poll() is None, f"PgBouncer can't start: {said}"
            assert time.monotonic() < deadline, f"PgBouncer does not answer: {said}"
        else:
            return


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])
