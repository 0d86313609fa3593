"""One Neo4j server as a child process, with its files in a folder of its own."""

from __future__ import annotations

import ctypes
import hashlib
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import LiteralString

from neo4j import GraphDatabase
from neo4j.exceptions import DriverError, Neo4jError

from max_wait import MAX_WAIT

POM = Path(__file__).with_name("pom.xml")
DOWNLOAD_SECONDS = 900.0
"""Seconds that the download of the artifacts may take, once on each machine."""
SETTINGS = {
    "dbms.security.auth_enabled": "true",
    "dbms.usage_report.enabled": "false",
    "server.config.strict_validation.enabled": "true",
    "server.http.enabled": "false",
    "server.https.enabled": "false",
}
SMALL = {
    "db.tx_log.preallocate": "false",
    "db.tx_log.rotation.retention_policy": "keep_none",
    "db.tx_log.rotation.size": "1m",
    # Each test begins with an empty graph; plans would be made again for every change of its size.
    "dbms.cypher.min_replan_interval": "1h",
    "dbms.cypher.statistics_divergence_threshold": "1.0",
}
"""Settings of a server for tests; one for measurements has the defaults."""
_JAVA = (
    *("-Xms256m", "-XX:+UseSerialGC", "-Xshare:auto"),
    *(f"--add-opens=java.base/{name}=ALL-UNNAMED" for name in ("java.nio", "java.io", "sun.nio.ch", "java.lang")),
)


class Unavailable(Exception):
    """No Neo4j server can be started here; the message gives the reason."""


class Neo4jServer:
    """A server on a free port; its folder is removed when it stops."""

    def __init__(self, *, small: bool = True, heap: str = "512m", page_cache: str = "128m") -> None:
        self._small = small
        self._heap = heap
        self._page_cache = page_cache
        self._password = secrets.token_hex(12)
        self._folder: Path | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._port = 0

    def __enter__(self) -> Neo4jServer:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

    @property
    def url(self) -> str:
        """The URL of its database, with the password."""
        return f"bolt://neo4j:{self._password}@127.0.0.1:{self._port}"

    def start(self) -> None:
        """Start the server, or start it again with the data it had and on the same port."""
        if self._process is not None and self._process.poll() is None:
            return
        jars = classpath()
        if self._folder is None:
            self._port = _free_port()
            self._folder = Path(tempfile.mkdtemp(prefix="vmemo-neo4j-"))
            self._configure(self._folder)
        try:
            self._launch(self._folder, jars)
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Stop the server and remove its files."""
        if self._process is not None:
            # A shutdown would write a checkpoint of data that is deleted next.
            self._process.kill()
            self._process.wait()
            self._process = None
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    def kill(self) -> None:
        """End the server as a crash would; `start` lets it recover."""
        assert self._process is not None, "the server is not running"
        self._process.kill()
        self._process.wait()

    def shut_down(self) -> None:
        """End the server as `neo4j stop` does; `start` lets it begin with its data again."""
        assert self._process is not None, "the server is not running"
        self._process.terminate()
        self._process.wait()

    def _configure(self, folder: Path) -> None:
        (folder / "conf").mkdir()
        settings = {
            **SETTINGS,
            **(SMALL if self._small else {}),
            "server.bolt.listen_address": f"127.0.0.1:{self._port}",
            "server.memory.pagecache.size": self._page_cache,
        }
        lines = (f"{name}={value}\n" for name, value in settings.items())
        (folder / "conf" / "neo4j.conf").write_text("".join(lines), "utf-8")

    def _launch(self, folder: Path, jars: str) -> None:
        command = ["java", f"-Xmx{self._heap}", *_JAVA, "-cp", jars, "org.neo4j.server.CommunityEntryPoint"]
        places = [f"--home-dir={folder}", f"--config-dir={folder / 'conf'}"]
        with (folder / "server.log").open("wb") as log:
            self._process = subprocess.Popen(
                [*command, *places],
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                preexec_fn=_die_with_parent if sys.platform == "linux" else None,
            )
        deadline = time.monotonic() + MAX_WAIT
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                said = (folder / "server.log").read_text("utf-8", "replace").strip()[-500:]
                raise Unavailable(f"Neo4j can't start: {said}")
            time.sleep(0.1)

    def _answers(self) -> bool:
        with suppress(OSError), socket.create_connection(("127.0.0.1", self._port), 1):
            return self._accepts_password() or self._changes_password()
        return False

    def _accepts_password(self) -> bool:
        return self._runs("RETURN 1", self._password)

    def _changes_password(self) -> bool:
        """Replace the initial password of a new server."""
        change = "ALTER CURRENT USER SET PASSWORD FROM 'neo4j' TO $password"
        return self._runs(change, "neo4j", "system") and self._accepts_password()

    def _runs(self, statement: LiteralString, password: str, database: str = "neo4j") -> bool:
        address = f"bolt://127.0.0.1:{self._port}"
        try:
            with GraphDatabase.driver(address, auth=("neo4j", password)) as driver:  # pyright: ignore[reportUnknownMemberType]
                driver.execute_query(statement, password=self._password, database_=database)
        except (DriverError, Neo4jError):
            return False
        return True


def classpath() -> str:
    """Return the class path of the server; Maven downloads the artifacts once."""
    if shutil.which("java") is None or shutil.which("mvn") is None:
        raise Unavailable("Java 17 and Maven are needed; or set NEO4J_URL to a server")
    digest = hashlib.sha256(POM.read_bytes()).hexdigest()[:12]
    cached = Path.home() / ".cache" / "vmemo" / f"neo4j-{digest}.classpath"
    if cached.exists() and all(Path(jar).exists() for jar in cached.read_text("utf-8").split(os.pathsep)):
        return cached.read_text("utf-8")
    cached.parent.mkdir(parents=True, exist_ok=True)
    part = cached.with_suffix(f".{os.getpid()}")
    command = ["mvn", "-q", "-B", "-f", str(POM), "dependency:build-classpath", f"-Dmdep.outputFile={part}"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=DOWNLOAD_SECONDS)
    except subprocess.TimeoutExpired as error:
        raise Unavailable("Maven did not download Neo4j in time") from error
    if done.returncode:
        raise Unavailable(f"Maven can't download Neo4j: {done.stdout.strip()[-300:]}")
    part.replace(cached)
    return cached.read_text("utf-8")


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def _die_with_parent() -> None:
    """Let the kernel end the server when the process that started it is killed."""
    set_parent_death_signal = 1
    ctypes.CDLL(None).prctl(set_parent_death_signal, signal.SIGKILL)
