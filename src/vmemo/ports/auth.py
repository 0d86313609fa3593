"""Protocol for storing API keys, the audit log and idempotent responses."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Protocol, runtime_checkable

from vmemo.models.auth import ApiKey, AuditEntry, CompletedRequest, IdempotencyClaim, IdempotentReply


@runtime_checkable
class AuthStore(Protocol):
    """State that interfaces share between requests and processes. It belongs to no bank and is never exported."""

    async def add_key(self, key: ApiKey, digest: str, *, completes: CompletedRequest | None = None) -> None:
        """Store a key under the hash of its secret, and complete a request in the same transaction.

        A hash that is stored already keeps its key.
        """
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

    async def add_audit_entry(self, entry: AuditEntry) -> int:
        """Append to the audit log and return the id that the store assigns."""
        ...

    async def finish_audit_entry(self, id: int, status: int) -> None:
        """Store the status of a write that has ended."""
        ...

    async def audit_entries(
        self, *, banks: Sequence[str] | None = None, before: int | None = None, limit: int = 100
    ) -> list[AuditEntry]:
        """Return audit entries, newest first, of some banks or of all; `before` limits them to lower ids."""
        ...

    async def claim_idempotency_key(
        self, claim: IdempotencyClaim, fingerprint: str, *, bank: str, lease: timedelta
    ) -> IdempotentReply | None:
        """Claim an idempotency key; return None on success, else the reply of the request that holds it.

        A claim that was not renewed for `lease` has ended: it is taken over, unless its request has taken effect; then
        the response that was stored with the effect is returned. Responses older than a day are deleted.
        """
        ...

    async def renew_idempotency_claim(self, claim: IdempotencyClaim) -> None:
        """Extend the lease of a request that is running; a lost claim is ignored."""
        ...

    async def save_reply(self, completed: CompletedRequest) -> None:
        """Store the final response to a claimed request; a lost claim is ignored."""
        ...

    async def release_idempotency_key(self, claim: IdempotencyClaim) -> None:
        """Delete a claim; if its request has taken effect, the response that was stored with the effect is final."""
        ...
