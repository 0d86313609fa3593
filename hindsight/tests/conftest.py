"""Servers for tests of Hindsight's paths."""

from server_fixtures import database, keyed_server, server

__all__ = ["database", "keyed_server", "server"]
