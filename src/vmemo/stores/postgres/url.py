"""Parsing of postgresql:// URLs. Errors never contain the password."""

from __future__ import annotations

from dataclasses import dataclass, field
from urllib.parse import SplitResult, parse_qsl, urlsplit

from vmemo.errors import InvalidInput

MODES = ("disable", "allow", "prefer", "require", "verify-ca", "verify-full")
"""Values of `sslmode`, as in libpq."""
PARAMETERS = frozenset(
    (
        "application_name dbname gsslib host krbsrvname passfile password port service ssl_max_protocol_version "
        "ssl_min_protocol_version sslcert sslcrl sslkey sslmode sslnegotiation sslpassword sslrootcert "
        "target_session_attrs user"
    ).split()
)
"""Supported query parameters, with their meaning in libpq."""
_SHAPE = "Write postgresql://user:password@host:5432/database, with a password's special characters as %40 and the like"


@dataclass(frozen=True)
class DatabaseAddress:
    """The address of a database: the driver's URL, and host and port for error messages."""

    url: str = field(repr=False)
    where: str

    @property
    def public(self) -> str:
        """The host and the name of the database, without user, password and parameters."""
        parts = urlsplit(self.url)
        return f"{self.where}{parts.path}"

    @property
    def requires_ssl(self) -> bool:
        """True if connections must be encrypted."""
        return dict(parse_qsl(urlsplit(self.url).query)).get("sslmode") in MODES[3:]


def parse(url: str) -> DatabaseAddress:
    """Check a URL; raises `InvalidInput` for one that the driver would misread."""
    try:
        parts = urlsplit(url)
        where = _where(parts)
        given = parse_qsl(parts.query, keep_blank_values=True, strict_parsing=True) if parts.query else []
    except ValueError:
        # The driver's own words could hold a piece of the password.
        raise InvalidInput(f"This PostgreSQL URL can't be read. {_SHAPE}.") from None
    _demand_shape(parts)
    for name, value in given:
        _demand_parameter(name, value)
    return DatabaseAddress(url, where)


def _where(parts: SplitResult) -> str:
    hosts = parts.netloc.rpartition("@")[2]
    if "," in hosts:
        return hosts
    return f"{parts.hostname}:{parts.port or 5432}" if parts.hostname else "its socket"


def _demand_shape(parts: SplitResult) -> None:
    if parts.scheme != "postgresql" or parts.fragment or parts.netloc.count("@") > 1:
        raise InvalidInput(f"This PostgreSQL URL can't be read. {_SHAPE}.")
    if "\0" in parts.geturl() or "%00" in parts.geturl():
        raise InvalidInput("A PostgreSQL URL can't hold a null character.")


def _demand_parameter(name: str, value: str) -> None:
    if name not in PARAMETERS:
        raise InvalidInput(
            f"A PostgreSQL URL has no parameter {name!r:.40}; there are {', '.join(sorted(PARAMETERS))}."
        )
    if name == "sslmode" and value not in MODES:
        raise InvalidInput(f"sslmode is {', '.join(MODES[:-1])} or {MODES[-1]}, not {value!r:.40}.")
    if name == "port" and not all(part.isdecimal() for part in value.split(",")):
        raise InvalidInput("port is a number, or numbers with commas between them.")
