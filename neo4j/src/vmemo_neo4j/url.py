"""Parsing of Neo4j URLs. Errors never contain the password."""

from __future__ import annotations

from dataclasses import dataclass, field
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from vmemo.errors import InvalidInput

SCHEMES = ("neo4j", "neo4j+s", "neo4j+ssc", "bolt", "bolt+s", "bolt+ssc")
"""`neo4j` finds the servers of a cluster, `bolt` uses one; `+s` encrypts, `+ssc` accepts self-signed certificates."""
_SHAPE = "Write neo4j://user:password@host:7687/database, with a password's special characters as %40 and the like"


@dataclass(frozen=True, kw_only=True)
class GraphAddress:
    """The address of a graph: server, credentials, database, and the namespace of a memory in it."""

    url: str
    """The URL of the server for the driver, without credentials."""
    where: str
    user: str | None = None
    password: str = field(default="", repr=False)
    database: str | None = None
    """None is the server's default."""
    namespace: str = ""
    """Keeps several memories in one database apart."""

    @property
    def public(self) -> str:
        """The host and the name of the database, without user and password."""
        namespace = f"?namespace={self.namespace}" if self.namespace else ""
        return f"{self.where}/{self.database or ''}{namespace}"

    @property
    def routed(self) -> bool:
        """True if the driver asks the server for the members of its cluster."""
        return self.url.startswith("neo4j")


def parse(url: str) -> GraphAddress:
    """Return the address in a URL; raise InvalidInput if it has another form."""
    try:
        parts = urlsplit(url)
        port = parts.port or 7687
        given = dict(parse_qsl(parts.query, keep_blank_values=True, strict_parsing=True)) if parts.query else {}
    except ValueError:
        # The text of the error could contain a part of the password.
        raise InvalidInput(f"This Neo4j URL can't be read. {_SHAPE}.") from None
    _demand_shape(parts)
    for name in given.keys() - {"namespace"}:
        raise InvalidInput(f"A Neo4j URL has no parameter {name!r:.40}; there is namespace.")
    host = f"[{parts.hostname}]" if ":" in str(parts.hostname) else parts.hostname
    return GraphAddress(
        url=f"{parts.scheme}://{host}:{port}",
        where=f"{host}:{port}",
        user=None if parts.username is None else unquote(parts.username),
        password=unquote(parts.password or ""),
        database=unquote(parts.path.removeprefix("/")) or None,
        namespace=given.get("namespace", ""),
    )


def _demand_shape(parts: SplitResult) -> None:
    nested = parts.path.count("/") > 1 or parts.netloc.count("@") > 1
    if parts.scheme not in SCHEMES or not parts.hostname or parts.fragment or nested:
        raise InvalidInput(f"This Neo4j URL can't be read. {_SHAPE}.")
    if "\0" in parts.geturl() or "%00" in parts.geturl():
        raise InvalidInput("A Neo4j URL can't hold a null character.")
