"""API keys, the audit log and idempotency keys of one database."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import cache
from typing import cast

from vmemo.errors import InvalidInput, NotFound, Unsupported
from vmemo.models import utc_now
from vmemo.models.auth import (
    ALL_BANKS,
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
ADMIN_KEY_VARIABLE = "VMEMO_ADMIN_KEY"
"""The environment variable with the secret of an admin key, and the name of that key."""
SHORTEST_SECRET = 32
"""Characters of a secret that is not created here, at least; only its hash protects it in a stolen database."""
CLAIM_LEASE = timedelta(seconds=10)
"""A request that did not renew its claim for this long is assumed to have died with its process."""


class AuthService:
    """API keys, audit log and idempotency keys of one database; any number of processes share them."""

    def __init__(self, store: Store) -> None:
        self._any_store = store

    async def _store(self) -> AuthStore:
        if not _stores_keys(type(self._any_store)):
            raise Unsupported(
                f"{type(self._any_store).__name__} can't store API keys: it does not implement the AuthStore port."
            )
        await self._any_store.open()
        return cast("AuthStore", self._any_store)

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

    async def ensure_admin_key(self, secret: str) -> None:
        """Create the admin key of the environment unless it exists, and revoke the one that it replaces.

        A key that was revoked or has expired stays so: raise InvalidInput.
        """
        if len(secret) < SHORTEST_SECRET or not secret.isascii() or not secret.isprintable() or " " in secret:
            raise InvalidInput(
                f"{ADMIN_KEY_VARIABLE} must be at least {SHORTEST_SECRET} characters of ASCII without spaces. "
                "Create one with: openssl rand -hex 32"
            )
        store, hashed = await self._store(), digest(secret)
        # Several servers may start at once: each of them adds the same key.
        key = ApiKey(id=hashed[:12], name=ADMIN_KEY_VARIABLE, banks=(ALL_BANKS,), permission="admin")
        if await store.find_key(hashed) is None:
            await store.add_key(key, hashed)
        found = await store.find_key(hashed)
        if found is None or not found.active(utc_now()) or found.permission != "admin" or ALL_BANKS not in found.banks:
            raise InvalidInput(
                f"{ADMIN_KEY_VARIABLE} is the secret of a key that is revoked, has expired or is no admin of every "
                "bank. Set it to a new value, or unset it and use another key."
            )
        for other in await store.keys():
            if other.name == ADMIN_KEY_VARIABLE and other.id != found.id:
                await store.revoke_key(other.id, utc_now())

    async def find_key(self, secret: str) -> ApiKey | None:
        """Return the active key that a secret belongs to, or None."""
        return await self.find_digest(digest(secret))

    async def find_digest(self, hashed: str) -> ApiKey | None:
        """Return the active key whose secret has a hash, or None."""
        found = await (await self._store()).find_key(hashed)
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


@cache
def _stores_keys(store: type[Store]) -> bool:
    # Comparing a class with a protocol takes longer than a small read.
    return issubclass(store, AuthStore)


def digest(secret: str) -> str:
    """Return the stored hash of a secret; secrets are long and random, so a plain SHA-256 is enough."""
    return hashlib.sha256(secret.encode("utf-8", "replace")).hexdigest()
