"""Use the shared server until the standard input ends, so that tests that run meanwhile need not start it."""

import sys

from neo4j_server.shared import shared_server

with shared_server() as url:
    print(url, flush=True)
    sys.stdin.read()
