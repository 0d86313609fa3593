"""Servers for tests of the HTTP interfaces."""

from server_fixtures import database, keyed_server, server

__all__ = ["database", "keyed_server", "server"]
