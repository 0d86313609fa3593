"""Translation of errors of PostgreSQL and its driver into ours, in one place."""

from __future__ import annotations

from socket import gaierror
from ssl import SSLError

from asyncpg import InterfaceError, PostgresError
from sqlalchemy.exc import DBAPIError, TimeoutError as NoneFree

from vmemo.errors import InvalidInput, OutcomeUnknown, StoreBusy, StoreError, VmemoError
from vmemo.stores.postgres.url import DatabaseAddress
from vmemo.stores.transactions import Passing, Step

_NOTHING = "Nothing was written; try again."
_UNDONE = "The transaction was rolled back."


_CONFLICTS = {
    "40001": "Another transaction changed the same rows",
    "40P01": "Two transactions waited for each other",
    "53300": "The PostgreSQL server has no connection left; raise max_connections, or put PgBouncer before it",
    "57P03": "The PostgreSQL server is starting or stopping",
}
_LATE = {
    "55P03": "Another transaction held a row for longer than {seconds:g} seconds",
    "57014": "A statement took longer than {seconds:g} seconds",
}
_UNSTORABLE = {
    "22021": "text can't hold a null character",
    "22P05": "text can't hold a null character",
    "54000": "it is too long for an index",
}
_REFUSED = {
    "28000": "does not let this user in; correct the URL or the server's pg_hba.conf",
    "28P01": "does not accept the user or the password; correct the URL",
    "3D000": "has no such database; create it, or correct the URL",
}
_LOST = frozenset({"57P01", "57P02", "25P03"})
"""The server ended the connection: on command, after a crash, or because the transaction was idle."""
Foreign = DBAPIError | OSError | NoneFree | PostgresError | InterfaceError


def named_error(error: Foreign, step: Step, address: DatabaseAddress, seconds: float) -> VmemoError:
    """Return the error to raise in place of a foreign one."""
    where = address.where
    state = str(getattr(getattr(error, "orig", error), "sqlstate", None) or "")
    if state in _CONFLICTS:
        return Passing(f"{_CONFLICTS[state]}. {_NOTHING}")
    if state in _LATE or isinstance(error, NoneFree):
        late = _LATE.get(state, "All connections of this process were in use for {seconds:g} seconds")
        return StoreBusy(f"{late.format(seconds=seconds)}. {_NOTHING}")
    if state in _REFUSED:
        return StoreError(f"The PostgreSQL server at {where} {_REFUSED[state]}. Nothing was written.")
    if state in _UNSTORABLE or _unsendable(error):
        reason = _UNSTORABLE.get(state, "it is no text, or a number too large")
        return InvalidInput(f"PostgreSQL can't hold a value: {reason}. {_UNDONE}")
    # An error without a state during a statement does not come from the server.
    if _lost(error, state) or (step != "connect" and isinstance(error, OSError)):
        return _cut_off(step, where)
    if step == "connect" and not isinstance(error, DBAPIError):
        return _unreached(error, address, seconds)
    return StoreError(f"PostgreSQL refused: {_words(error)}. {_UNDONE}")


def _lost(error: Foreign, state: str) -> bool:
    invalidated = isinstance(error, DBAPIError) and error.connection_invalidated
    return invalidated or state.startswith("08") or state in _LOST


def _cut_off(step: Step, where: str) -> VmemoError:
    if step == "commit":
        return OutcomeUnknown(
            f"The connection to PostgreSQL at {where} was lost while the transaction was being committed. It was "
            "written whole or not at all, but which of the two is not known; look before you repeat the call."
        )
    return Passing(f"The connection to PostgreSQL at {where} was lost. {_NOTHING}")


def _unreached(error: Foreign, address: DatabaseAddress, seconds: float) -> VmemoError:
    where = address.where
    if isinstance(error, gaierror):
        return StoreError(f"The PostgreSQL server at {where} can't be found by this name. Correct the URL.")
    # A server that starts or stops rejects connections that need no encryption as well.
    if isinstance(error, SSLError) or (address.requires_ssl and "rejected SSL" in str(error)):
        return StoreError(f"PostgreSQL at {where} can't be reached as its URL says: {error}. Correct the URL.")
    if isinstance(error, TimeoutError):
        return StoreBusy(f"The PostgreSQL server at {where} did not answer within {seconds:g} seconds. {_NOTHING}")
    return Passing(f"The PostgreSQL server at {where} can't be reached. {_NOTHING}")


def _unsendable(error: Foreign) -> bool:
    # The driver's message contains the value, which errors must not repeat.
    return "invalid input for query argument" in str(error.orig if isinstance(error, DBAPIError) else error)


def _words(error: Foreign) -> str:
    """Return the server's message without the statement and its details, which repeat values."""
    orig = getattr(error, "orig", None)
    cause = getattr(orig, "__cause__", None) or orig or error
    return str(cause.args[0] if cause.args else cause).rstrip(".")
