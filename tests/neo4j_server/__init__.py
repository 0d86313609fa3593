"""A Neo4j Community server for the tests, run from its Maven artifacts, on loopback.

`Neo4jServer` is a server of one's own. `shared_server()` is one for all test processes of a user: a supervisor starts
it for the first and stops it after the last, even if that one crashed. NEO4J_URL names another server to use.
`python -m neo4j_server` keeps the shared server running by hand.
"""

from neo4j_server.namespaces import driver, namespace
from neo4j_server.server import Neo4jServer, Unavailable
from neo4j_server.shared import shared_server

__all__ = ["Neo4jServer", "Unavailable", "driver", "namespace", "shared_server"]
