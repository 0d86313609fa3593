"""The AuthStore methods of every SQL store."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from vmemo.models.auth import ApiKey, AuditEntry, IdempotentReply
from vmemo.stores.sql import auth_rows
from vmemo.stores.sql.base import Running


class SqlAuthStore(Running):
    """Fulfils the Admissions port."""

    async def add_key(self, key: ApiKey, digest: str) -> None:
        """Keep a key under the hash of its secret."""
        await self._write(auth_rows.add_key, key, digest)

    async def find_key(self, digest: str) -> ApiKey | None:
        """The key with this hash, or None."""
        return await self._read(auth_rows.find_key, digest)

    async def keys(self) -> list[ApiKey]:
        """Every key, oldest first."""
        return await self._read(auth_rows.keys)

    async def revoke_key(self, id: str, at: datetime) -> bool:
        """End a key; False if there is none of this id."""
        return await self._write(auth_rows.revoke, id, at)

    async def add_audit_entries(self, entries: Sequence[AuditEntry]) -> None:
        """Keep a record of writes."""
        if entries:
            await self._write(auth_rows.add_audit_entries, entries)

    async def audit_entries(
        self, *, banks: Sequence[str] | None = None, before: int | None = None, limit: int = 100
    ) -> list[AuditEntry]:
        """Writes, newest first."""
        return await self._read(auth_rows.audit_entries, banks, before, limit)

    async def claim_idempotency_key(
        self, owner: str, token: str, fingerprint: str, *, bank: str, stale: datetime
    ) -> IdempotentReply | None:
        """Claim an idempotency key, or return what is known of the request that has it."""
        return await self._write(auth_rows.claim_idempotency_key, owner, token, fingerprint, bank=bank, stale=stale)

    async def save_reply(self, owner: str, token: str, status: int, body: str) -> None:
        """Keep what was answered."""
        await self._write(auth_rows.save_reply, owner, token, status, body)

    async def release_idempotency_key(self, owner: str, token: str) -> None:
        """Free a token whose request changed nothing."""
        await self._write(auth_rows.release_idempotency_key, owner, token)
