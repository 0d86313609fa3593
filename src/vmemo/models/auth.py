"""API keys, audit log entries and idempotent responses."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from pydantic import Field

from vmemo.models.base import Instant, Name, Record, utc_now

Permission = Literal["read", "write", "admin"]
"""Access to a bank; `vmemo.auth.permissions` ranks the levels."""
Interface = Literal["rest", "hindsight", "mcp"]


class ApiKey(Record):
    """One API key. Only the hash of its secret is stored.

    `banks` holds bank names and prefixes: `support-*` matches every name that starts with `support-`, and `*` matches
    every bank.
    """

    id: str
    name: Name
    banks: tuple[Name, ...] = Field(min_length=1, max_length=1000)
    permission: Permission = "read"
    created_at: Instant = Field(default_factory=utc_now)
    expires_at: Instant | None = None
    revoked_at: Instant | None = None

    def active(self, now: datetime) -> bool:
        """Return True if the key is neither revoked nor expired at that time."""
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)


class AuditEntry(Record):
    """One write: the key, time, operation, bank and result. It holds no text of a memory."""

    id: int = 0
    at: Instant = Field(default_factory=utc_now)
    key: str | None = Field(default=None, description="the key's id; null for a caller without a key")
    interface: Interface
    verb: str
    bank: str | None = None
    request: str = ""
    status: int


class IdempotentReply(Record):
    """The stored response of a request with an idempotency key; `status` is None while the request runs."""

    fingerprint: str
    status: int | None = None
    body: str = ""
