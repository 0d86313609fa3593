"""Translation of errors of Neo4j and its driver into ours, in one place."""

from __future__ import annotations

from neo4j.exceptions import (
    ConfigurationError,
    ConnectionAcquisitionTimeoutError,
    DriverError,
    IncompleteCommit,
    Neo4jError,
    ServiceUnavailable,
    SessionExpired,
)

from vmemo.errors import OutcomeUnknown, StoreBusy, StoreError, VmemoError
from vmemo.stores.transactions import Passing, Step

_NOTHING = "Nothing was written; try again."
_UNDONE = "The transaction was rolled back."
_REFUSED = {
    "Neo.ClientError.Security.AuthenticationRateLimit": "refuses this user for a while after wrong passwords",
    "Neo.ClientError.Security.CredentialsExpired": "wants a new password for this user",
    "Neo.ClientError.Security.Forbidden": "does not permit this to the user; grant it",
    "Neo.ClientError.Security.Unauthorized": "does not accept the user or the password; correct the URL",
    "Neo.ClientError.Database.DatabaseNotFound": "has no such database; create it, or correct the URL",
}
_LATE = (
    "Neo.ClientError.Transaction.TransactionTimedOut",
    "Neo.ClientError.Transaction.TransactionTimedOutClientConfiguration",
    "Neo.ClientError.Transaction.LockAcquisitionTimeout",
    "Neo.TransientError.Transaction.LockAcquisitionTimeout",
)
_OVERTAKEN = (
    "Neo.ClientError.Schema.ConstraintAlreadyExists",
    "Neo.ClientError.Schema.ConstraintValidationFailed",
    "Neo.ClientError.Schema.EquivalentSchemaRuleAlreadyExists",
    "Neo.ClientError.Schema.IndexAlreadyExists",
    "Neo.ClientError.Statement.EntityNotFound",
)
"""Another transaction created or deleted a node or an index meanwhile: run again, a transaction sees that."""
_ENDED = ("Neo.ClientError.Transaction.LockClientStopped", "Neo.ClientError.Transaction.Terminated")
"""The server, which may be shutting down, or an administrator ended the transaction; the driver does not retry it."""
_REFUSED_COMMIT = ("Neo.ClientError.Schema.", "Neo.TransientError.Transaction.DeadlockDetected")
"""Errors of a commit that was surely not accepted.

Others may follow a commit that was: a server that shuts down commits first, then looks for the database to make a
bookmark, and reports it as unavailable.
"""
Foreign = Neo4jError | DriverError | OSError


def named_error(error: Foreign, step: Step, where: str, seconds: float) -> VmemoError:
    """Return the error to raise in place of a foreign one; `where` is the server's name, without user and password."""
    if isinstance(error, Neo4jError):
        return _of_server(error, step, where, seconds)
    if isinstance(error, ConnectionAcquisitionTimeoutError):
        return StoreBusy(f"All connections of this process were in use for {seconds:g} seconds. {_NOTHING}")
    if isinstance(error, ConfigurationError):
        return StoreError(f"Neo4j at {where} can't be reached as its URL says: {error}. Correct the URL.")
    if isinstance(error, ServiceUnavailable | SessionExpired | OSError):
        return _cut_off(error, step, where)
    return StoreError(f"The Neo4j driver failed: {type(error).__name__}. {_UNDONE}")


def _of_server(error: Neo4jError, step: Step, where: str, seconds: float) -> VmemoError:
    code = error.code or ""
    if step == "commit" and not code.startswith(_REFUSED_COMMIT):
        return _unknown(where)
    if code in _REFUSED:
        return StoreError(f"The Neo4j server at {where} {_REFUSED[code]}. Nothing was written.")
    if code in _LATE:
        return StoreBusy(
            f"A transaction took longer than {seconds:g} seconds, or waited so long for another. {_NOTHING}"
        )
    if code in _ENDED:
        return Passing(f"The Neo4j server at {where} ended the transaction. {_NOTHING}")
    if code in _OVERTAKEN:
        return Passing(f"Another transaction changed the same nodes or indexes. {_NOTHING}")
    if error.is_retryable():
        reason = "Two transactions waited for each other" if "Deadlock" in code else f"Neo4j is busy ({code})"
        return Passing(f"{reason}. {_NOTHING}")
    # The server's message may repeat values, and errors must not contain the text of users.
    return StoreError(f"Neo4j refused: {code}. {_UNDONE}")


def _cut_off(error: Foreign, step: Step, where: str) -> VmemoError:
    if step == "commit" or isinstance(error, IncompleteCommit):
        return _unknown(where)
    if step == "run":
        return Passing(f"The connection to Neo4j at {where} was lost. {_NOTHING}")
    return Passing(f"The Neo4j server at {where} can't be reached. {_NOTHING}")


def _unknown(where: str) -> VmemoError:
    return OutcomeUnknown(
        f"The connection to Neo4j at {where} was lost, or the server failed, while the transaction was being "
        "committed. It was written whole or not at all, but which of the two is not known; look before you repeat "
        "the call."
    )
