"""The gate that doors have in common: keys, what they open, the record of writes, and replies to repeated requests."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Sequence
from datetime import datetime, timedelta

from vmemo.errors import InvalidInput, NotFound, Unsupported
from vmemo.models import utc_now
from vmemo.models.auth import ApiKey, AuditEntry, IdempotentReply, Permission
from vmemo.ports import AuthStore, Store

PREFIX = "vmemo_"
"""What every secret begins with, so that scanners for leaked secrets can find one."""
ABANDONED = timedelta(minutes=10)
"""After this a request that was never answered is taken to have died with its process."""


class AuthService:
    """Keys and records of one database; any number of processes share them."""

    def __init__(self, store: Store) -> None:
        self._stored = store

    async def _store(self) -> AuthStore:
        if not isinstance(self._stored, AuthStore):
            raise Unsupported(
                f"{type(self._stored).__name__} keeps no keys: a store behind a door fulfils the Admissions port."
            )
        await self._stored.open()
        return self._stored

    async def create_key(
        self,
        name: str,
        *,
        banks: Sequence[str] = ("*",),
        right: Permission = "read",
        expires_at: datetime | None = None,
    ) -> tuple[ApiKey, str]:
        """Make a key; the secret that is returned beside it is kept nowhere and can't be told again."""
        secret = PREFIX + secrets.token_urlsafe(32)
        values = {"id": secrets.token_hex(6), "name": name, "banks": tuple(banks), "right": right}
        key = ApiKey.of({**values, "expires_at": expires_at})
        if key.expires_at is not None and key.expires_at <= utc_now():
            raise InvalidInput(f"The key would have expired already, at {key.expires_at.isoformat()}.")
        await (await self._store()).add_key(key, digest(secret))
        return key, secret

    async def key(self, secret: str) -> ApiKey | None:
        """The key that a secret is of, if it opens anything now."""
        if not secret.startswith(PREFIX):
            return None
        found = await (await self._store()).key_of(digest(secret))
        return found if found is not None and found.active(utc_now()) else None

    async def keys(self) -> list[ApiKey]:
        """Every key that was ever made, oldest first."""
        return await (await self._store()).keys()

    async def revoke(self, id: str) -> None:
        """End a key at once."""
        if not await (await self._store()).revoke_key(id, utc_now()):
            raise NotFound(f"There is no key {id!r:.40}.")

    async def note(self, *written: AuditEntry) -> None:
        """Keep a record of writes."""
        await (await self._store()).note(written)

    async def audited(
        self, *, banks: Sequence[str] | None = None, before: int | None = None, limit: int = 100
    ) -> list[AuditEntry]:
        """Writes, newest first."""
        return await (await self._store()).audited(banks=banks, before=before, limit=limit)

    async def begin(self, owner: str, token: str, fingerprint: str, *, bank: str) -> IdempotentReply | None:
        """Claim a token for a request: None means go ahead, else what is known of the request that has it."""
        stale = utc_now() - ABANDONED
        return await (await self._store()).begin_reply(owner, token, fingerprint, bank=bank, stale=stale)

    async def end(self, owner: str, token: str, status: int, body: str) -> None:
        """Keep what was answered."""
        await (await self._store()).end_reply(owner, token, status, body)

    async def drop(self, owner: str, token: str) -> None:
        """Free a token whose request changed nothing."""
        await (await self._store()).drop_reply(owner, token)


def digest(secret: str) -> str:
    """What is stored of a secret. It is long and random, so that a plain hash can't be searched back."""
    return hashlib.sha256(secret.encode("utf-8", "replace")).hexdigest()
