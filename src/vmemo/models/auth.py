"""Who may come in through a door, what was written through one, and what was answered to a write."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from pydantic import Field

from vmemo.models.base import Instant, Name, Record, utc_now

Permission = Literal["read", "write", "admin"]
"""What a key may do to its banks; each right holds the ones before it."""
Interface = Literal["rest", "hindsight", "mcp"]
_RANK: dict[Permission, int] = {"read": 0, "write": 1, "admin": 2}


class ApiKey(Record):
    """A key to some banks. The secret itself is nowhere: the store knows its hash.

    `banks` holds names, or beginnings of names with an asterisk behind them; a lone asterisk is every bank.
    """

    id: str
    name: Name
    banks: tuple[Name, ...] = Field(min_length=1, max_length=1000)
    right: Permission = "read"
    created_at: Instant = Field(default_factory=utc_now)
    expires_at: Instant | None = None
    revoked_at: Instant | None = None

    def reaches(self, bank: str) -> bool:
        """Whether the bank is one of the key's."""
        return any(_matches(pattern, bank) for pattern in self.banks)

    def allows(self, right: Permission) -> bool:
        """Whether the key holds a right."""
        return _RANK[self.right] >= _RANK[right]

    @property
    def everywhere(self) -> bool:
        """Whether every bank is the key's."""
        return "*" in self.banks

    def active(self, now: datetime) -> bool:
        """Whether the key opens anything at that moment."""
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)


def _matches(pattern: str, bank: str) -> bool:
    return bank.startswith(pattern[:-1]) if pattern.endswith("*") else bank == pattern


class AuditEntry(Record):
    """A write that came through a door: who, when, what and how it ended; never a word of any memory."""

    id: int = 0
    at: Instant = Field(default_factory=utc_now)
    key: str | None = Field(default=None, description="the key's id; None where no key was asked for")
    door: Interface
    verb: str
    bank: str | None = None
    request: str = ""
    status: int


class IdempotentReply(Record):
    """What was answered to a request that may be repeated; without a status it is still being worked on."""

    fingerprint: str
    status: int | None = None
    body: str = ""
