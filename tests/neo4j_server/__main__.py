"""Run a server until the standard input ends: the shared one of the tests, or one of its own with the given memory."""

import sys
from argparse import ArgumentParser

from neo4j_server.server import Neo4jServer
from neo4j_server.shared import shared_server

parser = ArgumentParser(prog="python -m neo4j_server", description=__doc__)
parser.add_argument("--heap", help="heap of a server of its own, such as 2g")
parser.add_argument("--page-cache", help="page cache of a server of its own, such as 1g")
given = {name: value for name, value in vars(parser.parse_args()).items() if value is not None}

if given:
    with Neo4jServer(small=False, **given) as server:
        print(server.url, flush=True)
        sys.stdin.read()
else:
    with shared_server() as url:
        print(url, flush=True)
        sys.stdin.read()
