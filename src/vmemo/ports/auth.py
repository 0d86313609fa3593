"""The protocol of what doors keep in a store: keys, what was written by whom, and replies to repeated requests."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol, runtime_checkable

from vmemo.models.auth import ApiKey, AuditEntry, IdempotentReply


@runtime_checkable
class AuthStore(Protocol):
    """What doors need to know between requests and between processes. None of it belongs to a bank or its exports."""

    async def add_key(self, key: ApiKey, digest: str) -> None:
        """Keep a key under the hash of its secret."""
        ...

    async def key_of(self, digest: str) -> ApiKey | None:
        """The key with this hash, be it expired or revoked, or None."""
        ...

    async def keys(self) -> list[ApiKey]:
        """Every key that was ever made, oldest first."""
        ...

    async def revoke_key(self, id: str, at: datetime) -> bool:
        """End a key; False if there is none of this id. One that was revoked before keeps its time."""
        ...

    async def note(self, written: Sequence[AuditEntry]) -> None:
        """Keep a record of writes; their ids are given by the store."""
        ...

    async def audited(
        self, *, banks: Sequence[str] | None = None, before: int | None = None, limit: int = 100
    ) -> list[AuditEntry]:
        """Writes, newest first: of some banks or of all, and only those with ids below `before`."""
        ...

    async def begin_reply(
        self, owner: str, token: str, fingerprint: str, *, bank: str, stale: datetime
    ) -> IdempotentReply | None:
        """Claim a token for a request: None means go ahead, else what is known of the request that has it.

        A claim that was never answered and is older than `stale` is taken over, and answers older than a day go.
        """
        ...

    async def end_reply(self, owner: str, token: str, status: int, body: str) -> None:
        """Keep what was answered."""
        ...

    async def drop_reply(self, owner: str, token: str) -> None:
        """Free a token whose request changed nothing."""
        ...
