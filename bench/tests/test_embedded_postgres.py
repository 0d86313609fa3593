"""The PostgreSQL server for tests and demos: it starts anywhere, survives a crash, and leaves nothing behind."""

import os
import socket
import tempfile
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from vmemo.errors import InvalidInput, StoreError
from vmemo_bench.embedded_postgres import EmbeddedPostgres


def test_a_stopped_server_leaves_no_files_and_no_process(postgres: EmbeddedPostgres) -> None:
    assert postgres.execute("SELECT 1") == "1"
    with EmbeddedPostgres(settings={"work_mem": "5MB"}) as server:
        folder = Path(server.execute("SHOW data_directory")).parent
        assert folder.parent == Path(tempfile.gettempdir())
        assert server.execute("SHOW work_mem") == "5MB"
        address = urlsplit(server.url())
        server.start()
        assert server.url() == address.geturl()
    assert not folder.exists()
    with socket.socket() as closed, pytest.raises(OSError, match="refused"):
        closed.connect((address.hostname, address.port))


def test_a_killed_server_restarts_with_its_data(postgres: EmbeddedPostgres) -> None:
    address = postgres.create("killed")
    postgres.execute("CREATE TABLE things AS SELECT 1 AS number", "killed")
    postgres.kill()
    with pytest.raises(StoreError, match="refused"):
        postgres.execute("SELECT 1")
    postgres.start()
    assert postgres.url("killed") == address
    assert postgres.execute("SELECT number FROM things", "killed") == "1"
    postgres.drop("killed")


def test_a_database_is_created_from_a_template_and_dropped(postgres: EmbeddedPostgres) -> None:
    postgres.create("first")
    postgres.execute("CREATE TABLE things AS SELECT 1 AS number", "first")
    postgres.create("second", template="first")
    assert postgres.execute("SELECT number FROM things", "second") == "1"
    for name in ("first", "second", "second"):
        postgres.drop(name)
    assert postgres.execute("SELECT count(*) FROM pg_database WHERE datname IN ('first', 'second')") == "0"


def test_a_failed_statement_raises_its_error(postgres: EmbeddedPostgres) -> None:
    with pytest.raises(StoreError, match="syntax error"):
        postgres.execute("SELEC 1")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root runs the server as somebody else")
def test_root_without_another_user_to_run_the_server_is_an_error() -> None:
    with pytest.raises(InvalidInput, match="does not run as root"):
        EmbeddedPostgres(user="no such user")
