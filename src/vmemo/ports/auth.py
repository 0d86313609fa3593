"""Protocol for storing API keys, the audit log and idempotent responses."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol, runtime_checkable

from vmemo.models.auth import ApiKey, AuditEntry, IdempotentReply


@runtime_checkable
class AuthStore(Protocol):
    """State that interfaces share between requests and processes. It belongs to no bank and is never exported."""

    async def add_key(self, key: ApiKey, digest: str) -> None:
        """Store a key under the hash of its secret."""
        ...

    async def find_key(self, digest: str) -> ApiKey | None:
        """Return the key with this hash, expired and revoked ones included, or None."""
        ...

    async def keys(self) -> list[ApiKey]:
        """Return every key ever created, oldest first."""
        ...

    async def revoke_key(self, id: str, at: datetime) -> bool:
        """Revoke a key; return False if the id is unknown. A key that is already revoked keeps its time."""
        ...

    async def add_audit_entries(self, entries: Sequence[AuditEntry]) -> None:
        """Append to the audit log; the store assigns the ids."""
        ...

    async def audit_entries(
        self, *, banks: Sequence[str] | None = None, before: int | None = None, limit: int = 100
    ) -> list[AuditEntry]:
        """Return audit entries, newest first, of some banks or of all; `before` limits them to lower ids."""
        ...

    async def claim_idempotency_key(
        self, owner: str, token: str, fingerprint: str, *, bank: str, stale: datetime
    ) -> IdempotentReply | None:
        """Claim an idempotency key; return None on success, else the reply of the request that holds it.

        A claim without a response that is older than `stale` is taken over. Responses older than a day are deleted.
        """
        ...

    async def save_reply(self, owner: str, token: str, status: int, body: str) -> None:
        """Store the response to a claimed request."""
        ...

    async def release_idempotency_key(self, owner: str, token: str) -> None:
        """Delete the claim of a request that changed nothing."""
        ...
