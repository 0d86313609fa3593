"""Failures of the shipped suite show their values, as those of our own tests do; PostgreSQL runs where it can."""

import asyncio
import gc
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Generator, Iterator
from contextlib import ExitStack, closing, contextmanager, nullcontext, suppress
from functools import cache
from itertools import count
from pathlib import Path

import hypothesis
import pytest
from typer import testing
from typer.main import get_command

from databases import NewDatabase
from neo4j_server import Unavailable, namespace, shared_server
from shared_encodings import share_encodings
from shared_schema import share_schema
from shared_statements import share_statements

# The suite is rewritten as it is imported.
pytest.register_assert_rewrite("vmemo_conformance")

from vmemo.errors import VmemoError  # noqa: E402
from vmemo.stores.postgres import schema as postgres_schema  # noqa: E402
from vmemo.stores.postgres.connection import PostgresPool  # noqa: E402
from vmemo.stores.sql import migrate, schema  # noqa: E402
from vmemo.stores.sqlite.store import SqliteStore  # noqa: E402
from vmemo_bench.embedded_postgres import EmbeddedPostgres  # noqa: E402

# Tests assert behaviour, never seconds. Examples are new in each run, so that few of them are enough.
hypothesis.settings.register_profile("vmemo", deadline=None, max_examples=50)
hypothesis.settings.load_profile("vmemo")
share_statements()
share_schema()
encodings = share_encodings()
# The runner would build all commands again for every command that it runs.
testing._get_command = cache(get_command)  # pyright: ignore[reportPrivateUsage, reportPrivateImportUsage]

MEMORY_DISK = Path("/dev/shm")
"""Files in memory, on Linux: half of the time of the suite would be spent waiting for a disk."""
MEMORY_DISK_BYTES = 4 << 30
_HAS_MEMORY_DISK = MEMORY_DISK.is_dir() and os.access(MEMORY_DISK, os.W_OK)
if "TMPDIR" not in os.environ and _HAS_MEMORY_DISK and shutil.disk_usage(MEMORY_DISK).free > MEMORY_DISK_BYTES:
    os.environ["TMPDIR"] = tempfile.tempdir = str(MEMORY_DISK)

# Until all tests are collected, nothing is garbage.
gc.disable()
TEMPLATE = "vmemo_template"
SLOW = tuple(
    f"test_{name}.py"
    for name in (
        "neo4j_conformance postgres_conformance console_browser workers migrate forget bad_input "
        "sqlite_conformance fault_matrix cli_processes bench_stores sync crash_extraction verbs hooks "
        "serve_command isolation schemathesis pydantic_ai_and_litellm sqlite_rekey equal_searches faults docs "
        "typescript_client processes cli_worker linear_time postgres_pool postgres_outcome hindsight_client "
        "question_times scenarios invalid_answers crash bench_ablation postgres_endurance postgres_wake "
        "bench_shipped_cassettes sqlite_encryption cli_migrate packaged_embedder postgres_hnsw observations "
        "mcp_tools console_replay request_bodies index context retain cli_help sqlite_scrub reprocess transfer "
        "cli_benchmark cli_engine postgres_turns bench_load bench_qa resolve_llm bench_annotated docker "
        "client_retries merge bench_fresh_process webhooks recall packaged_token_vectors sqlite_queue engine "
        "bench_runs citations page bench_scale"
    ).split()
)
"""Files that take longest, the longest first, so that no worker is left alone with one at the end."""
_numbers = count(1)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that need Neo4j, and put the slow files first."""
    for item in items:
        if "neo4j_server_url" in getattr(item, "fixturenames", ()):
            item.add_marker("neo4j")
    items.sort(key=lambda item: SLOW.index(item.path.name) if item.path.name in SLOW else len(SLOW))


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Let the tests of the packaged embedder run their own passes."""
    encodings.shared = "embedding" not in item.path.parts


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run what uses `new_database` on each store; a module about code above the stores names some as `STORES`."""
    if "new_database" in metafunc.fixturenames:
        module = metafunc.function.__module__
        stores: tuple[str, ...] = getattr(sys.modules[module], "STORES", ("sqlite", "postgres", "neo4j"))
        if metafunc.config.getoption("markexpr") == "not neo4j":
            # Made and deselected, they would take a third of the time of the collection.
            stores = tuple(name for name in stores if name != "neo4j")
        marked = [pytest.param(name, marks=pytest.mark.neo4j) if name == "neo4j" else name for name in stores]
        metafunc.parametrize("new_database", marked, indirect=True, scope="module")


def pytest_collection_finish() -> None:
    """Begin to collect garbage, except in what was imported, which would be examined again and again."""
    gc.freeze()
    gc.enable()
    # Tests leave little garbage, and Python would look for it every 700 objects.
    gc.set_threshold(10_000, 10, 10)


@pytest.fixture(scope="session")
def postgres() -> Iterator[EmbeddedPostgres]:
    """A PostgreSQL server, started by the first test that asks for it."""
    server = EmbeddedPostgres()
    try:
        server.start()
    except VmemoError as error:
        pytest.skip(f"No PostgreSQL here: {error}")
    with server:
        yield server


@pytest.fixture(scope="session")
def postgres_template(postgres: EmbeddedPostgres) -> str:
    """The name of a database with the schema of today in it, which others are copied from."""

    async def fill() -> None:
        pool = PostgresPool(postgres.create(TEMPLATE))
        await pool.write(migrate.upgrade, patient=True)
        await pool.close()

    asyncio.run(fill())
    return TEMPLATE


@pytest.fixture
def postgres_url(postgres: EmbeddedPostgres, postgres_template: str) -> Iterator[str]:
    """The URL of a database of the test's own, with the schema in it."""
    with _database(postgres, postgres_template) as url:
        yield url


@pytest.fixture(scope="session")
def lent_databases(postgres: EmbeddedPostgres, postgres_template: str) -> Iterator["Lent"]:
    """Databases with the schema in them, emptied and lent again: a copy for each test would take most of its time."""
    with closing(Lent(postgres, postgres_template)) as lent:
        yield lent


@pytest.fixture
def lent_postgres_url(lent_databases: "Lent") -> Iterator[str]:
    """The URL of a database with the schema and no rows in it; for tests that change rows alone."""
    with lent_databases.one() as url:
        yield url


@pytest.fixture
def empty_postgres_url(postgres: EmbeddedPostgres) -> Iterator[str]:
    """The URL of an empty database of the test's own."""
    with _database(postgres) as url:
        yield url


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with the current schema and no rows; copying it takes a tenth of the time of creating the schema."""

    path = tmp_path_factory.mktemp("template") / "memory.db"

    async def create() -> None:
        store = SqliteStore(path)
        await store.open()
        await store.close()

    asyncio.run(create())
    return path


@pytest.fixture
def sqlite_url(sqlite_template: Path, tmp_path: Path) -> str:
    """The URL of a file of the test's own, `memory.db` in its folder: for tests of what every store shares."""
    return f"sqlite:///{shutil.copy(sqlite_template, tmp_path / 'memory.db')}"


@pytest.fixture(scope="module")
def new_database(
    request: pytest.FixtureRequest, sqlite_template: Path, tmp_path_factory: pytest.TempPathFactory
) -> NewDatabase:
    """Makes databases with the schema that live as long as their block; what uses it is tested on each store."""
    if request.param == "sqlite":
        return lambda: nullcontext(f"sqlite:///{shutil.copy(sqlite_template, tmp_path_factory.mktemp('new'))}")
    if request.param == "neo4j":
        server: str = request.getfixturevalue("neo4j_server_url")
        return lambda: namespace(server)
    lent: Lent = request.getfixturevalue("lent_databases")
    return lent.one


@pytest.fixture
def url(new_database: NewDatabase) -> Iterator[str]:
    """The URL of a database of the test's own, on each store in turn."""
    with new_database() as url:
        yield url


TABLES = (schema.metadata, postgres_schema.search)
EMPTY = "; ".join(
    f"DELETE FROM {table.name}"
    for tables in TABLES
    for table in reversed(tables.sorted_tables)
    if table is not schema.token_vectors
)
"""Deletes all rows of a store."""
EMPTIED = "emptied"
RESET = "; ".join(
    [
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> "
        "pg_backend_pid()",
        EMPTY,
        "DROP TABLE IF EXISTS server_version, api_keys, audit_log, idempotent_responses",
        f"SELECT '{EMPTIED}'",
    ]
)
"""Makes a used database as if it were new."""


class Emptier:
    """A session that empties a database each time it is asked; to connect each time would take longer than that."""

    def __init__(self, server: EmbeddedPostgres, database: str) -> None:
        command, environment = server.psql(database)
        pipe = subprocess.PIPE
        # psql sends statements that are divided by an escaped semicolon as one.
        self._reset = RESET.replace("; ", "\\; ") + ";\n"
        self._process = subprocess.Popen(
            command, env=environment, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True
        )

    def empty(self) -> bool:
        """Empty the database; return False if that failed, as it does once the session is lost."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with suppress(BrokenPipeError):
            self._process.stdin.write(self._reset)
            self._process.stdin.flush()
        return any(line.strip() == EMPTIED for line in iter(self._process.stdout.readline, ""))

    def close(self) -> None:
        """End the session."""
        self._process.kill()
        with suppress(BrokenPipeError):
            self._process.communicate()


class Lent:
    """Databases that are emptied and used again, each so often that what was deleted does not slow it down."""

    MOST = 40

    def __init__(self, server: EmbeddedPostgres, template: str) -> None:
        self._server, self._template = server, template
        self._free: list[tuple[str, int]] = []
        self._emptiers: dict[str, Emptier] = {}

    @contextmanager
    def one(self) -> Generator[str]:
        """A database as if it were new."""
        self._server.start()
        name, used = self._free.pop() if self._free else (f"lent_{next(_numbers)}", 0)
        if not used:
            self._server.create(name, self._template)
        try:
            yield self._server.url(name)
        finally:
            self._server.start()
            if used < self.MOST:
                self._empty(name)
                self._free.append((name, used + 1))
            else:
                self._end_session(name)
                self._server.drop(name)

    def close(self) -> None:
        """End the sessions that empty databases."""
        for name in list(self._emptiers):
            self._end_session(name)

    def _empty(self, name: str) -> None:
        if name not in self._emptiers:
            self._emptiers[name] = Emptier(self._server, name)
        if not self._emptiers[name].empty():
            # A test ended the session, or killed the server.
            self._end_session(name)
            self._server.execute(RESET, name)

    def _end_session(self, name: str) -> None:
        if emptier := self._emptiers.pop(name, None):
            emptier.close()


@contextmanager
def _database(server: EmbeddedPostgres, template: str | None = None) -> Generator[str]:
    name = f"test_{next(_numbers)}"
    # A test may have killed it.
    server.start()
    try:
        yield server.create(name, template)
    finally:
        server.start()
        server.drop(name)


@pytest.fixture(scope="session")
def neo4j_server_url() -> Iterator[str]:
    """The URL of a Neo4j server, started by the first test that asks for it and shared by all test processes."""
    with ExitStack() as stack:
        try:
            url = stack.enter_context(shared_server())
        except Unavailable as error:
            pytest.skip(f"No Neo4j here: {error}")
        yield url


@pytest.fixture
def neo4j_url(neo4j_server_url: str) -> Iterator[str]:
    """The URL of an empty namespace of the test's own."""
    with namespace(neo4j_server_url) as url:
        yield url
