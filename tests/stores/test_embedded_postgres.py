"""The PostgreSQL server for tests and demos: it starts anywhere, survives a crash, and leaves nothing behind."""

import os
import socket
import tempfile
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from vmemo.errors import InvalidInput, StoreError
from vmemo.stores.postgres.embedded import EmbeddedPostgres


def test_a_server_runs_for_a_while_and_leaves_nothing_behind(postgres: EmbeddedPostgres) -> None:
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


def test_a_server_that_was_killed_starts_again_with_all_it_had(postgres: EmbeddedPostgres) -> None:
    address = postgres.create("killed")
    postgres.execute("CREATE TABLE things AS SELECT 1 AS number", "killed")
    postgres.kill()
    with pytest.raises(StoreError, match="refused"):
        postgres.execute("SELECT 1")
    postgres.start()
    assert postgres.url("killed") == address
    assert postgres.execute("SELECT number FROM things", "killed") == "1"
    postgres.drop("killed")


def test_a_database_is_made_from_another_and_dropped(postgres: EmbeddedPostgres) -> None:
    postgres.create("first")
    postgres.execute("CREATE TABLE things AS SELECT 1 AS number", "first")
    postgres.create("second", template="first")
    assert postgres.execute("SELECT number FROM things", "second") == "1"
    for name in ("first", "second", "second"):
        postgres.drop(name)
    assert postgres.execute("SELECT count(*) FROM pg_database WHERE datname IN ('first', 'second')") == "0"


def test_a_statement_that_fails_is_told(postgres: EmbeddedPostgres) -> None:
    with pytest.raises(StoreError, match="syntax error"):
        postgres.execute("SELEC 1")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root runs the server as somebody else")
def test_root_is_told_when_there_is_nobody_to_run_the_server_as() -> None:
    with pytest.raises(InvalidInput, match="does not run as root"):
        EmbeddedPostgres(user="no such user")
