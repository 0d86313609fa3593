"""API keys, the audit log and idempotency keys of one database."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Sequence
from datetime import datetime, timedelta

from vmemo.errors import InvalidInput, NotFound, Unsupported
from vmemo.models import utc_now
from vmemo.models.auth import (
    ApiKey,
    AuditEntry,
    ClaimedRequest,
    CompletedRequest,
    IdempotencyClaim,
    IdempotentReply,
    Permission,
)
from vmemo.ports import AuthStore, Store

PREFIX = "vmemo_"
"""The start of every secret, which lets secret scanners find leaked ones."""
CLAIM_LEASE = timedelta(seconds=10)
"""A request that did not renew its claim for this long is assumed to have died with its process."""


class AuthService:
    """API keys, audit log and idempotency keys of one database; any number of processes share them."""

    def __init__(self, store: Store) -> None:
        self._any_store = store

    async def _store(self) -> AuthStore:
        if not isinstance(self._any_store, AuthStore):
            raise Unsupported(
                f"{type(self._any_store).__name__} can't store API keys: it does not implement the AuthStore port."
            )
        await self._any_store.open()
        return self._any_store

    async def create_key(
        self,
        name: str,
        *,
        banks: Sequence[str] = ("*",),
        permission: Permission = "read",
        expires_at: datetime | None = None,
        claimed: ClaimedRequest | None = None,
    ) -> tuple[ApiKey, str]:
        """Create a key and return it with its secret, which is not stored and can't be shown again.

        The key itself, without the secret, completes the claimed request.
        """
        secret = PREFIX + secrets.token_urlsafe(32)
        values = {"id": secrets.token_hex(6), "name": name, "banks": tuple(banks), "permission": permission}
        key = ApiKey.of({**values, "expires_at": expires_at})
        if key.expires_at is not None and key.expires_at <= utc_now():
            raise InvalidInput(f"expires_at must be in the future, not {key.expires_at.isoformat()}.")
        completes = None if claimed is None else claimed.completed(key)
        await (await self._store()).add_key(key, digest(secret), completes=completes)
        return key, secret

    async def find_key(self, secret: str) -> ApiKey | None:
        """Return the active key that a secret belongs to, or None."""
        if not secret.startswith(PREFIX):
            return None
        found = await (await self._store()).find_key(digest(secret))
        return found if found is not None and found.active(utc_now()) else None

    async def keys(self) -> list[ApiKey]:
        """Return every key ever created, oldest first."""
        return await (await self._store()).keys()

    async def revoke(self, id: str) -> None:
        """Revoke a key at once, or raise NotFound."""
        if not await (await self._store()).revoke_key(id, utc_now()):
            raise NotFound(f"There is no API key {id!r:.40}; `vmemo keys list` shows their ids.")

    async def begin_write(self, entry: AuditEntry) -> AuditEntry:
        """Append to the audit log before a write starts; return the entry with its id."""
        return entry.model_copy(update={"id": await (await self._store()).add_audit_entry(entry)})

    async def finish_write(self, entry: AuditEntry, status: int) -> None:
        """Store the status of a write that has ended."""
        await (await self._store()).finish_audit_entry(entry.id, status)

    async def audit_entries(
        self, *, banks: Sequence[str] | None = None, before: int | None = None, limit: int = 100
    ) -> list[AuditEntry]:
        """Return audit entries, newest first."""
        return await (await self._store()).audit_entries(banks=banks, before=before, limit=limit)

    async def claim_idempotency_key(
        self, claim: IdempotencyClaim, fingerprint: str, *, bank: str
    ) -> IdempotentReply | None:
        """Claim an idempotency key; return None on success, else the reply of the request that holds it."""
        return await (await self._store()).claim_idempotency_key(claim, fingerprint, bank=bank, lease=CLAIM_LEASE)

    async def renew_idempotency_claim(self, claim: IdempotencyClaim) -> None:
        """Extend the lease of a request that is running."""
        await (await self._store()).renew_idempotency_claim(claim)

    async def save_reply(self, completed: CompletedRequest) -> None:
        """Store the final response to a claimed request."""
        await (await self._store()).save_reply(completed)

    async def release_idempotency_key(self, claim: IdempotencyClaim) -> None:
        """End a claim: delete it, unless its request has taken effect."""
        await (await self._store()).release_idempotency_key(claim)


def digest(secret: str) -> str:
    """Return the stored hash of a secret; secrets are long and random, so a plain SHA-256 is enough."""
    return hashlib.sha256(secret.encode("utf-8", "replace")).hexdigest()
